// Masks of banks and scans over per-bank ticks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cosim::mem {

inline int lowest(std::uint64_t m) { return std::countr_zero(m); }
constexpr std::uint64_t bit(int b) { return std::uint64_t{1} << b; }

// Banks of `mask` whose earliest tick has come; `banks` of them exist, `earliest` is aligned and kMaxBanks long.
inline std::uint64_t ready_banks(const std::int32_t* earliest, std::uint64_t mask, int banks, std::int32_t t) {
  std::uint64_t ready = 0;
#if defined(__SSE2__)
  if ((mask & (mask - 1)) != 0) {
    const __m128i now = _mm_set1_epi32(t);
    for (int b = 0; b < banks; b += 4) {
      const __m128i at = _mm_load_si128(reinterpret_cast<const __m128i*>(earliest + b));
      const int later = _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpgt_epi32(at, now)));
      ready |= static_cast<std::uint64_t>(~later & 15) << b;
    }
    return ready & mask;
  }
#endif
  (void)banks;
  for (std::uint64_t m = mask; m != 0; m &= m - 1) {
    const int b = lowest(m);
    ready |= static_cast<std::uint64_t>(earliest[b] <= t) << b;
  }
  return ready;
}

inline std::int32_t earliest_of(const std::int32_t* earliest, std::uint64_t mask) {
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  for (std::uint64_t m = mask; m != 0; m &= m - 1) least = std::min(least, earliest[lowest(m)]);
  return least;
}

// at[i] = max(at[i], value) for `count` banks from an aligned start if count is a multiple of four.
inline void raise_all(std::int32_t* at, int count, std::int32_t value) {
#if defined(__SSE2__)
  if (count % 4 == 0) {
    const __m128i v = _mm_set1_epi32(value);
    for (int i = 0; i < count; i += 4) {
      auto* p = reinterpret_cast<__m128i*>(at + i);
      const __m128i old = _mm_load_si128(p);
      const __m128i keep = _mm_cmpgt_epi32(old, v);
      _mm_store_si128(p, _mm_or_si128(_mm_and_si128(keep, old), _mm_andnot_si128(keep, v)));
    }
    return;
  }
#endif
  for (int i = 0; i < count; ++i) at[i] = std::max(at[i], value);
}

}  // namespace cosim::mem
