#include "mem/bank_kernels.hpp"

#include <algorithm>

#include "mem/bank_scan.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#define COSIM_AVX2 1
#include <immintrin.h>
#endif

namespace cosim::mem {
namespace {

inline void take_older(OldestReady& best, std::int32_t tick, std::int32_t key, int bank) {
  if (tick > best.tick || (tick == best.tick && best.bank >= 0 && key >= best.key)) return;
  best = {tick, key, bank};
}

OldestReady oldest_column(const std::int32_t* earliest, const std::int32_t* key, std::uint64_t banks, std::int32_t from,
                          std::int32_t edge) {
  OldestReady best;
  for (std::uint64_t m = banks; m != 0; m &= m - 1) {
    const int b = lowest(m);
    take_older(best, std::max(from, earliest[b]) | edge, key[b], b);
  }
  return best;
}

OldestReady oldest_row(const RowQuery& q) {
  OldestReady best;
  for (std::uint64_t m = q.to_open | q.to_close; m != 0; m &= m - 1) {
    const int b = lowest(m);
    const std::int32_t tick = (q.to_open & bit(b)) != 0 ? std::max(q.act[b], q.act_from) | q.act_edge
                                                        : std::max(q.pre[b], q.pre_from) | q.pre_edge;
    take_older(best, tick, q.key[b], b);
  }
  return best;
}

#ifdef COSIM_AVX2

#define COSIM_TARGET __attribute__((target("avx2")))
#define COSIM_INLINE __attribute__((target("avx2"), always_inline)) inline

COSIM_INLINE std::int32_t least_lane(__m256i x) {
  __m128i m = _mm_min_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  m = _mm_min_epi32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_min_epi32(m, _mm_shuffle_epi32(m, 0xB1));
  return _mm_cvtsi128_si32(m);
}

COSIM_INLINE __m256i load(const std::int32_t* at) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(at)); }

// Where lane i's bank, the i-th of a block, is in the mask the sign of the lane is set.
template <int Block>
COSIM_INLINE __m256i in_mask(__m256i banks) {
  constexpr int kTop = 31 - Block % 4 * 8;
  return _mm256_sllv_epi32(
      banks, _mm256_setr_epi32(kTop, kTop - 1, kTop - 2, kTop - 3, kTop - 4, kTop - 5, kTop - 6, kTop - 7));
}

COSIM_INLINE __m256i choose(__m256i otherwise, __m256i x, __m256i where) {
  return _mm256_castps_si256(
      _mm256_blendv_ps(_mm256_castsi256_ps(otherwise), _mm256_castsi256_ps(x), _mm256_castsi256_ps(where)));
}

template <int Blocks>
struct Vectors {
  __m256i of[Blocks];
};

// The oldest of the banks ready at the first tick; `at` has kNoTick for banks not asked for.
template <int Blocks>
COSIM_INLINE OldestReady oldest_of(const Vectors<Blocks>& at, const std::int32_t* key) {
  __m256i first = at.of[0];
  for (std::size_t g = 1; g < Blocks; ++g) first = _mm256_min_epi32(first, at.of[g]);
  OldestReady out;
  out.tick = least_lane(first);
  const __m256i then = _mm256_set1_epi32(out.tick);
  const __m256i none = _mm256_set1_epi32(kNoTick);
  Vectors<Blocks> age;
  __m256i least = none;
  for (std::size_t g = 0; g < Blocks; ++g) {
    age.of[g] = _mm256_blendv_epi8(none, load(key + 8 * g), _mm256_cmpeq_epi32(at.of[g], then));
    least = _mm256_min_epi32(least, age.of[g]);
  }
  out.key = least_lane(least);
  const __m256i oldest = _mm256_set1_epi32(out.key);
  for (std::size_t g = 0; g < Blocks; ++g) {
    const int found = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(age.of[g], oldest)));
    if (found == 0) continue;
    out.bank = static_cast<std::int32_t>(8 * g) + lowest(static_cast<std::uint64_t>(static_cast<unsigned>(found)));
    break;
  }
  return out;
}

template <std::size_t G, int Blocks>
COSIM_INLINE void row_ticks(const RowQuery& q, __m256i open, __m256i close, Vectors<Blocks>& at) {
  if constexpr (G < Blocks) {
    if constexpr (G == 4) {  // the upper half of the masks
      open = _mm256_set1_epi32(static_cast<int>(q.to_open >> 32U));
      close = _mm256_set1_epi32(static_cast<int>(q.to_close >> 32U));
    }
    const __m256i act = _mm256_or_si256(_mm256_max_epi32(load(q.act + 8 * G), _mm256_set1_epi32(q.act_from)),
                                        _mm256_set1_epi32(q.act_edge));
    const __m256i pre = _mm256_or_si256(_mm256_max_epi32(load(q.pre + 8 * G), _mm256_set1_epi32(q.pre_from)),
                                        _mm256_set1_epi32(q.pre_edge));
    at.of[G] = choose(_mm256_set1_epi32(kNoTick), act, in_mask<static_cast<int>(G)>(open));
    at.of[G] = choose(at.of[G], pre, in_mask<static_cast<int>(G)>(close));
    row_ticks<G + 1, Blocks>(q, open, close, at);
  }
}

template <int Blocks>
COSIM_INLINE OldestReady oldest_row_in(const RowQuery& q) {
  Vectors<Blocks> at;
  row_ticks<0, Blocks>(q, _mm256_set1_epi32(static_cast<int>(q.to_open)),
                       _mm256_set1_epi32(static_cast<int>(q.to_close)), at);
  return oldest_of<Blocks>(at, q.key);
}

COSIM_TARGET OldestReady oldest_row_avx2(const RowQuery& q) {
  const std::uint64_t banks = q.to_open | q.to_close;
  if (banks == 0) return {};
  if (banks >> 16U == 0) return oldest_row_in<2>(q);
  if (banks >> 32U == 0) return oldest_row_in<4>(q);
  return oldest_row_in<8>(q);
}

template <std::size_t G, int Blocks>
COSIM_INLINE void column_ticks(const std::int32_t* earliest, std::uint64_t banks, __m256i mask, __m256i from,
                               __m256i edge, Vectors<Blocks>& at) {
  if constexpr (G < Blocks) {
    if constexpr (G == 4) mask = _mm256_set1_epi32(static_cast<int>(banks >> 32U));
    const __m256i tick = _mm256_or_si256(_mm256_max_epi32(load(earliest + 8 * G), from), edge);
    at.of[G] = choose(_mm256_set1_epi32(kNoTick), tick, in_mask<static_cast<int>(G)>(mask));
    column_ticks<G + 1, Blocks>(earliest, banks, mask, from, edge, at);
  }
}

template <int Blocks>
COSIM_INLINE OldestReady oldest_column_in(const std::int32_t* earliest, const std::int32_t* key, std::uint64_t banks,
                                          std::int32_t from, std::int32_t edge) {
  Vectors<Blocks> at;
  column_ticks<0, Blocks>(earliest, banks, _mm256_set1_epi32(static_cast<int>(banks)), _mm256_set1_epi32(from),
                          _mm256_set1_epi32(edge), at);
  return oldest_of<Blocks>(at, key);
}

COSIM_TARGET OldestReady oldest_column_avx2(const std::int32_t* earliest, const std::int32_t* key, std::uint64_t banks,
                                            std::int32_t from, std::int32_t edge) {
  if (banks == 0) return {};
  if (banks >> 16U == 0) return oldest_column_in<2>(earliest, key, banks, from, edge);
  if (banks >> 32U == 0) return oldest_column_in<4>(earliest, key, banks, from, edge);
  return oldest_column_in<8>(earliest, key, banks, from, edge);
}

constexpr BankKernels kAvx2 = {oldest_column_avx2, oldest_row_avx2};

#endif

constexpr BankKernels kPortable = {oldest_column, oldest_row};

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
