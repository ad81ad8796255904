// Bit masks as sets of VCs and ports.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cosim::noc {

// Of a mask that is not empty. The builtin, since std::countr_zero tests for zero where there is no tzcnt.
[[nodiscard]] inline std::uint32_t lowest(std::uint64_t mask) {
  return static_cast<std::uint32_t>(__builtin_ctzll(mask));
}

// First set bit of `mask` at or after `from`, wrapping; mask != 0. A `from` past the last bit wraps to the lowest.
[[nodiscard]] inline std::uint32_t round_robin(std::uint64_t mask, std::uint32_t from) {
  const std::uint32_t shift = from & 63U;
  const std::uint64_t high = (mask >> shift) << shift;
  return lowest(high != 0 ? high : mask);
}

[[nodiscard]] inline bool single(std::uint64_t mask) { return (mask & (mask - 1)) == 0; }
[[nodiscard]] inline std::uint64_t bit64(std::uint32_t index) { return std::uint64_t{1} << index; }
[[nodiscard]] inline std::uint32_t as_u32(std::int32_t value) { return static_cast<std::uint32_t>(value); }
[[nodiscard]] inline std::size_t as_size(std::int32_t value) { return static_cast<std::size_t>(value); }
[[nodiscard]] inline std::uint8_t as_u8(std::uint32_t value) { return static_cast<std::uint8_t>(value); }

}  // namespace cosim::noc
