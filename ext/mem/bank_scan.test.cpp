#include "mem/bank_scan.hpp"

#include <doctest/doctest.h>

#include <array>

#include "mem/channel_config.hpp"

using namespace cosim;

namespace {

using Ticks = std::array<std::int32_t, mem::kMaxBanks>;

}  // namespace

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
