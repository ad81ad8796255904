#include "noc/route_tables.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "noc/bits.hpp"

namespace cosim::noc {

namespace {

constexpr std::int32_t kFar = std::numeric_limits<std::int32_t>::max() / 2;

using Adjacency = std::vector<std::vector<std::size_t>>;  // link indices by router

Adjacency links_from(const NetworkSpec& spec) {
  Adjacency out(as_size(spec.routers));
  for (std::size_t i = 0; i < spec.links.size(); ++i) out[as_size(spec.links[i].from_router)].push_back(i);
  return out;
}

Adjacency links_into(const NetworkSpec& spec) {
  Adjacency in(as_size(spec.routers));
  for (std::size_t i = 0; i < spec.links.size(); ++i) in[as_size(spec.links[i].to_router)].push_back(i);
  return in;
}

// Links on the shortest way from every router to `to`, over links that `usable` admits.
template <class Usable>
std::vector<std::int32_t> distances_to(const NetworkSpec& spec, const Adjacency& into, std::int32_t to, Usable usable) {
  std::vector<std::int32_t> distance(as_size(spec.routers), kFar);
  std::vector<std::int32_t> queue = {to};
  distance[as_size(to)] = 0;
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const std::int32_t router = queue[next];
    for (const std::size_t i : into[as_size(router)]) {
      const std::int32_t from = spec.links[i].from_router;
      if (distance[as_size(from)] != kFar || !usable(spec.links[i])) continue;
      distance[as_size(from)] = distance[as_size(router)] + 1;
      queue.push_back(from);
    }
  }
  return distance;
}

[[noreturn]] void unreachable(std::int32_t router, std::size_t node, const char* how) {
  throw std::invalid_argument("router " + std::to_string(router) + " does not reach node " + std::to_string(node) +
                              how);
}

// Channel dependencies of one layer.
class Layer {
 public:
  explicit Layer(std::size_t items) : edges_(items) {}
  // Adds edges; false, and nothing added, when a cycle would appear.
  bool add(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& added) {
    for (const auto& [from, to] : added) edges_[from].push_back(to);
    if (!cyclic()) return true;
    for (auto edge = added.rbegin(); edge != added.rend(); ++edge) edges_[edge->first].pop_back();
    return false;
  }

 private:
  [[nodiscard]] bool cyclic() const {
    std::vector<std::uint32_t> entering(edges_.size(), 0);
    for (const auto& out : edges_) {
      for (const std::uint32_t to : out) ++entering[to];
    }
    std::vector<std::uint32_t> free;
    for (std::uint32_t i = 0; i < edges_.size(); ++i) {
      if (entering[i] == 0) free.push_back(i);
    }
    for (std::size_t next = 0; next < free.size(); ++next) {
      for (const std::uint32_t to : edges_[free[next]]) {
        if (--entering[to] == 0) free.push_back(to);
      }
    }
    return free.size() != edges_.size();
  }
  std::vector<std::vector<std::uint32_t>> edges_;
};

}  // namespace

RouteTable dimension_order_routes(const NetworkSpec& spec) {
  const std::vector<std::int32_t>& shape = spec.routing.shape;
  RouteTable table{{}, {~0U}};
  table.entries.reserve(as_size(spec.routers) * spec.terminals.size());
  for (std::int32_t r = 0; r < spec.routers; ++r) {
    for (const TerminalSpec& node : spec.terminals) {
      std::int32_t here = r;
      std::int32_t there = node.router;
      std::int32_t port = node.port;
      for (std::size_t d = 0; d < shape.size() && here != there; ++d) {
        const std::int32_t k = shape[d];
        if (here % k != there % k) {
          port = 2 * static_cast<std::int32_t>(d) + (there % k < here % k ? 1 : 0);
          break;
        }
        here /= k;
        there /= k;
      }
      table.entries.push_back(static_cast<std::uint16_t>(port));
    }
  }
  return table;
}

RouteTable up_down_routes(const NetworkSpec& spec, std::int32_t root) {
  const Adjacency from = links_from(spec);
  const Adjacency into = links_into(spec);
  std::vector<std::int32_t> depth = distances_to(spec, into, root, [](const LinkSpec&) { return true; });
  if (spec.routing.level.size() == depth.size()) {  // a tree says itself what is up
    for (std::size_t r = 0; r < depth.size(); ++r) depth[r] = -spec.routing.level[r];
  }
  const auto up = [&](const LinkSpec& l) {
    return std::pair(depth[as_size(l.to_router)], l.to_router) <
           std::pair(depth[as_size(l.from_router)], l.from_router);
  };
  RouteTable table{{}, {~0U}};
  table.entries.resize(as_size(spec.routers) * spec.terminals.size());
  std::vector<std::int32_t> order(
      as_size(spec.routers));  // towards the root: every upward link leads to an earlier one
  for (std::int32_t r = 0; r < spec.routers; ++r) order[as_size(r)] = r;
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return std::pair(depth[as_size(a)], a) < std::pair(depth[as_size(b)], b);
  });
  for (std::size_t node = 0; node < spec.terminals.size(); ++node) {
    const TerminalSpec& home = spec.terminals[node];
    const std::vector<std::int32_t> down =
        distances_to(spec, into, home.router, [&](const LinkSpec& l) { return !up(l); });
    std::vector<std::int32_t> whole = down;
    for (const std::int32_t r : order) {
      const bool descends = down[as_size(r)] != kFar;
      std::vector<std::int32_t> ports;
      std::int32_t best = kFar;
      for (const std::size_t i : from[as_size(r)]) {
        const LinkSpec& l = spec.links[i];
        if (up(l) == descends) continue;
        const std::int32_t rest = descends ? down[as_size(l.to_router)] : whole[as_size(l.to_router)];
        if (rest < best) ports.clear();
        best = std::min(best, rest);
        if (rest == best && rest != kFar) ports.push_back(l.from_port);
      }
      if (r == home.router) {
        ports = {home.port};
      } else if (ports.empty()) {
        unreachable(r, node, " by up*/down* routes");
      } else if (!descends) {
        whole[as_size(r)] = best + 1;
      }
      table.entries[as_size(r) * spec.terminals.size() + node] = static_cast<std::uint16_t>(ports[node % ports.size()]);
    }
  }
  return table;
}

RouteTable layered_shortest_routes(const NetworkSpec& spec) {
  const Adjacency from = links_from(spec);
  const Adjacency into = links_into(spec);
  RouteTable table;
  table.entries.resize(as_size(spec.routers) * spec.terminals.size());
  std::vector<Layer> layers;
  std::vector<std::size_t> layer_of(spec.terminals.size());
  for (std::size_t node = 0; node < spec.terminals.size(); ++node) {
    const TerminalSpec& home = spec.terminals[node];
    const std::vector<std::int32_t> distance =
        distances_to(spec, into, home.router, [](const LinkSpec&) { return true; });
    std::vector<std::uint32_t> taken(as_size(spec.routers), ~0U);
    for (std::int32_t r = 0; r < spec.routers; ++r) {
      std::uint16_t& entry = table.entries[as_size(r) * spec.terminals.size() + node];
      entry = static_cast<std::uint16_t>(home.port);
      if (r == home.router) continue;
      if (distance[as_size(r)] == kFar) unreachable(r, node, "");
      std::vector<std::size_t> nearer;
      for (const std::size_t i : from[as_size(r)]) {
        if (distance[as_size(spec.links[i].to_router)] + 1 == distance[as_size(r)]) nearer.push_back(i);
      }
      const std::size_t link = nearer[node % nearer.size()];
      taken[as_size(r)] = static_cast<std::uint32_t>(link);
      entry = static_cast<std::uint16_t>(spec.links[link].from_port);
    }
    std::vector<std::pair<std::uint32_t, std::uint32_t>> dependencies;
    for (const std::uint32_t link : taken) {
      const std::uint32_t following = link == ~0U ? ~0U : taken[as_size(spec.links[link].to_router)];
      if (following != ~0U) dependencies.emplace_back(link, following);
    }
    std::size_t layer = 0;
    while (layer < layers.size() && !layers[layer].add(dependencies)) ++layer;
    if (layer == layers.size()) {
      layers.emplace_back(spec.links.size());
      layers.back().add(dependencies);
    }
    layer_of[node] = layer;
  }
  std::vector<std::uint32_t> sets(std::max<std::size_t>(layers.size(), 1), 0);
  std::vector<std::uint32_t> classes;
  for (const ClassSpec& c : spec.classes) {
    if (!c.session) classes.push_back(c.vc_mask);
  }
  if (classes.empty()) classes.push_back(spec.num_vcs >= 32 ? ~0U : (1U << as_u32(spec.num_vcs)) - 1);
  for (const std::uint32_t mask : classes) {
    std::size_t turn = 0;
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) sets[turn++ % sets.size()] |= rest & -rest;
    if (turn < sets.size()) {
      throw std::invalid_argument("shortest ways of this graph need " + std::to_string(sets.size()) +
                                  " layers, a VC of every message class each; a class has " + std::to_string(turn));
    }
  }
  table.vc_sets = sets;
  for (std::size_t e = 0; e < table.entries.size(); ++e) {
    const std::size_t node = e % spec.terminals.size();
    const bool home = spec.terminals[node].router == static_cast<std::int32_t>(e / spec.terminals.size());
    if (!home) table.entries[e] = static_cast<std::uint16_t>(table.entries[e] | layer_of[node] << 8U);
  }
  // an ejection may use every VC
  table.vc_sets.push_back(~0U);
  for (std::size_t node = 0; node < spec.terminals.size(); ++node) {
    std::uint16_t& entry = table.entries[as_size(spec.terminals[node].router) * spec.terminals.size() + node];
    entry = static_cast<std::uint16_t>(entry | (table.vc_sets.size() - 1) << 8U);
  }
  return table;
}

}  // namespace cosim::noc
