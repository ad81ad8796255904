// Memory for large state that a loop visits in no order: in huge pages where the system gives them, so that finding an
// address costs no walk through page tables. Linux gives them to whoever asks when
// /sys/kernel/mm/transparent_hugepage/enabled says `madvise` or `always`; elsewhere these are ordinary pages.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace cosim::sim {

inline constexpr std::size_t kHugePage = std::size_t{1} << 21U;  // bytes
inline constexpr std::size_t kCacheLine = 64;

// Blocks from half a huge page on are whole huge pages; smaller ones begin at a cache line.
template <class T>
struct HugePageAllocator {
  using value_type = T;

  HugePageAllocator() = default;
  template <class U>
  explicit HugePageAllocator(const HugePageAllocator<U>&) {}

  // Bytes that `count` items take.
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t count) {
    const std::size_t size = count * sizeof(T);
    return size < kHugePage / 2 ? size : (size + kHugePage - 1) / kHugePage * kHugePage;
  }

  [[nodiscard]] T* allocate(std::size_t count) {
    const std::size_t size = bytes(count);
    void* block = ::operator new(size, alignment(size));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (size >= kHugePage) ::madvise(block, size, MADV_HUGEPAGE);  // advice: that it fails changes nothing
#endif
    return static_cast<T*>(block);
  }
  void deallocate(T* block, std::size_t count) { ::operator delete(block, alignment(bytes(count))); }

  friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) { return true; }

 private:
  [[nodiscard]] static std::align_val_t alignment(std::size_t size) {
    return std::align_val_t{size >= kHugePage ? kHugePage : kCacheLine};
  }
};

// Arrays of fixed length that lie in one block and live as long as it does. The block is made once, for all of them.
class ArrayBlock {
 public:
  ArrayBlock() = default;
  ArrayBlock(const ArrayBlock&) = delete;
  ArrayBlock& operator=(const ArrayBlock&) = delete;
  ~ArrayBlock() {
    if (block_ != nullptr) HugePageAllocator<std::byte>().deallocate(block_, room_);
  }

  template <class T>
  [[nodiscard]] static constexpr std::size_t room(std::size_t count) {
    return (count * sizeof(T) + kCacheLine - 1) / kCacheLine * kCacheLine;
  }

  // Room for arrays whose room() add up to `room`; once.
  void reserve(std::size_t room) {
    block_ = HugePageAllocator<std::byte>().allocate(room);
    room_ = room;
  }

  // An array of value-initialised items, at a cache line.
  template <class T>
  [[nodiscard]] std::span<T> make(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kCacheLine);
    if (used_ + room<T>(count) > room_) throw std::bad_alloc();
    T* const first = reinterpret_cast<T*>(block_ + used_);
    used_ += room<T>(count);
    std::uninitialized_value_construct_n(first, count);
    return {first, count};
  }

  [[nodiscard]] std::size_t bytes() const { return HugePageAllocator<std::byte>::bytes(room_); }

 private:
  std::byte* block_ = nullptr;
  std::size_t room_ = 0;
  std::size_t used_ = 0;
};

}  // namespace cosim::sim
