// Graphs of the regular topologies. Every builder adds routers, ports, links and terminals to an otherwise filled spec;
// routes come afterwards (route_tables.hpp, routing_builtin.hpp).
#pragma once

#include <cstdint>
#include <span>

#include "noc/spec.hpp"

namespace cosim::noc {

// Latency of a link and depth of each VC at its far end.
struct LinkShape {
  std::int32_t latency = 1;
  std::int32_t buffer_flits = 8;
};

// An n-dimensional mesh, or torus when it wraps. Router id = x0 + shape[0] * (x1 + ...). Ports: 2d leads to +1 in
// dimension d, 2d+1 to -1, then one per terminal; a flit leaving by port o enters at port o^1. Terminal id = router *
// concentration + index. `link_latency` has one item per dimension. Sets spec.routing.shape.
void build_grid(NetworkSpec& spec, std::span<const std::int32_t> shape, bool wraps, std::int32_t concentration,
                std::span<const std::int32_t> link_latency, std::int32_t link_buffer_flits);

// build_grid without wrapping, with dimension-order routes.
void build_mesh(NetworkSpec& spec, std::span<const std::int32_t> shape, std::int32_t concentration,
                std::span<const std::int32_t> link_latency, std::int32_t link_buffer_flits);

// A k-ary n-tree, numbered and wired as BookSim2's fattree: n levels of k^(n-1) routers, level 0 on top; ports 0..k-1
// lead down, k..2k-1 up; terminal t sits at port t mod k of leaf router t div k. Sets spec.routing.level.
void build_fat_tree(NetworkSpec& spec, std::int32_t k, std::int32_t n, LinkShape link);

struct PodFatTree {
  std::int32_t pods = 1;
  std::int32_t leaves = 1;        // per pod
  std::int32_t terminals = 1;     // per leaf
  std::int32_t aggregations = 1;  // per pod
  std::int32_t cores = 1;
  std::int32_t leaf_links = 1;  // parallel links of a leaf and an aggregation router of its pod
  std::int32_t core_links = 1;  // parallel links of an aggregation router and a core
  LinkShape leaf;
  LinkShape core;
};

// Leaves first, pod by pod, then the aggregation routers, pod by pod, then the cores. Ports lead down first, then up;
// parallel links are neighbours. Sets spec.routing.level.
void build_pod_fat_tree(NetworkSpec& spec, const PodFatTree& tree);

// One router; terminal t is at port t.
void build_crossbar(NetworkSpec& spec, std::int32_t terminals);

// A link between any two routers: port p leads to router p, to p + 1 from routers up to p; then the terminals.
void build_fully_connected(NetworkSpec& spec, std::int32_t routers, std::int32_t concentration, LinkShape link);

}  // namespace cosim::noc
