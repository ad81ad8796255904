// Channels in lockstep: one is stepped for all.
//
// An address map that interleaves whole bursts over the channels gives each of them the same requests for a tile of
// whole stripes, in the same tick, in other places of the memory only. Channels of one configuration in the same state
// then do the same, refreshes included, for as long as they are told the same. What differs is when their packets
// leave: a lane whose packets have left has more free return slots than another. While all have free slots, that
// decides nothing. So the first channel is stepped with as many slots as the lane with the fewest has, and what it does
// is sent on for all. They part, each with a copy of its state, before the last slot is taken, and where something is
// told to one alone: a tile that is no whole number of stripes, a copy into the banks, a cancelled stream. They join
// again when the memory is at rest and their canonical forms are equal.
#include <algorithm>
#include <bit>

#include "endpoint/memory_node.hpp"
#include "sim/faults.hpp"

namespace cosim::endpoint {

using mem::Field;

void MemoryNode::find_span() {
  const auto lanes = lanes_.size();
  free_slots_.assign(static_cast<std::size_t>(pcs_), config_.read_return_slots);
  more_slots_.assign(lanes, 0);
  std::vector<std::int32_t> form;
  if (controllers_.size() < 2 || !lanes_plain_ || !controllers_.front()->canonical({}, true, form)) return;
  const std::uint64_t channel_bits = map_.plain_bits(Field::channel);
  for (std::uint64_t left = channel_bits; left != 0; left &= left - 1) {
    mem::Coordinate at = map_.decode(left & -left);
    at[Field::channel] = 0;
    if (at.value != mem::Coordinate{}.value) return;  // a channel bit decides something else as well
  }
  if (sim::fault_from_environment() == sim::Fault::late_parting) least_slots_ = -1;
  span_bytes_ = static_cast<std::int64_t>(std::bit_floor(channel_bits)) * 2;
  try_join(0);
}

// At rest, after all that is due by `tick`.
void MemoryNode::try_join(std::int64_t tick) {
  if (in_step_ || span_bytes_ == 0 || !lockstep_on_ || every_edge_ || journal_ != nullptr) return;
  if (tiles_open_ > 0 || !inflows_.empty() || !writes_.empty()) return;
  if (std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.leaving > 0; })) return;
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> form;
  const mem::Channel& leader = *controllers_.front();
  if (!leader.canonical({tick, 0, 0}, true, first)) return;
  for (std::size_t c = 0; c < controllers_.size(); ++c) {
    const mem::Channel& each = *controllers_[c];
    if (each.queued() > 0 || each.counters().most_postponed != leader.counters().most_postponed) return;
    form.clear();
    if (!each.canonical({tick, 0, 0}, true, form) || form != first) return;
  }
  in_step_ = true;
  stale_ = false;
  joined_tick_ = tick;
  leader_then_ = leader.statistics(tick);
}

// Brings the other channels up to date.
void MemoryNode::copy_leader(std::int64_t tick) {
  mem::Statistics gained = controllers_.front()->statistics(tick);
  gained.subtract(leader_then_);
  for (std::size_t c = 1; c < controllers_.size(); ++c) {
    controllers_[c]->follow(*controllers_.front(), gained, joined_tick_, tick);
  }
}

void MemoryNode::spread(std::int64_t tick) {
  if (!in_step_) return;
  copy_leader(tick);
  const auto pcs = static_cast<std::size_t>(pcs_);
  for (std::size_t lane = pcs; lane < lanes_.size(); ++lane) {
    const std::size_t first = lane % pcs;
    const std::int64_t leaving = lanes_[lane].leaving;
    lanes_[lane] = lanes_[first];
    lanes_[lane].leaving = leaving;
    for (std::size_t slot = 0; slot < tiles_.size(); ++slot) {
      Share part = shares_[slot * lanes_.size() + first];
      if (part.next >= 0) {
        const std::uint64_t others = static_cast<std::uint64_t>(part.next) & ~lane_mask_;
        part.next = static_cast<std::int64_t>(others | lane_pattern_[lane]);
      }
      shares_[slot * lanes_.size() + lane] = part;
    }
  }
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    for (; more_slots_[lane] > 0; --more_slots_[lane]) {
      controllers_[lane / pcs]->release_slot(static_cast<int>(lane % pcs), tick);
    }
  }
  std::fill(free_slots_.begin(), free_slots_.end(), config_.read_return_slots);  // unused until they join again
  std::fill(touched_.begin(), touched_.end(), touched_.front());
  for (std::size_t c = 0; c < controllers_.size(); ++c) command_tick_[c] = controllers_[c]->next_event();
  in_step_ = false;
  find_ready();
}

// A packet of `lane` has left.
void MemoryNode::release(std::size_t lane, std::int32_t bursts, std::int64_t tick) {
  const auto pcs = static_cast<std::size_t>(pcs_);
  const std::size_t pc = lane % pcs;
  lanes_[lane].leaving -= bursts;
  if (in_step_) {
    more_slots_[lane] += bursts;
    if (more_slots_[lane] > bursts) return;  // another has fewer
    bursts = more_slots_[lane];
    for (std::size_t i = pc; i < lanes_.size(); i += pcs) bursts = std::min(bursts, more_slots_[i]);
    for (std::size_t i = pc; i < lanes_.size(); i += pcs) more_slots_[i] -= bursts;
    free_slots_[pc] += bursts;
    lane = pc;
  }
  if (bursts == 0) return;
  touched_[lane / pcs] = 1;
  for (; bursts > 0; --bursts) controllers_[lane / pcs]->release_slot(static_cast<int>(pc), tick);
}

const mem::Channel& MemoryNode::channel(std::int32_t channel) {
  if (in_step_ && stale_) {
    copy_leader(tick_);
    joined_tick_ = tick_;
    leader_then_ = controllers_.front()->statistics(tick_);
    stale_ = false;
  }
  return *controllers_[static_cast<std::size_t>(channel)];
}

void MemoryNode::set_every_edge(bool on) {
  sim::Node::set_every_edge(on);
  if (on) spread(tick_);
}

void MemoryNode::set_lockstep(bool on) {
  lockstep_on_ = on;
  if (!on) spread(tick_);
}

void MemoryNode::leave_lockstep() { spread(tick_); }

}  // namespace cosim::endpoint
