#include "mem/bank_kernels.hpp"

#include <algorithm>

#include "mem/bank_scan.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#define COSIM_AVX2 1
#include <immintrin.h>
#endif

namespace cosim::mem {
namespace {

FirstReady first_ready(const std::int32_t* earliest, std::uint64_t banks, std::int32_t from, std::int32_t edge) {
  from |= edge;
  const BankScan found = scan(earliest, banks, from);
  if (found.ready != 0) return {from, found.ready};
  const std::int32_t tick = found.later | edge;
  return {tick, scan(earliest, banks, tick).ready};
}

OldestRow oldest_row(const RowQuery& q) {
  FirstReady act;
  FirstReady pre;
  if (q.to_open != 0) act = first_ready(q.act, q.to_open, q.act_from, q.act_edge);
  if (q.to_close != 0) pre = first_ready(q.pre, q.to_close, q.pre_from, q.pre_edge);
  OldestRow best;
  best.tick = std::min(act.tick, pre.tick);
  for (std::uint64_t m = (act.tick == best.tick ? act.banks : 0) | (pre.tick == best.tick ? pre.banks : 0); m != 0;
       m &= m - 1) {
    const int b = lowest(m);
    if (best.bank >= 0 && q.key[b] >= best.key) continue;
    best.bank = b;
    best.key = q.key[b];
  }
  return best;
}

#ifdef COSIM_AVX2

#define COSIM_TARGET __attribute__((target("avx2")))

COSIM_TARGET inline __m256i lanes_of(std::uint64_t banks) {
  const __m256i lane = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1);
  const __m256i group = _mm256_set1_epi32(static_cast<int>(banks & 255));
  return _mm256_cmpeq_epi32(_mm256_and_si256(group, lane), lane);
}

COSIM_TARGET inline std::int32_t least_lane(__m256i x) {
  __m128i m = _mm_min_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  m = _mm_min_epi32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_min_epi32(m, _mm_shuffle_epi32(m, 0xB1));
  return _mm_cvtsi128_si32(m);
}

COSIM_TARGET inline __m256i load(const std::int32_t* at) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
}

COSIM_TARGET FirstReady first_ready_avx2(const std::int32_t* earliest, std::uint64_t banks, std::int32_t from,
                                         std::int32_t edge) {
  const __m256i none = _mm256_set1_epi32(kNoTick);
  const __m256i since = _mm256_set1_epi32(from);
  const __m256i odd = _mm256_set1_epi32(edge);
  __m256i at[8];
  __m256i first = none;
  const int low = lowest(banks) >> 3;
  int end = low;
  for (std::uint64_t m = banks >> (8 * low); m != 0; m >>= 8, ++end) {
    const __m256i tick = _mm256_or_si256(_mm256_max_epi32(load(earliest + 8 * end), since), odd);
    at[end] = _mm256_blendv_epi8(none, tick, lanes_of(m));
    first = _mm256_min_epi32(first, at[end]);
  }
  FirstReady out;
  out.tick = least_lane(first);
  const __m256i then = _mm256_set1_epi32(out.tick);
  for (int g = low; g < end; ++g) {
    const int ready = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(at[g], then)));
    out.banks |= static_cast<std::uint64_t>(static_cast<unsigned>(ready)) << (8 * g);
  }
  return out;
}

COSIM_TARGET OldestRow oldest_row_avx2(const RowQuery& q) {
  OldestRow out;
  const std::uint64_t banks = q.to_open | q.to_close;
  if (banks == 0) return out;
  const __m256i none = _mm256_set1_epi32(kNoTick);
  const __m256i act_from = _mm256_set1_epi32(q.act_from);
  const __m256i pre_from = _mm256_set1_epi32(q.pre_from);
  const __m256i act_edge = _mm256_set1_epi32(q.act_edge);
  const __m256i pre_edge = _mm256_set1_epi32(q.pre_edge);
  __m256i at[8];
  __m256i first = none;
  const int low = lowest(banks) >> 3;
  int end = low;
  for (; end < 8 && (banks >> (8 * end)) != 0; ++end) {
    const __m256i act = _mm256_or_si256(_mm256_max_epi32(load(q.act + 8 * end), act_from), act_edge);
    const __m256i pre = _mm256_or_si256(_mm256_max_epi32(load(q.pre + 8 * end), pre_from), pre_edge);
    const __m256i tick = _mm256_blendv_epi8(none, act, lanes_of(q.to_open >> (8 * end)));
    at[end] = _mm256_blendv_epi8(tick, pre, lanes_of(q.to_close >> (8 * end)));
    first = _mm256_min_epi32(first, at[end]);
  }
  out.tick = least_lane(first);
  const __m256i then = _mm256_set1_epi32(out.tick);
  __m256i least = none;
  for (int g = low; g < end; ++g) {
    at[g] = _mm256_blendv_epi8(none, load(q.key + 8 * g), _mm256_cmpeq_epi32(at[g], then));
    least = _mm256_min_epi32(least, at[g]);
  }
  out.key = least_lane(least);
  const __m256i oldest = _mm256_set1_epi32(out.key);
  for (int g = low; g < end; ++g) {
    const int found = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(at[g], oldest)));
    if (found == 0) continue;
    out.bank = 8 * g + lowest(static_cast<std::uint64_t>(static_cast<unsigned>(found)));
    break;
  }
  return out;
}

constexpr BankKernels kAvx2 = {first_ready_avx2, oldest_row_avx2};

#endif

constexpr BankKernels kPortable = {first_ready, oldest_row};

}  // namespace

const BankKernels& portable_kernels() { return kPortable; }

#ifdef COSIM_AVX2
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
const BankKernels& bank_kernels() { return has_avx2() ? kAvx2 : kPortable; }
#else
bool has_avx2() { return false; }
const BankKernels& bank_kernels() { return kPortable; }
#endif

}  // namespace cosim::mem
