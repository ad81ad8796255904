// One cycle of a network: wakes, arrivals, sources, VC allocation, switch allocation.
#include "noc/flit_network.hpp"

#include <algorithm>
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
    if (!failure_.empty() || future_sources_.empty()) return kNoEvent;
    return std::max(next, future_sources_.front().cycle);
  }
  for (const std::uint64_t word : asking_active_) {
    if (word != 0) return next;
  }
  for (const auto* active : {&va_active_[0], &va_active_[1], &sa_active_[0], &sa_active_[1], &active_sources_}) {
    for (const std::uint64_t word : *active) {
      if (word != 0) return next;
    }
  }
  const std::int64_t first = future_sources_.empty() ? kNoEvent : std::max(next, future_sources_.front().cycle);
  const std::int64_t last = std::min(first - 1, cycle_ + std::max(wakes_mask_, arrivals_mask_));
  for (std::int64_t t = next; t <= last; ++t) {
    const auto stamp = static_cast<std::uint32_t>(t - base_);
    if (t - cycle_ <= arrivals_mask_ && arrivals_count_[stamp & arrivals_mask_] != 0) return t;
    if (t - cycle_ <= wakes_mask_ && !wakes_due_[stamp & wakes_mask_].empty()) return t;
  }
  return first;
}

// ----------------------------------------------------------------------------------------------- wakes and arrivals

void FlitNetwork::run_wakes(std::uint32_t now) {
  while (!future_sources_.empty() && future_sources_.front().cycle <= cycle_) {
    const std::uint32_t terminal = future_sources_.front().terminal;
    std::pop_heap(future_sources_.begin(), future_sources_.end(), std::greater<>());
    future_sources_.pop_back();
    terminals_[terminal].armed = kNoEvent;
    active_sources_[terminal >> 6U] |= bit64(terminal & 63U);
  }
  std::vector<std::uint32_t>& wakes = wakes_due_[now & wakes_mask_];
  for (const std::uint32_t wake : wakes) {
    const std::uint32_t index = wake & kIndexMask;
    const std::uint32_t router = index >> vc_shift_;
    const std::uint64_t bit = bit64(index & ((1U << vc_shift_) - 1));
    switch (static_cast<Wake>(wake >> 29U)) {
      case kTerminal:
        if (terminals_[index].armed <= cycle_) terminals_[index].armed = kNoEvent;
        active_sources_[index >> 6U] |= bit64(index & 63U);
        break;
      case kCredit:
        routers_[router].blocked &= ~bit;
        no_credit_[(router << vc_shift_) + inputs_[index].output_vc] += now - since_[index];
        join_sa(router, bit, now);
        break;
      case kJoinVa:
        join_va(router, bit, now);
        break;
      case kJoinSa:
        join_sa(router, bit, now);
        break;
      case kRoute:
        to_route_.push_back(index);
        break;
    }
  }
  wakes.clear();
}

COSIM_INLINE void FlitNetwork::run_arrivals(std::uint32_t now) {
  const std::uint32_t slot = now & arrivals_mask_;
  const std::uint32_t* arrivals = arrivals_due_.data() + slot * arrivals_room_;
  const std::uint32_t count = arrivals_count_[slot];
  arrivals_count_[slot] = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t input = arrivals[i];
    InputVc& vc = inputs_[input];
    if (vc.visible++ != 0) continue;
    if (vc.output == kNoPort) {
      if (routing_ == nullptr) {
        route_head(input, vc, now + va_delay_);
      } else {
        arrived_.push_back(input);
      }
    } else {
      join_sa(input >> vc_shift_, bit64(input & ((1U << vc_shift_) - 1)), now);
      if (!queue_order_.empty()) {
        queue_order_[input].sa_cycle = cycle_;
        queue_order_[input].sa = input;
      }
    }
  }
}

// Routes the packet at the front of an idle VC; it takes part in VC allocation from `join` on.
COSIM_INLINE void FlitNetwork::route_head(std::uint32_t input, InputVc& vc, std::uint32_t join) {
  const std::uint32_t router = input >> vc_shift_;
  const std::uint32_t bit = input & ((1U << vc_shift_) - 1);
  Port* ports = &ports_[router << port_shift_];
  Packet& packet = packets_[rings_[vc.front] & kPacketMask];
  const std::uint32_t route = routes_[router * terminals_.size() + as_size(packet.dest)];
  const std::uint32_t output = route & 255U;
  packet.path += ports[port_of_[bit]].step;
  vc.output = as_u8(output);
  vc.vcs = vc_sets_[route >> 8U] & packet.class_vcs;
  ports[output].to |= bit64(bit);
  since_[input] = join;
  if (va_delay_ <= 1) {
    join_va(router, bit64(bit), join);
  } else {
    wake_at(join, kJoinVa, input);
  }
}

// ---------------------------------------------------------------------------------------------------------- sources

COSIM_INLINE void FlitNetwork::run_sources(std::uint32_t now) {
  for (std::size_t word = 0; word < active_sources_.size(); ++word) {
    for (std::uint64_t rest = active_sources_[word]; rest != 0; rest &= rest - 1) {
      const std::uint32_t terminal = static_cast<std::uint32_t>(word) * 64 + lowest(rest);
      if (!send_from(terminal, now)) arm(terminal, now);
    }
  }
}

COSIM_INLINE bool FlitNetwork::send_class(std::uint32_t terminal, std::uint32_t message_class, std::uint32_t now) {
  SourceQueue& queue = queues_[terminal * num_classes_ + message_class];
  if (queue.first == kNoPacket) return false;
  const Packet& packet = packets_[queue.first];
  if (queue.left == 0) {
    if (packet.create > cycle_ || as_u32(packet.size) <= packet.held) return false;
    if (!choose_vc(terminal, message_class, now)) return false;
  } else {
    if (queue.left <= packet.held) return false;
    const std::uint32_t write = source_write_[terminal * num_vcs_ + queue.vc];
    if (rings_[credit_slot(write, terminals_[terminal].gap)] > now) return false;
  }
  send_flit(terminal, queue, now);
  return true;
}

// One flit of one class, classes by priority, equal ones in turn; false when nothing can leave now.
COSIM_INLINE bool FlitNetwork::send_from(std::uint32_t terminal, std::uint32_t now) {
  if (num_classes_ == 1) return send_class(terminal, 0, now);
  return send_by_priority(terminal, now);
}

bool FlitNetwork::send_by_priority(std::uint32_t terminal, std::uint32_t now) {
  for (std::size_t g = 0; g + 1 < class_groups_.size(); ++g) {
    const std::uint32_t begin = class_groups_[g];
    const std::uint32_t size = class_groups_[g + 1] - begin;
    const std::uint32_t turn = terminals_[terminal].turn;
    const std::uint32_t first = turn > begin && turn < begin + size ? turn - begin : 0;
    for (std::uint32_t i = 0; i < size; ++i) {
      const std::uint32_t position = begin + (first + i) % size;
      if (send_class(terminal, class_order_[position], now)) {
        terminals_[terminal].turn = position + 1;
        return true;
      }
    }
  }
  return false;
}

// The first VC with a credit after the last one used; the packet keeps it once its head has left.
COSIM_INLINE bool FlitNetwork::choose_vc(std::uint32_t terminal, std::uint32_t message_class, std::uint32_t now) {
  SourceQueue& queue = queues_[terminal * num_classes_ + message_class];
  const std::uint32_t* writes = &source_write_[terminal * num_vcs_];
  const std::uint32_t gap = terminals_[terminal].gap;
  std::uint32_t rest = class_masks_[message_class];
  std::uint32_t vc = round_robin(rest, queue.after);
  while (rings_[credit_slot(writes[vc], gap)] > now) {
    rest &= ~(1U << vc);
    if (rest == 0) return false;
    vc = round_robin(rest, vc);
  }
  queue.vc = as_u8(vc);
  queue.after = as_u8(vc + 1);
  Packet& packet = packets_[queue.first];
  queue.left = as_u32(packet.size);
  packet.inject = cycle_;
  injected_to_[as_size(packet.dest)] += packet.size;
  return true;
}

COSIM_INLINE void FlitNetwork::send_flit(std::uint32_t terminal, SourceQueue& queue, std::uint32_t now) {
  const std::uint32_t slot = queue.first;
  Packet& packet = packets_[slot];
  std::uint32_t& write = source_write_[terminal * num_vcs_ + queue.vc];
  const bool tail = queue.left == 1;
  rings_[write] = kFlit | (tail ? kTail : 0U) | slot;
  write = advance(write);
  arrive_at(now + as_u32(kTerminalLinkLatency) + 1, terminals_[terminal].input + queue.vc);
  packet.flit_sum -= cycle_;
  ++injected_flits_;
  window_injected_[terminal] += cycle_ >= window_begin_ && cycle_ < window_end_ ? 1 : 0;
  --queue.left;
  if (!tail) return;
  departures_.push_back({packet.tag, cycle_});
  --queued_packets_;
  queue.first = packet.next;
  if (queue.first == kNoPacket) {
    queue.last = kNoPacket;
    if (num_classes_ == 1) active_sources_[terminal >> 6U] &= ~bit64(terminal & 63U);
  }
}

// Nothing can leave: sleep until a packet is created or a slot that a class waits for is freed.
void FlitNetwork::arm(std::uint32_t terminal, std::uint32_t now) {
  active_sources_[terminal >> 6U] &= ~bit64(terminal & 63U);
  for (std::uint32_t c = 0; c < num_classes_; ++c) {
    const SourceQueue& queue = queues_[terminal * num_classes_ + c];
    if (queue.first == kNoPacket) continue;
    if (queue.left == 0 && packets_[queue.first].create > cycle_) {
      schedule_source(terminal, packets_[queue.first].create);
      continue;
    }
    const std::uint32_t left = queue.left != 0 ? queue.left : as_u32(packets_[queue.first].size);
    if (left <= packets_[queue.first].held) continue;  // supply() wakes the terminal
    const std::uint32_t mask = queue.left != 0 ? 1U << queue.vc : class_masks_[c];
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      const std::uint32_t write = source_write_[terminal * num_vcs_ + lowest(rest)];
      watch_slot(credit_slot(write, terminals_[terminal].gap), now, kTerminal, terminal);
    }
  }
}

// ------------------------------------------------------------------------------------------------------ VC allocation

COSIM_INLINE void FlitNetwork::run_vc_allocation(std::uint32_t now) {
  std::vector<std::uint64_t>& active = va_active_[now & 1U];
  for (std::size_t word = 0; word < active.size(); ++word) {
    std::uint64_t rest = active[word];
    active[word] = 0;
    for (; rest != 0; rest &= rest - 1) {
      const std::uint32_t router = static_cast<std::uint32_t>(word) * 64 + lowest(rest);
      const std::uint64_t requests = routers_[router].va[now & 1U];
      routers_[router].va[now & 1U] = 0;
      if (traits_.several) {
        allocate_several(router, requests, now);
      } else {
        allocate_vcs(router, requests, now);
      }
    }
  }
}

// iSLIP with one iteration: every free output VC grants the first requester at or after its pointer, every requester
// accepts the first grant at or after its own; both pointers move past an accepted pair. Credits are not looked at.
COSIM_INLINE void FlitNetwork::allocate_vcs(std::uint32_t router, std::uint64_t requests, std::uint32_t now) {
  const InputVc* inputs = &inputs_[router << vc_shift_];
  const Port* ports = &ports_[router << port_shift_];
  while (requests != 0) {
    const std::uint32_t bit = lowest(requests);
    const InputVc& vc = inputs[bit];
    const Port& port = ports[vc.output];
    const std::uint64_t same = requests & port.to;
    requests &= ~same;
    if (!single(same)) {
      allocate_contended(router, same, vc.output, now);
      continue;
    }
    const std::uint32_t offered = port.free_vcs & vc.vcs;
    if (offered == 0) {
      park(router, bit, now);
      continue;
    }
    const std::uint32_t first = vc.output * num_vcs_;
    const std::uint32_t from = vc.accept - first;
    grant_vc(router, bit, first + round_robin(offered, from < num_vcs_ ? from : 0), now);
  }
}

void FlitNetwork::allocate_contended(std::uint32_t router, std::uint64_t requests, std::uint32_t output,
                                     std::uint32_t now) {
  const InputVc* vcs = &inputs_[router << vc_shift_];
  const OutputVc* resources = &outputs_[(router << vc_shift_) + output * num_vcs_];
  const std::uint32_t free = ports_[(router << port_shift_) + output].free_vcs;
  std::uint32_t wanted = 0;
  std::uint32_t common = ~0U;
  for (std::uint64_t rest = requests; rest != 0; rest &= rest - 1) {
    const std::uint32_t bit = lowest(rest);
    if ((free & vcs[bit].vcs) == 0) {
      park(router, bit, now);
      requests &= ~bit64(bit);
    } else {
      wanted |= vcs[bit].vcs;
      common &= vcs[bit].vcs;
    }
  }
  std::uint32_t grants[64];
  std::uint64_t granted = 0;
  for (std::uint32_t rest = free & wanted; rest != 0; rest &= rest - 1) {
    const std::uint32_t vc = lowest(rest);
    std::uint64_t candidates = requests;
    if ((common >> vc & 1U) == 0) {
      for (std::uint64_t each = requests; each != 0; each &= each - 1) {
        const std::uint32_t bit = lowest(each);
        if ((vcs[bit].vcs >> vc & 1U) == 0) candidates &= ~bit64(bit);
      }
    }
    const std::uint32_t winner = round_robin(candidates, resources[vc].grant);
    if ((granted >> winner & 1U) == 0) {
      granted |= bit64(winner);
      grants[winner] = 0;
    }
    grants[winner] |= 1U << vc;
  }
  const std::uint32_t first = output * num_vcs_;
  for (std::uint64_t rest = granted; rest != 0; rest &= rest - 1) {
    const std::uint32_t winner = lowest(rest);
    const std::uint32_t from = vcs[winner].accept - first;
    grant_vc(router, winner, first + round_robin(grants[winner], from < num_vcs_ ? from : 0), now);
  }
  const std::uint64_t losers = requests & ~granted;
  if (losers != 0) join_va(router, losers, now + 1);
}

// Every VC the head may use is owned: it asks again when one of its output's VCs is released.
void FlitNetwork::park(std::uint32_t router, std::uint32_t bit, std::uint32_t now) {
  const std::uint32_t input = (router << vc_shift_) + bit;
  routers_[router].parked |= bit64(bit);
  lost_vc_[(router << vc_shift_) + inputs_[input].output * num_vcs_ + lowest(inputs_[input].vcs)] +=
      now - since_[input];
  since_[input] = now;
}

// -------------------------------------------------------------------------------------------------- switch allocation

COSIM_INLINE void FlitNetwork::run_switch_allocation(std::uint32_t now) {
  std::vector<std::uint64_t>& active = sa_active_[now & 1U];
  for (std::size_t word = 0; word < active.size(); ++word) {
    std::uint64_t rest = active[word];
    active[word] = 0;
    for (; rest != 0; rest &= rest - 1) {
      const std::uint32_t router = static_cast<std::uint32_t>(word) * 64 + lowest(rest);
      const std::uint64_t requests = routers_[router].sa[now & 1U];
      routers_[router].sa[now & 1U] = 0;
      allocate_switch(router, requests, now);
    }
  }
}

COSIM_INLINE bool FlitNetwork::has_credit(std::uint32_t router, std::uint32_t bit, std::uint32_t now) const {
  const InputVc& vc = inputs_[(router << vc_shift_) + bit];
  std::uint32_t slot = outputs_[(router << vc_shift_) + vc.output_vc].write;
  if (any_gap_) slot = credit_slot(slot, ports_[(router << port_shift_) + vc.output].gap);
  return rings_[slot] <= now;
}

void FlitNetwork::block(std::uint32_t router, std::uint32_t bit, std::uint32_t now) {
  const std::uint32_t input = (router << vc_shift_) + bit;
  const InputVc& vc = inputs_[input];
  routers_[router].blocked |= bit64(bit);
  since_[input] = now;
  const std::uint32_t gap = ports_[(router << port_shift_) + vc.output].gap;
  watch_slot(credit_slot(outputs_[(router << vc_shift_) + vc.output_vc].write, gap), now, kCredit, input);
}

COSIM_INLINE void FlitNetwork::allocate_switch(std::uint32_t router, std::uint64_t requests, std::uint32_t now) {
  const InputVc* inputs = &inputs_[router << vc_shift_];
  std::uint64_t ins = 0;
  std::uint64_t outs = 0;
  std::uint64_t clash = 0;
  for (std::uint64_t rest = requests; rest != 0; rest &= rest - 1) {
    const std::uint32_t bit = lowest(rest);
    if (!has_credit(router, bit, now)) {
      block(router, bit, now);
      requests &= ~bit64(bit);
      continue;
    }
    const std::uint64_t in = bit64(port_of_[bit]);
    const std::uint64_t to = bit64(inputs[bit].output);
    clash |= (ins & in) | (outs & to);
    ins |= in;
    outs |= to;
  }
  if (clash != 0) requests = match_switch(router, requests, now);
  for (; requests != 0; requests &= requests - 1) win_switch(router, lowest(requests), now);
}

// Per input and output the first VC at or after the input's round robin is put forward; then iSLIP over the ports.
// Returns the winners; losers ask again in the next cycle.
std::uint64_t FlitNetwork::match_switch(std::uint32_t router, std::uint64_t requests, std::uint32_t now) {
  const std::uint32_t base = router << vc_shift_;
  const InputVc* vcs = &inputs_[base];
  const Port* ports = &ports_[router << port_shift_];
  std::uint64_t asking[64];  // inputs, per output
  std::uint64_t outputs = 0;
  for (std::uint64_t rest = requests; rest != 0; rest &= rest - 1) {
    const std::uint32_t bit = lowest(rest);
    const std::uint32_t output = vcs[bit].output;
    if ((outputs & bit64(output)) == 0) asking[output] = 0;
    outputs |= bit64(output);
    asking[output] |= bit64(port_of_[bit]);
  }
  std::uint64_t grants[64];  // outputs, per input
  std::uint64_t granted = 0;
  for (std::uint64_t rest = outputs; rest != 0; rest &= rest - 1) {
    const std::uint32_t output = lowest(rest);
    const std::uint32_t input = round_robin(asking[output], ports[output].sa_grant);
    if ((granted & bit64(input)) == 0) grants[input] = 0;
    granted |= bit64(input);
    grants[input] |= bit64(output);
  }
  const std::uint64_t vc_bits = bit64(num_vcs_) - 1;
  std::uint64_t winners = 0;
  for (std::uint64_t rest = granted; rest != 0; rest &= rest - 1) {
    const std::uint32_t input = lowest(rest);
    const std::uint32_t output = round_robin(grants[input], ports[input].sa_accept);
    const std::uint32_t shift = input * num_vcs_;
    const std::uint64_t candidates = (requests & ports[output].to) >> shift & vc_bits;
    winners |= bit64(shift + round_robin(candidates, ports[input].sa_vc));
  }
  const std::uint64_t losers = requests & ~winners;
  join_sa(router, losers, now + 1);
  for (std::uint64_t rest = losers; rest != 0; rest &= rest - 1) ++lost_switch_[base + vcs[lowest(rest)].output_vc];
  return winners;
}

// Moves the front flit of an input VC: frees its slot, writes it downstream, books an ejection.
COSIM_INLINE void FlitNetwork::win_switch(std::uint32_t router, std::uint32_t bit, std::uint32_t now) {
  const std::uint32_t base = router << vc_shift_;
  Port* ports = &ports_[router << port_shift_];
  InputVc& vc = inputs_[base + bit];
  const std::uint32_t output = vc.output;
  const std::uint32_t resource = vc.output_vc;
  const std::uint32_t input_port = port_of_[bit];
  Port& in = ports[input_port];
  Port& to = ports[output];
  OutputVc& out = outputs_[base + resource];

  in.sa_vc = as_u8(vc_of_[bit] + 1U);
  in.sa_accept = as_u8(output + 1U);
  to.sa_grant = as_u8(input_port + 1U);

  const std::uint32_t front = vc.front;
  const std::uint32_t word = rings_[front];
  const std::uint32_t freed = now + in.credit;
  rings_[front] = freed;
  if constexpr (sim::kFaultsCompiled) {
    if (fault_ == sim::Fault::drop_credit && --fault_countdown_ == 0) rings_[front] = kNeverFree;
  }
  if ((word & kWaiter) != 0) wake_upstream(in, vc_of_[bit], freed);
  vc.front = advance(front);
  const std::uint32_t visible = --vc.visible;
  ++flits_[base + resource];

  const std::uint32_t write = out.write;
  const std::uint32_t sent = batched_ ? batched_send(router, output, now) : now + traversal_;
  bool lost = false;
  if constexpr (sim::kFaultsCompiled) lost = fault_ == sim::Fault::lose_flit && --fault_countdown_ == 0;
  if (!lost) {
    out.write = advance(write);
    if (to.terminal != kNoLink) {
      rings_[write] = sent + ejection_reuse_;
      eject(to.terminal, word, sent);
    } else {
      rings_[write] = word & ~kWaiter;
      arrive_at(sent + to.link_time, out.down);
    }
  }

  if ((word & kTail) == 0) {
    if (visible != 0) join_sa(router, bit64(bit), now + 1);
    return;
  }
  to.free_vcs |= 1U << vc_of_[resource];
  to.to &= ~bit64(bit);
  if ((routers_[router].parked & to.to) != 0) unpark(router, output, now);
  vc.output = kNoPort;
  if (visible == 0) return;
  if (routing_ == nullptr) {
    route_head(base + bit, vc, now + 1 + va_delay_);
  } else {
    wake_at(now + 1, kRoute, base + bit);
  }
}

// Who waits for the slot that is free from `freed` on.
void FlitNetwork::wake_upstream(const Port& in, std::uint32_t vc, std::uint32_t freed) {
  if (in.source != 0) {
    wake_at(freed, kTerminal, in.up);
  } else {
    const std::uint32_t up = in.up + vc;
    wake_at(freed, kCredit, (up & ~((1U << vc_shift_) - 1)) + outputs_[up].owner);
  }
}

// A VC of an output was released: the heads that found all of them owned ask again from the next cycle on.
void FlitNetwork::unpark(std::uint32_t router, std::uint32_t output, std::uint32_t now) {
  const std::uint32_t base = router << vc_shift_;
  const std::uint64_t waiting = routers_[router].parked & ports_[(router << port_shift_) + output].to;
  routers_[router].parked &= ~waiting;
  join_va(router, waiting, now + 1);
  for (std::uint64_t rest = waiting; rest != 0; rest &= rest - 1) {
    const std::uint32_t bit = lowest(rest);
    const InputVc& head = inputs_[base + bit];
    busy_vc_[base + head.output * num_vcs_ + lowest(head.vcs)] += now + 1 - since_[base + bit];
    since_[base + bit] = now + 1;
  }
}

COSIM_INLINE void FlitNetwork::eject(std::uint32_t terminal, std::uint32_t word, std::uint32_t sent) {
  const std::uint32_t slot = word & kPacketMask;
  Packet& packet = packets_[slot];
  const std::int64_t read = base_ + sent + kTerminalLinkLatency + 1;
  packet.flit_sum += read;
  ++ejected_flits_;
  ++ejected_at_[terminal];
  window_ejected_[terminal] += read >= window_begin_ && read < window_end_ ? 1 : 0;
  if (!watched_.empty() && watched_[terminal] != 0) {
    flit_arrivals_.push_back({packet.tag, read, packet.create, packet.inject,
                              static_cast<std::int32_t>(packet.path >> 32U),
                              static_cast<std::int32_t>(packet.path & ~0U)});
  }
  if ((word & kTail) == 0) return;
  arrivals_.push_back({packet.tag, read, packet.create, packet.inject, packet.flit_sum, packet.source, packet.dest,
                       packet.size, packet.message_class, static_cast<std::int32_t>(packet.path >> 32U),
                       static_cast<std::int32_t>(packet.path & ~0U)});
  packet.next = free_packet_;
  free_packet_ = slot;
}

// BookSim2 lets one batch of flits at a time through a router's switch: what wins while a batch is inside joins the
// next one. Returns the cycle at which the flit is sent.
std::uint32_t FlitNetwork::batched_send(std::uint32_t router, std::uint32_t output, std::uint32_t now) {
  const std::uint32_t traverse = as_u32(spec_.st_prepare_delay + spec_.st_final_delay);
  const std::uint32_t entry = now + as_u32(spec_.sw_alloc_delay);
  std::uint32_t& start = batch_start_[router];
  std::uint32_t& end = batch_end_[router];
  if (entry > start) {
    start = entry <= end ? end + 1 : entry;
    end = start + traverse - 1;
  }
  std::uint32_t& last = last_send_[(router << port_shift_) + output];
  const std::uint32_t sent = std::max(end, last + 1);
  last = sent;
  return sent;
}

void FlitNetwork::run_cycle(std::uint32_t now) {
  run_arrivals(now);
  if (routing_ != nullptr) {
    run_ticks();
    route_arrived(now);
  }
  run_sources(now);
  if (routing_ != nullptr) ask_again(now);
  run_vc_allocation(now);
  run_switch_allocation(now);
  if (routing_ != nullptr) judge_progress();
}

void FlitNetwork::step(std::int64_t cycle) {
  if (cycle - base_ >= kRebaseAfter) rebase(cycle);
  cycle_ = cycle;
  const auto now = static_cast<std::uint32_t>(cycle - base_);
  run_wakes(now);
  run_cycle(now);
}

}  // namespace cosim::noc
