#include "mem/bank_kernels.hpp"

#include <doctest/doctest.h>

#include <array>
#include <random>

using namespace cosim::mem;

TEST_CASE("the vectors of this machine answer as the portable ones") {
  std::mt19937_64 draw(5);
  alignas(64) std::array<std::int32_t, 64> act{};
  alignas(64) std::array<std::int32_t, 64> pre{};
  alignas(64) std::array<std::int32_t, 64> key{};
  for (int round = 0; round < 4000; ++round) {
    const int span = 1 + static_cast<int>(draw() % 12);
    for (std::size_t b = 0; b < 64; ++b) {
      act[b] = static_cast<std::int32_t>(draw() % static_cast<unsigned>(span)) - 4;
      pre[b] = static_cast<std::int32_t>(draw() % static_cast<unsigned>(span)) - 4;
      key[b] = static_cast<std::int32_t>(draw() % 9) - 3;
    }
    const std::uint64_t some = draw() & draw() & (draw() | (round % 2 == 0 ? ~0ULL : 0));
    RowQuery q;
    q.act = act.data();
    q.pre = pre.data();
    q.key = key.data();
    q.to_open = some & 0x00FF'0F0F'FFFF'1234ULL;
    q.to_close = some & ~q.to_open & (round % 3 == 0 ? 0 : ~0ULL);
    q.act_from = static_cast<std::int32_t>(draw() % 6) - 3;
    q.pre_from = static_cast<std::int32_t>(draw() % 6) - 3;
    q.act_edge = round % 5 == 0 ? 1 : 0;
    const OldestReady one = portable_kernels().oldest_row(q);
    const OldestReady two = bank_kernels().oldest_row(q);
    CHECK(one.tick == two.tick);
    CHECK(one.bank == two.bank);
    if (one.bank >= 0) CHECK(one.key == two.key);
    if (some == 0) continue;
    const OldestReady x = portable_kernels().oldest_column(act.data(), key.data(), some, q.act_from, q.act_edge);
    const OldestReady y = bank_kernels().oldest_column(act.data(), key.data(), some, q.act_from, q.act_edge);
    CHECK(x.tick == y.tick);
    CHECK(x.bank == y.bank);
    CHECK(x.key == y.key);
  }
}
