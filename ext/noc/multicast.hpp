// Multicast trees: the union of the table's routes from a source to a set of nodes, when that is a tree.
//
// A packet that forks keeps its buffer slots until every branch has sent them, and a VC that feeds a branch holds at
// least the whole packet (virtual cut-through). So no branch waits for another one of its packet: the only waits are
// those of a unicast packet to each destination, from a channel to the next of its route, and a table without a cycle
// of channel dependencies stays free of deadlock with any trees taken from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "noc/spec.hpp"
#include "sim/visit.hpp"

namespace cosim::noc {

// A way out of a router: to a node (`dest`), or to a router further down (`node`).
struct MulticastBranch {
  static constexpr std::uint32_t kEjects = ~0U;
  std::uint32_t port = 0;
  std::uint32_t vcs = 0;  // that the route may use
  std::uint32_t node = kEjects;
  std::int32_t dest = -1;
};

// A router of a tree.
struct MulticastNode {
  std::uint32_t first = 0;  // branch, ascending in ports
  std::uint32_t count = 0;
  std::uint32_t group = 0;
  std::uint32_t router = 0;
};

// A source with a set of destinations.
struct MulticastGroup {
  std::int32_t source = 0;
  std::uint32_t root = 0;        // node
  std::uint32_t first_dest = 0;  // ascending
  std::uint32_t dests = 0;
  std::uint32_t copies = 0;  // branches of the nodes that fork
  std::int32_t room = 0;     // flits of the smallest VC on the tree: the largest packet
};

class MulticastTrees {
 public:
  explicit MulticastTrees(const NetworkSpec& spec);

  // The tree's number; trees are kept. Throws std::invalid_argument with the reason when there is none.
  std::uint32_t group(std::int32_t source, std::vector<std::int32_t> dests);

  [[nodiscard]] const std::vector<MulticastGroup>& groups() const { return groups_; }
  [[nodiscard]] const MulticastNode& node(std::uint32_t number) const { return nodes_[number]; }
  [[nodiscard]] const MulticastBranch& branch(std::uint32_t number) const { return branches_[number]; }
  [[nodiscard]] std::int32_t dest(std::uint32_t number) const { return dests_[number]; }

  [[nodiscard]] std::size_t core_bytes() const;
  void visit(sim::Visitor& v);

 private:
  struct Way {
    std::int32_t router = -1;  // behind the link, -1 at an ejection port
    std::int32_t buffer = 0;   // flits of the VCs behind the link
  };

  [[nodiscard]] int compare(const MulticastGroup& group, std::int32_t source,
                            const std::vector<std::int32_t>& dests) const;
  void grow(MulticastGroup& group, std::uint32_t number, const std::vector<std::int32_t>& dests);

  // of the network, never changed
  std::size_t ports_ = 0;
  std::size_t terminals_ = 0;
  std::int32_t source_buffer_ = 0;
  std::vector<Way> ways_;  // [router * ports + port]
  std::vector<std::int32_t> router_of_;
  RouteTable routes_;

  std::vector<MulticastGroup> groups_;
  std::vector<std::uint32_t> sorted_;  // groups by source and destinations
  std::vector<MulticastNode> nodes_;
  std::vector<MulticastBranch> branches_;
  std::vector<std::int32_t> dests_;
};

}  // namespace cosim::noc
