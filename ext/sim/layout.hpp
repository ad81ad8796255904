// What saved state is made of.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "sim/visit.hpp"

namespace cosim::sim {

// A call of Visitor::bytes.
struct Item {
  Kind kind = Kind::state;
  std::size_t size = 0;   // bytes
  std::size_t width = 0;  // of one element
};

// Lists the items of a Saver's byte string.
class Lister final : public Visitor {
 public:
  [[nodiscard]] std::vector<Item> take() { return std::move(items_); }

 protected:
  void bytes(Kind kind, void*, std::size_t size, std::size_t width) override { items_.push_back({kind, size, width}); }

 private:
  std::vector<Item> items_;
};

}  // namespace cosim::sim
