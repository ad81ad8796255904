// Where the ways of several nodes to one node join.
#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "noc/bits.hpp"
#include "noc/reductions.hpp"

namespace cosim::noc {

ReductionTrees::ReductionTrees(const NetworkSpec& spec)
    : ports_(as_size(spec.ports)),
      terminals_(spec.terminals.size()),
      unit_ports_(as_u32(spec.reduction.ports)),
      behind_(as_size(spec.routers) * ports_, -1),
      routes_(spec.routes) {
  for (const LinkSpec& link : spec.links) {
    behind_[as_size(link.from_router) * ports_ + as_size(link.from_port)] = link.to_router;
  }
  for (const TerminalSpec& terminal : spec.terminals) router_of_.push_back(terminal.router);
}

// Routers from a source's to the destination's.
std::vector<std::uint32_t> ReductionTrees::way_from(std::int32_t source, std::int32_t dest) const {
  std::vector<std::uint32_t> way;
  std::int32_t at = router_of_[as_size(source)];
  while (true) {
    way.push_back(as_u32(at));
    if (at == router_of_[as_size(dest)]) return way;
    at = behind_[as_size(at) * ports_ + (routes_.entries[as_size(at) * terminals_ + as_size(dest)] & 255U)];
    if (at < 0 || way.size() * ports_ > behind_.size()) {
      throw std::invalid_argument("the routes of node " + std::to_string(source) + " never come to node " +
                                  std::to_string(dest));
    }
  }
}

std::uint32_t ReductionTrees::tree(std::int32_t dest, std::vector<std::int32_t> sources) {
  const auto nodes = static_cast<std::int32_t>(terminals_);
  const auto exists = [&](std::int32_t node) { return node >= 0 && node < nodes; };
  if (sources.empty() || !exists(dest) || !std::all_of(sources.begin(), sources.end(), exists)) {
    throw std::invalid_argument("a reduction has a destination and at least one source, nodes of 0.." +
                                std::to_string(nodes - 1));
  }
  std::sort(sources.begin(), sources.end());
  const auto twice = std::adjacent_find(sources.begin(), sources.end());
  if (twice != sources.end()) {
    throw std::invalid_argument("a reduction names node " + std::to_string(*twice) + " twice");
  }
  const auto before = [&](std::uint32_t number, int) {
    const ReductionTree& known = trees_[number];
    if (known.dest != dest) return known.dest < dest;
    const auto first = sources_.begin() + known.first_source;
    return std::lexicographical_compare(first, first + known.sources, sources.begin(), sources.end());
  };
  const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), 0, before);
  if (at != sorted_.end()) {
    const ReductionTree& known = trees_[*at];
    const auto first = sources_.begin() + known.first_source;
    if (known.dest == dest && std::equal(first, first + known.sources, sources.begin(), sources.end())) return *at;
  }

  // every way to the destination goes on alike from where it joins another one
  std::map<std::uint32_t, std::uint32_t> next;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> order;  // (routers still to pass, router)
  for (const std::int32_t source : sources) {
    const std::vector<std::uint32_t> way = way_from(source, dest);
    for (std::size_t i = 0; i < way.size(); ++i) {
      if (!next.emplace(way[i], i + 1 < way.size() ? way[i + 1] : ~0U).second) break;
      order.emplace_back(static_cast<std::uint32_t>(way.size() - i), way[i]);
    }
  }
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });

  ReductionTree tree;
  tree.dest = dest;
  tree.first_source = static_cast<std::uint32_t>(sources_.size());
  tree.sources = static_cast<std::uint32_t>(sources.size());
  tree.first_leg = static_cast<std::uint32_t>(legs_.size());
  tree.first_join = static_cast<std::uint32_t>(joins_.size());
  sources_.insert(sources_.end(), sources.begin(), sources.end());
  legs_.resize(legs_.size() + sources.size());
  std::map<std::uint32_t, std::vector<std::uint32_t>> coming;  // legs into a router: of its nodes, then over links
  for (std::uint32_t i = 0; i < tree.sources; ++i) {
    coming[as_u32(router_of_[as_size(sources[i])])].push_back(i);
  }
  for (const auto& [left, router] : order) {
    std::vector<std::uint32_t>& legs = coming[router];
    std::uint32_t going = legs[0];
    if (legs.size() > 1) {
      const std::uint32_t base = router * unit_ports_;
      const auto number = static_cast<std::uint32_t>(trees_.size());
      for (std::uint32_t i = 0; i < legs.size(); ++i) {
        legs_[tree.first_leg + legs[i]] = {tree.joins, base + i % unit_ports_};
      }
      joins_.push_back({router, static_cast<std::uint32_t>(parts_.size()), static_cast<std::uint32_t>(legs.size()),
                        base + number % unit_ports_});
      parts_.insert(parts_.end(), legs.begin(), legs.end());
      going = tree.sources + tree.joins++;
      legs_.emplace_back();
    }
    if (next[router] != ~0U) coming[next[router]].push_back(going);
  }
  const auto number = static_cast<std::uint32_t>(trees_.size());
  sorted_.insert(at, number);
  trees_.push_back(tree);
  return number;
}

std::size_t ReductionTrees::core_bytes() const {
  const auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return bytes(behind_) + bytes(router_of_) + bytes(routes_.entries) + bytes(routes_.vc_sets) + bytes(trees_) +
         bytes(sorted_) + bytes(sources_) + bytes(legs_) + bytes(joins_) + bytes(parts_);
}

void ReductionTrees::visit(sim::Visitor& v) {
  using sim::Kind;
  v.vector(Kind::state, trees_);
  v.vector(Kind::state, sorted_);
  v.vector(Kind::state, sources_);
  v.vector(Kind::state, legs_);
  v.vector(Kind::state, joins_);
  v.vector(Kind::state, parts_);
}

}  // namespace cosim::noc
