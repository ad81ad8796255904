// How state is shown to whoever copies, saves, compares or canonicalises it.
//
// A component's visit() names every item once, by what it means; the visitor decides what to do with it. Items are
// plain numbers in values, arrays and vectors: no pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace cosim::sim {

enum class Kind : std::uint8_t {
  state,      // decides the future: part of the canonical form
  stamp,      // an absolute time (cycles, ticks or fs): canonical relative to the base of its component
  remaining,  // work left in a stream: not canonical, shrinks by whole periods when a period is skipped
  counter,    // integer statistics: not canonical, grows by whole periods when a period is skipped
};

// What may be shown: plain bytes, every one of them of a member. Padding would save what memory happened to hold.
template <class T>
inline constexpr bool kShowable = std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>;

class Visitor {
 public:
  virtual ~Visitor() = default;

  template <class T>
  void value(Kind kind, T& item) {
    static_assert(kShowable<T>);
    bytes(kind, &item, sizeof(T), sizeof(T));
  }
  template <class T>
  void array(Kind kind, T* items, std::size_t count) {
    static_assert(kShowable<T>);
    if (count != 0) bytes(kind, items, count * sizeof(T), sizeof(T));
  }
  // The length is state.
  template <class T>
  void vector(Kind kind, std::vector<T>& items) {
    static_assert(kShowable<T> && !std::is_same_v<T, bool>);
    std::uint64_t count = items.size();
    value(Kind::state, count);
    if (count != items.size()) items.resize(count);
    array(kind, items.data(), items.size());
  }

 protected:
  // `size` bytes at `data`, items of `width` bytes. A loading visitor writes to `data`.
  virtual void bytes(Kind kind, void* data, std::size_t size, std::size_t width) = 0;
};

// Appends every item to a byte string.
class Saver final : public Visitor {
 public:
  [[nodiscard]] const std::vector<std::uint8_t>& data() const { return data_; }
  [[nodiscard]] std::vector<std::uint8_t> take() { return std::move(data_); }

 protected:
  void bytes(Kind, void* data, std::size_t size, std::size_t) override {
    const std::size_t at = data_.size();
    data_.resize(at + size);
    std::memcpy(data_.data() + at, data, size);
  }

 private:
  std::vector<std::uint8_t> data_;
};

// Reads every item back from a Saver's byte string.
class Loader final : public Visitor {
 public:
  explicit Loader(std::span<const std::uint8_t> data) : data_(data) {}
  [[nodiscard]] bool finished() const { return at_ == data_.size(); }

 protected:
  void bytes(Kind, void* data, std::size_t size, std::size_t) override {
    if (size > data_.size() - at_) throw std::runtime_error("saved state is shorter than this system's state");
    std::memcpy(data, data_.data() + at_, size);
    at_ += size;
  }

 private:
  std::span<const std::uint8_t> data_;
  std::size_t at_ = 0;
};

}  // namespace cosim::sim
