#include "noc/topology.hpp"

#include <doctest/doctest.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "noc/dependency.hpp"
#include "noc/flit_network.hpp"
#include "noc/route_tables.hpp"

namespace {

using namespace cosim;
using noc::DeadlockProof;
using noc::RoutingKind;

noc::NetworkSpec grid(const std::vector<std::int32_t>& shape, bool wraps, RoutingKind kind, std::int32_t vcs) {
  noc::NetworkSpec spec;
  spec.num_vcs = vcs;
  noc::build_grid(spec, shape, wraps, 1, std::vector<std::int32_t>(shape.size(), 1), 4);
  spec.routing.kind = kind;
  return spec;
}

// Every terminal sends to every other at once; true when all packets arrive and the laws hold.
bool delivers(const noc::NetworkSpec& spec) {
  noc::FlitNetwork network(spec);
  const auto nodes = static_cast<std::int32_t>(spec.terminals.size());
  for (std::int32_t a = 0; a < nodes; ++a) {
    for (std::int32_t b = 0; b < nodes; ++b) network.offer({0, a, b, 5, 0, 0});
  }
  for (std::int64_t t = network.next_event(); t != noc::kNoEvent && t < 100'000; t = network.next_event()) {
    network.step(t);
  }
  return network.idle() && network.verify_conservation().empty() &&
         network.arrivals().size() == static_cast<std::size_t>(nodes) * static_cast<std::size_t>(nodes);
}

void routed(const noc::NetworkSpec& spec, DeadlockProof proof) {
  CHECK(spec.problems().empty());
  CHECK(noc::check_dependencies(spec).proof == proof);
  CHECK(delivers(spec));
}

}  // namespace

TEST_CASE("routing functions of grids deliver and are proved") {
  for (const RoutingKind kind : {RoutingKind::dateline, RoutingKind::dateline_booksim}) {
    routed(grid({4, 3}, true, kind, 2), DeadlockProof::acyclic);
    routed(grid({5}, true, kind, 4), DeadlockProof::acyclic);
  }
  for (const RoutingKind kind : {RoutingKind::odd_even, RoutingKind::west_first}) {
    routed(grid({4, 5}, false, kind, 1), DeadlockProof::acyclic);
  }
  routed(grid({3, 3, 2}, false, RoutingKind::min_adaptive, 2), DeadlockProof::escape);
}

TEST_CASE("trees and graphs deliver and are proved") {
  noc::NetworkSpec tree;
  noc::build_fat_tree(tree, 2, 3, {1, 4});
  tree.routing.kind = RoutingKind::nca;
  routed(tree, DeadlockProof::acyclic);
  noc::NetworkSpec pods;
  noc::build_pod_fat_tree(pods, {2, 2, 2, 2, 2, 1, 2, {1, 4}, {3, 8}});
  pods.routing.kind = RoutingKind::nca;
  routed(pods, DeadlockProof::acyclic);
  pods.routing.kind = RoutingKind::table;
  pods.routes = noc::up_down_routes(pods, 0);
  routed(pods, DeadlockProof::acyclic);
  noc::NetworkSpec all;
  noc::build_fully_connected(all, 4, 2, {1, 4});
  all.routes = noc::up_down_routes(all, 0);
  routed(all, DeadlockProof::acyclic);
  noc::NetworkSpec torus = grid({4, 4}, true, RoutingKind::table, 4);
  torus.routes = noc::layered_shortest_routes(torus);
  routed(torus, DeadlockProof::acyclic);
  noc::NetworkSpec crossbar;
  noc::build_crossbar(crossbar, 5);
  crossbar.routes = noc::up_down_routes(crossbar, 0);
  routed(crossbar, DeadlockProof::acyclic);
}

TEST_CASE("what cannot be routed is refused") {
  CHECK_THROWS_AS(noc::FlitNetwork(grid({4}, true, RoutingKind::dateline, 1)), std::invalid_argument);
  CHECK_THROWS_AS(noc::FlitNetwork(grid({4}, false, RoutingKind::odd_even, 2)), std::invalid_argument);
  CHECK_THROWS_AS(noc::FlitNetwork(grid({4, 4}, false, RoutingKind::nca, 2)), std::invalid_argument);
  noc::NetworkSpec torus = grid({4, 4}, true, RoutingKind::table, 1);
  CHECK_THROWS_AS(static_cast<void>(noc::layered_shortest_routes(torus)), std::invalid_argument);
  torus.links.clear();
  CHECK_THROWS_AS(static_cast<void>(noc::up_down_routes(torus, 0)), std::invalid_argument);
}

TEST_CASE("one VC on a ring closes a cycle of waits, and is named") {
  noc::NetworkSpec ring = grid({4}, true, RoutingKind::table, 1);
  for (std::int32_t r = 0; r < 4; ++r) {
    for (std::int32_t n = 0; n < 4; ++n) ring.routes.entries.push_back(static_cast<std::uint16_t>(r == n ? 2 : 0));
  }
  ring.routes.vc_sets = {~0U};
  const noc::DependencyReport report = noc::check_dependencies(ring);
  CHECK(report.proof == DeadlockProof::none);
  CHECK(report.cycle.size() == 4);
}
