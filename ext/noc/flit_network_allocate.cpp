// VC and switch allocation by allocators of any kind, speculation, and output VCs that wait for their tail's credit.
//
// A router is handled whole: first its heads ask for VCs, then flits, and with speculation heads too, for the switch.
// The VC allocation sees output VCs as they were before this cycle's switch allocation, as in every other shape.
#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "noc/flit_network_inline.hpp"

namespace cosim::noc {

namespace {

constexpr std::int64_t kSpeculativeKey = std::int64_t{1} << 62;  // behind every flit that has a VC

}  // namespace

void FlitNetwork::build_allocation(const NetworkSpec& spec) {
  if (wait_for_tail_) {
    source_owned_.resize(spec.terminals.size());
    awaits_tail_.resize(num_routers_);
  }
  if (spec.allocation.plain()) return;
  const auto made = [&](AllocatorKind kind, bool of_vcs, const UserAllocatorFactory* plugin) {
    const bool ignores = spec.compat_booksim2 && kind == AllocatorKind::islip;
    const AllocatorSpec each{kind, spec.allocation.arbiter, spec.allocation.iterations, ignores};
    return Allocator(each, {of_vcs, num_routers_, as_u32(spec.ports), num_vcs_, num_classes_}, plugin);
  };
  const std::uint32_t ports = as_u32(spec.ports);
  const AllocationSpec& how = spec.allocation;
  allocation_ = std::make_unique<Allocation>(
      Allocation{made(how.vc, true, how.vc_plugin.get()), made(how.sw, false, how.sw_plugin.get()),
                 how.vc == AllocatorKind::plugin || how.sw == AllocatorKind::plugin, AllocationRequests(),
                 std::vector<std::uint8_t>(std::size_t{num_routers_} * ports)});
}

// What a user's allocator may know of the packet at the front of an input VC.
void FlitNetwork::tell_facts(std::uint32_t id, bool speculative) {
  const Packet& packet = packets_[rings_[input(id).front] & kPacketMask];
  allocation_->requests.set_facts(bit_of(id), {packet.create, as_u32(packet.size), packet.message_class, speculative});
}

void FlitNetwork::fail_allocator(const Allocator& allocator) {
  failure_ = allocator.failure();
  stuck_ = 1;
}

FlitNetwork::Moves FlitNetwork::allocate(std::uint32_t r, VcSet heads, VcSet flits, std::uint32_t now) {
  Speculation speculation;
  if (heads != 0) {
    const VcSet granted = allocate_heads(r, heads, now, speculation);
    if (!spec_.allocation.speculative) {
      if (sa_delay_ == 1) {
        if (granted != 0) join_sa(r, granted, now + 1);
      } else {
        for (VcSet rest = granted; rest != 0; rest &= rest - 1) {
          wake_at(now + sa_delay_, kJoinSa, first_id(r) + lowest(rest));
        }
      }
    } else {
      speculation.granted = granted;
    }
  }
  if ((flits | speculation.heads | speculation.granted) == 0) return {};
  return allocate_flits(r, flits, now, speculation);
}

std::int64_t FlitNetwork::age_key(std::uint32_t id) const {
  return spec_.allocation.age_priority ? packets_[rings_[input(id).front] & kPacketMask].create : 0;
}

bool FlitNetwork::has_credit(std::uint32_t r, std::uint32_t resource, std::uint32_t now) const {
  const OutputVc& out = output(first_id(r) + resource);
  return rings_[credit_slot(out.write, gap(r, out.port))] <= now;
}

// ------------------------------------------------------------------------------------------------------- VC allocation

// Enters a head's requests for VCs, and with speculation those for the switch; false: every VC it may use is owned.
bool FlitNetwork::add_head(std::uint32_t id, std::uint32_t now, Speculation& speculation) {
  const std::uint32_t r = router_of(id);
  const std::uint32_t bit = bit_of(id);
  const InputVc& vc = input(id);
  const Candidate table{vc.vcs, vc.output, 0, 0};
  const bool function = routing_ != nullptr && traits_.several;
  const Candidate* candidates = function ? &candidates_[dense(id) * candidate_room_] : &table;
  const std::uint32_t count = function ? candidate_count_[dense(id)] : 1;
  // our iSLIP asks for the VCs of the best priority that has any; other allocators, and BookSim2's, see them all
  const bool best_only = spec_.allocation.vc == AllocatorKind::islip && !spec_.compat_booksim2;
  std::uint32_t best = ~0U;
  if (best_only) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool any = (port(r, candidates[i].port).free_vcs & candidates[i].vc_mask) != 0;
      if (any && candidates[i].priority < best) best = candidates[i].priority;
    }
  }
  const std::int64_t age = age_key(id);
  bool asks = false;
  VcSet outputs = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Candidate& candidate = candidates[i];
    if (best_only && candidate.priority != best) continue;
    bool credit = false;
    const std::uint32_t free = port(r, candidate.port).free_vcs & candidate.vc_mask;
    for (std::uint32_t rest = free; rest != 0; rest &= rest - 1) {
      const std::uint32_t resource = candidate.port * num_vcs_ + lowest(rest);
      allocation_->requests.add(bit, resource, 0, candidate.priority, age);
      asks = true;
      credit = credit || (spec_.allocation.speculative && has_credit(r, resource, now));
    }
    if (credit) {
      outputs |= vc_bit(candidate.port);
    } else if (spec_.compat_booksim2) {
      // BookSim2 marks the whole head as stalled when one element of its route set cannot be asked for
      speculation.wasted |= vc_bit(bit);
    }
  }
  if (outputs != 0) {
    speculation.heads |= vc_bit(bit);
    speculation.outputs[bit] = outputs;
  }
  return asks;
}

// Returns the heads that got a VC.
VcSet FlitNetwork::allocate_heads(std::uint32_t r, VcSet heads, std::uint32_t now, Speculation& speculation) {
  const std::uint32_t base = first_id(r);
  Allocation& a = *allocation_;
  a.requests.clear();
  for (VcSet rest = heads; rest != 0; rest &= rest - 1) {
    const std::uint32_t id = base + lowest(rest);
    if (add_head(id, now, speculation)) {
      if (a.facts) tell_facts(id, true);
      continue;
    }
    heads &= ~(rest & (0 - rest));
    if (routing_ != nullptr && traits_.several) {
      head_waits(id, now);
    } else {
      park(id, now);
    }
  }
  AllocationMatch found;
  if (!a.vcs.match(r, cycle_, a.requests, found)) fail_allocator(a.vcs);
  for (VcSet rest = found.inputs; rest != 0; rest &= rest - 1) {
    const std::uint32_t bit = lowest(rest);
    const std::uint32_t resource = found.output[bit];
    if (routing_ != nullptr && traits_.several) {
      take_candidate(base + bit, resource, now);
      continue;
    }
    OutputVc& out = output(base + resource);
    port(r, out.port).free_vcs &= ~out.bit;
    out.owner = as_u8(bit);
    input(base + bit).output_vc = as_u8(resource);
    order_grant(base + bit);
  }
  const VcSet losers = heads & ~found.inputs;
  if (losers == 0) return found.inputs;
  if (routing_ == nullptr || !traits_.several) {
    for (VcSet rest = losers; rest != 0; rest &= rest - 1) ++stalls(charged(base + lowest(rest))).lost_vc;
  }
  if (routing_ == nullptr || !traits_.adaptive) {
    join_va(r, losers, now + 1);
  } else {
    for (VcSet rest = losers; rest != 0; rest &= rest - 1) ask_later(base + lowest(rest));
  }
  return found.inputs;
}

// --------------------------------------------------------------------------------------------------- switch allocation

// Of the VCs of an input that ask for one output, one is put forward: by key, then round robin.
void FlitNetwork::put_forward(std::uint32_t r, std::uint32_t bit, std::uint32_t out, bool speculative) {
  Allocation& a = *allocation_;
  const std::uint32_t in = port_of_[bit];
  const std::uint32_t vc = vc_of_[bit];
  const std::int64_t key = age_key(first_id(r) + bit) + (speculative ? kSpeculativeKey : 0);
  if (a.requests.asks(in, out)) {
    const std::int64_t other_key = a.requests.input_key(in, out);
    const std::uint32_t other = a.requests.label(in, out);
    const std::uint32_t next = a.next_vc[std::size_t{r} * as_u32(spec_.ports) + in];
    const auto behind = [&](std::uint32_t v) { return v >= next ? v - next : v + num_vcs_ - next; };
    if (key > other_key || (key == other_key && behind(vc) >= behind(other))) return;
  }
  a.requests.add(in, out, as_u8(vc), key, key);
}

FlitNetwork::Moves FlitNetwork::allocate_flits(std::uint32_t r, VcSet flits, std::uint32_t now,
                                               const Speculation& speculation) {
  const std::uint32_t base = first_id(r);
  Allocation& a = *allocation_;
  a.requests.clear();
  for (VcSet rest = flits; rest != 0; rest &= rest - 1) {
    const std::uint32_t bit = lowest(rest);
    const InputVc& vc = input(base + bit);
    if (!has_credit(r, vc.output_vc, now)) {
      block(base + bit, now);
      flits &= ~vc_bit(bit);
      continue;
    }
    put_forward(r, bit, vc.output, false);
    if (a.facts) tell_facts(base + bit, false);
  }
  for (VcSet rest = speculation.heads; rest != 0; rest &= rest - 1) {
    const std::uint32_t bit = lowest(rest);
    for (VcSet outs = speculation.outputs[bit]; outs != 0; outs &= outs - 1) {
      put_forward(r, bit, lowest(outs), true);
    }
  }
  AllocationMatch found;
  if (!a.ports.match(r, cycle_, a.requests, found)) fail_allocator(a.ports);
  Moves moves;
  for (VcSet rest = found.inputs; rest != 0; rest &= rest - 1) {
    const std::uint32_t in = lowest(rest);
    const std::uint32_t out = found.output[in];
    const std::uint32_t vc = a.requests.label(in, out);
    const std::uint32_t bit = in * num_vcs_ + vc;
    const bool head = (flits >> bit & 1U) == 0;
    if (head && (speculation.wasted >> bit & 1U) != 0) continue;
    a.next_vc[std::size_t{r} * as_u32(spec_.ports) + in] = as_u8(vc + 1 == num_vcs_ ? 0 : vc + 1);
    if (head) {
      const InputVc& won = input(base + bit);
      if ((speculation.granted >> bit & 1U) == 0 || won.output != out || !has_credit(r, won.output_vc, now)) continue;
    }
    moves.winners |= vc_bit(bit);
  }
  moves.again = flits & ~moves.winners;
  for (VcSet rest = moves.again; rest != 0; rest &= rest - 1) {
    ++stalls(base + input(base + lowest(rest)).output_vc).lost_switch;
  }
  for (VcSet rest = speculation.granted & ~moves.winners; rest != 0; rest &= rest - 1) {
    const std::uint32_t id = base + lowest(rest);
    const std::uint32_t out = base + input(id).output_vc;
    if (has_credit(r, bit_of(out), now)) {
      ++stalls(out).lost_switch;
    } else {
      ++stalls(out).no_credit;
    }
    if (sa_delay_ == 1) {
      moves.again |= rest & (0 - rest);
    } else {
      wake_at(now + sa_delay_, kJoinSa, id);
    }
  }
  return moves;
}

// --------------------------------------------------------------------------------------------- waiting for tail
// credits

// The tail of input VC `id` has won the switch towards output VC `out` of its router and is sent at `sent`; its slot is
// free upstream at `freed`. Output VCs are released when the tail's credit is there: this one later, the one upstream
// at `freed`.
void FlitNetwork::release_later(std::uint32_t id, std::uint32_t out, std::uint32_t sent, std::uint32_t freed) {
  const std::uint32_t r = router_of(id);
  const std::uint32_t bit = bit_of(id);
  awaits_tail_[r] |= vc_bit(out);
  if (port(r, port_of_[out]).terminal != kNoLink) wake_at(sent + ejection_reuse_, kRelease, first_id(r) + out);
  if (freed == kNeverFree) return;
  const Port& in = port(r, port_of_[bit]);
  if (in.source != 0) {
    wake_at(freed, kReleaseSource, id);
  } else {
    wake_at(freed, kRelease, in.up + vc_of_[bit]);
  }
}

// Heads may ask for the VC in this very cycle.
void FlitNetwork::release(std::uint32_t id, std::uint32_t now) {
  const std::uint32_t r = router_of(id);
  const std::uint32_t p = port_of_[bit_of(id)];
  awaits_tail_[r] &= ~vc_bit(bit_of(id));
  port(r, p).free_vcs |= 1U << vc_of_[bit_of(id)];
  const bool waited_for =
      with_router(r, [p](const auto& record) { return (record.masks.parked & record.ports[p].to) != 0; });
  if (waited_for) unpark(r, p, now - 1);
}

void FlitNetwork::release_source(std::uint32_t id) {
  const std::uint32_t terminal = port(router_of(id), port_of_[bit_of(id)]).up;
  source_owned_[terminal] &= ~(1U << vc_of_[bit_of(id)]);
  activate(terminal);
}

bool FlitNetwork::waits_for_tail_credit(std::uint32_t out) const {
  return wait_for_tail_ && (awaits_tail_[router_of(out)] >> (bit_of(out)) & 1U) != 0;
}

}  // namespace cosim::noc
