// The two questions a scheduler asks of all banks at once, answered with vectors of the machine the program runs on.
#pragma once

#include <cstdint>
#include <limits>

namespace cosim::mem {

inline constexpr std::int32_t kNoTick = std::numeric_limits<std::int32_t>::max();

// Ticks are kept bank by bank, in arrays of kMaxBanks aligned to 64 bytes. `edge` is 1 where a command may only go at
// odd ticks.
struct FirstReady {
  std::int32_t tick = kNoTick;
  std::uint64_t banks = 0;  // that are ready then
};

struct RowQuery {
  const std::int32_t* act = nullptr;  // earliest ticks
  const std::int32_t* pre = nullptr;
  const std::int32_t* key = nullptr;  // ages, below kNoTick
  std::uint64_t to_open = 0;
  std::uint64_t to_close = 0;  // no bank is in both
  std::int32_t act_from = 0;
  std::int32_t pre_from = 0;
  std::int32_t act_edge = 0;
  std::int32_t pre_edge = 0;
};

struct OldestRow {
  std::int32_t tick = kNoTick;
  std::int32_t key = 0;
  std::int32_t bank = -1;
};

struct BankKernels {
  // The first tick from `from` on in which one of the banks (at least one) is ready.
  FirstReady (*first_ready)(const std::int32_t* earliest, std::uint64_t banks, std::int32_t from, std::int32_t edge);
  // The first tick in which a row can be opened or closed, and the bank of the smallest key among those ready then.
  OldestRow (*oldest_row)(const RowQuery& q);
};

[[nodiscard]] const BankKernels& portable_kernels();
// With AVX2 where the machine has it.
[[nodiscard]] const BankKernels& bank_kernels();
[[nodiscard]] bool has_avx2();

}  // namespace cosim::mem
