#include "noc/multicast.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "noc/bits.hpp"

namespace cosim::noc {

MulticastTrees::MulticastTrees(const NetworkSpec& spec)
    : ports_(as_size(spec.ports)),
      terminals_(spec.terminals.size()),
      source_buffer_(spec.vc_buf_size),
      ways_(as_size(spec.routers) * as_size(spec.ports)),
      routes_(spec.routes) {
  for (const LinkSpec& link : spec.links) {
    ways_[as_size(link.from_router) * ports_ + as_size(link.from_port)] = {link.to_router, link.buffer_flits};
  }
  for (const TerminalSpec& terminal : spec.terminals) router_of_.push_back(terminal.router);
}

int MulticastTrees::compare(const MulticastGroup& group, std::int32_t source,
                            const std::vector<std::int32_t>& dests) const {
  if (group.source != source) return group.source < source ? -1 : 1;
  const std::size_t common = std::min<std::size_t>(group.dests, dests.size());
  for (std::size_t i = 0; i < common; ++i) {
    const std::int32_t dest = dests_[group.first_dest + i];
    if (dest != dests[i]) return dest < dests[i] ? -1 : 1;
  }
  if (group.dests == dests.size()) return 0;
  return group.dests < dests.size() ? -1 : 1;
}

std::uint32_t MulticastTrees::group(std::int32_t source, std::vector<std::int32_t> dests) {
  const auto nodes = static_cast<std::int32_t>(terminals_);
  const auto known = [&](std::int32_t node) { return node >= 0 && node < nodes; };
  if (dests.empty()) throw std::invalid_argument("a multicast needs at least one destination");
  if (!known(source) || !std::all_of(dests.begin(), dests.end(), known)) {
    throw std::invalid_argument("a multicast names a node outside 0.." + std::to_string(nodes - 1));
  }
  std::sort(dests.begin(), dests.end());
  const auto twice = std::adjacent_find(dests.begin(), dests.end());
  if (twice != dests.end()) {
    throw std::invalid_argument("a multicast names node " + std::to_string(*twice) + " twice");
  }
  const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), 0, [&](std::uint32_t number, int) {
    return compare(groups_[number], source, dests) < 0;
  });
  if (at != sorted_.end() && compare(groups_[*at], source, dests) == 0) return *at;

  const std::size_t nodes_before = nodes_.size();
  const std::size_t branches_before = branches_.size();
  MulticastGroup group;
  group.source = source;
  const auto number = static_cast<std::uint32_t>(groups_.size());
  try {
    grow(group, number, dests);
  } catch (const std::invalid_argument&) {
    nodes_.resize(nodes_before);
    branches_.resize(branches_before);
    throw;
  }
  group.first_dest = static_cast<std::uint32_t>(dests_.size());
  group.dests = static_cast<std::uint32_t>(dests.size());
  dests_.insert(dests_.end(), dests.begin(), dests.end());
  sorted_.insert(at, number);
  groups_.push_back(group);
  return number;
}

// Routers are taken breadth first; one that is reached twice closes a circle.
void MulticastTrees::grow(MulticastGroup& group, std::uint32_t number, const std::vector<std::int32_t>& dests) {
  std::vector<char> reached(ways_.size() / ports_, 0);
  std::vector<std::vector<std::int32_t>> below;  // destinations, per new node
  const auto add = [&](std::int32_t router, std::vector<std::int32_t> nodes) {
    if (reached[as_size(router)] != 0) {
      throw std::invalid_argument("the routes of node " + std::to_string(group.source) +
                                  " to the destinations are no tree: the one to node " + std::to_string(nodes[0]) +
                                  " comes to router " + std::to_string(router) + " by a second way");
    }
    reached[as_size(router)] = 1;
    nodes_.push_back({0, 0, number, as_u32(router)});
    below.push_back(std::move(nodes));
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  };
  group.root = add(router_of_[as_size(group.source)], dests);
  group.room = source_buffer_;
  for (std::size_t i = 0; i < below.size(); ++i) {
    const std::size_t node = group.root + i;
    const std::size_t router = nodes_[node].router;
    std::vector<std::pair<std::uint16_t, std::int32_t>> ways;
    for (const std::int32_t dest : below[i])
      ways.emplace_back(routes_.entries[router * terminals_ + as_size(dest)], dest);
    std::sort(ways.begin(), ways.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first & 255, a.second) < std::pair(b.first & 255, b.second);
    });
    const std::size_t first = branches_.size();
    std::vector<std::vector<std::int32_t>> parts;
    for (std::size_t w = 0; w < ways.size(); ++w) {
      const std::uint32_t port = ways[w].first & 255U;
      if (w == 0 || port != branches_.back().port) {
        branches_.push_back({port, routes_.vc_sets[ways[w].first >> 8U], MulticastBranch::kEjects, ways[w].second});
        parts.emplace_back();
      } else if (ways[w].first != ways[w - 1].first) {
        throw std::invalid_argument("the routes of node " + std::to_string(group.source) + " to nodes " +
                                    std::to_string(ways[w - 1].second) + " and " + std::to_string(ways[w].second) +
                                    " share a link of router " + std::to_string(router) + " but not its VCs");
      }
      parts.back().push_back(ways[w].second);
    }
    nodes_[node].first = static_cast<std::uint32_t>(first);
    nodes_[node].count = static_cast<std::uint32_t>(parts.size());
    if (parts.size() > 1) group.copies += static_cast<std::uint32_t>(parts.size());
    for (std::size_t b = 0; b < parts.size(); ++b) {
      const Way& way = ways_[router * ports_ + branches_[first + b].port];
      if (way.router < 0) continue;
      group.room = std::min(group.room, way.buffer);
      branches_[first + b].node = add(way.router, std::move(parts[b]));
      branches_[first + b].dest = -1;
    }
  }
}

std::size_t MulticastTrees::core_bytes() const {
  const auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return sizeof(*this) + bytes(ways_) + bytes(router_of_) + bytes(routes_.entries) + bytes(routes_.vc_sets) +
         bytes(groups_) + bytes(sorted_) + bytes(nodes_) + bytes(branches_) + bytes(dests_);
}

void MulticastTrees::visit(sim::Visitor& v) {
  using sim::Kind;
  v.vector(Kind::state, groups_);
  v.vector(Kind::state, sorted_);
  v.vector(Kind::state, nodes_);
  v.vector(Kind::state, branches_);
  v.vector(Kind::state, dests_);
}

}  // namespace cosim::noc
