#include "noc/topology.hpp"

#include <algorithm>

#include "noc/route_tables.hpp"

namespace cosim::noc {

namespace {

std::int32_t power(std::int32_t base, std::int32_t exponent) {
  std::int32_t value = 1;
  for (std::int32_t i = 0; i < exponent; ++i) value *= base;
  return value;
}

void link_both_ways(NetworkSpec& spec, std::int32_t a, std::int32_t port_a, std::int32_t b, std::int32_t port_b,
                    LinkShape link) {
  spec.links.push_back({a, port_a, b, port_b, link.latency, link.buffer_flits});
  spec.links.push_back({b, port_b, a, port_a, link.latency, link.buffer_flits});
}

}  // namespace

void build_grid(NetworkSpec& spec, std::span<const std::int32_t> shape, bool wraps, std::int32_t concentration,
                std::span<const std::int32_t> link_latency, std::int32_t link_buffer_flits) {
  const auto dimensions = static_cast<std::int32_t>(shape.size());
  spec.routers = 1;
  for (const std::int32_t k : shape) spec.routers *= k;
  spec.ports = 2 * dimensions + concentration;
  spec.routing.shape.assign(shape.begin(), shape.end());
  std::int32_t stride = 1;
  for (std::int32_t d = 0; d < dimensions; ++d) {
    const std::int32_t k = shape[static_cast<std::size_t>(d)];
    const LinkShape link{link_latency[static_cast<std::size_t>(d)], link_buffer_flits};
    for (std::int32_t r = 0; r < spec.routers && k > 1; ++r) {
      const bool last = r / stride % k + 1 == k;
      if (last && !wraps) continue;
      link_both_ways(spec, r, 2 * d, last ? r - (k - 1) * stride : r + stride, 2 * d + 1, link);
    }
    stride *= k;
  }
  for (std::int32_t r = 0; r < spec.routers; ++r) {
    for (std::int32_t c = 0; c < concentration; ++c) spec.terminals.push_back({r, 2 * dimensions + c});
  }
}

void build_mesh(NetworkSpec& spec, std::span<const std::int32_t> shape, std::int32_t concentration,
                std::span<const std::int32_t> link_latency, std::int32_t link_buffer_flits) {
  build_grid(spec, shape, false, concentration, link_latency, link_buffer_flits);
  spec.routes = dimension_order_routes(spec);
}

void build_fat_tree(NetworkSpec& spec, std::int32_t k, std::int32_t n, LinkShape link) {
  const std::int32_t width = power(k, n - 1);
  spec.routers = n * width;
  spec.ports = n > 1 ? 2 * k : k;
  for (std::int32_t r = 0; r < spec.routers; ++r) spec.routing.level.push_back(n - 1 - r / width);
  for (std::int32_t level = 0; level + 1 < n; ++level) {
    const std::int32_t neighbourhood = power(k, n - 1 - level);
    const std::int32_t branch = neighbourhood / k;
    for (std::int32_t pos = 0; pos < width; ++pos) {
      const std::int32_t first = pos / neighbourhood * neighbourhood;
      const std::int32_t within = pos % neighbourhood;
      for (std::int32_t port = 0; port < k; ++port) {
        const std::int32_t below = first + port * branch + within % branch;
        link_both_ways(spec, level * width + pos, port, (level + 1) * width + below, k + within / branch, link);
      }
    }
  }
  for (std::int32_t t = 0; t < width * k; ++t) spec.terminals.push_back({(n - 1) * width + t / k, t % k});
}

void build_pod_fat_tree(NetworkSpec& spec, const PodFatTree& tree) {
  const std::int32_t leaves = tree.pods * tree.leaves;
  const std::int32_t aggregations = tree.pods * tree.aggregations;
  spec.routers = leaves + aggregations + tree.cores;
  spec.ports = std::max({tree.terminals + tree.aggregations * tree.leaf_links,
                         tree.leaves * tree.leaf_links + tree.cores * tree.core_links, aggregations * tree.core_links});
  spec.routing.level.assign(static_cast<std::size_t>(leaves), 0);
  spec.routing.level.resize(static_cast<std::size_t>(leaves + aggregations), 1);
  spec.routing.level.resize(static_cast<std::size_t>(spec.routers), 2);
  for (std::int32_t a = 0; a < aggregations; ++a) {
    const std::int32_t pod = a / tree.aggregations;
    const std::int32_t router = leaves + a;
    for (std::int32_t l = 0; l < tree.leaves; ++l) {
      for (std::int32_t i = 0; i < tree.leaf_links; ++i) {
        const std::int32_t up = tree.terminals + a % tree.aggregations * tree.leaf_links + i;
        link_both_ways(spec, pod * tree.leaves + l, up, router, l * tree.leaf_links + i, tree.leaf);
      }
    }
    for (std::int32_t c = 0; c < tree.cores; ++c) {
      for (std::int32_t i = 0; i < tree.core_links; ++i) {
        const std::int32_t up = tree.leaves * tree.leaf_links + c * tree.core_links + i;
        link_both_ways(spec, router, up, leaves + aggregations + c, a * tree.core_links + i, tree.core);
      }
    }
  }
  for (std::int32_t t = 0; t < leaves * tree.terminals; ++t) {
    spec.terminals.push_back({t / tree.terminals, t % tree.terminals});
  }
}

void build_crossbar(NetworkSpec& spec, std::int32_t terminals) {
  spec.routers = 1;
  spec.ports = terminals;
  for (std::int32_t t = 0; t < terminals; ++t) spec.terminals.push_back({0, t});
}

void build_fully_connected(NetworkSpec& spec, std::int32_t routers, std::int32_t concentration, LinkShape link) {
  spec.routers = routers;
  spec.ports = routers - 1 + concentration;
  for (std::int32_t a = 0; a < routers; ++a) {
    for (std::int32_t b = a + 1; b < routers; ++b) link_both_ways(spec, a, b - 1, b, a, link);
  }
  for (std::int32_t r = 0; r < routers; ++r) {
    for (std::int32_t c = 0; c < concentration; ++c) spec.terminals.push_back({r, routers - 1 + c});
  }
}

}  // namespace cosim::noc
