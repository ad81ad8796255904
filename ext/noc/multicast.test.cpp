#include "noc/multicast.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "noc/flit_network.hpp"
#include "noc/route_tables.hpp"
#include "noc/topology.hpp"
#include "sim/visit.hpp"

namespace cosim::noc {

namespace {

NetworkSpec mesh() {
  NetworkSpec spec;
  constexpr std::array<std::int32_t, 2> kShape = {4, 4};
  constexpr std::array<std::int32_t, 2> kLatency = {1, 1};
  build_grid(spec, kShape, false, 1, kLatency, 8);
  spec.num_vcs = 2;
  spec.classes = {{1U, 0, false}, {2U, 0, true}};
  spec.routes = dimension_order_routes(spec);
  return spec;
}

void offer(FlitNetwork& network, std::int32_t source, const std::vector<std::int32_t>& dests, std::uint64_t tag) {
  PacketIn packet;
  packet.create_cycle = network.last_cycle() + 1;
  packet.source = source;
  packet.size_flits = 5;
  packet.message_class = 1;
  packet.tag = tag;
  packet.group = network.multicast_group(source, dests);
  network.offer(packet);
}

void run(FlitNetwork& network, std::int64_t until) {
  while (network.next_event() <= until) network.step(network.next_event());
}

}  // namespace

TEST_CASE("a tree has a branch per link and node, and the same set gives the same tree") {
  MulticastTrees trees(mesh());
  const std::uint32_t number = trees.group(0, {15, 3, 0});
  CHECK(trees.group(0, {0, 3, 15}) == number);
  CHECK(trees.group(0, {0, 3}) != number);
  const MulticastGroup& group = trees.groups()[number];
  CHECK(group.room == 8);
  CHECK(group.dests == 3);
  CHECK(trees.node(group.root).count == 2);  // to the node, and along dimension 0
  CHECK(group.copies == 4);                  // router 0 and router 3 fork
  CHECK_THROWS_AS(trees.group(0, {}), std::invalid_argument);
  CHECK_THROWS_AS(trees.group(0, {1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(trees.group(0, {16}), std::invalid_argument);
}

TEST_CASE("multicasts arrive at every node, nothing is left") {
  FlitNetwork network(mesh());
  const std::vector<std::int32_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (std::int32_t source = 0; source < 16; ++source) offer(network, source, all, static_cast<std::uint64_t>(source));
  run(network, 100'000);
  CHECK(network.idle());
  CHECK(network.arrivals().size() == 256);
  CHECK(network.copied_flits() == 16 * 15 * 5);
  CHECK(network.flit_hops() == 16 * (15 + 16) * 5);
  CHECK(network.verify_conservation().empty());
}

TEST_CASE("a network saved among branches goes on alike, and a refused packet changes nothing") {
  const std::vector<std::int32_t> some = {1, 2, 6, 7, 12, 13, 15};
  FlitNetwork first(mesh());
  for (std::uint64_t i = 0; i < 20; ++i) offer(first, static_cast<std::int32_t>(i % 7), some, i);
  run(first, 37);
  REQUIRE_FALSE(first.idle());
  sim::Saver saved;
  first.visit(saved);
  FlitNetwork second(mesh());
  sim::Loader loaded(saved.data());
  second.visit(loaded);
  CHECK(loaded.finished());
  first.arrivals().clear();
  second.arrivals().clear();
  run(first, 100'000);
  run(second, 100'000);
  CHECK(second.idle());
  REQUIRE(first.arrivals().size() == second.arrivals().size());
  for (std::size_t i = 0; i < first.arrivals().size(); ++i) {
    CHECK(first.arrivals()[i].cycle == second.arrivals()[i].cycle);
    CHECK(first.arrivals()[i].dest == second.arrivals()[i].dest);
    CHECK(first.arrivals()[i].flit_latency_sum_cycles == second.arrivals()[i].flit_latency_sum_cycles);
  }
  PacketIn packet;
  packet.create_cycle = first.last_cycle() + 1;
  packet.size_flits = 9;
  packet.message_class = 1;
  packet.group = first.multicast_group(0, {1});
  CHECK_THROWS_AS(first.offer(packet), std::invalid_argument);
  CHECK(first.verify_conservation().empty());
}

}  // namespace cosim::noc
