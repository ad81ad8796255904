#include "noc/flit_network.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "noc/topology.hpp"
#include "sim/random.hpp"

namespace {

using namespace cosim;

struct Outcome {
  std::vector<std::array<std::int64_t, 5>> arrivals;
  std::vector<std::array<std::int64_t, 5>> counters;
  bool operator==(const Outcome&) const = default;
};

// Random packets, `burst` a cycle: a load near saturation, so that every kind of waiting occurs.
Outcome run(const noc::NetworkSpec& spec, bool portable, int packets = 1500, int burst = 6) {
  noc::FlitNetwork network(spec);
  if (portable) network.use_portable_cycle();
  sim::RandomStream random(11, 0);
  const std::uint64_t nodes = spec.terminals.size();
  for (int i = 0; i < packets; ++i) {
    noc::PacketIn packet;
    packet.create_cycle = i / burst;
    packet.source = static_cast<std::int32_t>(random.below(nodes));
    packet.dest = static_cast<std::int32_t>(random.below(nodes));
    packet.size_flits = 1 + static_cast<std::int32_t>(random.below(4));
    packet.tag = static_cast<std::uint64_t>(i);
    network.offer(packet);
  }
  for (std::int64_t next = network.next_event(); next != noc::kNoEvent; next = network.next_event()) {
    network.step(next);
  }
  CHECK(network.idle());
  CHECK(network.verify_conservation() == "");
  Outcome outcome;
  for (const noc::Arrival& a : network.arrivals()) {
    outcome.arrivals.push_back(
        {static_cast<std::int64_t>(a.tag), a.inject_cycle, a.cycle, a.flit_latency_sum_cycles, a.hops});
  }
  for (const noc::OutputCounters& c : network.connected_counters()) {
    outcome.counters.push_back({c.flits, c.no_credit, c.lost_switch, c.busy_vc, c.lost_vc});
  }
  return outcome;
}

noc::NetworkSpec mesh(std::int32_t vc_buf_size, std::int32_t side = 4) {
  noc::NetworkSpec spec;
  spec.vc_buf_size = vc_buf_size;
  const std::array<std::int32_t, 2> shape = {side, side};
  const std::array<std::int32_t, 2> latency = {1, 1};
  noc::build_mesh(spec, shape, 1, latency, vc_buf_size);
  return spec;
}

}  // namespace

TEST_CASE("every compiled shape of the cycle gives the same arrivals and counters") {
  for (const std::int32_t vc_buf_size : {8, 4}) {  // 8 has a shape of its own
    noc::NetworkSpec plain = mesh(vc_buf_size);
    noc::NetworkSpec any = plain;  // a second VC set takes it out of the plain shapes
    any.routes.vc_sets.push_back(any.routes.vc_sets[0]);
    noc::NetworkSpec large = plain;  // ports that nobody uses take it out of the small records
    large.ports = 9;
    noc::NetworkSpec large_any = any;
    large_any.ports = 9;
    const Outcome expected = run(plain, false);
    REQUIRE(expected.arrivals.size() == 1500);
    std::array<std::int64_t, 5> sums{};
    for (const auto& row : expected.counters) {
      for (std::size_t i = 0; i < row.size(); ++i) sums[i] += row[i];
    }
    for (const std::int64_t sum : sums) CHECK(sum > 0);
    for (const noc::NetworkSpec& spec : {plain, any, large, large_any}) {
      CHECK(run(spec, false) == expected);
      CHECK(run(spec, true) == expected);
    }
  }
}

TEST_CASE("every shape of a network that fetches ahead gives the same arrivals and counters") {
  for (const std::int32_t vc_buf_size : {8, 16}) {
    const noc::NetworkSpec ahead = mesh(vc_buf_size, 20);
    noc::NetworkSpec other = ahead;  // a second VC set takes it out of the plain shapes
    other.routes.vc_sets.push_back(other.routes.vc_sets[0]);
    const Outcome expected = run(other, false, 6000, 60);
    REQUIRE(expected.arrivals.size() == 6000);
    CHECK(run(ahead, false, 6000, 60) == expected);
    CHECK(run(ahead, true, 6000, 60) == expected);
  }
}

TEST_CASE("static VCs are for packets of one destination over routes that do not look at the load") {
  const auto said = [](const noc::NetworkSpec& spec) {
    std::string all;
    for (const std::string& problem : spec.problems()) all += problem + "\n";
    return all;
  };
  noc::NetworkSpec spec = mesh(8);
  spec.classes = {{1U, 0, false, false, false, false}, {14U, 0, false, false, false, true}};
  CHECK(said(spec).empty());
  noc::NetworkSpec forks = spec;
  forks.classes[1].multicast = true;
  CHECK(said(forks).find("message class 1 is one of multicasts, sessions or reductions") != std::string::npos);
  spec.routing.kind = noc::RoutingKind::min_adaptive;
  CHECK(said(spec).find("a routing that offers VCs whatever the load") != std::string::npos);
}

TEST_CASE("a packet of a class with static VCs leaves each router by the VC with its source's number") {
  noc::NetworkSpec spec = mesh(8);
  spec.classes = {{1U, 0, false, false, false, false}, {14U, 0, false, false, false, true}};  // VCs 1, 2, 3
  for (std::int32_t source = 0; source < 16; ++source) {
    noc::FlitNetwork network(spec);
    for (std::int32_t dest = 0; dest < 16; ++dest) network.offer({0, source, dest, 3, 1, 0});
    for (std::int64_t next = network.next_event(); next != noc::kNoEvent; next = network.next_event()) {
      network.step(next);
    }
    CHECK(network.idle());
    const std::vector<noc::OutputCounters> counters = network.connected_counters();
    for (std::size_t i = 0; i < counters.size(); ++i) {
      if (counters[i].flits != 0) CHECK(i % 4 == 1 + static_cast<std::size_t>(source % 3));
    }
  }
}
