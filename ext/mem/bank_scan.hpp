// Masks of banks, and scans over ticks kept bank by bank. Arrays are aligned and kMaxBanks long.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

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

struct BankScan {
  std::uint64_t ready = 0;                                        // banks whose tick has come
  std::int32_t later = std::numeric_limits<std::int32_t>::max();  // the first tick among the others
};

// The banks of `mask` one by one.
inline BankScan scan_few(const std::int32_t* earliest, std::uint64_t mask, std::int32_t t) {
  BankScan out;
  for (; mask != 0; mask &= mask - 1) {
    const std::int32_t at = earliest[lowest(mask)];
    const std::uint64_t one = mask & (~mask + 1);
    if (at <= t) {
      out.ready |= one;
    } else {
      out.later = std::min(out.later, at);
    }
  }
  return out;
}

#if defined(__SSE2__)
inline __m128i larger(__m128i x, __m128i y) {  // SSE2 has no signed 32-bit maximum
  const __m128i keep = _mm_cmpgt_epi32(x, y);
  return _mm_or_si128(_mm_and_si128(keep, x), _mm_andnot_si128(keep, y));
}
#endif

// Four banks at a time, groups without a bank of `mask` left out.
inline BankScan scan_many(const std::int32_t* earliest, std::uint64_t mask, std::int32_t t) {
#if defined(__SSE2__)
  BankScan out;
  const __m128i lanes = _mm_set_epi32(8, 4, 2, 1);
  const __m128i now = _mm_set1_epi32(t);
  __m128i least = _mm_set1_epi32(out.later);
  for (int b = 0; mask != 0;) {
    const int skip = lowest(mask) & ~3;
    b += skip;
    mask >>= skip;
    const __m128i at = _mm_load_si128(reinterpret_cast<const __m128i*>(earliest + b));
    const __m128i asked = _mm_cmpeq_epi32(_mm_and_si128(_mm_set1_epi32(static_cast<int>(mask & 15)), lanes), lanes);
    const __m128i late = _mm_cmpgt_epi32(at, now);
    const int ready = _mm_movemask_ps(_mm_castsi128_ps(_mm_andnot_si128(late, asked)));
    out.ready |= static_cast<std::uint64_t>(ready) << b;
    const __m128i waits = _mm_and_si128(late, asked);
    const __m128i smaller = _mm_and_si128(_mm_cmpgt_epi32(least, at), waits);
    least = _mm_or_si128(_mm_and_si128(smaller, at), _mm_andnot_si128(smaller, least));
    b += 4;
    mask >>= 4;
  }
  alignas(16) std::int32_t lane[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(lane), least);
  out.later = std::min(std::min(lane[0], lane[1]), std::min(lane[2], lane[3]));
  return out;
#else
  return scan_few(earliest, mask, t);
#endif
}

inline BankScan scan(const std::int32_t* earliest, std::uint64_t mask, std::int32_t t) {
  return more_than_four(mask) ? scan_many(earliest, mask, t) : scan_few(earliest, mask, t);
}

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
