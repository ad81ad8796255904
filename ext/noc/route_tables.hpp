// Deterministic routes as tables: one output port and VC set per router and destination.
#pragma once

#include <cstdint>

#include "noc/spec.hpp"

namespace cosim::noc {

// On a mesh of build_grid: the lowest dimension in which router and destination differ goes first.
[[nodiscard]] RouteTable dimension_order_routes(const NetworkSpec& spec);

// up*/down*: routers are ordered by their level in a tree, else by their distance from `root`, and their number; a
// packet goes down (away from the root) as soon as a way of downward links alone leads to its destination, else up on
// the shortest way. No packet turns from down to up, so no cycle of waits exists on any graph. Among equal ways,
// parallel links included, destinations take turns. Throws std::invalid_argument when a terminal cannot be reached.
[[nodiscard]] RouteTable up_down_routes(const NetworkSpec& spec, std::int32_t root);

// Shortest ways, in layers of VCs: the ways to one destination form a tree, trees share a layer while the layer's
// channel dependencies stay without a cycle (the idea of Skeie, Lysne and Theiss, LASH, IPDPS 2002, with whole trees
// as units). Every message class gives one VC, in ascending order, to each layer; VCs that are left go to the layers in
// turn. Throws std::invalid_argument when a terminal cannot be reached or VCs are too few.
[[nodiscard]] RouteTable layered_shortest_routes(const NetworkSpec& spec);

}  // namespace cosim::noc
