// Events of a network, and what waits: wakes, sources and VCs that cannot go on.
#include "noc/flit_network.hpp"

#include <algorithm>
#include <bit>
#include <functional>

#include "noc/bits.hpp"
#include "noc/flit_network_inline.hpp"

namespace cosim::noc {

// Asks to be woken when `slot`, not free at `now`, is.
void FlitNetwork::watch_slot(std::uint32_t slot, std::uint32_t now, Wake kind, std::uint32_t index) {
  const std::uint32_t word = rings_[slot];
  if ((word & kFlit) != 0) {
    rings_[slot] = word | kWaiter;
  } else if (word > now && word != kNeverFree) {
    wake_at(word, kind, index);
  }
}

std::int64_t FlitNetwork::next_event() const {
  const std::int64_t next = cycle_ + 1;
  if (stuck_ != 0) {
    if (!late_arrivals_.empty()) return std::max(next, late_arrivals_.front().cycle);
    if (!failure_.empty() || future_sources_.empty()) return kNoEvent;
    return std::max(next, future_sources_.front().cycle);
  }
  for (const std::uint64_t word : active_) {
    if (word != 0) return next;
  }
  for (const std::uint64_t word : asking_active_) {
    if (word != 0) return next;
  }
  std::int64_t first = future_sources_.empty() ? kNoEvent : std::max(next, future_sources_.front().cycle);
  if (sessions_ != nullptr) first = std::min(first, std::max(next, sessions_->next()));
  if (!late_arrivals_.empty()) first = std::min(first, std::max(next, late_arrivals_.front().cycle));
  if (models_ != nullptr) first = std::min(first, models_->next_event(cycle_));
  if (!changes_.empty()) first = std::min(first, std::max(next, next_change()));
  const std::int64_t last = std::min(first - 1, cycle_ + std::max(wakes_mask_, arrivals_mask_));
  for (std::int64_t t = next; t <= last; ++t) {
    const auto stamp = static_cast<std::uint32_t>(t - base_);
    if (t - cycle_ <= arrivals_mask_ && arrivals_count(stamp & arrivals_mask_) != 0) return t;
    if (t - cycle_ <= wakes_mask_ && !wakes_due_[stamp & wakes_mask_].empty()) return t;
  }
  return first;
}

void FlitNetwork::run_wakes(std::uint32_t now) {
  while (!future_sources_.empty() && future_sources_.front().cycle <= cycle_) {
    const std::uint32_t terminal = future_sources_.front().terminal;
    std::pop_heap(future_sources_.begin(), future_sources_.end(), std::greater<>());
    future_sources_.pop_back();
    terminals_[terminal].armed = kNoEvent;
    activate(terminal);
  }
  std::vector<std::uint32_t>& wakes = wakes_due_[now & wakes_mask_];
  for (const std::uint32_t wake : wakes) {
    const std::uint32_t index = wake & kIndexMask;
    switch (static_cast<Wake>(wake >> 29U)) {
      case kTerminal:
        if (terminals_[index].armed <= cycle_) terminals_[index].armed = kNoEvent;
        activate(index);
        break;
      case kCredit:
        with_router(router_of(index), [&](auto& record) { drop(record.masks.blocked, bit_of(index)); });
        stalls(base_of(index) + input(index).output_vc).no_credit += now - input(index).since;
        join_sa(index, now);
        break;
      case kJoinVa:
        join_va(index, now);
        break;
      case kJoinSa:
        join_sa(index, now);
        break;
      case kRoute:
        to_route_.push_back(index);
        break;
      case kRelease:
        release(index, now);
        break;
      case kReleaseSource:
        release_source(index);
        break;
      case kSum:
        advance_sum(index);
        break;
    }
  }
  wakes.clear();
}

// ---------------------------------------------------------------------------------------------------------- sources

// One flit of one of several classes, by priority, equal ones in turn; false when nothing can leave now.
bool FlitNetwork::send_by_priority(std::uint32_t terminal, std::uint32_t now) {
  for (std::size_t g = 0; g + 1 < class_groups_.size(); ++g) {
    const std::uint32_t begin = class_groups_[g];
    const std::uint32_t size = class_groups_[g + 1] - begin;
    const std::uint32_t turn = terminals_[terminal].turn;
    const std::uint32_t first = turn > begin && turn < begin + size ? turn - begin : 0;
    for (std::uint32_t i = 0; i < size; ++i) {
      const std::uint32_t position = begin + (first + i) % size;
      if (send_of_class(terminal, class_order_[position], now)) {
        terminals_[terminal].turn = position + 1;
        return true;
      }
    }
  }
  return false;
}

// Static virtual-channel allocation: what one terminal sends keeps to one VC, terminals take those of the class in
// turn. A source sends one packet of a class after the other, so its flows are in one line anyhow; those of two sources
// that meet are kept apart as far as the VCs go.
std::uint32_t FlitNetwork::static_vc(std::uint32_t vcs, const Packet& packet) const {
  if (vcs == 0) return 0;
  std::uint32_t before = as_u32(packet.source) % as_u32(std::popcount(vcs));
  for (; before != 0; --before) vcs &= vcs - 1;
  return vcs & (0 - vcs);
}

// Nothing can leave: sleep until a packet is created or a slot that a class waits for is freed.
void FlitNetwork::arm(std::uint32_t terminal, std::uint32_t now) {
  sources_active()[terminal >> 6U] &= ~bit64(terminal & 63U);
  for (std::uint32_t c = 0; c < num_classes_; ++c) {
    const SourceQueue& queue = queues_[terminal * num_classes_ + c];
    if (queue.first == kNoPacket) continue;
    // step_sessions() and step_route_change() wake the terminal
    if (!is_held_.empty() && is_held_[terminal * num_classes_ + c] != 0) continue;
    if (draining_ != 0 && queue.left == 0) continue;
    if (queue.left == 0 && packets_[queue.first].create > cycle_) {
      schedule_source(terminal, packets_[queue.first].create);
      continue;
    }
    const std::uint32_t left = queue.left != 0 ? queue.left : as_u32(packets_[queue.first].size);
    if (left <= packets_[queue.first].held) continue;  // supply() wakes the terminal
    const std::uint32_t mask = queue.left != 0 ? 1U << queue.vc : vcs_of(packets_[queue.first], ~0U);
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      const std::uint32_t write = source_write_[terminal * num_vcs_ + lowest(rest)];
      watch_slot(credit_slot(write, terminals_[terminal].gap), now, kTerminal, terminal);
    }
  }
}

// --------------------------------------------------------------------------------------------------- VCs that wait

// Every VC the head may use is owned: it asks again when one of its output's VCs is released.
void FlitNetwork::park(std::uint32_t id, std::uint32_t now) {
  with_router(router_of(id), [&](auto& record) { put(record.masks.parked, bit_of(id)); });
  input(id).since = now;
}

// A VC of an output was released: the heads that found all of them owned ask again from the next cycle on.
void FlitNetwork::unpark(std::uint32_t r, std::uint32_t p, std::uint32_t now) {
  const VcSet waiting = with_router(r, [&](auto& record) {
    const auto all = record.masks.parked & record.ports[p].to;
    record.masks.parked &= ~all;
    return VcSet{all};
  });
  join_va(r, waiting, now + 1);
  each_of(waiting, [&](std::uint32_t bit) {
    const std::uint32_t id = first_id(r) + bit;
    stalls(charged(id)).busy_vc += now + 1 - input(id).since;
    input(id).since = now + 1;
  });
}

void FlitNetwork::block(std::uint32_t id, std::uint32_t now) {
  InputVc& vc = input(id);
  with_router(router_of(id), [&](auto& record) { put(record.masks.blocked, bit_of(id)); });
  vc.since = now;
  watch_slot(credit_slot(output(base_of(id) + vc.output_vc).write, gap(router_of(id), vc.output)), now, kCredit, id);
}

// Who waits for the slot that is free from `freed` on.
void FlitNetwork::wake_upstream(const Port& in, std::uint32_t vc, std::uint32_t freed) {
  if (in.source != 0) {
    wake_at(freed, kTerminal, in.up);
  } else {
    const std::uint32_t up = in.up + vc;
    wake_at(freed, kCredit, base_of(up) + output(up).owner);
  }
}

// BookSim2 lets one batch of flits at a time through a router's switch: what wins while a batch is inside joins the
// next one. Returns the cycle at which the flit is sent.
std::uint32_t FlitNetwork::batched_send(std::uint32_t r, std::uint32_t p, std::uint32_t now) {
  const std::uint32_t traverse = as_u32(spec_.st_prepare_delay + spec_.st_final_delay);
  const std::uint32_t entry = now + as_u32(spec_.sw_alloc_delay);
  std::uint32_t& start = batch_start_[r];
  std::uint32_t& end = batch_end_[r];
  if (entry > start) {
    start = entry <= end ? end + 1 : entry;
    end = start + traverse - 1;
  }
  std::uint32_t& last = last_send_[std::size_t{r} * as_u32(spec_.ports) + p];
  const std::uint32_t sent = std::max(end, last + 1);
  last = sent;
  return sent;
}

void FlitNetwork::step(std::int64_t cycle) {
  if (cycle - base_ >= kRebaseAfter) rebase(cycle);
  cycle_ = cycle;
  const auto now = static_cast<std::uint32_t>(cycle - base_);
  run_wakes(now);
  if (!late_arrivals_.empty()) take_late_arrivals();
  if (!open_passages_.empty()) note_arrivals(now);
  if (sessions_ != nullptr && sessions_->next() <= cycle) step_sessions(cycle);
  if (!changes_.empty()) step_route_change();
  cycle_function_(*this, now);
}

// -------------------------------------------------------------------------------------------------------- passages

void FlitNetwork::note_passages(bool on) {
  passages_.clear();
  open_passages_.clear();
  if (on) open_passages_.resize(input_vcs());
}

// What arrives in this cycle stands behind the flits that have arrived before.
void FlitNetwork::note_arrivals(std::uint32_t now) {
  const std::uint32_t place = now & arrivals_mask_;
  for (std::uint32_t i = place * arrivals_room_; i < arrivals_end_[place]; ++i) {
    const std::uint32_t id = arrivals_due_[i];
    const InputVc& vc = input(id);
    const std::uint32_t word = rings_[(vc.front & ~ring_mask_) | ((vc.front + vc.visible) & ring_mask_)];
    const std::uint64_t tag = packets_[word & kPacketMask].tag;
    Passage& open = open_passages_[dense(id)];
    if (open.flits == 0) {
      open = {tag, cycle_, 0, static_cast<std::int32_t>(router_of(id)), vc.port, vc.vc, 0};
    }
    ++open.flits;
    if ((word & kTail) == 0) continue;
    open.last_cycle = cycle_;
    passages_.push_back(open);
    open.flits = 0;
  }
}

}  // namespace cosim::noc
