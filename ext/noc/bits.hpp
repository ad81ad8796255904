// Bit masks as sets of VCs and ports.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cosim::noc {

// A set of a router's input VCs (and branches), output VCs or ports, of routers of any size. Routers of up to 64 have
// sets of one word.
using VcSet = unsigned __int128;
inline constexpr std::uint32_t kIdBits = 7;
inline constexpr std::uint32_t kMostVcs = 1U << kIdBits;  // of a router, input or output

// An input VC is named by router << kIdBits | its bit in the router's sets, port * num_vcs + vc; an output VC alike.
[[nodiscard]] constexpr std::uint32_t first_id(std::uint32_t router) { return router << kIdBits; }
[[nodiscard]] constexpr std::uint32_t router_of(std::uint32_t id) { return id >> kIdBits; }
[[nodiscard]] constexpr std::uint32_t bit_of(std::uint32_t id) { return id & (kMostVcs - 1); }
[[nodiscard]] constexpr std::uint32_t base_of(std::uint32_t id) { return id & ~(kMostVcs - 1); }

// Of a mask that is not empty. The builtin, since std::countr_zero tests for zero where there is no tzcnt.
[[nodiscard]] inline std::uint32_t lowest(std::uint64_t mask) {
  return static_cast<std::uint32_t>(__builtin_ctzll(mask));
}

[[nodiscard]] inline std::uint32_t lowest(VcSet set) {
  const auto low = static_cast<std::uint64_t>(set);
  return low != 0 ? lowest(low) : 64 + lowest(static_cast<std::uint64_t>(set >> 64U));
}
// A 32-bit mask is one of VCs.
[[nodiscard]] inline std::uint32_t lowest(std::uint32_t mask) { return lowest(std::uint64_t{mask}); }

// First set bit of `mask` at or after `from`, wrapping; mask != 0. A `from` past the last bit wraps to the lowest.
[[nodiscard]] inline std::uint32_t round_robin(std::uint64_t mask, std::uint32_t from) {
  const std::uint32_t shift = from & 63U;
  const std::uint64_t high = (mask >> shift) << shift;
  return lowest(high != 0 ? high : mask);
}

[[nodiscard]] inline std::uint32_t round_robin(VcSet set, std::uint32_t from) {
  const std::uint32_t shift = from & (kMostVcs - 1);
  const VcSet high = (set >> shift) << shift;
  return lowest(high != 0 ? high : set);
}
[[nodiscard]] inline std::uint32_t round_robin(std::uint32_t mask, std::uint32_t from) {
  return round_robin(std::uint64_t{mask}, from);
}

// Calls use(bit) with every bit of `set`, in order.
template <class Use>
inline void each_of(VcSet set, Use use) {
  for (auto low = static_cast<std::uint64_t>(set); low != 0; low &= low - 1) use(lowest(low));
  for (auto high = static_cast<std::uint64_t>(set >> 64U); high != 0; high &= high - 1) use(64 + lowest(high));
}

template <class Set>
[[nodiscard]] inline bool single(Set set) {
  return (set & (set - 1)) == 0;
}
template <class Set>
[[nodiscard]] inline Set bit_in(std::uint32_t index) {
  return Set{1} << index;
}
[[nodiscard]] inline std::uint64_t bit64(std::uint32_t index) { return bit_in<std::uint64_t>(index); }
[[nodiscard]] inline VcSet vc_bit(std::uint32_t index) { return bit_in<VcSet>(index); }
[[nodiscard]] inline std::uint32_t as_u32(std::int32_t value) { return static_cast<std::uint32_t>(value); }
[[nodiscard]] inline std::size_t as_size(std::int32_t value) { return static_cast<std::size_t>(value); }
[[nodiscard]] inline std::uint8_t as_u8(std::uint32_t value) { return static_cast<std::uint8_t>(value); }

}  // namespace cosim::noc
