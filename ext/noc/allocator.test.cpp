#include "noc/allocator.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "sim/random.hpp"
#include "sim/visit.hpp"

namespace cosim::noc {

namespace {

struct Case {
  AllocatorSpec spec;
  bool maximal;  // enough iterations that nothing asked for stays free on both sides
};

std::vector<Case> cases() {
  constexpr auto kIslip = AllocatorKind::islip;
  constexpr auto kInput = AllocatorKind::separable_input_first;
  constexpr auto kOutput = AllocatorKind::separable_output_first;
  constexpr auto kRobin = ArbiterKind::round_robin;
  constexpr auto kMatrix = ArbiterKind::matrix;
  return {{{kIslip, kRobin, 1, false}, false},  {{kIslip, kRobin, 3, true}, false},
          {{kIslip, kRobin, 64, false}, true},  {{kInput, kRobin, 1, false}, false},
          {{kInput, kMatrix, 1, false}, false}, {{kOutput, kRobin, 1, false}, false},
          {{kOutput, kMatrix, 1, false}, false}};
}

void draw(sim::RandomStream& random, std::uint32_t ports, AllocationRequests& requests) {
  requests.clear();
  for (std::uint32_t i = 0; i < ports; ++i) {
    for (std::uint32_t o = 0; o < ports; ++o) {
      if (random.below(3) != 0) continue;
      const auto key = static_cast<std::int64_t>(random.below(2));
      requests.add(i, o, static_cast<std::uint8_t>(i + o), key, key);
    }
  }
}

}  // namespace

TEST_CASE("an allocator yields a matching of requested pairs, and an empty one only for no requests") {
  sim::RandomStream random(7, 0);
  for (const Case& each : cases()) {
    for (const std::uint32_t ports : {1U, 5U, 20U, 64U}) {
      Allocator allocator(each.spec, {false, 2, ports, 1, 1});
      AllocationRequests requests;
      AllocationMatch found;
      for (std::uint32_t round = 0; round < 40; ++round) {
        draw(random, ports, requests);
        allocator.match(round & 1U, 0, requests, found);
        VcSet taken = 0;
        for (VcSet rest = found.inputs; rest != 0; rest &= rest - 1) {
          const std::uint32_t input = lowest(rest);
          const std::uint32_t output = found.output[input];
          CHECK(requests.asks(input, output));
          CHECK(requests.label(input, output) == ((input + output) & 255U));
          CHECK((taken >> output & 1U) == 0);
          taken |= vc_bit(output);
        }
        CHECK((found.inputs == 0) == (requests.inputs() == 0));
        if (!each.maximal) continue;
        for (VcSet rest = requests.inputs() & ~found.inputs; rest != 0; rest &= rest - 1) {
          CHECK((requests.of_input(lowest(rest)) & ~taken) == 0);
        }
      }
    }
  }
}

TEST_CASE("of two that always ask, each is served every other time, whatever the arbiter") {
  for (const Case& each : cases()) {
    Allocator allocator(each.spec, {false, 1, 2, 1, 1});
    AllocationRequests requests;
    AllocationMatch found;
    VcSet last = 0;
    for (std::uint32_t round = 0; round < 8; ++round) {
      requests.clear();
      requests.add(0, 0, 0, 0, 0);
      requests.add(1, 0, 0, 0, 0);
      allocator.match(0, 0, requests, found);
      CHECK(single(found.inputs));
      CHECK(found.inputs != last);
      last = found.inputs;
    }
  }
}

TEST_CASE("the smaller key goes first, unless the allocator ignores keys") {
  for (const Case& each : cases()) {
    Allocator allocator(each.spec, {false, 1, 2, 1, 1});
    AllocationRequests requests;
    AllocationMatch found;
    VcSet seen = 0;
    for (std::uint32_t round = 0; round < 4; ++round) {
      requests.clear();
      requests.add(0, 0, 0, 5, 5);
      requests.add(1, 0, 0, 4, 4);
      allocator.match(0, 0, requests, found);
      seen |= found.inputs;
    }
    CHECK(seen == (each.spec.ignores_keys ? 3U : 2U));
  }
}

TEST_CASE("a matrix arbiter serves the one served longest ago, the largest number first of those never served") {
  Allocator allocator({AllocatorKind::separable_input_first, ArbiterKind::matrix, 1, false}, {false, 1, 3, 1, 1});
  AllocationRequests requests;
  AllocationMatch found;
  std::vector<std::uint32_t> order;
  for (const VcSet asking : {7U, 7U, 3U, 7U, 7U}) {
    requests.clear();
    for (VcSet rest = asking; rest != 0; rest &= rest - 1) requests.add(lowest(rest), 0, 0, 0, 0);
    allocator.match(0, 0, requests, found);
    order.push_back(lowest(found.inputs));
  }
  CHECK(order == std::vector<std::uint32_t>{2, 1, 0, 2, 1});
}

TEST_CASE("an allocator that is saved and loaded goes on alike") {
  for (const Case& each : cases()) {
    sim::RandomStream random(9, 1);
    Allocator first(each.spec, {false, 1, 8, 1, 1});
    AllocationRequests requests;
    AllocationMatch found;
    for (int round = 0; round < 9; ++round) {
      draw(random, 8, requests);
      first.match(0, 0, requests, found);
    }
    sim::Saver saver;
    first.visit(saver);
    Allocator second(each.spec, {false, 1, 8, 1, 1});
    sim::Loader loader(saver.data());
    second.visit(loader);
    for (int round = 0; round < 9; ++round) {
      draw(random, 8, requests);
      AllocationMatch other;
      first.match(0, 0, requests, found);
      second.match(0, 0, requests, other);
      CHECK(found.inputs == other.inputs);
      for (VcSet rest = found.inputs; rest != 0; rest &= rest - 1) {
        CHECK(found.output[lowest(rest)] == other.output[lowest(rest)]);
      }
    }
  }
}

}  // namespace cosim::noc
