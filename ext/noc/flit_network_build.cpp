// Construction of a network and what happens at its sources before a packet leaves.
#include <algorithm>
#include <bit>
#include <functional>
#include <stdexcept>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "noc/flit_network_inline.hpp"

namespace cosim::noc {

namespace {

// Every lost flit or credit of a fault point is preceded by this many good ones.
constexpr std::int64_t kFaultPeriod = 50;

// From here on a network's arrays are fetched ahead: about what the cache of one core holds.
constexpr std::size_t kFarBytes = std::size_t{1} << 20U;

}  // namespace

FlitNetwork::FlitNetwork(const NetworkSpec& spec) : spec_(spec), fault_(sim::fault_from_environment()) {
  const std::vector<std::string> problems = spec.problems();
  if (!problems.empty()) {
    std::string text;
    for (const std::string& problem : problems) text += (text.empty() ? "" : "\n") + problem;
    throw std::invalid_argument(text);
  }
  build(spec_);
}

void FlitNetwork::build(const NetworkSpec& spec) {
  num_vcs_ = as_u32(spec.num_vcs);
  num_routers_ = as_u32(spec.routers);
  ports_ = as_u32(spec.ports);
  vcs_per_router_ = ports_ * num_vcs_;
  const std::uint32_t traverse = as_u32(spec.st_prepare_delay + spec.st_final_delay);
  traversal_ = as_u32(spec.sw_alloc_delay) - 1 + traverse;
  va_delay_ = as_u32(spec.routing_delay);
  sa_delay_ = as_u32(spec.vc_alloc_delay);
  batched_ = spec.compat_booksim2 && traverse > 1;
  wait_for_tail_ = spec.wait_for_tail_credit;
  const std::uint32_t credit_delay = as_u32(spec.credit_delay);
  ejection_reuse_ = 2 * (as_u32(kTerminalLinkLatency) + 1) + credit_delay;
  fault_countdown_ = kFaultPeriod;

  std::int32_t deepest = spec.vc_buf_size;
  std::int32_t longest = 1;
  for (const LinkSpec& link : spec.links) {
    deepest = std::max(deepest, link.buffer_flits);
    longest = std::max(longest, link.latency);
  }
  const std::uint32_t ring = std::bit_ceil(as_u32(deepest));
  ring_mask_ = ring - 1;
  const std::uint32_t horizon =
      std::max({traversal_ + 3 * traverse + as_u32(longest) + 1, as_u32(longest) + 1 + credit_delay,
                traversal_ + 3 * traverse + ejection_reuse_, va_delay_ + 1, sa_delay_,
                traversal_ + as_u32(kTerminalLinkLatency) + 1 + as_u32(spec.reduction.combine_delay)});
  wakes_mask_ = std::bit_ceil(std::max<std::uint32_t>(horizon + 2, 64)) - 1;
  wakes_due_.resize(wakes_mask_ + 1);
  arrivals_mask_ = std::bit_ceil(traversal_ + 3 * traverse + as_u32(longest) + 3) - 1;
  const std::uint32_t routers = as_u32(spec.routers);
  nodes_ = static_cast<std::uint32_t>(spec.terminals.size());
  unit_ports_ = as_u32(spec.reduction.ports);
  const std::uint32_t terminals = nodes_ + routers * unit_ports_;
  arrivals_room_ = static_cast<std::uint32_t>(spec.links.size()) + terminals;
  for (std::uint32_t slot = 0; slot <= arrivals_mask_; ++slot) arrivals_end_.push_back(slot * arrivals_room_);

  const std::size_t vcs = input_vcs();
  const bool forks = spec.multicast_vcs() != 0;
  const bool retries = spec.retry.bit_error_rate > 0.0;
  const bool small = !forks && !spec.has_sessions() && !spec.has_reductions() && !retries &&
                     as_u32(spec.ports) <= SmallRecord::kMostPorts && vcs_per_router_ <= SmallRecord::kMostInputs;
  const std::size_t slots = (vcs + static_cast<std::size_t>(terminals) * num_vcs_) * ring;
  const std::size_t due = static_cast<std::size_t>(arrivals_mask_ + 1) * arrivals_room_;
  using sim::ArrayBlock;
  const bool wide = vcs_per_router_ + static_cast<std::uint32_t>(spec.extra_branches()) > LargeRecord::kMostInputs ||
                    as_u32(spec.ports) > LargeRecord::kMostPorts;
  const std::size_t records = small  ? ArrayBlock::room<SmallRecord>(routers)
                              : wide ? ArrayBlock::room<WideRecord>(routers)
                                     : ArrayBlock::room<LargeRecord>(routers);
  memory_.reserve(records + ArrayBlock::room<std::uint32_t>(slots) + ArrayBlock::room<Stalls>(vcs) +
                  ArrayBlock::room<std::uint32_t>(due) + ArrayBlock::room<std::uint16_t>(spec.routes.entries.size()));
  far_ = memory_.bytes() >= kFarBytes;
  if (small) {
    small_ = memory_.make<SmallRecord>(routers);
  } else if (wide) {
    wide_ = memory_.make<WideRecord>(routers);
  } else {
    large_ = memory_.make<LargeRecord>(routers);
  }
  rings_ = memory_.make<std::uint32_t>(slots);
  stalls_ = memory_.make<Stalls>(vcs);
  arrivals_due_ = memory_.make<std::uint32_t>(due);
  routes_ = memory_.make<std::uint16_t>(spec.routes.entries.size());
  gaps_.resize(std::size_t{routers} * as_u32(spec.ports));
  router_words_ = (routers + 63) / 64;
  at_work_.resize(std::max(routers, terminals));
  active_.resize(4 * router_words_ + (terminals + 63) / 64);

  const std::uint32_t all_vcs = num_vcs_ == 32 ? ~0U : (1U << num_vcs_) - 1U;
  const auto id_of = [&](std::uint32_t r, std::uint32_t p) { return first_id(r) + p * num_vcs_; };
  for (std::uint32_t r = 0; r < routers; ++r) {
    for (std::uint32_t p = 0; p < as_u32(spec.ports); ++p) {
      port(r, p).step = std::uint64_t{1} << 32U;
      for (std::uint32_t v = 0; v < num_vcs_; ++v) {
        const std::uint32_t id = id_of(r, p) + v;
        InputVc& in = input(id);
        OutputVc& out = output(id);
        in.front = static_cast<std::uint32_t>(dense(id)) * ring;
        in.vcs = all_vcs;
        in.port = out.port = port_of_[bit_of(id)] = as_u8(p);
        in.vc = out.vc = vc_of_[bit_of(id)] = as_u8(v);
        out.bit = 1U << v;
        in.lanes = 1U << (p & 7U);
      }
    }
  }
  for (const LinkSpec& link : spec.links) {
    const std::uint32_t from = id_of(as_u32(link.from_router), as_u32(link.from_port));
    const std::uint32_t to = id_of(as_u32(link.to_router), as_u32(link.to_port));
    Port& out = port(as_u32(link.from_router), as_u32(link.from_port));
    Port& in = port(as_u32(link.to_router), as_u32(link.to_port));
    out.free_vcs = all_vcs;
    out.link_time = as_u32(link.latency) + 1;
    gap(as_u32(link.from_router), as_u32(link.from_port)) = ring - as_u32(link.buffer_flits);
    in.credit = as_u32(link.latency) + 1 + credit_delay;
    in.up = from;
    in.step |= as_u32(link.latency);
    any_gap_ = any_gap_ || as_u32(link.buffer_flits) != ring;
    for (std::uint32_t v = 0; v < num_vcs_; ++v) {
      output(from + v).down = to + v;
      output(from + v).write = static_cast<std::uint32_t>(dense(to + v)) * ring;
    }
  }

  if (spec.classes.empty()) {
    class_masks_ = {all_vcs};
    class_order_ = {0};
    class_groups_ = {0, 1};
  } else {
    for (const ClassSpec& c : spec.classes) {
      class_order_.push_back(static_cast<std::uint32_t>(class_masks_.size()));
      if (c.static_vcs) static_classes_ |= std::uint64_t{1} << class_masks_.size();
      class_masks_.push_back(c.vc_mask);
    }
    const auto priority = [&](std::uint32_t c) { return spec.classes[c].priority; };
    std::stable_sort(class_order_.begin(), class_order_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return priority(a) > priority(b); });
    for (std::uint32_t i = 0; i < class_order_.size(); ++i) {
      if (i == 0 || priority(class_order_[i]) != priority(class_order_[i - 1])) class_groups_.push_back(i);
    }
    class_groups_.push_back(static_cast<std::uint32_t>(class_order_.size()));
  }
  num_classes_ = static_cast<std::uint32_t>(class_masks_.size());

  terminals_.resize(terminals);
  queues_.resize(static_cast<std::size_t>(terminals) * num_classes_);
  source_write_.resize(static_cast<std::size_t>(terminals) * num_vcs_);
  for (auto* counters : {&window_injected_, &window_ejected_, &injected_to_, &ejected_at_}) counters->resize(terminals);
  for (std::uint32_t n = 0; n < terminals; ++n) {
    const std::uint32_t unit = n - nodes_;
    const TerminalSpec terminal =
        n < nodes_ ? spec.terminals[n]
                   : TerminalSpec{static_cast<std::int32_t>(unit / unit_ports_),
                                  spec.ports - spec.reduction.ports + static_cast<std::int32_t>(unit % unit_ports_)};
    const std::uint32_t first = id_of(as_u32(terminal.router), as_u32(terminal.port));
    Port& both = port(as_u32(terminal.router), as_u32(terminal.port));
    both.free_vcs = all_vcs;
    both.terminal = n;
    terminals_[n].gap = gap(as_u32(terminal.router), as_u32(terminal.port)) = ring - as_u32(spec.vc_buf_size);
    both.credit = as_u32(kTerminalLinkLatency) + 1;
    both.up = n;
    both.source = 1;
    any_gap_ = any_gap_ || terminals_[n].gap != 0;
    terminals_[n].input = first;
    for (std::uint32_t v = 0; v < num_vcs_; ++v) {
      source_write_[n * num_vcs_ + v] = static_cast<std::uint32_t>(dense(first + v)) * ring;
      output(first + v).write = (static_cast<std::uint32_t>(vcs) + n * num_vcs_ + v) * ring;
    }
  }
  build_routing(spec);
  build_allocation(spec);
  if (spec.router_model != nullptr) models_ = std::make_unique<RouterModels>(*spec.router_model, spec);
  if (forks) build_multicast(spec);
  if (spec.has_sessions()) build_sessions(spec);
  if (spec.has_reductions()) build_reductions(spec);
  if (retries) {
    retry_ = std::make_unique<LinkRetry>(spec);
    forks_.resize(input_vcs());  // the cycle of networks whose packets fork
  }
  if (!spec.route_changes.empty()) build_route_changes(spec);
  std::copy(spec.routes.entries.begin(), spec.routes.entries.end(), routes_.begin());
  vc_sets_ = spec.routes.vc_sets;
  if (batched_) {
    batch_start_.resize(routers);
    batch_end_.resize(routers);
    last_send_.resize(std::size_t{num_routers_} * as_u32(spec.ports));
  }
  spec_.routes = {};
  cycle_function_ = choose_cycle(false);
}

void FlitNetwork::refuse(const PacketIn& packet) const {
  const auto terminals = static_cast<std::int32_t>(nodes_);
  const auto fail = [](const std::string& text) { throw std::invalid_argument("offered packet: " + text); };
  if (packet.source < 0 || packet.source >= terminals || packet.dest < 0 || packet.dest >= terminals) {
    fail("source " + std::to_string(packet.source) + " and dest " + std::to_string(packet.dest) + " must be in 0.." +
         std::to_string(terminals - 1));
  }
  if (packet.size_flits < 1) fail("size_flits must be at least 1, got " + std::to_string(packet.size_flits));
  if (packet.message_class < 0 || as_u32(packet.message_class) >= num_classes_) {
    fail("message_class must be in 0.." + std::to_string(num_classes_ - 1) + ", got " +
         std::to_string(packet.message_class));
  }
  if (packet.group >= 0 && spec_.classes.size() > as_size(packet.message_class) &&
      spec_.classes[as_size(packet.message_class)].reduction) {
    const std::string wrong = reductions_->wrong(packet);
    if (!wrong.empty()) fail(wrong);
  } else if (packet.group >= 0) {
    if (trees_ == nullptr || as_size(packet.group) >= trees_->groups().size()) {
      fail("there is no multicast group " + std::to_string(packet.group));
    }
    if ((multicast_classes_ >> packet.message_class & 1U) == 0) {
      fail("message class " + std::to_string(packet.message_class) + " is no multicast class");
    }
    const MulticastGroup& group = trees_->groups()[as_size(packet.group)];
    if (group.source != packet.source) {
      fail("multicast group " + std::to_string(packet.group) + " is one of node " + std::to_string(group.source));
    }
    if (packet.size_flits > group.room) {
      fail("a multicast of " + std::to_string(packet.size_flits) + " flits does not fit a VC of " +
           std::to_string(group.room) + " flits on its way (virtual cut-through)");
    }
  }
  if (packet.create_cycle <= cycle_) {
    fail("create_cycle " + std::to_string(packet.create_cycle) + " is not after the last step (cycle " +
         std::to_string(cycle_) + ")");
  }
  throw std::invalid_argument("offered packet: held_flits must be 0 to size_flits and at most " +
                              std::to_string(kMostHeldFlits) + ", got " + std::to_string(packet.held_flits));
}

std::uint32_t FlitNetwork::offer(const PacketIn& packet) {
  if (sessions_ != nullptr && as_u32(packet.message_class) < num_classes_ &&
      spec_.classes[as_size(packet.message_class)].session) {
    return offer_session(packet);
  }
  if (as_u32(packet.source) >= nodes_ || as_u32(packet.dest) >= nodes_ || packet.size_flits < 1 ||
      as_u32(packet.message_class) >= num_classes_ || packet.create_cycle <= cycle_ || packet.held_flits < 0 ||
      packet.held_flits > std::min(packet.size_flits, kMostHeldFlits) ||
      (packet.group >= 0 && !fits_its_group(packet))) {
    refuse(packet);
  }
  const std::uint32_t slot = new_slot();
  packets_[slot] = {packet.create_cycle,
                    0,
                    packet.tag,
                    0,
                    0,
                    packet.source,
                    packet.dest,
                    packet.size_flits,
                    kNoPacket,
                    0,
                    as_u8(as_u32(packet.message_class)),
                    0,
                    static_cast<std::uint16_t>(packet.held_flits)};
  if (packet.group >= 0 && spec_.classes[as_size(packet.message_class)].reduction) [[unlikely]] {
    reductions_->offer(packet, slot);
    const std::uint32_t unit = reductions_->unit_of(slot);
    if (unit != Reductions::kNoUnit) packets_[slot].route_state = kLeg | unit;
  } else if (packet.group >= 0) [[unlikely]] {
    const MulticastGroup& group = trees_->groups()[as_size(packet.group)];
    packets_[slot].dest = trees_->dest(group.first_dest);
    packets_[slot].route_state = 1 + group.root;
    reserve_copies(group.copies);
  }
  if (retry_ != nullptr && retry_of_.size() <= slot) retry_of_.resize(slot + std::size_t{1});
  if (routing_ != nullptr || models_ != nullptr) {
    if (packet_number_.size() <= slot) packet_number_.resize(slot + std::size_t{1});
    packet_number_[slot] = packets_offered_++;
  }
  enqueue(slot);
  const SourceQueue& queue = queues_[as_u32(packet.source) * num_classes_ + as_u32(packet.message_class)];
  if (queue.first == slot) schedule_source(as_u32(packet.source), packet.create_cycle);
  return slot;
}

void FlitNetwork::supply(std::uint32_t packet, std::int32_t flits) {
  Packet& p = packets_[packet];
  p.held = static_cast<std::uint16_t>(p.held - flits);
  if (failure_.empty()) stuck_ = 0;
  sources_active()[as_u32(p.source) >> 6U] |= bit64(as_u32(p.source) & 63U);
}

void FlitNetwork::watch(std::int32_t terminal) {
  watched_.resize(terminals_.size());
  watched_[as_size(terminal)] = 1;
}

void FlitNetwork::schedule_source(std::uint32_t terminal, std::int64_t cycle) {
  Terminal& node = terminals_[terminal];
  if (cycle >= node.armed) return;
  node.armed = cycle;
  if (cycle - cycle_ <= wakes_mask_ && cycle - base_ < kRebaseAfter) {
    const std::size_t slot = static_cast<std::uint32_t>(cycle - base_) & wakes_mask_;
    wakes_due_[slot].push_back(static_cast<std::uint32_t>(kTerminal) << 29U | terminal);
  } else {
    future_sources_.push_back({cycle, terminal, 0});
    std::push_heap(future_sources_.begin(), future_sources_.end(), std::greater<>());
  }
}

std::int64_t FlitNetwork::cancel_queued() {
  std::int64_t cancelled = sessions_ == nullptr ? 0 : sessions_->cancel_queued();
  queued_packets_ += cancelled;
  for (SourceQueue& queue : queues_) {
    const bool keep_first = queue.left != 0;
    std::uint32_t slot = queue.first;
    if (slot != kNoPacket && keep_first) {
      const std::uint32_t rest = packets_[slot].next;
      packets_[slot].next = kNoPacket;
      queue.last = slot;
      slot = rest;
    } else {
      queue.first = queue.last = kNoPacket;
    }
    while (slot != kNoPacket) {
      const std::uint32_t next = packets_[slot].next;
      const bool part = reductions_ != nullptr && reductions_->has(slot);
      if (part && reductions_->under_way(slot)) {  // others of its reduction have left
        packets_[slot].next = kNoPacket;
        (queue.first == kNoPacket ? queue.first : packets_[queue.last].next) = slot;
        queue.last = slot;
        slot = next;
        continue;
      }
      if (part) reductions_->cancel(slot);
      if (!part && trees_ != nullptr && packets_[slot].route_state != 0) {
        copies_due_ -= trees_->groups()[trees_->node(packets_[slot].route_state - 1).group].copies;
      }
      packets_[slot].next = free_packet_;
      free_packet_ = slot;
      ++cancelled;
      slot = next;
    }
  }
  queued_packets_ -= cancelled;
  held_.clear();
  std::fill(is_held_.begin(), is_held_.end(), std::uint8_t{0});
  return cancelled;
}

void FlitNetwork::count_window(std::int64_t begin, std::int64_t end) {
  window_begin_ = begin;
  window_end_ = end;
  std::fill(window_injected_.begin(), window_injected_.end(), 0);
  std::fill(window_ejected_.begin(), window_ejected_.end(), 0);
}

}  // namespace cosim::noc
