// Packets with several destinations: where they fork, what their branches share, and what is left of them.
#include <bit>
#include <stdexcept>
#include <utility>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "noc/flit_network_inline.hpp"

namespace cosim::noc {

void FlitNetwork::build_multicast(const NetworkSpec& spec) {
  trees_ = std::make_unique<MulticastTrees>(spec);
  for (std::size_t c = 0; c < spec.classes.size(); ++c) {
    if (!spec.classes[c].multicast) continue;
    multicast_classes_ |= std::uint64_t{1} << c;
    multicast_vcs_ |= spec.classes[c].vc_mask;
  }
  branches_.resize(first_id(num_routers_));
  forks_.resize(input_vcs());
  const auto ports = as_u32(spec.ports);
  for (std::uint32_t vc = 0; vc < num_vcs_; ++vc) {
    if ((multicast_vcs_ >> vc & 1U) == 0) continue;
    for (std::uint32_t p = 0; p < ports; ++p) {
      for (std::uint32_t i = 1; i < ports; ++i) {
        const std::uint32_t bit = extra_lane(p, vc, i);
        port_of_[bit] = as_u8(p);
        vc_of_[bit] = as_u8(vc);
        for (std::uint32_t r = 0; r < num_routers_; ++r) {
          InputVc& lane = input(first_id(r) + bit);
          lane.port = as_u8(p);
          lane.vc = as_u8(vc);
        }
      }
    }
  }
}

// The number of the lane of an input VC's branch `i` >= 1.
std::uint32_t FlitNetwork::extra_lane(std::uint32_t p, std::uint32_t vc, std::uint32_t i) const {
  const auto ports = as_u32(spec_.ports);
  const auto before = static_cast<std::uint32_t>(std::popcount(multicast_vcs_ & ((1U << vc) - 1U)));
  return vcs_per_router_ + (before * ports + p) * (ports - 1) + i - 1;
}

std::int32_t FlitNetwork::multicast_group(std::int32_t source, const std::vector<std::int32_t>& dests) {
  if (trees_ == nullptr) throw std::invalid_argument("the network has no multicast class");
  return static_cast<std::int32_t>(trees_->group(source, dests));
}

std::int32_t FlitNetwork::multicast_room(std::int32_t group) const { return trees_->groups().at(as_size(group)).room; }

bool FlitNetwork::fits_its_group(const PacketIn& packet) const {
  const auto of_class = as_size(packet.message_class);
  if (of_class < spec_.classes.size() && spec_.classes[of_class].reduction) return reductions_->wrong(packet).empty();
  if (trees_ == nullptr || as_size(packet.group) >= trees_->groups().size()) return false;
  const MulticastGroup& group = trees_->groups()[as_size(packet.group)];
  return (multicast_classes_ >> packet.message_class & 1U) != 0 && group.source == packet.source &&
         packet.size_flits <= group.room;
}

// A cycle makes packets only from the list of free copies: every packet brings along the copies that it may need.
void FlitNetwork::reserve_copies(std::uint32_t copies) {
  copies_due_ += copies;
  while (copies_free_ < copies_due_) {
    if (packets_.size() >= kPacketMask) throw std::length_error("more than 536870911 packets alive");
    packets_.emplace_back();
    free_copy(static_cast<std::uint32_t>(packets_.size() - 1));
  }
}

void FlitNetwork::free_copy(std::uint32_t slot) {
  packets_[slot].next = std::exchange(free_copy_, slot);
  ++copies_free_;
}

void FlitNetwork::book_injection(std::uint32_t slot) {
  const Packet& packet = packets_[slot];
  if (sessions_ != nullptr) book_links(packet);
  if (reductions_ != nullptr && reductions_->has(slot)) reductions_->leave(slot);
  if (packet.route_state >= kLeg) {
    injected_to_[nodes_ + (packet.route_state & ~kLeg)] += packet.size;
    return;
  }
  if (packet.route_state == 0) {
    injected_to_[as_size(packet.dest)] += packet.size;
    return;
  }
  const MulticastGroup& group = trees_->groups()[trees_->node(packet.route_state - 1).group];
  for (std::uint32_t i = 0; i < group.dests; ++i) {
    injected_to_[as_size(trees_->dest(group.first_dest + i))] += packet.size;
  }
}

// Routes the multicast at the front of an idle VC; its branches take part in VC allocation from `join` on.
void FlitNetwork::route_branches(std::uint32_t id, std::uint32_t join) {
  const std::uint32_t r = router_of(id);
  const InputVc& first = input(id);
  const std::uint32_t slot = rings_[first.front] & kPacketMask;
  packets_[slot].path += port(r, first.port).step;
  const MulticastNode& node = trees_->node(packets_[slot].route_state - 1);
  const std::uint32_t vcs = class_masks_[packets_[slot].message_class];
  VcSet lanes = 0;
  for (std::uint32_t i = 0; i < node.count; ++i) {
    const MulticastBranch& branch = trees_->branch(node.first + i);
    const std::uint32_t bit = i == 0 ? bit_of(id) : extra_lane(first.port, first.vc, i);
    std::uint32_t below = slot;
    if (node.count > 1) {
      below = std::exchange(free_copy_, packets_[free_copy_].next);
      --copies_free_;
      --copies_due_;
      Packet& copy = packets_[below];
      copy = packets_[slot];
      copy.flit_sum = 0;
      copy.next = kNoPacket;
      copy.copy = 1;
      copy.held = 0;
      branches_[first_id(r) + bit] = {below, 0};
    }
    const bool ejects = branch.node == MulticastBranch::kEjects;
    if (ejects) packets_[below].dest = branch.dest;
    packets_[below].route_state = ejects ? 0 : 1 + branch.node;
    InputVc& lane = input(first_id(r) + bit);
    lane.front = first.front;
    lane.visible = first.visible;
    lane.vcs = branch.vcs & vcs;
    lane.send_to(branch.port);
    route_to(first_id(r) + bit, branch.port);
    lanes |= vc_bit(bit);
  }
  if (node.count > 1) forks_[dense(id)] = {lanes, lanes};
  if (va_delay_ <= 1) {
    join_va(r, lanes, join);
    return;
  }
  each_of(lanes, [&](std::uint32_t bit) { wake_at(join, kJoinVa, first_id(r) + bit); });
}

// A branch sends the flit `word`, which becomes one of its own packet. Returns whether it was the last to do so.
bool FlitNetwork::send_branch(std::uint32_t id, const Fork& fork, std::uint32_t& word) {
  Branch& branch = branches_[id];
  bool last = true;
  each_of(fork.lanes & ~vc_bit(bit_of(id)),
          [&](std::uint32_t bit) { last = last && branches_[base_of(id) + bit].sent > branch.sent; });
  // the cycles in which the flits left the source are all known now
  if ((word & kTail) != 0) packets_[branch.packet].flit_sum += packets_[word & kPacketMask].flit_sum;
  word = (word & ~kPacketMask) | branch.packet;
  ++branch.sent;
  copied_flits_ += last ? 0 : 1;
  return last;
}

// The last branch, lane `last`, has sent the tail: the VC goes on with the packet behind.
void FlitNetwork::end_fork(std::uint32_t id, Fork& fork, std::uint32_t parent, const InputVc& last) {
  const std::uint32_t front = last.front;
  const std::uint32_t visible = last.visible;
  each_of(fork.lanes, [&](std::uint32_t bit) {
    InputVc& lane = input(base_of(id) + bit);
    lane.front = 0;
    lane.visible = 0;
    branches_[base_of(id) + bit] = {};
  });
  input(id).front = front;
  input(id).visible = visible;
  fork = {};
  if (packets_[parent].copy != 0) {
    free_copy(parent);
  } else {
    packets_[parent].next = std::exchange(free_packet_, parent);
  }
}

// Of an input VC: the branch that has sent least, or the VC itself.
std::uint32_t FlitNetwork::waiting_lane(std::uint32_t id) const {
  std::uint32_t found = id;
  std::uint32_t least = ~0U;
  each_of(forks_[dense(id)].pending, [&](std::uint32_t bit) {
    const std::uint32_t lane = base_of(id) + bit;
    if (branches_[lane].sent >= least) return;
    least = branches_[lane].sent;
    found = lane;
  });
  return found;
}

// What an empty network must not hold, in words.
std::string FlitNetwork::multicast_left() const {
  for (std::size_t number = 0; number < forks_.size(); ++number) {
    if (forks_[number].lanes != 0) return name_of_input(sparse(number)) + " still has branches in an empty network";
  }
  if (copies_due_ != 0) return std::to_string(copies_due_) + " copies of multicasts were never made";
  return {};
}

}  // namespace cosim::noc
