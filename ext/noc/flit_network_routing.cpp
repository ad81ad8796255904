// Routing functions inside a network: when heads are asked for, what a function sees, and VC allocation among heads
// with several candidates.
#include <algorithm>
#include <stdexcept>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "noc/flit_network_inline.hpp"
#include "noc/routing_builtin.hpp"

namespace cosim::noc {

// -------------------------------------------------------------------------------------------------- what a router sees

std::uint32_t RouterView::ports() const { return as_u32(network_.spec_.ports); }
std::uint32_t RouterView::num_vcs() const { return network_.num_vcs_; }

bool RouterView::link_up(std::uint32_t port) const {
  if (port >= ports()) return false;
  const FlitNetwork::Port& p = network_.port(router_, port);
  return p.link_time != 0 || p.terminal != FlitNetwork::kNoLink;
}

std::uint32_t RouterView::free_slots(std::uint32_t port, std::uint32_t vc) const {
  if (!link_up(port) || vc >= network_.num_vcs_) return 0;
  const std::uint32_t gap = network_.gap(router_, port);
  const std::uint32_t depth = network_.ring_mask_ + 1 - gap;
  const std::uint32_t write = network_.output(first_id(router_) + port * network_.num_vcs_ + vc).write;
  std::uint32_t free = 0;
  while (free < depth && network_.rings_[network_.credit_slot(write, gap + free)] <= now_) ++free;
  return free;
}

std::uint32_t RouterView::free_vcs(std::uint32_t port) const {
  return link_up(port) ? network_.port(router_, port).free_vcs : 0;
}

std::uint32_t RouterView::queued_flits(std::uint32_t port) const {
  if (port >= ports()) return 0;
  std::uint32_t flits = 0;
  for (VcSet rest = network_.routed_to(router_, port); rest != 0; rest &= rest - 1) {
    flits += network_.input(first_id(router_) + lowest(rest)).visible;
  }
  return flits;
}

// -------------------------------------------------------------------------------------------------------- construction

void FlitNetwork::build_routing(const NetworkSpec& spec) {
  const RoutingKind kind = spec.routing.kind;
  if (kind == RoutingKind::table) return;
  for (std::uint32_t r = 0; r < num_routers_; ++r) streams_.emplace_back(spec.routing.seed, r);
  if (is_oblivious(kind) && !spec.compat_booksim2) {
    ways_ = std::make_unique<RouteWays>(make_ways(spec));
    return;
  }
  routing_ = kind == RoutingKind::plugin ? spec.routing.plugin->create(spec) : make_builtin(spec);
  traits_ = routing_->traits();
  traits_.several = traits_.several || traits_.adaptive;
  const std::size_t vcs = input_vcs();
  candidate_room_ = traits_.several ? 2 * as_u32(spec.ports) : 1;
  candidates_.resize(vcs * candidate_room_);
  candidate_count_.resize(vcs);
  asking_.resize(num_routers_);
  asking_active_.resize(router_words_);
  if (spec.compat_booksim2) {
    booksim_draws_.emplace_back(static_cast<std::int32_t>(spec.routing.seed & 0x3FFFFFFFU));
    draws_.booksim_ = booksim_draws_.data();
    queue_order_.resize(vcs);
  }
}

// --------------------------------------------------------------------------------------------------------- asking

void FlitNetwork::fail(std::uint32_t id, const std::string& what) {
  const Packet& packet = packets_[rings_[input(id).front] & kPacketMask];
  const std::string name = spec_.routing.plugin != nullptr ? " '" + spec_.routing.plugin->name() + "'" : "";
  failure_ = "routing function" + name + ": " + what + " (" + name_of_input(id) + ", packet " +
             std::to_string(packet_number_[rings_[input(id).front] & kPacketMask]) + " from node " +
             std::to_string(packet.source) + " to node " + std::to_string(packet.dest) + ", cycle " +
             std::to_string(cycle_) + ")";
  stuck_ = 1;
}

// Whether a packet may not be sent where a candidate says.
bool FlitNetwork::is_wrong(std::uint32_t r, const Packet& packet, const Candidate& candidate) const {
  if (candidate.port >= ports_) return true;
  const Port& out = port(r, candidate.port);
  const bool leads = out.terminal != kNoLink ? out.terminal == as_u32(packet.dest) : out.link_time != 0;
  return !leads || (candidate.vc_mask & class_masks_[packet.message_class]) == 0;
}

// Why a candidate is wrong.
std::string FlitNetwork::wrong_candidate(std::uint32_t id, const Candidate& candidate) const {
  const std::string offered = "offered port " + std::to_string(candidate.port);
  if (candidate.port >= as_u32(spec_.ports)) {
    return offered + "; a router has " + std::to_string(spec_.ports) + " ports";
  }
  const Packet& packet = packets_[rings_[input(id).front] & kPacketMask];
  const Port& out = port(router_of(id), candidate.port);
  if (out.terminal != kNoLink) {
    if (out.terminal != as_u32(packet.dest)) return offered + ", which ejects to another node";
  } else if (out.link_time == 0) {
    return offered + ", which is not connected";
  }
  return "offered no VC of the packet's message class on port " + std::to_string(candidate.port);
}

// Asks the function for the head at the front of `id`; false: it is held back, or the run has failed.
bool FlitNetwork::ask(std::uint32_t id, std::uint32_t now) {
  const std::uint32_t r = router_of(id);
  const InputVc& vc = input(id);
  const std::uint32_t slot = rings_[vc.front] & kPacketMask;
  Packet& packet = packets_[slot];
  const std::size_t number = dense(id);
  Candidate* candidates = &candidates_[number * candidate_room_];
  draws_.stream_ = &streams_[r];
  RouteRequest request{.router = r,
                       .in_port = vc.port,
                       .in_vc = vc.vc,
                       .from_terminal = port(r, vc.port).source != 0,
                       .source = as_u32(packet.source),
                       .dest = as_u32(packet.dest),
                       .message_class = packet.message_class,
                       .class_vcs = class_masks_[packet.message_class],
                       .hops = static_cast<std::uint32_t>(packet.path >> 32U) - 1,
                       .size_flits = as_u32(packet.size),
                       .cycle = cycle_,
                       .packet = packet_number_[slot],
                       .state = packet.route_state,
                       .draws = &draws_};
  const RouterView view(*this, r, now);
  const std::int32_t count = route_builtin(spec_.routing.kind, *routing_, request, view, candidates, candidate_room_);
  packet.route_state = request.state;
  candidate_count_[number] = 0;
  if (count <= 0) {
    if (count < 0) fail(id, routing_->failure());
    return false;
  }
  if (as_u32(count) > candidate_room_) {
    fail(id, "offered " + std::to_string(count) + " candidates; room is for " + std::to_string(candidate_room_));
    return false;
  }
  for (std::uint32_t i = 0; i < as_u32(count); ++i) {
    if (is_wrong(r, packet, candidates[i])) [[unlikely]] {
      fail(id, wrong_candidate(id, candidates[i]));
      return false;
    }
    candidates[i].vc_mask = vcs_of(packet, candidates[i].vc_mask);
  }
  candidate_count_[number] = as_u8(as_u32(count));
  return true;
}

// The head takes part in VC allocation from `join` on.
void FlitNetwork::offer_candidates(std::uint32_t id, std::uint32_t join, std::uint32_t now) {
  const std::size_t number = dense(id);
  const Candidate* candidates = &candidates_[number * candidate_room_];
  InputVc& vc = input(id);
  vc.send_to(candidates[0].port);
  vc.vcs = candidates[0].vc_mask;
  const std::uint32_t count = candidate_count_[number];
  for (std::uint32_t i = 0; i < count; ++i) route_to(id, candidates[i].port);
  if (join <= now + 1) {
    join_va(id, join);
  } else {
    wake_at(join, kJoinVa, id);
  }
}

void FlitNetwork::drop_candidates(std::uint32_t id) {
  const std::uint32_t r = router_of(id);
  const std::size_t number = dense(id);
  const Candidate* candidates = &candidates_[number * candidate_room_];
  const std::uint32_t count = candidate_count_[number];
  with_router(r, [&](auto& record) {
    for (std::uint32_t i = 0; i < count; ++i) drop(record.ports[candidates[i].port].to, bit_of(id));
  });
}

// The function is asked again in the next cycle.
void FlitNetwork::ask_later(std::uint32_t id) {
  const std::uint32_t r = router_of(id);
  asking_[r] |= vc_bit(bit_of(id));
  asking_active_[r >> 6U] |= bit64(r & 63U);
}

// Heads that reached the front of their VC: those behind a tail that left in the last step, and arrivals.
void FlitNetwork::route_arrived(std::uint32_t now) {
  if (queue_order_.empty()) {
    to_route_.insert(to_route_.end(), arrived_.begin(), arrived_.end());
  } else {
    order_as_booksim();
  }
  for (const std::uint32_t id : to_route_) {
    if (!failure_.empty()) break;
    const std::uint32_t r = router_of(id);
    const std::uint32_t bit = bit_of(id);
    packets_[rings_[input(id).front] & kPacketMask].path += port(r, port_of_[bit]).step;
    input(id).since = now + va_delay_;
    if (ask(id, now)) {
      offer_candidates(id, now + va_delay_, now);
    } else {
      ask_later(id);
    }
  }
  to_route_.clear();
  arrived_.clear();
  note_progress(now);
}

// BookSim2's order of routing in one step: routers ascending; in a router first the VCs whose tail left, in the order
// of its switch allocation queue, then arrivals by input port. Both queues are kept as keys: what an update puts in
// front gets a key that falls with the cycle, what is appended one that rises.
void FlitNetwork::order_as_booksim() {
  std::sort(to_route_.begin(), to_route_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return router_of(a) != router_of(b) ? router_of(a) < router_of(b) : queue_order_[dense(a)] < queue_order_[dense(b)];
  });
  std::sort(arrived_.begin(), arrived_.end());
  const auto middle = static_cast<std::ptrdiff_t>(to_route_.size());
  to_route_.insert(to_route_.end(), arrived_.begin(), arrived_.end());
  std::inplace_merge(to_route_.begin(), to_route_.begin() + middle, to_route_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return router_of(a) < router_of(b); });
  constexpr std::int64_t kMostPerStep = std::int64_t{1} << 28;
  for (std::size_t i = 0; i < to_route_.size(); ++i) {
    queue_order_[dense(to_route_[i])].va = static_cast<std::int64_t>(i) - cycle_ * kMostPerStep;
  }
}

// Heads held back, and those of an adaptive function that were not granted a VC.
void FlitNetwork::ask_again(std::uint32_t now) {
  for (std::size_t word = 0; word < asking_active_.size(); ++word) {
    std::uint64_t active = asking_active_[word];
    asking_active_[word] = 0;
    for (; active != 0; active &= active - 1) {
      const std::uint32_t r = static_cast<std::uint32_t>(word) * 64 + lowest(active);
      VcSet rest = asking_[r];
      asking_[r] = 0;
      for (; rest != 0; rest &= rest - 1) {
        const std::uint32_t id = first_id(r) + lowest(rest);
        const bool held = candidate_count_[dense(id)] == 0;
        drop_candidates(id);
        if (!failure_.empty() || !ask(id, now)) {
          input(id).output = kNoPort;
          ask_later(id);
          continue;
        }
        const std::uint32_t join = held ? now + va_delay_ : now;
        if (held) input(id).since = join;
        offer_candidates(id, join, now);
      }
    }
  }
}

// ------------------------------------------------------------------------------------------------------- VC allocation

// Un-owned output VCs that a head asks for: those of its best priority that has any.
VcSet FlitNetwork::asked_vcs(std::uint32_t id) const {
  const std::size_t number = dense(id);
  const Candidate* candidates = &candidates_[number * candidate_room_];
  const std::uint32_t count = candidate_count_[number];
  return with_router(router_of(id), [&](const auto& record) {
    VcSet asked = 0;
    std::uint32_t best = ~0U;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Candidate& candidate = candidates[i];
      const std::uint32_t free = record.ports[candidate.port].free_vcs & candidate.vc_mask;
      if (free == 0) continue;
      if (!spec_.compat_booksim2) {
        if (candidate.priority > best) continue;
        if (candidate.priority < best) asked = 0;
        best = candidate.priority;
      }
      asked |= static_cast<VcSet>(free) << candidate.port * num_vcs_;
    }
    return asked;
  });
}

// Every VC that a head with candidates may use is owned.
void FlitNetwork::head_waits(std::uint32_t id, std::uint32_t now) {
  if (!traits_.adaptive) {
    stalls(charged(id)).lost_vc += now - input(id).since;
    park(id, now);
    return;
  }
  stalls(charged(id)).busy_vc += now + 1 - input(id).since;
  input(id).since = now + 1;
  ask_later(id);
}

// iSLIP over all pairs of a head and an output VC it asks for: a head may be granted VCs of several outputs and accepts
// one.
void FlitNetwork::allocate_several(std::uint32_t r, VcSet requests, std::uint32_t now) {
  const std::uint32_t base = first_id(r);
  if (single(requests)) {  // it gets what it accepts first
    const std::uint32_t id = base + lowest(requests);
    const VcSet asked = asked_vcs(id);
    if (asked == 0) {
      head_waits(id, now);
    } else {
      grant_candidate(id, round_robin(asked, input(id).output_vc + 1U), now);
    }
    return;
  }
  VcSet asks[kMostVcs];
  VcSet asked = 0;
  VcSet clash = 0;  // output VCs that several ask for
  for (VcSet rest = requests; rest != 0; rest &= rest - 1) {
    const std::uint32_t bit = lowest(rest);
    const std::uint32_t id = base + bit;
    asks[bit] = asked_vcs(id);
    clash |= asked & asks[bit];
    asked |= asks[bit];
    if (asks[bit] != 0) continue;
    requests &= ~vc_bit(bit);
    head_waits(id, now);
  }
  VcSet grants[kMostVcs];  // output VCs, per head
  VcSet granted = 0;
  for (VcSet rest = requests; rest != 0; rest &= rest - 1) {
    const std::uint32_t bit = lowest(rest);
    grants[bit] = asks[bit] & ~clash;
    if (grants[bit] != 0) granted |= vc_bit(bit);
  }
  for (VcSet rest = clash; rest != 0; rest &= rest - 1) {
    const std::uint32_t resource = lowest(rest);
    VcSet heads = 0;
    for (VcSet each = requests; each != 0; each &= each - 1) {
      const std::uint32_t bit = lowest(each);
      if ((asks[bit] >> resource & 1U) != 0) heads |= vc_bit(bit);
    }
    const std::uint32_t winner = round_robin(heads, output(base + resource).owner + 1U);
    granted |= vc_bit(winner);
    grants[winner] |= vc_bit(resource);
  }
  for (VcSet rest = granted; rest != 0; rest &= rest - 1) {
    const std::uint32_t winner = lowest(rest);
    grant_candidate(base + winner, round_robin(grants[winner], input(base + winner).output_vc + 1U), now);
  }
  const VcSet losers = requests & ~granted;
  if (losers == 0) return;
  if (!traits_.adaptive) {
    join_va(r, losers, now + 1);
    return;
  }
  for (VcSet rest = losers; rest != 0; rest &= rest - 1) ask_later(base + lowest(rest));
}

// The head takes one of its candidates' output VCs and asks for the switch V cycles from now.
void FlitNetwork::grant_candidate(std::uint32_t id, std::uint32_t resource, std::uint32_t now) {
  take_candidate(id, resource, now);
  if (sa_delay_ == 1) {
    join_sa(id, now + 1);
  } else {
    wake_at(now + sa_delay_, kJoinSa, id);
  }
}

void FlitNetwork::take_candidate(std::uint32_t id, std::uint32_t resource, std::uint32_t now) {
  const std::uint32_t r = router_of(id);
  InputVc& vc = input(id);
  OutputVc& out = output(base_of(id) + resource);
  Port& to = port(r, out.port);
  if (candidate_count_[dense(id)] != 1) {
    drop_candidates(id);
    vc.send_to(out.port);
    route_to(id, out.port);
  }
  vc.vcs = out.bit;
  vc.output_vc = as_u8(resource);
  out.owner = as_u8(bit_of(id));
  to.free_vcs &= ~out.bit;
  stalls(base_of(id) + resource).lost_vc += now - vc.since;
  order_grant(id);
}

// ------------------------------------------------------------------------------------------------- progress and ticks

void FlitNetwork::run_ticks() {
  for (std::int64_t due = routing_->next_tick(); due <= cycle_ && failure_.empty(); due = routing_->next_tick()) {
    if (routing_->tick(due)) continue;
    failure_ = "routing function: " + routing_->failure() + " (tick of cycle " + std::to_string(due) + ")";
    stuck_ = 1;
  }
}

// Anything at work but heads that are asked for again.
void FlitNetwork::note_progress(std::uint32_t now) {
  std::uint64_t busy = 0;
  for (std::size_t word = 0; word < router_words_; ++word) busy |= va_active(now)[word] | sa_active(now)[word];
  for (std::size_t word = 0; word < source_words(); ++word) busy |= sources_active()[word];
  if (busy != 0) last_progress_ = cycle_;
  draws_before_ = draws_.made_;
}

// When nothing but repeated asking is left and every flit and credit has landed, a function without memory that drew
// no number answers the same for ever; any other is given no_progress_cycles.
void FlitNetwork::judge_progress() {
  if (!failure_.empty()) return;
  const std::int64_t quiet = cycle_ - last_progress_;
  const std::int64_t landed = std::max(wakes_mask_, arrivals_mask_);
  const bool settled = traits_.memoryless && draws_.made_ == draws_before_;
  stuck_ = quiet > (settled ? landed : std::max(landed, spec_.routing.no_progress_cycles)) ? 1 : 0;
}

}  // namespace cosim::noc
