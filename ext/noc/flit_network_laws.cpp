// What a network shows: counters, latency terms, its laws, who waits for whom, and its whole state.
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"

namespace cosim::noc {

LatencyTerms FlitNetwork::terms(const LatencySums& sums) const {
  LatencyTerms t;
  t.source_queueing_cycles = sums.packet_latency_cycles - sums.network_latency_cycles;
  const std::uint32_t allocation = spec_.allocation.speculative ? 0 : sa_delay_;  // beside the switch's, else before it
  const std::uint32_t depth = models_ != nullptr ? models_->pipeline_cycles() : va_delay_ + allocation + traversal_ + 1;
  t.router_cycles = sums.hops * depth;
  t.link_cycles = sums.link_cycles + sums.packets * kTerminalCycles;
  t.serialisation_cycles = sums.flits - sums.packets;
  t.contention_cycles = sums.network_latency_cycles - t.router_cycles - t.link_cycles - t.serialisation_cycles;
  t.contention_cycles -= sums.retry_cycles + sums.reduction_wait_cycles;
  t.retry_cycles = sums.retry_cycles;
  t.reduction_wait_cycles = sums.reduction_wait_cycles;
  return t;
}

LatencyTerms FlitNetwork::terms(const Arrival& arrival) const {
  if (sessions_ != nullptr && spec_.classes[as_size(arrival.message_class)].session) {
    LatencyTerms t;
    t.source_queueing_cycles = arrival.inject_cycle - arrival.create_cycle;
    t.router_cycles = std::int64_t{arrival.hops} * spec_.sessions.segment_delay;
    t.link_cycles = arrival.link_cycles + kTerminalCycles;
    t.serialisation_cycles = arrival.size_flits - 1;
    return t;
  }
  LatencyTerms t =
      terms(LatencySums{1, arrival.size_flits, arrival.hops, arrival.link_cycles, arrival.cycle - arrival.create_cycle,
                        arrival.cycle - arrival.inject_cycle, 0, arrival.reduction_wait_cycles});
  // a tail that a link held may have found its VC already there: what the packet did not lose is no wait
  t.retry_cycles = std::min(arrival.retry_cycles, t.contention_cycles);
  t.contention_cycles -= t.retry_cycles;
  return t;
}

std::int64_t FlitNetwork::flit_hops() const {
  std::int64_t sum = 0;
  for (std::size_t number = 0; number < input_vcs(); ++number) sum += output(sparse(number)).flits;
  return sum;
}

std::vector<std::pair<std::int32_t, std::int32_t>> FlitNetwork::connected_outputs() const {
  std::vector<std::pair<std::int32_t, std::int32_t>> found;
  for (std::int32_t r = 0; r < spec_.routers; ++r) {
    for (std::int32_t p = 0; p < spec_.ports; ++p) {
      const Port& out = port(as_u32(r), as_u32(p));
      if (out.link_time != 0 || out.terminal != kNoLink) found.emplace_back(r, p);
    }
  }
  return found;
}

std::vector<OutputCounters> FlitNetwork::connected_counters() {
  book_running_waits();
  std::vector<OutputCounters> all;
  for (const auto& [r, p] : connected_outputs()) {
    for (std::uint32_t v = 0; v < num_vcs_; ++v) {
      const std::uint32_t id = first_id(as_u32(r)) + as_u32(p) * num_vcs_ + v;
      const Stalls& s = stalls(id);
      all.push_back({output(id).flits, s.no_credit, s.lost_switch, s.busy_vc, s.lost_vc});
    }
  }
  return all;
}

// Books the part of every wait that lies at or before the last step; the rest is booked when it ends.
void FlitNetwork::book_running_waits() {
  const auto next = static_cast<std::uint32_t>(cycle_ + 1 - base_);
  for (std::uint32_t r = 0; r < num_routers_; ++r) {
    const Router<VcSet> masks = this->masks(r);
    const VcSet asking = asking_.empty() ? 0 : asking_[r];
    const VcSet asked = traits_.several ? masks.va[next & 1U] : 0;
    for (VcSet rest = masks.blocked | masks.parked | asked | asking; rest != 0; rest &= rest - 1) {
      const std::uint32_t bit = lowest(rest);
      const std::uint32_t id = first_id(r) + bit;
      InputVc& vc = input(id);
      const auto waited = static_cast<std::int32_t>(next - vc.since);
      if (waited <= 0 || vc.output == kNoPort) continue;
      if ((masks.blocked >> bit & 1U) != 0) {
        stalls(base_of(id) + vc.output_vc).no_credit += waited;
      } else if ((masks.parked >> bit & 1U) != 0) {
        stalls(charged(id)).busy_vc += waited;
      } else {
        stalls(charged(id)).lost_vc += waited;
      }
      vc.since = next;
    }
  }
}

std::int64_t FlitNetwork::injected_to(std::int32_t terminal) const { return injected_to_[as_size(terminal)]; }
std::int64_t FlitNetwork::ejected_at(std::int32_t terminal) const { return ejected_at_[as_size(terminal)]; }

std::string FlitNetwork::name_of_input(std::uint32_t id) const {
  const std::uint32_t bit = bit_of(id);
  const InputVc& vc = input(id);
  std::string name = "router " + std::to_string(router_of(id)) + " input port " + std::to_string(port_of_[bit]) +
                     " VC " + std::to_string(vc_of_[bit]);
  const bool forks = trees_ != nullptr && forks_[dense(first_lane(id))].lanes != 0;
  if (forks && vc.output != kNoPort) name += " branch to port " + std::to_string(vc.output);
  return name;
}

std::string FlitNetwork::verify_conservation() const {
  std::int64_t held = 0;
  const std::size_t router_slots = input_vcs() * (ring_mask_ + 1);
  for (std::size_t slot = 0; slot < router_slots; ++slot) held += (rings_[slot] & kFlit) != 0 ? 1 : 0;
  if (models_ != nullptr) held = models_->flits();
  if (held != flits_in_flight()) {
    const std::string copied = trees_ == nullptr ? "" : std::to_string(copied_flits_) + " copied by branches, ";
    return "flits are lost: " + std::to_string(injected_flits_) + " injected, " + copied +
           std::to_string(ejected_flits_) + " ejected, but " + std::to_string(held) + " in buffers and on links";
  }
  const std::uint32_t horizon = static_cast<std::uint32_t>(cycle_ - base_) + wakes_mask_;
  for (std::size_t slot = 0; slot < rings_.size(); ++slot) {
    if ((rings_[slot] & kFlit) != 0 || rings_[slot] <= horizon) continue;
    const std::size_t vc = slot / (ring_mask_ + 1);
    if (vc >= input_vcs()) {
      const std::size_t n = (vc - input_vcs()) / num_vcs_;
      return "a credit of node " + std::to_string(n) + "'s ejection channel never returned";
    }
    return "a credit of " + name_of_input(sparse(vc)) + " never returned";
  }
  if (sessions_ != nullptr) {
    const std::string broken = sessions_->verify(flits_in_flight() == 0 && queued_packets_ == 0);
    if (!broken.empty()) return broken;
  }
  if (reductions_ != nullptr) {
    const std::string broken = reductions_->verify(flits_in_flight() == 0 && queued_packets_ == 0 && idle());
    if (!broken.empty()) return broken;
  }
  if (!idle()) return {};
  if (models_ != nullptr) {
    const std::string left = models_->verify_idle();
    if (!left.empty()) return left;
  }
  if (trees_ != nullptr) {
    const std::string left = multicast_left();
    if (!left.empty()) return left;
  }
  for (std::size_t n = 0; n < terminals_.size(); ++n) {
    if (injected_to_[n] != ejected_at_[n]) {
      return (n < nodes_ ? "node " : "reduction unit ") + std::to_string(n < nodes_ ? n : n - nodes_) + " received " +
             std::to_string(ejected_at_[n]) + " of " + std::to_string(injected_to_[n]) + " flits sent to it";
    }
  }
  for (std::size_t n = 0; n < source_owned_.size(); ++n) {
    if (source_owned_[n] != 0) return "an injection VC of node " + std::to_string(n) + " was never released";
  }
  for (std::uint32_t r = 0; r < num_routers_; ++r) {
    const Router<VcSet> masks = this->masks(r);
    const VcSet asking = asking_.empty() ? 0 : asking_[r];
    if ((masks.va[0] | masks.va[1] | masks.sa[0] | masks.sa[1] | masks.blocked | masks.parked | asking) != 0) {
      return "router " + std::to_string(r) + " still has a VC at work in an empty network";
    }
    for (std::uint32_t p = 0; p < as_u32(spec_.ports); ++p) {
      const Port& out = port(r, p);
      const bool connected = out.link_time != 0 || out.terminal != kNoLink;
      if (connected && static_cast<std::uint32_t>(std::popcount(out.free_vcs)) != num_vcs_) {
        return "an output VC of router " + std::to_string(r) + " port " + std::to_string(p) + " was never released";
      }
    }
  }
  return {};
}

std::string FlitNetwork::wait_for_cycle() const {
  if (models_ != nullptr) return "no router wants to be called; " + models_->left(*this);
  // Each waiting input VC names one it waits for: the one that holds the slot or the VC it needs.
  // Of a packet that forks, the branch that is furthest behind.
  const auto behind = [&](std::uint32_t id) { return trees_ == nullptr ? id : waiting_lane(id); };
  const auto waits_for = [&](std::uint32_t id, std::string& reason) -> std::int64_t {
    const std::uint32_t r = router_of(id);
    const std::uint32_t base = base_of(id);
    const VcSet bit = vc_bit(bit_of(id));
    const InputVc& vc = input(id);
    if ((masks(r).blocked & bit) != 0) {
      const OutputVc& out = output(base + vc.output_vc);
      const std::uint32_t word = rings_[credit_slot(out.write, gap(r, vc.output))];
      reason = " waits for a credit of output port " + std::to_string(out.port) + " VC " + std::to_string(out.vc);
      if ((word & kFlit) == 0) return -1;
      return behind(out.down);
    }
    const bool asks = !asking_.empty() && (asking_[r] & bit) != 0;
    if (asks && vc.output == kNoPort) {
      reason = " is held back by the routing function";
      return -1;
    }
    if (asks || (masks(r).parked & bit) != 0) {
      reason = " waits for an output VC of port " + std::to_string(vc.output);
      const std::size_t number = candidate_count_.empty() ? 0 : dense(id);
      const std::uint32_t count = candidate_count_.empty() ? 1 : candidate_count_[number];
      for (std::uint32_t i = 1; i < count; ++i) {
        const std::uint8_t other = candidates_[number * candidate_room_ + i].port;
        reason += (i + 1 < count ? ", " : " or ") + std::to_string(other);
      }
      const std::uint32_t wanted = charged(id);
      if (waits_for_tail_credit(wanted)) {
        reason += ", whose tail's credit has not come back";
        return port(r, vc.output).terminal == kNoLink ? static_cast<std::int64_t>(output(wanted).down) : -1;
      }
      if ((port(r, vc.output).free_vcs >> output(wanted).vc & 1U) != 0) return -1;
      return base + output(wanted).owner;
    }
    if (vc.output != kNoPort && vc.visible == 0) {
      reason = " is empty in the middle of a packet and waits for its next flit";
      const Port& in = port(r, vc.port);
      if (in.source != 0) return -1;
      const std::uint32_t up = in.up + vc.vc;
      return base_of(up) + output(up).owner;
    }
    return -2;
  };
  std::string longest;
  std::size_t longest_length = 0;
  std::vector<std::uint32_t> seen(first_id(num_routers_), 0);
  std::uint32_t walk = 0;
  for (std::size_t start = 0; start < input_vcs(); ++start) {
    const std::uint32_t from = behind(sparse(start));
    if (seen[from] != 0) continue;
    ++walk;
    std::vector<std::uint32_t> chain;
    std::vector<std::string> reasons;
    std::uint32_t at = from;
    while (true) {
      if (seen[at] == walk) {
        const auto first = static_cast<std::size_t>(std::find(chain.begin(), chain.end(), at) - chain.begin());
        std::string text = "cycle of " + std::to_string(chain.size() - first) + " waiting VCs:";
        for (std::size_t i = first; i < chain.size(); ++i) {
          text += "\n  " + name_of_input(chain[i]) + reasons[i] + ", held by " +
                  name_of_input(i + 1 < chain.size() ? chain[i + 1] : at);
        }
        return text;
      }
      if (seen[at] != 0) break;
      seen[at] = walk;
      std::string reason;
      const std::int64_t next = waits_for(at, reason);
      if (next == -2) break;
      chain.push_back(at);
      reasons.push_back(reason);
      if (next < 0) break;
      at = static_cast<std::uint32_t>(next);
    }
    if (chain.size() > longest_length) {
      longest_length = chain.size();
      longest = "no cycle; the longest chain of waiting VCs:";
      for (std::size_t i = 0; i < chain.size(); ++i) longest += "\n  " + name_of_input(chain[i]) + reasons[i];
    }
  }
  if (longest.empty()) longest = "no VC waits";
  if (reductions_ != nullptr) longest += reductions_->waiting();
  return sessions_ == nullptr ? longest : longest + sessions_->waiting();
}

std::size_t FlitNetwork::core_bytes() const {
  const auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  std::size_t sum = sizeof(*this);
  sum += memory_.bytes() + bytes(gaps_) + bytes(active_) + bytes(at_work_);
  sum += bytes(vc_sets_) + bytes(arrivals_end_) + bytes(wakes_due_) + bytes(terminals_);
  sum += decltype(packets_)::allocator_type::bytes(packets_.capacity());
  sum += bytes(queues_) + bytes(source_write_) + bytes(future_sources_);
  sum += bytes(batch_start_) + bytes(batch_end_) + bytes(last_send_) + bytes(window_injected_) + bytes(window_ejected_);
  sum += bytes(injected_to_) + bytes(ejected_at_) + bytes(arrivals_) + bytes(departures_) + bytes(flit_arrivals_);
  sum += bytes(streams_) + bytes(booksim_draws_) + bytes(queue_order_) + bytes(to_route_) + bytes(arrived_);
  sum += bytes(candidates_) + bytes(candidate_count_) + bytes(asking_) + bytes(asking_active_) + bytes(packet_number_);
  if (models_ != nullptr) sum += models_->core_bytes();
  if (ways_ != nullptr) sum += ways_->core_bytes();
  sum += bytes(source_owned_) + bytes(awaits_tail_);
  if (allocation_ != nullptr) {
    sum += sizeof(Allocation) + allocation_->vcs.core_bytes() + allocation_->ports.core_bytes() +
           allocation_->requests.core_bytes() + bytes(allocation_->next_vc);
  }
  if (retry_ != nullptr) sum += retry_->core_bytes() + bytes(late_arrivals_) + bytes(retry_of_);
  if (sessions_ != nullptr) {
    sum += sessions_->core_bytes() + bytes(router_behind_) + bytes(held_) + bytes(is_held_) + bytes(session_waits_) +
           bytes(refusals_);
  }
  if (reductions_ != nullptr) sum += reductions_->core_bytes();
  sum += bytes(changes_) + bytes(changes_made_) + bytes(first_routes_.entries) + bytes(first_routes_.vc_sets);
  for (const Change& change : changes_) sum += bytes(change.routes.entries) + bytes(change.routes.vc_sets);
  sum += bytes(branches_) + bytes(forks_) + (trees_ == nullptr ? 0 : trees_->core_bytes());
  sum += bytes(spec_.links) + bytes(spec_.terminals) + bytes(spec_.classes);
  for (const auto& wakes : wakes_due_) sum += bytes(wakes);
  return sum;
}

// Makes `next_base` the cycle of stamp 0; what lies before it is "free since ever".
void FlitNetwork::rebase(std::int64_t next_base) {
  const std::int64_t delta = next_base - base_;
  if (delta == 0) return;
  const auto earlier = [&](std::uint32_t& stamp) {
    stamp = stamp > delta ? static_cast<std::uint32_t>(stamp - delta) : 0;
  };
  for (std::uint32_t& word : rings_) {
    if ((word & kFlit) == 0 && word != kNeverFree) earlier(word);
  }
  for (auto* stamps : {&batch_start_, &batch_end_, &last_send_}) {
    for (std::uint32_t& stamp : *stamps) earlier(stamp);
  }
  // waits may have begun before the new base: their stamps wrap, differences stay right
  for (std::size_t number = 0; number < input_vcs(); ++number) {
    input(sparse(number)).since -= static_cast<std::uint32_t>(delta);
  }
  if (trees_ != nullptr) {
    const std::uint32_t lanes = wide_.empty() ? LargeRecord::kMostInputs : WideRecord::kMostInputs;
    for (std::uint32_t r = 0; r < num_routers_; ++r) {
      for (std::uint32_t lane = vcs_per_router_; lane < lanes; ++lane) {
        input(first_id(r) + lane).since -= static_cast<std::uint32_t>(delta);
      }
    }
  }
  if ((delta & 1) != 0) {
    for (std::uint32_t r = 0; r < num_routers_; ++r) {
      with_router(r, [](auto& record) {
        std::swap(record.masks.va[0], record.masks.va[1]);
        std::swap(record.masks.sa[0], record.masks.sa[1]);
      });
    }
    std::swap_ranges(va_active(0), va_active(0) + router_words_, va_active(1));
    std::swap_ranges(sa_active(0), sa_active(0) + router_words_, sa_active(1));
  }
  const auto turn = [&](auto& items, std::size_t slots) {
    const auto by = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(delta) % slots * (items.size() / slots));
    std::rotate(items.begin(), items.begin() + by, items.end());
  };
  const auto place = [&](std::uint32_t slot) { return slot * arrivals_room_; };
  for (std::uint32_t slot = 0; slot <= arrivals_mask_; ++slot) arrivals_end_[slot] -= place(slot);
  turn(arrivals_end_, arrivals_end_.size());
  for (std::uint32_t slot = 0; slot <= arrivals_mask_; ++slot) arrivals_end_[slot] += place(slot);
  turn(arrivals_due_, arrivals_end_.size());
  turn(wakes_due_, wakes_due_.size());
  base_ = next_base;
}

void FlitNetwork::visit(sim::Visitor& v) {
  using sim::Kind;
  if (cycle_ >= 0) rebase(cycle_);
  v.value(Kind::stamp, base_);
  v.value(Kind::stamp, cycle_);
  const auto show = [&](Kind kind, auto items) { v.array(kind, items.data(), items.size()); };
  show(Kind::state, rings_);
  // the counters that stand between state are shown apart
  std::vector<std::int64_t> flits(input_vcs());
  for (std::size_t number = 0; number < input_vcs(); ++number) {
    flits[number] = std::exchange(output(sparse(number)).flits, 0);
  }
  show(Kind::state, small_);
  show(Kind::state, large_);
  show(Kind::state, wide_);
  v.vector(Kind::counter, flits);
  for (std::size_t number = 0; number < input_vcs(); ++number) {
    output(sparse(number)).flits = flits[number];
  }
  v.vector(Kind::state, active_);
  v.vector(Kind::state, arrivals_end_);
  for (std::uint32_t slot = 0; slot <= arrivals_mask_; ++slot) {
    if (arrivals_end_.size() != std::size_t{arrivals_mask_} + 1 || arrivals_count(slot) > arrivals_room_) {
      throw std::runtime_error("saved state has more arrivals than this network has room for");
    }
    v.array(Kind::state, arrivals_due_.data() + std::size_t{slot} * arrivals_room_, arrivals_count(slot));
  }
  for (auto& wakes : wakes_due_) v.vector(Kind::state, wakes);
  std::uint64_t packets = packets_.size();
  v.value(Kind::state, packets);
  packets_.resize(packets);
  v.array(Kind::state, packets_.data(), packets_.size());
  v.value(Kind::state, free_packet_);
  v.vector(Kind::state, terminals_);
  v.vector(Kind::state, queues_);
  v.vector(Kind::state, source_write_);
  v.vector(Kind::state, future_sources_);
  v.vector(Kind::state, batch_start_);
  v.vector(Kind::state, batch_end_);
  v.vector(Kind::state, last_send_);
  v.vector(Kind::state, source_owned_);
  v.vector(Kind::state, awaits_tail_);
  if (allocation_ != nullptr) {
    allocation_->vcs.visit(v);
    allocation_->ports.visit(v);
    v.vector(Kind::state, allocation_->next_vc);
  }
  v.value(Kind::counter, injected_flits_);
  v.value(Kind::counter, ejected_flits_);
  v.value(Kind::state, queued_packets_);
  v.value(Kind::state, fault_countdown_);
  v.value(Kind::state, window_begin_);
  v.value(Kind::state, window_end_);
  for (auto* counters : {&window_injected_, &window_ejected_, &injected_to_, &ejected_at_}) {
    v.vector(Kind::counter, *counters);
  }
  show(Kind::counter, stalls_);
  v.vector(Kind::state, arrivals_);
  v.vector(Kind::state, departures_);
  v.vector(Kind::state, flit_arrivals_);
  if (retry_ != nullptr) {
    retry_->visit(v);
    v.vector(Kind::stamp, late_arrivals_);
    v.vector(Kind::state, retry_of_);
  }
  if (sessions_ != nullptr) {
    sessions_->visit(v);
    v.vector(Kind::stamp, held_);
    v.vector(Kind::state, is_held_);
    v.vector(Kind::state, session_waits_);
    v.vector(Kind::stamp, refusals_);
  }
  if (trees_ != nullptr) {
    v.vector(Kind::state, branches_);
    v.vector(Kind::state, forks_);
    v.value(Kind::state, free_copy_);
    v.value(Kind::state, copies_free_);
    v.value(Kind::state, copies_due_);
    v.value(Kind::counter, copied_flits_);
    trees_->visit(v);
  }
  if (reductions_ != nullptr) reductions_->visit(v);
  if (!changes_.empty()) {
    v.vector(Kind::stamp, changes_made_);
    v.value(Kind::state, draining_);
    take_routes();
  }
  if (models_ != nullptr) {
    v.vector(Kind::state, packet_number_);
    v.value(Kind::counter, packets_offered_);
    v.value(Kind::state, stuck_);
    models_->visit(v, cycle_);
  }
  v.vector(Kind::state, streams_);
  if (routing_ == nullptr) return;
  for (BooksimRandom& draws : booksim_draws_) draws.visit(v);
  v.vector(Kind::state, queue_order_);
  v.vector(Kind::state, candidates_);
  v.vector(Kind::state, candidate_count_);
  v.vector(Kind::state, asking_);
  v.vector(Kind::state, asking_active_);
  v.vector(Kind::state, packet_number_);
  v.value(Kind::counter, packets_offered_);
  v.value(Kind::stamp, last_progress_);
  v.value(Kind::state, stuck_);
  routing_->visit(v);
}

}  // namespace cosim::noc
