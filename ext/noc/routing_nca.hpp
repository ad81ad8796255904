// Routing by the nearest common ancestor, for graphs whose routers have levels.
#pragma once

#include "noc/route_ways.hpp"
#include "noc/spec.hpp"

namespace cosim::noc {

// Down as soon as a way of downward links alone leads to the destination, else up; by chance among ports that are as
// good. In compatible mode on a fat tree this is BookSim2's nca. No turn from down to up, hence no cycle of waits.
// Throws std::invalid_argument when routers have no level or a terminal cannot be reached.
[[nodiscard]] RouteWays nca_ways(const NetworkSpec& spec);

}  // namespace cosim::noc
