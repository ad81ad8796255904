#include "noc/routing_nca.hpp"

#include <algorithm>
#include <stdexcept>

#include "noc/bits.hpp"

namespace cosim::noc {

RouteWays nca_ways(const NetworkSpec& spec) {
  const std::size_t terminals = spec.terminals.size();
  const std::vector<std::int32_t>& level = spec.routing.level;
  if (level.size() != as_size(spec.routers)) throw std::invalid_argument("nca needs the levels of a fat tree");
  std::vector<std::vector<const LinkSpec*>> from(level.size());
  for (const LinkSpec& link : spec.links) from[as_size(link.from_router)].push_back(&link);
  for (auto& links : from) {
    std::sort(links.begin(), links.end(),
              [](const LinkSpec* a, const LinkSpec* b) { return a->from_port < b->from_port; });
  }
  std::vector<std::int32_t> rising(level.size());
  for (std::size_t r = 0; r < rising.size(); ++r) rising[r] = static_cast<std::int32_t>(r);
  std::stable_sort(rising.begin(), rising.end(),
                   [&](std::int32_t a, std::int32_t b) { return level[as_size(a)] < level[as_size(b)]; });
  std::vector<std::vector<std::uint8_t>> ways(level.size() * terminals);
  for (std::size_t node = 0; node < terminals; ++node) {
    const TerminalSpec& home = spec.terminals[node];
    std::vector<char> descends(level.size(), 0);
    descends[as_size(home.router)] = 1;
    for (const std::int32_t r : rising) {
      auto& ports = ways[as_size(r) * terminals + node];
      if (r == home.router) ports = {as_u8(as_u32(home.port))};
      for (const LinkSpec* link : from[as_size(r)]) {
        const bool down = level[as_size(link->to_router)] < level[as_size(r)];
        if (r != home.router && down && descends[as_size(link->to_router)] != 0) {
          ports.push_back(as_u8(as_u32(link->from_port)));
          descends[as_size(r)] = 1;
        }
      }
    }
    std::vector<char> reaches = descends;
    for (auto router = rising.rbegin(); router != rising.rend(); ++router) {
      const std::size_t r = as_size(*router);
      if (descends[r] != 0) continue;
      for (const LinkSpec* link : from[r]) {
        const std::size_t to = as_size(link->to_router);
        if (level[to] <= level[r] || reaches[to] == 0) continue;
        ways[r * terminals + node].push_back(as_u8(as_u32(link->from_port)));
        reaches[r] = 1;
      }
    }
  }
  for (const TerminalSpec& source : spec.terminals) {
    for (std::size_t node = 0; node < terminals; ++node) {
      if (!ways[as_size(source.router) * terminals + node].empty()) continue;
      throw std::invalid_argument("router " + std::to_string(source.router) + " does not reach node " +
                                  std::to_string(node) + " by links up and then down");
    }
  }
  RouteWays chosen(level.size(), terminals);
  for (std::size_t r = 0; r < level.size(); ++r) {
    for (std::size_t node = 0; node < terminals; ++node) {
      const std::vector<std::uint8_t>& ports = ways[r * terminals + node];
      if (as_size(spec.terminals[node].router) == r) {
        chosen.eject(r, node, ports[0]);
      } else if (!ports.empty()) {
        chosen.lead(r, node, ports);
      }
    }
  }
  return chosen;
}

}  // namespace cosim::noc
