// Which links a session takes: the shortest ways from its source to every node of its set.
#include <algorithm>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "noc/bits.hpp"
#include "noc/sessions.hpp"

namespace cosim::noc {

SessionTrees::SessionTrees(const NetworkSpec& spec)
    : spec_(spec.sessions),
      ports_(as_size(spec.ports)),
      links_(as_size(spec.routers) * as_size(spec.ports)),
      terminals_(spec.terminals.size()),
      edges_(links_) {
  for (const LinkSpec& link : spec.links) {
    edges_[as_size(link.from_router) * ports_ + as_size(link.from_port)] = {link.to_router, link.latency};
  }
  for (const TerminalSpec& terminal : spec.terminals) router_of_.push_back(terminal.router);
}

// Dijkstra's algorithm; of ways of equal latency the one that was found first stays.
std::vector<SessionTrees::Way> SessionTrees::ways_from(std::int32_t router) const {
  std::vector<Way> ways(links_ / ports_);
  using Entry = std::tuple<std::int64_t, std::int64_t, std::int32_t>;  // latency, order of finding, router
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  std::vector<char> settled(ways.size(), 0);
  std::int64_t found = 0;
  ways[as_size(router)] = {0, 1, 0, -1};
  open.emplace(0, found++, router);
  while (!open.empty()) {
    const auto [latency, order, r] = open.top();
    open.pop();
    if (std::exchange(settled[as_size(r)], 1) != 0) continue;
    for (std::size_t p = 0; p < ports_; ++p) {
      const std::size_t link = as_size(r) * ports_ + p;
      const Edge& edge = edges_[link];
      if (edge.to < 0) continue;
      Way& way = ways[as_size(edge.to)];
      if (way.latency >= 0 && way.latency <= latency + edge.latency) continue;
      way = {latency + edge.latency, ways[as_size(r)].hops + 1, static_cast<std::uint32_t>(link), r};
      open.emplace(way.latency, found++, edge.to);
    }
  }
  return ways;
}

std::uint32_t SessionTrees::tree(std::int32_t source, std::vector<std::int32_t> dests) {
  const auto nodes = static_cast<std::int32_t>(terminals_);
  const auto known = [&](std::int32_t node) { return node >= 0 && node < nodes; };
  if (dests.empty()) throw std::invalid_argument("a session needs at least one destination");
  if (!known(source) || !std::all_of(dests.begin(), dests.end(), known)) {
    throw std::invalid_argument("a session names a node outside 0.." + std::to_string(nodes - 1));
  }
  std::sort(dests.begin(), dests.end());
  const auto twice = std::adjacent_find(dests.begin(), dests.end());
  if (twice != dests.end()) {
    throw std::invalid_argument("a session names node " + std::to_string(*twice) + " twice");
  }
  // -1: the tree comes before source and nodes, 1: behind, 0: it is theirs
  const auto compare = [&](const SessionTree& tree) {
    if (tree.source != source) return tree.source < source ? -1 : 1;
    const std::size_t common = std::min<std::size_t>(tree.stops, dests.size());
    for (std::size_t i = 0; i < common; ++i) {
      const std::int32_t dest = stops_[tree.first_stop + i].dest;
      if (dest != dests[i]) return dest < dests[i] ? -1 : 1;
    }
    if (tree.stops == dests.size()) return 0;
    return tree.stops < dests.size() ? -1 : 1;
  };
  const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), 0,
                                   [&](std::uint32_t number, int) { return compare(trees_[number]) < 0; });
  if (at != sorted_.end() && compare(trees_[*at]) == 0) return *at;

  const std::vector<Way> ways = ways_from(router_of_[as_size(source)]);
  SessionTree tree;
  tree.source = source;
  tree.first_resource = static_cast<std::uint32_t>(resources_.size());
  tree.first_stop = static_cast<std::uint32_t>(stops_.size());
  tree.stops = static_cast<std::uint32_t>(dests.size());
  std::vector<std::uint32_t> links;
  for (const std::int32_t dest : dests) {
    const std::int32_t router = router_of_[as_size(dest)];
    if (ways[as_size(router)].latency < 0) {
      stops_.resize(tree.first_stop);
      throw std::invalid_argument("no way leads from node " + std::to_string(source) + " to node " +
                                  std::to_string(dest));
    }
    const Way& way = ways[as_size(router)];
    stops_.push_back({dest, way.hops, static_cast<std::int32_t>(way.latency), 0});
    tree.reach_cycles =
        std::max(tree.reach_cycles, std::int64_t{way.hops} * spec_.segment_delay + way.latency + kTerminalCycles);
    for (std::int32_t r = router; ways[as_size(r)].from >= 0; r = ways[as_size(r)].from) {
      links.push_back(ways[as_size(r)].link);
    }
  }
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  tree.links = static_cast<std::uint32_t>(links.size());
  resources_.insert(resources_.end(), links.begin(), links.end());
  resources_.push_back(static_cast<std::uint32_t>(links_ + as_size(source)));
  for (const std::int32_t dest : dests) {
    resources_.push_back(static_cast<std::uint32_t>(links_ + terminals_ + as_size(dest)));
  }
  tree.resources = static_cast<std::uint32_t>(resources_.size()) - tree.first_resource;
  const auto number = static_cast<std::uint32_t>(trees_.size());
  sorted_.insert(at, number);
  trees_.push_back(tree);
  return number;
}

std::int64_t SessionTrees::room(std::uint32_t number) const {
  const std::int64_t rest = spec_.max_session_cycles - spec_.setup_cycles - spec_.teardown_cycles;
  return std::max<std::int64_t>(rest - trees_[number].reach_cycles + 1, 0);
}

std::vector<std::pair<std::int32_t, std::int32_t>> SessionTrees::links_of(std::uint32_t number) const {
  std::vector<std::pair<std::int32_t, std::int32_t>> found;
  const SessionTree& tree = trees_[number];
  for (std::uint32_t i = 0; i < tree.links; ++i) {
    const std::size_t link = resources_[tree.first_resource + i];
    found.emplace_back(static_cast<std::int32_t>(link / ports_), static_cast<std::int32_t>(link % ports_));
  }
  return found;
}

std::size_t SessionTrees::core_bytes() const {
  const auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return sizeof(*this) + bytes(edges_) + bytes(router_of_) + bytes(trees_) + bytes(resources_) + bytes(stops_) +
         bytes(sorted_);
}

void SessionTrees::visit(sim::Visitor& v) {
  using sim::Kind;
  v.vector(Kind::state, trees_);
  v.vector(Kind::state, resources_);
  v.vector(Kind::state, stops_);
  v.vector(Kind::state, sorted_);
}

}  // namespace cosim::noc
