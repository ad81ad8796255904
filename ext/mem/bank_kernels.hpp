// The two questions a scheduler asks of many banks at once, answered with vectors of the machine the program runs on.
#pragma once

#include <cstdint>
#include <limits>

namespace cosim::mem {

inline constexpr std::int32_t kNoTick = std::numeric_limits<std::int32_t>::max();

// Ticks and ages are kept bank by bank, in arrays of kMaxBanks aligned to 64 bytes; ages are below kNoTick. `edge` is 1
// where a command may only go at odd ticks.
struct OldestReady {
  std::int32_t tick = kNoTick;  // the first in which one of the banks is ready
  std::int32_t key = 0;         // and of the banks ready then the smallest age
  std::int32_t bank = -1;
};

struct RowQuery {
  const std::int32_t* act = nullptr;  // earliest ticks
  const std::int32_t* pre = nullptr;
  const std::int32_t* key = nullptr;
  std::uint64_t to_open = 0;
  std::uint64_t to_close = 0;  // no bank is in both
  std::int32_t act_from = 0;
  std::int32_t pre_from = 0;
  std::int32_t act_edge = 0;
  std::int32_t pre_edge = 0;
};

struct BankKernels {
  OldestReady (*oldest_column)(const std::int32_t* earliest, const std::int32_t* key, std::uint64_t banks,
                               std::int32_t from, std::int32_t edge);
  OldestReady (*oldest_row)(const RowQuery& q);
};

[[nodiscard]] const BankKernels& portable_kernels();
// With AVX2 where the machine has it.
[[nodiscard]] const BankKernels& bank_kernels();
[[nodiscard]] bool has_avx2();

}  // namespace cosim::mem
