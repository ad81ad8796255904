#include "noc/topology.hpp"

#include <algorithm>

namespace cosim::noc {

namespace {

std::vector<std::int32_t> coordinates(std::int32_t router, std::span<const std::int32_t> shape) {
  std::vector<std::int32_t> at(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    at[d] = router % shape[d];
    router /= shape[d];
  }
  return at;
}

}  // namespace

void build_mesh(NetworkSpec& spec, std::span<const std::int32_t> shape, std::int32_t concentration,
                std::span<const std::int32_t> link_latency, std::int32_t link_buffer_flits) {
  const auto dimensions = static_cast<std::int32_t>(shape.size());
  spec.routers = 1;
  for (const std::int32_t k : shape) spec.routers *= k;
  spec.ports = 2 * dimensions + concentration;
  std::int32_t stride = 1;
  for (std::int32_t d = 0; d < dimensions; ++d) {
    const std::int32_t k = shape[static_cast<std::size_t>(d)];
    const std::int32_t latency = link_latency[static_cast<std::size_t>(d)];
    for (std::int32_t r = 0; r < spec.routers; ++r) {
      if (r / stride % k + 1 == k) continue;
      const std::int32_t next = r + stride;
      spec.links.push_back({r, 2 * d, next, 2 * d + 1, latency, link_buffer_flits});
      spec.links.push_back({next, 2 * d + 1, r, 2 * d, latency, link_buffer_flits});
    }
    stride *= k;
  }
  for (std::int32_t r = 0; r < spec.routers; ++r) {
    for (std::int32_t c = 0; c < concentration; ++c) spec.terminals.push_back({r, 2 * dimensions + c});
  }
  spec.routes.vc_sets = {~0U};
  spec.routes.entries.resize(static_cast<std::size_t>(spec.routers) * spec.terminals.size());
  std::size_t entry = 0;
  for (std::int32_t r = 0; r < spec.routers; ++r) {
    const std::vector<std::int32_t> here = coordinates(r, shape);
    for (std::int32_t dest = 0; dest < spec.routers; ++dest) {
      const std::vector<std::int32_t> there = coordinates(dest, shape);
      std::int32_t port = -1;
      for (std::int32_t d = 0; d < dimensions && port < 0; ++d) {
        const auto i = static_cast<std::size_t>(d);
        if (here[i] != there[i]) port = 2 * d + (there[i] < here[i] ? 1 : 0);
      }
      for (std::int32_t c = 0; c < concentration; ++c) {
        spec.routes.entries[entry++] = static_cast<std::uint16_t>(port >= 0 ? port : 2 * dimensions + c);
      }
    }
  }
}

}  // namespace cosim::noc
