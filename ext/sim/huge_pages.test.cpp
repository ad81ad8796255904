#include "sim/huge_pages.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace {

using namespace cosim::sim;

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

TEST_CASE("large blocks are whole huge pages, small ones are as large as asked") {
  using Allocator = HugePageAllocator<std::uint64_t>;
  CHECK(Allocator::bytes(100) == 800);
  CHECK(Allocator::bytes(kHugePage / 16) == kHugePage);
  CHECK(Allocator::bytes(kHugePage / 8 + 1) == 2 * kHugePage);
  std::vector<std::uint64_t, Allocator> small(100);
  std::vector<std::uint64_t, Allocator> large(kHugePage / 8 + 1, 7);
  CHECK(address(small.data()) % kCacheLine == 0);
  CHECK(address(large.data()) % kHugePage == 0);
  large.resize(2 * large.size(), 9);
  CHECK(large[kHugePage / 8] == 7);
  CHECK(large.back() == 9);
}

TEST_CASE("arrays of a block begin at cache lines, are zero and do not overlap") {
  ArrayBlock block;
  CHECK(block.bytes() == 0);
  block.reserve(ArrayBlock::room<std::uint8_t>(3) + ArrayBlock::room<std::uint64_t>(9));
  const auto bytes = block.make<std::uint8_t>(3);
  const auto words = block.make<std::uint64_t>(9);
  CHECK(block.bytes() == 64 + 128);
  CHECK(address(bytes.data()) % kCacheLine == 0);
  CHECK(address(words.data()) - address(bytes.data()) == 64);
  for (std::uint8_t& byte : bytes) CHECK(byte++ == 0);
  for (const std::uint64_t word : words) CHECK(word == 0);
  CHECK_THROWS_AS((void)block.make<std::uint8_t>(1), std::bad_alloc);
}

}  // namespace
