#include "mem/bank_scan.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>

#include "mem/channel_config.hpp"
#include "sim/random.hpp"

using namespace cosim;

namespace {

using Ticks = std::array<std::int32_t, mem::kMaxBanks>;

mem::BankScan slow(const Ticks& at, std::uint64_t mask, std::int32_t t) {
  mem::BankScan out;
  for (int b = 0; b < mem::kMaxBanks; ++b) {
    if ((mask & mem::bit(b)) == 0) continue;
    if (at[static_cast<std::size_t>(b)] <= t) {
      out.ready |= mem::bit(b);
    } else {
      out.later = std::min(out.later, at[static_cast<std::size_t>(b)]);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a scan finds the banks whose tick has come and the first of the others") {
  alignas(64) Ticks at{};
  for (std::size_t b = 0; b < at.size(); ++b) at[b] = static_cast<std::int32_t>(100 + b);
  const mem::BankScan none = mem::scan(at.data(), 0, 1000);
  CHECK(none.ready == 0);
  CHECK(none.later == std::numeric_limits<std::int32_t>::max());
  const mem::BankScan all = mem::scan(at.data(), ~std::uint64_t{0}, 131);
  CHECK(all.ready == 0xFFFFFFFFu);
  CHECK(all.later == 132);
}

TEST_CASE("few banks and many banks are scanned alike") {
  sim::RandomStream random(7, 0);
  alignas(64) Ticks at{};
  for (int round = 0; round < 2000; ++round) {
    for (std::int32_t& tick : at) tick = static_cast<std::int32_t>(random.next() % 64) - 32;
    std::uint64_t mask = random.next();
    for (std::uint64_t thin = random.next() % 5; thin > 0; --thin) mask &= random.next();
    const auto t = static_cast<std::int32_t>(random.next() % 64) - 32;
    const mem::BankScan expected = slow(at, mask, t);
    for (const mem::BankScan& found :
         {mem::scan(at.data(), mask, t), mem::scan_few(at.data(), mask, t), mem::scan_many(at.data(), mask, t)}) {
      REQUIRE(found.ready == expected.ready);
      REQUIRE(found.later == expected.later);
    }
  }
}

TEST_CASE("raising ticks never lowers one") {
  alignas(64) Ticks at{};
  for (std::size_t b = 0; b < at.size(); ++b) at[b] = static_cast<std::int32_t>(b);
  mem::raise_all(at.data() + 8, 4, 10);
  mem::raise_all(at.data() + 20, 3, 22);  // no whole vector
  CHECK(at[7] == 7);
  CHECK(at[8] == 10);
  CHECK(at[11] == 11);
  CHECK(at[12] == 12);
  CHECK(at[20] == 22);
  CHECK(at[22] == 22);
  CHECK(at[23] == 23);
  alignas(16) const std::array<std::int32_t, 4> delay = {5, 0, -100, 7};
  mem::raise_by(at.data(), delay.data(), 4, 1);
  CHECK(at[0] == 6);
  CHECK(at[1] == 1);
  CHECK(at[2] == 2);
  CHECK(at[3] == 8);
}

TEST_CASE("more than four is more than four") {
  CHECK_FALSE(mem::more_than_four(0));
  CHECK_FALSE(mem::more_than_four(0b1111));
  CHECK_FALSE(mem::more_than_four(std::uint64_t{0xF} << 60));
  CHECK(mem::more_than_four(0b11111));
}
