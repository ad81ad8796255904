// Graphs and routes of the regular topologies.
#pragma once

#include <cstdint>
#include <span>

#include "noc/spec.hpp"

namespace cosim::noc {

// Adds routers, links and terminals of an n-dimensional mesh to an otherwise filled `spec`, and dimension-order routes
// (dimension 0 first). Router id = x0 + shape[0] * (x1 + ...). Ports: 2d leads to +1 in dimension d, 2d+1 to -1, then
// one per terminal; a flit leaving by port o enters at port o^1. Terminal id = router * concentration + index.
// `link_latency` has one item per dimension.
void build_mesh(NetworkSpec& spec, std::span<const std::int32_t> shape, std::int32_t concentration,
                std::span<const std::int32_t> link_latency, std::int32_t link_buffer_flits);

}  // namespace cosim::noc
