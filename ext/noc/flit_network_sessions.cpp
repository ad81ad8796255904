// Sessions beside packets: which packets wait at their source, and when a session's links are empty.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "noc/flit_network_inline.hpp"

namespace cosim::noc {

void FlitNetwork::build_sessions(const NetworkSpec& spec) {
  sessions_ = std::make_unique<Sessions>(spec);
  forks_.resize(input_vcs());  // the cycle of networks whose packets fork
  router_behind_.assign(as_size(spec.routers) * as_size(spec.ports), -1);
  for (const LinkSpec& link : spec.links) {
    router_behind_[as_size(link.from_router) * as_size(spec.ports) + as_size(link.from_port)] = link.to_router;
  }
  is_held_.resize(queues_.size());
}

std::int32_t FlitNetwork::session_group(std::int32_t source, const std::vector<std::int32_t>& dests) {
  if (sessions_ == nullptr) throw std::invalid_argument("the network has no session class");
  const std::uint32_t tree = sessions_->trees().tree(source, dests);
  if (sessions_->trees().room(tree) < 1) {
    throw std::invalid_argument("max_session_cycles " + std::to_string(spec_.sessions.max_session_cycles) +
                                " leaves no cycle for a flit: set-up " + std::to_string(spec_.sessions.setup_cycles) +
                                ", way " + std::to_string(sessions_->trees().at(tree).reach_cycles) + ", tear-down " +
                                std::to_string(spec_.sessions.teardown_cycles));
  }
  return static_cast<std::int32_t>(tree);
}

void FlitNetwork::refuse_session(const PacketIn& packet) const {
  const auto fail = [](const std::string& text) { throw std::invalid_argument("offered packet: " + text); };
  const SessionTrees& trees = sessions_->trees();
  if (packet.group < 0 || as_size(packet.group) >= trees.count()) {
    fail("message class " + std::to_string(packet.message_class) + " is a session class: a session group expected");
  }
  const auto group = as_u32(packet.group);
  if (trees.at(group).source != packet.source) {
    fail("session group " + std::to_string(group) + " is one of node " + std::to_string(trees.at(group).source));
  }
  if (packet.size_flits < 1) fail("size_flits must be at least 1, got " + std::to_string(packet.size_flits));
  if (packet.size_flits > trees.room(group)) {
    fail("a packet of " + std::to_string(packet.size_flits) + " flits does not fit max_session_cycles " +
         std::to_string(spec_.sessions.max_session_cycles) + ", which leaves " + std::to_string(trees.room(group)));
  }
  if (packet.held_flits != 0) fail("a session sends packets that are wholly there");
  if (packet.create_cycle <= cycle_) {
    fail("create_cycle " + std::to_string(packet.create_cycle) + " is not after the last step (cycle " +
         std::to_string(cycle_) + ")");
  }
}

std::uint32_t FlitNetwork::offer_session(const PacketIn& packet) {
  refuse_session(packet);
  sessions_->offer(packet);
  return kNoPacket;
}

// Sources whose first packet was held may try again when links have returned.
void FlitNetwork::step_sessions(std::int64_t cycle) {
  if (!sessions_->step(cycle, arrivals_, departures_, session_waits_, refusals_)) return;
  for (const HeldQueue& held : held_) {
    session_waits_.push_back({packets_[queues_[held.queue].first].tag, cycle - held.since});
    is_held_[held.queue] = 0;
    activate(held.queue / num_classes_);
  }
  held_.clear();
}

// Calls visit(link) for every link [router * ports + port] on the way of a packet that has not left, until it is true.
template <class Visit>
bool FlitNetwork::any_link_of(const Packet& packet, Visit visit) const {
  const std::size_t ports = as_size(spec_.ports);
  if (packet.route_state == 0) {
    std::int32_t router = spec_.terminals[as_size(packet.source)].router;
    while (true) {
      const std::size_t link =
          as_size(router) * ports + (routes_[as_size(router) * nodes_ + as_size(packet.dest)] & 255U);
      router = router_behind_[link];
      if (router < 0) return false;
      if (visit(link)) return true;
    }
  }
  // nodes of a tree follow each other, breadth first
  std::uint32_t last = packet.route_state - 1;
  for (std::uint32_t number = last; number <= last; ++number) {
    const MulticastNode& node = trees_->node(number);
    for (std::uint32_t i = 0; i < node.count; ++i) {
      const MulticastBranch& branch = trees_->branch(node.first + i);
      if (branch.node == MulticastBranch::kEjects) continue;
      last = std::max(last, branch.node);
      if (visit(node.router * ports + branch.port)) return true;
    }
  }
  return false;
}

// Whether the first packet of a queue needs a link that a session has; it waits until links return.
bool FlitNetwork::held_by_session(std::uint32_t queue) {
  if (is_held_[queue] != 0) return true;
  const Packet& packet = packets_[queues_[queue].first];
  if (!any_link_of(packet, [&](std::size_t link) { return sessions_->taken(link); })) return false;
  is_held_[queue] = 1;
  held_.push_back({queue, 0, cycle_});
  return true;
}

// A packet leaves its source: sessions wait for it on all of its links.
void FlitNetwork::book_links(const Packet& packet) {
  any_link_of(packet, [&](std::size_t link) {
    sessions_->expect(link);
    return false;
  });
}

}  // namespace cosim::noc
