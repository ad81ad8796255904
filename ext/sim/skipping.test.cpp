#include "sim/skipping.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

using namespace cosim;

namespace {

// A wheel of `teeth` positions that moves on every 10 fs once it has left a run-up, and counts its turns up to a limit.
// An alarm goes off at an instant of its own; slots hold what the wheel carries, in changing places.
struct Wheel final : sim::Walked {
  std::int64_t teeth = 7;
  std::int64_t run_up = 12;
  std::int64_t position = 0;
  std::int64_t turns = 0;
  std::int64_t most_turns = 1000;
  std::int64_t steps = 0;
  sim::Fs now = 0;
  sim::Fs next = 10;
  sim::Fs alarm = sim::kNever;
  std::vector<std::int32_t> carried = {4, 9};

  [[nodiscard]] bool step() {  // whether a tooth was passed at the top
    now = next;
    next += 10;
    ++steps;
    std::swap(carried[0], carried[1]);
    if (run_up > 0) {
      --run_up;
      return false;
    }
    if (++position < teeth) return false;
    position = 0;
    ++turns;
    return true;
  }

  void walk(sim::Canonical& c) override {
    c.same(run_up);
    c.same(position);
    c.time(next);
    c.time(alarm);
    c.grows(steps);
    c.grows_below(turns, most_turns);
    for (std::size_t i = 0; i < carried.size(); ++i) {
      c.name(0, sim::Space::tiles, carried[i], 16);
    }
  }
};

// Runs to `turns` or to the alarm, with skipping or without.
struct Outcome {
  std::int64_t turns;
  std::int64_t steps;
  sim::Fs now;
  std::int64_t stepped;
};

Outcome run(Wheel wheel, bool skips, std::int64_t turns) {
  sim::Skipping skipping;
  std::int64_t stepped = 0;
  while (wheel.turns < turns && wheel.next < wheel.alarm) {
    const bool top = wheel.step();
    ++stepped;
    if (skips && top && skipping.looking()) wheel.now += skipping.look(wheel, wheel.now, sim::kNever, stepped);
  }
  return {wheel.turns, wheel.steps, wheel.now, stepped};
}

}  // namespace

TEST_CASE("a period is found, skipped up to the limit and ends as when it is stepped") {
  Wheel wheel;
  for (const std::int64_t limit : {5, 50, 997}) {
    wheel.most_turns = limit;
    const Outcome on = run(wheel, true, limit);
    const Outcome off = run(wheel, false, limit);
    CHECK(on.turns == off.turns);
    CHECK(on.steps == off.steps);
    CHECK(on.now == off.now);
    CHECK(off.stepped == off.steps);
    if (limit > 5) CHECK(on.stepped < 60);
  }
}

TEST_CASE("a jump ends before an instant that does not move along") {
  Wheel wheel;
  for (sim::Fs alarm = 600; alarm < 800; ++alarm) {
    wheel.alarm = alarm;
    const Outcome on = run(wheel, true, 1000);
    const Outcome off = run(wheel, false, 1000);
    CHECK(on.turns == off.turns);
    CHECK(on.steps == off.steps);
    CHECK(on.now == off.now);
    CHECK(on.now < alarm);
  }
}

TEST_CASE("a long search without a period goes on, and says so") {
  struct Drifting final : sim::Walked {
    std::int64_t at = 0;
    std::int64_t rest_at = 0;  // from here on it does the same every time
    void walk(sim::Canonical& c) override { c.same(std::min(at, rest_at)); }
  };
  Drifting drifting;
  drifting.rest_at = 3 * sim::Skipping::kManyLooks;
  sim::Skipping skipping;
  const std::string reason =
      "no period within the first " + std::to_string(sim::Skipping::kManyLooks) + " retired tiles";
  sim::Fs now = 1;
  sim::Fs skipped = 0;
  const sim::Fs bound = 10 * drifting.rest_at;
  for (; now < bound && skipped == 0; ++now, ++drifting.at) {
    CHECK(skipping.report().reasons.count(reason) == (now > sim::Skipping::kManyLooks ? 1U : 0U));
    skipped = skipping.look(drifting, now, bound, now);
  }
  CHECK(skipped > 0);
  CHECK(now < 2 * drifting.rest_at);  // found by an anchor behind the drift
  CHECK(skipping.report().reasons.size() == 1);
  skipping.interrupt();
  CHECK(skipping.looking());
}

TEST_CASE("a component without a form ends the search with its reason") {
  struct Refusing final : sim::Walked {
    void walk(sim::Canonical& c) override { c.refuse("it is of clay"); }
  };
  Refusing refusing;
  sim::Skipping skipping;
  CHECK(skipping.look(refusing, 1, sim::kNever, 1) == 0);
  CHECK_FALSE(skipping.looking());
  CHECK(skipping.report().reasons.at("it is of clay") == 1);
}

TEST_CASE("looking in vain costs a bounded number of items an instant") {
  struct Large final : sim::Walked {
    std::int64_t at = 0;
    std::int64_t walked = 0;
    void walk(sim::Canonical& c) override {
      for (int i = 0; i < 5000; ++i) c.same(i);
      c.same(at);
      walked += 5001;
    }
  };
  Large large;
  sim::Skipping skipping;
  constexpr std::int64_t kInstants = 20000;
  for (std::int64_t now = 1; now <= kInstants; ++now, ++large.at) {
    if (now % 10 == 0) skipping.interrupt();
    if (skipping.looking()) CHECK(skipping.look(large, now, sim::kNever, now) == 0);
  }
  // one look may begin just below the share
  const std::int64_t share = sim::Skipping::kItemsAtFirst + sim::Skipping::kItemsPerInstant * kInstants;
  CHECK(large.walked <= share + 20 * 5001);
  CHECK(large.walked >= share / 2);
  CHECK(skipping.report().reasons.at("looking for a period had cost its share") > 0);
}
