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
  const FlitNetwork::Port& p = network_.ports_[(router_ << network_.port_shift_) + port];
  return p.link_time != 0 || p.terminal != FlitNetwork::kNoLink;
}

std::uint32_t RouterView::free_slots(std::uint32_t port, std::uint32_t vc) const {
  if (!link_up(port) || vc >= network_.num_vcs_) return 0;
  const std::uint32_t gap = network_.ports_[(router_ << network_.port_shift_) + port].gap;
  const std::uint32_t depth = network_.ring_mask_ + 1 - gap;
  const std::uint32_t resource = (router_ << network_.vc_shift_) + port * network_.num_vcs_ + vc;
  const std::uint32_t write = network_.outputs_[resource].write;
  std::uint32_t free = 0;
  while (free < depth && network_.rings_[network_.credit_slot(write, gap + free)] <= now_) ++free;
  return free;
}

std::uint32_t RouterView::free_vcs(std::uint32_t port) const {
  return link_up(port) ? network_.ports_[(router_ << network_.port_shift_) + port].free_vcs : 0;
}

std::uint32_t RouterView::queued_flits(std::uint32_t port) const {
  if (port >= ports()) return 0;
  std::uint32_t flits = 0;
  const std::uint64_t to = network_.ports_[(router_ << network_.port_shift_) + port].to;
  for (std::uint64_t rest = to; rest != 0; rest &= rest - 1) {
    flits += network_.inputs_[(router_ << network_.vc_shift_) + lowest(rest)].visible;
  }
  return flits;
}

// -------------------------------------------------------------------------------------------------------- construction

void FlitNetwork::build_routing(const NetworkSpec& spec) {
  const RoutingKind kind = spec.routing.kind;
  if (kind == RoutingKind::table) return;
  routing_ = kind == RoutingKind::plugin ? spec.routing.plugin->create(spec) : make_builtin(spec);
  traits_ = routing_->traits();
  traits_.several = traits_.several || traits_.adaptive;
  const std::size_t vcs = inputs_.size();
  candidate_room_ = traits_.several ? 2 * as_u32(spec.ports) : 1;
  candidates_.resize(vcs * candidate_room_);
  candidate_count_.resize(vcs);
  asking_.resize(routers_.size());
  asking_active_.resize(va_active_[0].size());
  for (std::uint32_t r = 0; r < routers_.size(); ++r) streams_.emplace_back(spec.routing.seed, r);
  if (spec.compat_booksim2) {
    booksim_draws_.emplace_back(static_cast<std::int32_t>(spec.routing.seed & 0x3FFFFFFFU));
    draws_.booksim_ = booksim_draws_.data();
    queue_order_.resize(vcs);
  }
}

// --------------------------------------------------------------------------------------------------------- asking

void FlitNetwork::fail(std::uint32_t input, const std::string& what) {
  const Packet& packet = packets_[rings_[inputs_[input].front] & kPacketMask];
  const std::string name = spec_.routing.plugin != nullptr ? " '" + spec_.routing.plugin->name() + "'" : "";
  failure_ = "routing function" + name + ": " + what + " (" + name_of_input(input) + ", packet " +
             std::to_string(packet_number_[rings_[inputs_[input].front] & kPacketMask]) + " from node " +
             std::to_string(packet.source) + " to node " + std::to_string(packet.dest) + ", cycle " +
             std::to_string(cycle_) + ")";
  stuck_ = 1;
}

// What is wrong with a candidate, empty when nothing is.
std::string FlitNetwork::wrong_candidate(std::uint32_t input, const Candidate& candidate) const {
  const std::string port = "port " + std::to_string(candidate.port);
  if (candidate.port >= as_u32(spec_.ports)) {
    return "offered " + port + "; a router has " + std::to_string(spec_.ports) + " ports";
  }
  const Packet& packet = packets_[rings_[inputs_[input].front] & kPacketMask];
  const Port& out = ports_[((input >> vc_shift_) << port_shift_) + candidate.port];
  if (out.terminal != kNoLink) {
    if (out.terminal != as_u32(packet.dest)) return "offered " + port + ", which ejects to another node";
  } else if (out.link_time == 0) {
    return "offered " + port + ", which is not connected";
  }
  if ((candidate.vc_mask & packet.class_vcs) == 0) return "offered no VC of the packet's message class on " + port;
  return {};
}

// Asks the function for the head at the front of `input`; false: it is held back, or the run has failed.
bool FlitNetwork::ask(std::uint32_t input, std::uint32_t now) {
  const std::uint32_t router = input >> vc_shift_;
  const std::uint32_t bit = input & ((1U << vc_shift_) - 1);
  const std::uint32_t slot = rings_[inputs_[input].front] & kPacketMask;
  Packet& packet = packets_[slot];
  Candidate* candidates = &candidates_[input * std::size_t{candidate_room_}];
  draws_.stream_ = &streams_[router];
  RouteRequest request;
  request.router = router;
  request.in_port = port_of_[bit];
  request.in_vc = vc_of_[bit];
  request.from_terminal = ports_[(router << port_shift_) + port_of_[bit]].source != 0;
  request.source = as_u32(packet.source);
  request.dest = as_u32(packet.dest);
  request.message_class = packet.message_class;
  request.class_vcs = packet.class_vcs;
  request.hops = static_cast<std::uint32_t>(packet.path >> 32U) - 1;
  request.size_flits = as_u32(packet.size);
  request.cycle = cycle_;
  request.packet = packet_number_[slot];
  request.state = packet.route_state;
  request.draws = &draws_;
  const RouterView view(*this, router, now);
  const RoutingKind kind = spec_.routing.kind;
  const std::int32_t count = kind == RoutingKind::plugin
                                 ? routing_->route(request, view, candidates, candidate_room_)
                                 : route_builtin(kind, *routing_, request, view, candidates, candidate_room_);
  packet.route_state = request.state;
  candidate_count_[input] = 0;
  if (count <= 0) {
    if (count < 0) fail(input, routing_->failure());
    return false;
  }
  if (as_u32(count) > candidate_room_) {
    fail(input, "offered " + std::to_string(count) + " candidates; room is for " + std::to_string(candidate_room_));
    return false;
  }
  for (std::uint32_t i = 0; i < as_u32(count); ++i) {
    const std::string wrong = wrong_candidate(input, candidates[i]);
    if (!wrong.empty()) {
      fail(input, wrong);
      return false;
    }
    candidates[i].vc_mask &= packet.class_vcs;
  }
  candidate_count_[input] = as_u8(as_u32(count));
  return true;
}

// The head takes part in VC allocation from `join` on.
void FlitNetwork::offer_candidates(std::uint32_t input, std::uint32_t join, std::uint32_t now) {
  const std::uint32_t router = input >> vc_shift_;
  const std::uint64_t bit = bit64(input & ((1U << vc_shift_) - 1));
  const Candidate* candidates = &candidates_[input * std::size_t{candidate_room_}];
  InputVc& vc = inputs_[input];
  vc.output = candidates[0].port;
  vc.vcs = candidates[0].vc_mask;
  for (std::uint32_t i = 0; i < candidate_count_[input]; ++i) {
    ports_[(router << port_shift_) + candidates[i].port].to |= bit;
  }
  if (join <= now + 1) {
    join_va(router, bit, join);
  } else {
    wake_at(join, kJoinVa, input);
  }
}

void FlitNetwork::drop_candidates(std::uint32_t input) {
  const std::uint32_t router = input >> vc_shift_;
  const std::uint64_t bit = bit64(input & ((1U << vc_shift_) - 1));
  const Candidate* candidates = &candidates_[input * std::size_t{candidate_room_}];
  for (std::uint32_t i = 0; i < candidate_count_[input]; ++i) {
    ports_[(router << port_shift_) + candidates[i].port].to &= ~bit;
  }
}

// The function is asked again in the next cycle.
void FlitNetwork::ask_later(std::uint32_t input) {
  const std::uint32_t router = input >> vc_shift_;
  asking_[router] |= bit64(input & ((1U << vc_shift_) - 1));
  asking_active_[router >> 6U] |= bit64(router & 63U);
}

// Heads that reached the front of their VC: those behind a tail that left in the last step, and arrivals.
void FlitNetwork::route_arrived(std::uint32_t now) {
  if (queue_order_.empty()) {
    to_route_.insert(to_route_.end(), arrived_.begin(), arrived_.end());
  } else {
    order_as_booksim();
  }
  for (const std::uint32_t input : to_route_) {
    if (!failure_.empty()) break;
    const std::uint32_t router = input >> vc_shift_;
    const std::uint32_t bit = input & ((1U << vc_shift_) - 1);
    packets_[rings_[inputs_[input].front] & kPacketMask].path += ports_[(router << port_shift_) + port_of_[bit]].step;
    since_[input] = now + va_delay_;
    if (ask(input, now)) {
      offer_candidates(input, now + va_delay_, now);
    } else {
      ask_later(input);
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
    const std::uint32_t router_a = a >> vc_shift_;
    const std::uint32_t router_b = b >> vc_shift_;
    return router_a != router_b ? router_a < router_b : queue_order_[a] < queue_order_[b];
  });
  std::sort(arrived_.begin(), arrived_.end());
  const auto middle = static_cast<std::ptrdiff_t>(to_route_.size());
  to_route_.insert(to_route_.end(), arrived_.begin(), arrived_.end());
  std::inplace_merge(to_route_.begin(), to_route_.begin() + middle, to_route_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return a >> vc_shift_ < b >> vc_shift_; });
  constexpr std::int64_t kMostPerStep = std::int64_t{1} << 28;
  for (std::size_t i = 0; i < to_route_.size(); ++i) {
    queue_order_[to_route_[i]].va = static_cast<std::int64_t>(i) - cycle_ * kMostPerStep;
  }
}

// Heads held back, and those of an adaptive function that were not granted a VC.
void FlitNetwork::ask_again(std::uint32_t now) {
  for (std::size_t word = 0; word < asking_active_.size(); ++word) {
    std::uint64_t active = asking_active_[word];
    asking_active_[word] = 0;
    for (; active != 0; active &= active - 1) {
      const std::uint32_t router = static_cast<std::uint32_t>(word) * 64 + lowest(active);
      std::uint64_t rest = asking_[router];
      asking_[router] = 0;
      for (; rest != 0; rest &= rest - 1) {
        const std::uint32_t input = (router << vc_shift_) + lowest(rest);
        const bool held = candidate_count_[input] == 0;
        drop_candidates(input);
        if (!failure_.empty() || !ask(input, now)) {
          inputs_[input].output = kNoPort;
          ask_later(input);
          continue;
        }
        const std::uint32_t join = held ? now + va_delay_ : now;
        if (held) since_[input] = join;
        offer_candidates(input, join, now);
      }
    }
  }
}

// ------------------------------------------------------------------------------------------------------- VC allocation

// Un-owned output VCs that a head asks for: those of its best priority that has any.
std::uint64_t FlitNetwork::asked_vcs(std::uint32_t router, std::uint32_t bit) const {
  const std::uint32_t input = (router << vc_shift_) + bit;
  const Candidate* candidates = &candidates_[input * std::size_t{candidate_room_}];
  std::uint64_t asked = 0;
  std::uint32_t best = ~0U;
  for (std::uint32_t i = 0; i < candidate_count_[input]; ++i) {
    const Candidate& candidate = candidates[i];
    const std::uint32_t free = ports_[(router << port_shift_) + candidate.port].free_vcs & candidate.vc_mask;
    if (free == 0) continue;
    if (!spec_.compat_booksim2) {
      if (candidate.priority > best) continue;
      if (candidate.priority < best) asked = 0;
      best = candidate.priority;
    }
    asked |= static_cast<std::uint64_t>(free) << candidate.port * num_vcs_;
  }
  return asked;
}

// iSLIP over all pairs of a head and an output VC it asks for: as allocate_vcs, but a head may be granted VCs of
// several outputs and accepts one.
void FlitNetwork::allocate_several(std::uint32_t router, std::uint64_t requests, std::uint32_t now) {
  const std::uint32_t base = router << vc_shift_;
  std::uint64_t asks[64];
  std::uint64_t asked = 0;
  for (std::uint64_t rest = requests; rest != 0; rest &= rest - 1) {
    const std::uint32_t bit = lowest(rest);
    asks[bit] = asked_vcs(router, bit);
    asked |= asks[bit];
    if (asks[bit] != 0) continue;
    requests &= ~bit64(bit);
    if (!traits_.adaptive) {
      park(router, bit, now);
      continue;
    }
    const InputVc& vc = inputs_[base + bit];
    busy_vc_[base + vc.output * num_vcs_ + lowest(vc.vcs)] += now + 1 - since_[base + bit];
    since_[base + bit] = now + 1;
    ask_later(base + bit);
  }
  std::uint64_t grants[64];  // output VCs, per head
  std::uint64_t granted = 0;
  for (std::uint64_t rest = asked; rest != 0; rest &= rest - 1) {
    const std::uint32_t resource = lowest(rest);
    std::uint64_t heads = 0;
    for (std::uint64_t each = requests; each != 0; each &= each - 1) {
      const std::uint32_t bit = lowest(each);
      if ((asks[bit] >> resource & 1U) != 0) heads |= bit64(bit);
    }
    const std::uint32_t winner = round_robin(heads, outputs_[base + resource].grant);
    if ((granted & bit64(winner)) == 0) grants[winner] = 0;
    granted |= bit64(winner);
    grants[winner] |= bit64(resource);
  }
  for (std::uint64_t rest = granted; rest != 0; rest &= rest - 1) {
    const std::uint32_t winner = lowest(rest);
    InputVc& vc = inputs_[base + winner];
    const std::uint32_t resource = round_robin(grants[winner], vc.accept);
    drop_candidates(base + winner);
    vc.output = port_of_[resource];
    vc.vcs = 1U << vc_of_[resource];
    ports_[(router << port_shift_) + vc.output].to |= bit64(winner);
    grant_vc(router, winner, resource, now);
  }
  const std::uint64_t losers = requests & ~granted;
  if (losers == 0) return;
  if (!traits_.adaptive) {
    join_va(router, losers, now + 1);
    return;
  }
  for (std::uint64_t rest = losers; rest != 0; rest &= rest - 1) ask_later(base + lowest(rest));
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
  for (const auto* active : {&va_active_[now & 1U], &sa_active_[now & 1U], &active_sources_}) {
    for (const std::uint64_t word : *active) {
      if (word != 0) last_progress_ = cycle_;
    }
  }
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
