#include "noc/sessions.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "noc/flit_network.hpp"
#include "noc/route_tables.hpp"
#include "noc/topology.hpp"
#include "sim/random.hpp"
#include "sim/visit.hpp"

namespace cosim::noc {

namespace {

NetworkSpec mesh() {
  NetworkSpec spec;
  constexpr std::array<std::int32_t, 2> kShape = {4, 4};
  constexpr std::array<std::int32_t, 2> kLatency = {1, 1};
  build_grid(spec, kShape, false, 1, kLatency, 8);
  spec.num_vcs = 2;
  spec.classes = {{1U, 0, false, false}, {2U, 0, true, false}, {0U, 0, false, true}};
  spec.sessions = {3, 2, 1, 200, 2, -1};
  spec.routes = dimension_order_routes(spec);
  return spec;
}

// Packets, multicasts and sessions of all nodes.
void offer_some(FlitNetwork& network, std::uint64_t seed) {
  sim::RandomStream random(seed, 0);
  for (std::uint64_t tag = 0; tag < 200; ++tag) {
    PacketIn packet;
    packet.create_cycle = network.last_cycle() + 1 + static_cast<std::int64_t>(random.below(300));
    packet.source = static_cast<std::int32_t>(random.below(16));
    packet.size_flits = 1 + static_cast<std::int32_t>(random.below(6));
    packet.message_class = static_cast<std::int32_t>(random.below(3));
    packet.tag = tag;
    const auto first = static_cast<std::int32_t>(random.below(13));
    if (packet.message_class == 0) packet.dest = first;
    if (packet.message_class == 1) packet.group = network.multicast_group(packet.source, {first, first + 3});
    if (packet.message_class == 2) packet.group = network.session_group(packet.source, {first, first + 1, first + 3});
    network.offer(packet);
  }
}

void run(FlitNetwork& network, std::int64_t until) {
  while (network.next_event() <= until) network.step(network.next_event());
}

std::vector<std::uint8_t> saved(FlitNetwork& network) {
  sim::Saver saver;
  network.visit(saver);
  return saver.take();
}

}  // namespace

TEST_CASE("a session owns the links of its ways once, the source's unit and those of its nodes") {
  SessionTrees trees(mesh());
  const std::uint32_t number = trees.tree(0, {3, 2, 6});
  CHECK(trees.tree(0, {2, 3, 6}) == number);
  const SessionTree& tree = trees.at(number);
  CHECK(tree.links == 4);  // 0-1, 1-2, 2-3, 2-6
  CHECK(tree.resources == 4 + 1 + 3);
  CHECK(tree.reach_cycles == 4 + 3 + 3);
  CHECK(trees.stop(tree.first_stop + 2).hops == 4);
  CHECK_THROWS_AS(trees.tree(0, {1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(trees.tree(0, {}), std::invalid_argument);
  CHECK_THROWS_AS(trees.tree(0, {16}), std::invalid_argument);
}

TEST_CASE("packets and sessions are conserved in every cycle, and all arrive") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    FlitNetwork network(mesh());
    offer_some(network, seed);
    while (network.next_event() != kNoEvent) {
      network.step(network.next_event());
      REQUIRE(network.verify_conservation().empty());
    }
    CHECK(network.idle());
    std::int64_t flits = 0;
    for (const SessionRecord& session : network.sessions()->records()) {
      flits += session.flits;
      CHECK(session.return_cycle - session.detach_cycle <= 200);
    }
    CHECK(flits > 0);
  }
}

TEST_CASE("a network with sessions continues from its saved state to the same end") {
  FlitNetwork whole(mesh());
  offer_some(whole, 9);
  FlitNetwork first(mesh());
  offer_some(first, 9);
  run(first, 150);
  FlitNetwork second(mesh());
  const std::vector<std::uint8_t> state = saved(first);
  sim::Loader loader(state);
  second.visit(loader);
  CHECK(loader.finished());
  CHECK(saved(second) == state);
  for (FlitNetwork* network : {&whole, &first, &second}) run(*network, kNoEvent - 1);
  CHECK(saved(first) == saved(second));
  REQUIRE(whole.arrivals().size() == second.arrivals().size());
  for (std::size_t i = 0; i < whole.arrivals().size(); ++i) {
    CHECK(whole.arrivals()[i].cycle == second.arrivals()[i].cycle);
  }
}

TEST_CASE("a session packet needs a group of its source that has room for it") {
  FlitNetwork network(mesh());
  PacketIn packet;
  packet.message_class = 2;
  CHECK_THROWS_AS(network.offer(packet), std::invalid_argument);
  packet.group = network.session_group(1, {2});
  CHECK_THROWS_AS(network.offer(packet), std::invalid_argument);
  packet.source = 1;
  packet.size_flits = 191;
  CHECK_THROWS_AS(network.offer(packet), std::invalid_argument);
  packet.size_flits = 190;  // 200 - 3 - 2 - (2 + 1 + 3) + 1
  network.offer(packet);
  run(network, kNoEvent - 1);
  CHECK(network.arrivals().size() == 1);
}

}  // namespace cosim::noc
