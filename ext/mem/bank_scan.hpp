// Masks of banks, and ticks kept bank by bank: arrays are aligned and kMaxBanks long.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cosim::mem {

[[nodiscard]] inline int lowest(std::uint64_t m) { return std::countr_zero(m); }
[[nodiscard]] constexpr std::uint64_t bit(int b) { return std::uint64_t{1} << b; }
[[nodiscard]] constexpr bool more_than_four(std::uint64_t m) {
  m &= m - 1;
  m &= m - 1;
  m &= m - 1;
  return (m & (m - 1)) != 0;
}

#if defined(__SSE2__)
inline __m128i larger(__m128i x, __m128i y) {  // SSE2 has no signed 32-bit maximum
  const __m128i keep = _mm_cmpgt_epi32(x, y);
  return _mm_or_si128(_mm_and_si128(keep, x), _mm_andnot_si128(keep, y));
}
#endif

// at[i] = max(at[i], value) for `count` banks; from an aligned start if count is a multiple of four.
inline void raise_all(std::int32_t* at, int count, std::int32_t value) {
#if defined(__SSE2__)
  if ((count & 3) == 0) {
    const __m128i v = _mm_set1_epi32(value);
    for (std::int32_t* const end = at + count; at != end; at += 4) {
      auto* p = reinterpret_cast<__m128i*>(at);
      _mm_store_si128(p, larger(_mm_load_si128(p), v));
    }
    return;
  }
#endif
  for (int i = 0; i < count; ++i) at[i] = std::max(at[i], value);
}

// at[i] = max(at[i], t + delay[i]); both aligned, `count` a multiple of four.
inline void raise_by(std::int32_t* at, const std::int32_t* delay, std::size_t count, std::int32_t t) {
#if defined(__SSE2__)
  const __m128i now = _mm_set1_epi32(t);
  for (std::size_t i = 0; i < count; i += 4) {
    auto* p = reinterpret_cast<__m128i*>(at + i);
    const __m128i after = _mm_add_epi32(now, _mm_load_si128(reinterpret_cast<const __m128i*>(delay + i)));
    _mm_store_si128(p, larger(_mm_load_si128(p), after));
  }
#else
  for (std::size_t i = 0; i < count; ++i) at[i] = std::max(at[i], t + delay[i]);
#endif
}

}  // namespace cosim::mem
