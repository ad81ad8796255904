#include "sim/time.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using cosim::sim::Clock;
using cosim::sim::Fs;

TEST_CASE("edges of clocks with no whole-femtosecond period equal exact rationals for 10^9 edges") {
  // 0.9, 1.2, 1.4 and 2.3 GHz against 1.0 GHz: edge n at floor(n * 1e15 / hz)
  for (const std::int64_t hz : {900'000'000LL, 1'200'000'000LL, 1'400'000'000LL, 2'300'000'000LL, 1'000'000'000LL}) {
    const Clock clock(hz);
    // reference: quotient and remainder of n * 1e15 / hz carried along, a stride of edges at a time
    std::int64_t wrong = 0;
    const auto walk = [&](std::int64_t stride, std::int64_t until) {
      const __int128 leap = static_cast<__int128>(stride) * 1'000'000'000'000'000;
      const auto whole_leap = static_cast<Fs>(leap / hz);
      const auto rest_leap = static_cast<std::int64_t>(leap % hz);
      Fs whole = 0;
      std::int64_t rest = 0;
      for (std::int64_t n = 0; n <= until; n += stride) {
        if (clock.edge_fs(n) != whole) ++wrong;
        whole += whole_leap;
        rest += rest_leap;
        if (rest >= hz) {
          rest -= hz;
          ++whole;
        }
      }
    };
    walk(1, 2'000'000);        // every edge
    walk(997, 1'000'000'000);  // and on to 10^9
    CHECK(wrong == 0);
  }
}

TEST_CASE("the three edge searches agree with the edge times") {
  const Clock clock(2'300'000'000LL);
  for (std::int64_t n = 0; n < 5000; ++n) {
    const Fs t = clock.edge_fs(n);
    CHECK(clock.edge_at_or_before(t) == n);
    CHECK(clock.edge_at_or_after(t) == n);
    CHECK(clock.edge_after(t) == n + 1);
    CHECK(clock.edge_at_or_after(t + 1) == n + 1);
    if (n > 0) CHECK(clock.edge_at_or_before(t - 1) == n - 1);
  }
}

TEST_CASE("a rational frequency keeps domains aligned") {
  const Clock core(1'000'000'000LL);
  const Clock dram(1'600'000'000LL);  // 1.6 GHz: 8 edges in 5 of the core's
  for (std::int64_t k = 0; k < 1000; ++k) CHECK(core.edge_fs(5 * k) == dram.edge_fs(8 * k));
  const Clock third(1'000'000'000LL, 3);
  CHECK(third.edge_fs(1) == core.edge_fs(3));
}

TEST_CASE("a frequency of zero or less is refused") {
  CHECK_THROWS_AS(Clock(0), std::invalid_argument);
  CHECK_THROWS_AS(Clock(1, 0), std::invalid_argument);
}
