#include "noc/flit_network.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <stdexcept>
#include <utility>

namespace cosim::noc {

namespace {

std::uint32_t lowest(std::uint64_t mask) { return static_cast<std::uint32_t>(std::countr_zero(mask)); }

// First set bit of `mask` at or after `from`, wrapping; mask != 0. A `from` past the last bit wraps to the lowest.
std::uint32_t round_robin(std::uint64_t mask, std::uint32_t from) {
  const std::uint32_t shift = from & 63U;
  const std::uint64_t high = (mask >> shift) << shift;
  return lowest(high != 0 ? high : mask);
}

std::uint32_t as_u32(std::int32_t value) { return static_cast<std::uint32_t>(value); }
std::size_t as_size(std::int32_t value) { return static_cast<std::size_t>(value); }
std::uint8_t as_u8(std::uint32_t value) { return static_cast<std::uint8_t>(value); }

std::uint32_t log2_ceil(std::uint32_t value) { return static_cast<std::uint32_t>(std::bit_width(value - 1)); }

// Every lost flit or credit of a fault point is preceded by this many good ones.
constexpr std::int64_t kFaultPeriod = 50;

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
  vc_shift_ = log2_ceil(as_u32(spec.ports) * num_vcs_);
  port_shift_ = log2_ceil(as_u32(spec.ports));
  const std::uint32_t traverse = as_u32(spec.st_prepare_delay + spec.st_final_delay);
  traversal_ = as_u32(spec.sw_alloc_delay) - 1 + traverse;
  va_delay_ = as_u32(spec.routing_delay);
  sa_delay_ = as_u32(spec.vc_alloc_delay);
  batched_ = spec.compat_booksim2 && traverse > 1;
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
                traversal_ + 3 * traverse + ejection_reuse_, va_delay_ + 1, sa_delay_});
  wheel_mask_ = std::bit_ceil(std::max<std::uint32_t>(horizon + 2, 64)) - 1;
  wheel_.resize(wheel_mask_ + 1);

  const std::uint32_t routers = as_u32(spec.routers);
  const auto terminals = static_cast<std::uint32_t>(spec.terminals.size());
  const std::size_t vcs = static_cast<std::size_t>(routers) << vc_shift_;
  routers_.resize(routers);
  ports_.resize(static_cast<std::size_t>(routers) << port_shift_);
  inputs_.resize(vcs);
  outputs_.resize(vcs);
  since_.resize(vcs);
  for (auto* counters : {&flits_, &no_credit_, &lost_switch_, &busy_vc_, &lost_vc_}) counters->resize(vcs);
  rings_.resize((vcs + static_cast<std::size_t>(terminals) * num_vcs_) * ring);
  active_.resize((routers + 63) / 64);
  active_sources_.resize((terminals + 63) / 64);

  for (std::uint32_t r = 0; r < routers; ++r) {
    for (std::uint32_t p = 0; p < as_u32(spec.ports); ++p) {
      for (std::uint32_t v = 0; v < num_vcs_; ++v) {
        const std::uint32_t input = (r << vc_shift_) + p * num_vcs_ + v;
        inputs_[input].front = input * ring;
        inputs_[input].port = as_u8(p);
        inputs_[input].vc = as_u8(v);
      }
    }
  }
  const std::uint32_t all_vcs = num_vcs_ == 32 ? ~0U : (1U << num_vcs_) - 1U;
  for (const LinkSpec& link : spec.links) {
    const std::uint32_t from = (as_u32(link.from_router) << vc_shift_) + as_u32(link.from_port) * num_vcs_;
    const std::uint32_t to = (as_u32(link.to_router) << vc_shift_) + as_u32(link.to_port) * num_vcs_;
    Port& out = ports_[(as_u32(link.from_router) << port_shift_) + as_u32(link.from_port)];
    Port& in = ports_[(as_u32(link.to_router) << port_shift_) + as_u32(link.to_port)];
    out.free_vcs = all_vcs;
    out.arrive = traversal_ + as_u32(link.latency) + 1;
    out.gap = ring - as_u32(link.buffer_flits);
    in.credit = as_u32(link.latency) + 1 + credit_delay;
    in.up = from;
    in.latency = as_u32(link.latency);
    any_gap_ = any_gap_ || out.gap != 0;
    for (std::uint32_t v = 0; v < num_vcs_; ++v) {
      outputs_[from + v].down = to + v;
      outputs_[from + v].write = (to + v) * ring;
    }
  }

  if (spec.classes.empty()) {
    class_masks_ = {all_vcs};
    class_order_ = {0};
    class_groups_ = {0, 1};
  } else {
    for (const ClassSpec& c : spec.classes) {
      class_order_.push_back(static_cast<std::uint32_t>(class_masks_.size()));
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
    const TerminalSpec& terminal = spec.terminals[n];
    const std::uint32_t first = (as_u32(terminal.router) << vc_shift_) + as_u32(terminal.port) * num_vcs_;
    Port& port = ports_[(as_u32(terminal.router) << port_shift_) + as_u32(terminal.port)];
    port.free_vcs = all_vcs;
    port.terminal = n;
    port.gap = ring - as_u32(spec.vc_buf_size);
    port.credit = as_u32(kTerminalLinkLatency) + 1;
    port.up = n;
    port.source = 1;
    any_gap_ = any_gap_ || port.gap != 0;
    terminals_[n].input = first;
    terminals_[n].gap = port.gap;
    for (std::uint32_t v = 0; v < num_vcs_; ++v) {
      source_write_[n * num_vcs_ + v] = (first + v) * ring;
      outputs_[first + v].write = (static_cast<std::uint32_t>(vcs) + n * num_vcs_ + v) * ring;
    }
  }
  routes_ = spec.routes.entries;
  vc_sets_ = spec.routes.vc_sets;
  if (batched_) {
    batch_start_.resize(routers);
    batch_end_.resize(routers);
    last_send_.resize(ports_.size());
  }
  spec_.routes = {};
}

inline std::uint32_t FlitNetwork::advance(std::uint32_t slot) const {
  const std::uint32_t next = slot + 1;
  return (next & ring_mask_) != 0 ? next : slot - ring_mask_;
}

// The slot whose release allows writing to `write`: `write` itself when the ring is as deep as the buffer.
inline std::uint32_t FlitNetwork::credit_slot(std::uint32_t write, std::uint32_t gap) const {
  if (!any_gap_) return write;
  return (write & ~ring_mask_) | ((write + gap) & ring_mask_);
}

inline void FlitNetwork::wake_at(std::uint32_t when, Wake kind, std::uint32_t index) {
  wheel_[when & wheel_mask_].wakes.push_back(static_cast<std::uint32_t>(kind) << 29U | index);
}

inline void FlitNetwork::activate(std::uint32_t router) { active_[router >> 6U] |= std::uint64_t{1} << (router & 63U); }

// ---------------------------------------------------------------------------------------------------------- sources

void FlitNetwork::offer(const PacketIn& packet) {
  const auto terminals = static_cast<std::int32_t>(terminals_.size());
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
  if (packet.create_cycle <= cycle_) {
    fail("create_cycle " + std::to_string(packet.create_cycle) + " is not after the last step (cycle " +
         std::to_string(cycle_) + ")");
  }
  std::uint32_t slot = free_packet_;
  if (slot != kNoPacket) {
    free_packet_ = packets_[slot].next;
  } else {
    if (packets_.size() >= kPacketMask) throw std::length_error("more than 536870911 packets alive");
    slot = static_cast<std::uint32_t>(packets_.size());
    packets_.emplace_back();
  }
  Packet& p = packets_[slot];
  p = Packet{};
  p.create = packet.create_cycle;
  p.tag = packet.tag;
  p.source = packet.source;
  p.dest = packet.dest;
  p.size = packet.size_flits;
  p.next = kNoPacket;
  p.message_class = static_cast<std::uint8_t>(packet.message_class);
  SourceQueue& queue = queues_[as_u32(packet.source) * num_classes_ + as_u32(packet.message_class)];
  ++queued_packets_;
  if (queue.first == kNoPacket) {
    queue.first = slot;
    queue.last = slot;
    schedule_source(as_u32(packet.source), packet.create_cycle);
  } else {
    packets_[queue.last].next = slot;
    queue.last = slot;
  }
}

void FlitNetwork::schedule_source(std::uint32_t terminal, std::int64_t cycle) {
  Terminal& node = terminals_[terminal];
  if (cycle >= node.armed) return;
  node.armed = cycle;
  if (cycle - cycle_ <= wheel_mask_ && cycle - base_ < kRebaseAfter) {
    wake_at(static_cast<std::uint32_t>(cycle - base_), kTerminal, terminal);
  } else {
    future_sources_.push_back({cycle, terminal, 0});
    std::push_heap(future_sources_.begin(), future_sources_.end(), std::greater<>());
  }
}

std::int64_t FlitNetwork::cancel_queued() {
  std::int64_t cancelled = 0;
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
      packets_[slot].next = free_packet_;
      free_packet_ = slot;
      ++cancelled;
      slot = next;
    }
  }
  queued_packets_ -= cancelled;
  return cancelled;
}

void FlitNetwork::count_window(std::int64_t begin, std::int64_t end) {
  window_begin_ = begin;
  window_end_ = end;
  std::fill(window_injected_.begin(), window_injected_.end(), 0);
  std::fill(window_ejected_.begin(), window_ejected_.end(), 0);
}

void FlitNetwork::run_sources(std::uint32_t now) {
  for (std::size_t word = 0; word < active_sources_.size(); ++word) {
    for (std::uint64_t rest = active_sources_[word]; rest != 0; rest &= rest - 1) {
      const std::uint32_t terminal = static_cast<std::uint32_t>(word) * 64 + lowest(rest);
      if (!send_from(terminal, now)) arm(terminal, now);
    }
  }
}

// One flit of one class, classes by priority, equal ones in turn; false when nothing can leave now.
bool FlitNetwork::send_from(std::uint32_t terminal, std::uint32_t now) {
  const auto try_class = [&](std::uint32_t c) {
    SourceQueue& queue = queues_[terminal * num_classes_ + c];
    if (queue.first == kNoPacket) return false;
    if (queue.left == 0) {
      if (packets_[queue.first].create > cycle_ || !choose_vc(terminal, c, now)) return false;
    } else {
      const std::uint32_t write = source_write_[terminal * num_vcs_ + queue.vc];
      if (rings_[credit_slot(write, terminals_[terminal].gap)] > now) return false;
    }
    send_flit(terminal, queue, now);
    return true;
  };
  if (num_classes_ == 1) return try_class(0);
  for (std::size_t g = 0; g + 1 < class_groups_.size(); ++g) {
    const std::uint32_t begin = class_groups_[g];
    const std::uint32_t size = class_groups_[g + 1] - begin;
    const std::uint32_t turn = terminals_[terminal].turn;
    const std::uint32_t first = turn > begin && turn < begin + size ? turn - begin : 0;
    for (std::uint32_t i = 0; i < size; ++i) {
      const std::uint32_t position = begin + (first + i) % size;
      if (try_class(class_order_[position])) {
        terminals_[terminal].turn = position + 1;
        return true;
      }
    }
  }
  return false;
}

// The first VC with a credit after the last one used; the packet keeps it once its head has left.
bool FlitNetwork::choose_vc(std::uint32_t terminal, std::uint32_t message_class, std::uint32_t now) {
  SourceQueue& queue = queues_[terminal * num_classes_ + message_class];
  const std::uint32_t mask = class_masks_[message_class];
  const std::uint32_t high = (mask >> queue.after) << queue.after;
  for (std::uint32_t part : {high, mask & ~high}) {
    for (; part != 0; part &= part - 1) {
      const std::uint32_t vc = lowest(part);
      const std::uint32_t slot = credit_slot(source_write_[terminal * num_vcs_ + vc], terminals_[terminal].gap);
      if (rings_[slot] > now) continue;
      queue.vc = as_u8(vc);
      queue.after = as_u8((vc + 1) & 31U);
      Packet& packet = packets_[queue.first];
      queue.left = as_u32(packet.size);
      packet.inject = cycle_;
      injected_to_[as_size(packet.dest)] += packet.size;
      return true;
    }
  }
  return false;
}

void FlitNetwork::send_flit(std::uint32_t terminal, SourceQueue& queue, std::uint32_t now) {
  const std::uint32_t slot = queue.first;
  Packet& packet = packets_[slot];
  std::uint32_t& write = source_write_[terminal * num_vcs_ + queue.vc];
  const bool tail = queue.left == 1;
  rings_[write] = kFlit | (tail ? kTail : 0U) | slot;
  write = advance(write);
  wheel_[(now + as_u32(kTerminalLinkLatency) + 1) & wheel_mask_].arrivals.push_back(terminals_[terminal].input +
                                                                                    queue.vc);
  packet.flit_sum -= cycle_;
  ++injected_flits_;
  window_injected_[terminal] += cycle_ >= window_begin_ && cycle_ < window_end_ ? 1 : 0;
  --queue.left;
  if (!tail) return;
  departures_.push_back({packet.tag, cycle_});
  --queued_packets_;
  queue.first = packet.next;
  if (queue.first == kNoPacket) queue.last = kNoPacket;
}

// Nothing can leave: sleep until a packet is created or a slot that a class waits for is freed.
void FlitNetwork::arm(std::uint32_t terminal, std::uint32_t now) {
  active_sources_[terminal >> 6U] &= ~(std::uint64_t{1} << (terminal & 63U));
  for (std::uint32_t c = 0; c < num_classes_; ++c) {
    const SourceQueue& queue = queues_[terminal * num_classes_ + c];
    if (queue.first == kNoPacket) continue;
    if (queue.left == 0 && packets_[queue.first].create > cycle_) {
      schedule_source(terminal, packets_[queue.first].create);
      continue;
    }
    const std::uint32_t mask = queue.left != 0 ? 1U << queue.vc : class_masks_[c];
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      const std::uint32_t write = source_write_[terminal * num_vcs_ + lowest(rest)];
      watch_slot(credit_slot(write, terminals_[terminal].gap), now, kTerminal, terminal);
    }
  }
}

// Asks to be woken when `slot`, not free at `now`, is.
void FlitNetwork::watch_slot(std::uint32_t slot, std::uint32_t now, Wake kind, std::uint32_t index) {
  const std::uint32_t word = rings_[slot];
  if ((word & kFlit) != 0) {
    rings_[slot] = word | kWaiter;
  } else if (word > now && word != kNeverFree) {
    wake_at(word, kind, index);
  }
}

// ------------------------------------------------------------------------------------------------------------ a step

std::int64_t FlitNetwork::next_event() const {
  const std::int64_t next = cycle_ + 1;
  for (const std::uint64_t word : active_) {
    if (word != 0) return next;
  }
  for (const std::uint64_t word : active_sources_) {
    if (word != 0) return next;
  }
  std::int64_t first = future_sources_.empty() ? kNoEvent : std::max(next, future_sources_.front().cycle);
  const std::int64_t last = std::min(first - 1, cycle_ + wheel_mask_);
  for (std::int64_t t = next; t <= last; ++t) {
    const WheelSlot& slot = wheel_[static_cast<std::size_t>(t - base_) & wheel_mask_];
    if (!slot.arrivals.empty() || !slot.wakes.empty()) return t;
  }
  return first;
}

void FlitNetwork::step(std::int64_t cycle) {
  if (cycle - base_ >= kRebaseAfter) {
    const std::int64_t next_base = cycle - (cycle & static_cast<std::int64_t>(wheel_mask_));
    rebase(next_base);
  }
  cycle_ = cycle;
  const auto now = static_cast<std::uint32_t>(cycle - base_);
  run_wakes(now);
  run_arrivals(now);
  run_sources(now);
  for (std::size_t word = 0; word < active_.size(); ++word) {
    for (std::uint64_t rest = active_[word]; rest != 0; rest &= rest - 1) {
      const std::uint32_t router = static_cast<std::uint32_t>(word) * 64 + lowest(rest);
      Router& r = routers_[router];
      r.va |= r.va_joining[now & 1U];
      r.va_joining[now & 1U] = 0;
      if (r.va != 0) allocate_vcs(router, now);
    }
  }
  for (std::size_t word = 0; word < active_.size(); ++word) {
    std::uint64_t still = active_[word];
    for (std::uint64_t rest = still; rest != 0; rest &= rest - 1) {
      const std::uint32_t router = static_cast<std::uint32_t>(word) * 64 + lowest(rest);
      Router& r = routers_[router];
      if (r.sa != 0) allocate_switch(router, now);
      r.sa |= r.sa_joining;
      r.sa_joining = 0;
      if ((r.va | r.va_joining[0] | r.va_joining[1] | r.sa) == 0) still &= ~(rest & (~rest + 1));
    }
    active_[word] = still;
  }
}

void FlitNetwork::run_wakes(std::uint32_t now) {
  while (!future_sources_.empty() && future_sources_.front().cycle <= cycle_) {
    const std::uint32_t terminal = future_sources_.front().terminal;
    std::pop_heap(future_sources_.begin(), future_sources_.end(), std::greater<>());
    future_sources_.pop_back();
    terminals_[terminal].armed = kNoEvent;
    active_sources_[terminal >> 6U] |= std::uint64_t{1} << (terminal & 63U);
  }
  std::vector<std::uint32_t>& wakes = wheel_[now & wheel_mask_].wakes;
  for (const std::uint32_t wake : wakes) {
    const std::uint32_t index = wake & kIndexMask;
    const auto kind = static_cast<Wake>(wake >> 29U);
    if (kind == kTerminal) {
      if (terminals_[index].armed <= cycle_) terminals_[index].armed = kNoEvent;
      active_sources_[index >> 6U] |= std::uint64_t{1} << (index & 63U);
      continue;
    }
    const std::uint32_t router = index >> vc_shift_;
    const std::uint64_t bit = std::uint64_t{1} << (index & ((1U << vc_shift_) - 1));
    Router& r = routers_[router];
    switch (kind) {
      case kCredit:
        r.blocked &= ~bit;
        r.sa |= bit;
        no_credit_[(router << vc_shift_) + inputs_[index].output_vc] += now - since_[index];
        break;
      case kJoinVa:
        r.va |= bit;
        break;
      case kJoinSa:
        r.sa |= bit;
        break;
      case kTerminal:
        break;
    }
    activate(router);
  }
  wakes.clear();
}

void FlitNetwork::run_arrivals(std::uint32_t now) {
  std::vector<std::uint32_t>& arrivals = wheel_[now & wheel_mask_].arrivals;
  for (const std::uint32_t input : arrivals) {
    InputVc& vc = inputs_[input];
    if (vc.visible++ != 0) continue;
    if (vc.output == kNoPort) {
      route_head(input, vc, now + va_delay_);
    } else {
      const std::uint32_t router = input >> vc_shift_;
      routers_[router].sa |= std::uint64_t{1} << (input & ((1U << vc_shift_) - 1));
      activate(router);
    }
  }
  arrivals.clear();
}

// Routes the packet at the front of an idle VC; it takes part in VC allocation from `join` on.
inline void FlitNetwork::route_head(std::uint32_t input, InputVc& vc, std::uint32_t join) {
  const std::uint32_t router = input >> vc_shift_;
  const std::uint32_t bit = input & ((1U << vc_shift_) - 1);
  Packet& packet = packets_[rings_[vc.front] & kPacketMask];
  const std::uint16_t route = routes_[router * terminals_.size() + as_size(packet.dest)];
  const std::uint32_t output = route & 255U;
  ++packet.hops;
  packet.links += static_cast<std::int32_t>(ports_[(router << port_shift_) + vc.port].latency);
  vc.output = as_u8(output);
  vc.vcs = vc_sets_[route >> 8U] & class_masks_[packet.message_class];
  ports_[(router << port_shift_) + output].to |= std::uint64_t{1} << bit;
  since_[input] = join;
  if (va_delay_ <= 1) {
    routers_[router].va_joining[join & 1U] |= std::uint64_t{1} << bit;
    activate(router);
  } else {
    wake_at(join, kJoinVa, input);
  }
}

// ------------------------------------------------------------------------------------------------------ VC allocation

// iSLIP with one iteration: every free output VC grants the first requester at or after its pointer, every requester
// accepts the first grant at or after its own; both pointers move past an accepted pair. Credits are not looked at.
void FlitNetwork::allocate_vcs(std::uint32_t router, std::uint32_t now) {
  std::uint64_t rest = routers_[router].va;
  while (rest != 0) {
    const std::uint32_t bit = lowest(rest);
    const InputVc& vc = inputs_[(router << vc_shift_) + bit];
    const std::uint32_t output = vc.output;
    const Port& port = ports_[(router << port_shift_) + output];
    const std::uint64_t same = rest & port.to;
    rest &= ~same;
    if ((same & (same - 1)) != 0) {
      allocate_contended(router, same, output, now);
      continue;
    }
    const std::uint32_t offered = port.free_vcs & vc.vcs;
    if (offered == 0) {
      park(router, bit, now);
      continue;
    }
    const std::uint32_t first = output * num_vcs_;
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
      requests &= ~(std::uint64_t{1} << bit);
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
        if ((vcs[bit].vcs >> vc & 1U) == 0) candidates &= ~(std::uint64_t{1} << bit);
      }
    }
    const std::uint32_t winner = round_robin(candidates, resources[vc].grant);
    if ((granted >> winner & 1U) == 0) {
      granted |= std::uint64_t{1} << winner;
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
}

// Every VC the head may use is owned: it asks again when one of its output's VCs is released.
void FlitNetwork::park(std::uint32_t router, std::uint32_t bit, std::uint32_t now) {
  Router& r = routers_[router];
  const std::uint32_t input = (router << vc_shift_) + bit;
  r.va &= ~(std::uint64_t{1} << bit);
  r.parked |= std::uint64_t{1} << bit;
  lost_vc_[(router << vc_shift_) + inputs_[input].output * num_vcs_ + lowest(inputs_[input].vcs)] +=
      now - since_[input];
  since_[input] = now;
}

inline void FlitNetwork::grant_vc(std::uint32_t router, std::uint32_t bit, std::uint32_t resource, std::uint32_t now) {
  Router& r = routers_[router];
  const std::uint32_t input = (router << vc_shift_) + bit;
  InputVc& vc = inputs_[input];
  OutputVc& out = outputs_[(router << vc_shift_) + resource];
  out.owner = as_u8(bit);
  out.grant = as_u8(bit + 1);
  vc.accept = as_u8(resource + 1);
  vc.output_vc = as_u8(resource);
  ports_[(router << port_shift_) + vc.output].free_vcs &= ~(1U << (resource - vc.output * num_vcs_));
  if (now != since_[input]) {
    lost_vc_[(router << vc_shift_) + vc.output * num_vcs_ + lowest(vc.vcs)] += now - since_[input];
  }
  r.va &= ~(std::uint64_t{1} << bit);
  if (sa_delay_ == 1) {
    r.sa_joining |= std::uint64_t{1} << bit;
  } else {
    wake_at(now + sa_delay_, kJoinSa, input);
  }
}

// -------------------------------------------------------------------------------------------------- switch allocation

void FlitNetwork::allocate_switch(std::uint32_t router, std::uint32_t now) {
  Router& r = routers_[router];
  const std::uint32_t base = router << vc_shift_;
  std::uint64_t ready = r.sa;
  std::uint64_t inputs = 0;
  std::uint64_t outputs = 0;
  std::uint64_t clash = 0;
  for (std::uint64_t rest = ready; rest != 0; rest &= rest - 1) {
    const std::uint32_t bit = lowest(rest);
    const InputVc& vc = inputs_[base + bit];
    const OutputVc& out = outputs_[base + vc.output_vc];
    const std::uint32_t gap = any_gap_ ? ports_[(router << port_shift_) + vc.output].gap : 0;
    const std::uint32_t slot = credit_slot(out.write, gap);
    if (rings_[slot] > now) {
      const std::uint64_t mine = std::uint64_t{1} << bit;
      r.sa &= ~mine;
      r.blocked |= mine;
      ready &= ~mine;
      since_[base + bit] = now;
      watch_slot(slot, now, kCredit, base + bit);
      continue;
    }
    const std::uint64_t in = std::uint64_t{1} << vc.port;
    const std::uint64_t to = std::uint64_t{1} << vc.output;
    clash |= (inputs & in) | (outputs & to);
    inputs |= in;
    outputs |= to;
  }
  if (clash != 0) {
    allocate_switch_contended(router, ready, now);
    return;
  }
  for (; ready != 0; ready &= ready - 1) win_switch(router, lowest(ready), now);
}

// Per input and output the first VC at or after the input's round robin is put forward; then iSLIP over the ports.
void FlitNetwork::allocate_switch_contended(std::uint32_t router, std::uint64_t requests, std::uint32_t now) {
  const std::uint32_t base = router << vc_shift_;
  const InputVc* vcs = &inputs_[base];
  const Port* ports = &ports_[router << port_shift_];
  std::uint64_t asking[64];  // inputs, per output
  std::uint64_t outputs = 0;
  for (std::uint64_t rest = requests; rest != 0; rest &= rest - 1) {
    const InputVc& vc = vcs[lowest(rest)];
    const std::uint64_t to = std::uint64_t{1} << vc.output;
    if ((outputs & to) == 0) asking[vc.output] = 0;
    outputs |= to;
    asking[vc.output] |= std::uint64_t{1} << vc.port;
  }
  std::uint64_t grants[64];  // outputs, per input
  std::uint64_t granted = 0;
  for (std::uint64_t rest = outputs; rest != 0; rest &= rest - 1) {
    const std::uint32_t output = lowest(rest);
    const std::uint32_t input = round_robin(asking[output], ports[output].sa_grant);
    const std::uint64_t from = std::uint64_t{1} << input;
    if ((granted & from) == 0) grants[input] = 0;
    granted |= from;
    grants[input] |= std::uint64_t{1} << output;
  }
  const std::uint64_t vc_bits = (std::uint64_t{1} << num_vcs_) - 1;
  std::uint64_t winners = 0;
  for (std::uint64_t rest = granted; rest != 0; rest &= rest - 1) {
    const std::uint32_t input = lowest(rest);
    const std::uint32_t output = round_robin(grants[input], ports[input].sa_accept);
    const std::uint32_t shift = input * num_vcs_;
    const std::uint64_t candidates = (requests & ports[output].to) >> shift & vc_bits;
    winners |= std::uint64_t{1} << (shift + round_robin(candidates, ports[input].sa_vc));
  }
  for (std::uint64_t rest = requests & ~winners; rest != 0; rest &= rest - 1) {
    ++lost_switch_[base + vcs[lowest(rest)].output_vc];
  }
  for (std::uint64_t rest = winners; rest != 0; rest &= rest - 1) win_switch(router, lowest(rest), now);
}

// Moves the front flit of an input VC: frees its slot, writes it downstream, books an ejection.
inline void FlitNetwork::win_switch(std::uint32_t router, std::uint32_t bit, std::uint32_t now) {
  Router& r = routers_[router];
  const std::uint32_t base = router << vc_shift_;
  Port* ports = &ports_[router << port_shift_];
  InputVc& vc = inputs_[base + bit];
  Port& in = ports[vc.port];
  Port& to = ports[vc.output];
  OutputVc& out = outputs_[base + vc.output_vc];
  const std::uint64_t mine = std::uint64_t{1} << bit;

  in.sa_vc = as_u8(vc.vc + 1U);
  in.sa_accept = as_u8(vc.output + 1U);
  to.sa_grant = as_u8(vc.port + 1U);

  const std::uint32_t word = rings_[vc.front];
  const std::uint32_t freed = now + in.credit;
  rings_[vc.front] = freed;
  if constexpr (sim::kFaultsCompiled) {
    if (fault_ == sim::Fault::drop_credit && --fault_countdown_ == 0) rings_[vc.front] = kNeverFree;
  }
  if ((word & kWaiter) != 0) {
    if (in.source != 0) {
      wake_at(freed, kTerminal, in.up);
    } else {
      const std::uint32_t up = in.up + vc.vc;
      wake_at(freed, kCredit, (up & ~((1U << vc_shift_) - 1)) + outputs_[up].owner);
    }
  }
  vc.front = advance(vc.front);
  --vc.visible;
  ++flits_[base + vc.output_vc];

  const std::uint32_t write = out.write;
  out.write = advance(write);
  const std::uint32_t sent = batched_ ? batched_send(router, vc.output, now) : now + traversal_;
  bool lost = false;
  if constexpr (sim::kFaultsCompiled) lost = fault_ == sim::Fault::lose_flit && --fault_countdown_ == 0;
  if (to.terminal != kNoLink) {
    rings_[write] = sent + ejection_reuse_;
    if (!lost) eject(to, word, sent);
  } else if (!lost) {
    rings_[write] = word & ~kWaiter;
    wheel_[(sent - traversal_ + to.arrive) & wheel_mask_].arrivals.push_back(out.down);
  }

  if ((word & kTail) == 0) {
    if (vc.visible == 0) r.sa &= ~mine;
    return;
  }
  r.sa &= ~mine;
  to.free_vcs |= 1U << (vc.output_vc - vc.output * num_vcs_);
  to.to &= ~mine;
  const std::uint64_t waiting = r.parked & to.to;
  if (waiting != 0) {
    r.parked &= ~waiting;
    r.va |= waiting;
    for (std::uint64_t rest = waiting; rest != 0; rest &= rest - 1) {
      const std::uint32_t other = lowest(rest);
      const InputVc& head = inputs_[base + other];
      busy_vc_[base + head.output * num_vcs_ + lowest(head.vcs)] += now + 1 - since_[base + other];
      since_[base + other] = now + 1;
    }
  }
  vc.output = kNoPort;
  if (vc.visible != 0) route_head(base + bit, vc, now + 1 + va_delay_);
}

inline void FlitNetwork::eject(const Port& port, std::uint32_t word, std::uint32_t sent) {
  const std::uint32_t slot = word & kPacketMask;
  Packet& packet = packets_[slot];
  const std::int64_t read = base_ + sent + kTerminalLinkLatency + 1;
  packet.flit_sum += read;
  ++ejected_flits_;
  ++ejected_at_[port.terminal];
  window_ejected_[port.terminal] += read >= window_begin_ && read < window_end_ ? 1 : 0;
  if ((word & kTail) == 0) return;
  arrivals_.push_back({packet.tag, read, packet.create, packet.inject, packet.flit_sum, packet.source, packet.dest,
                       packet.size, packet.message_class, packet.hops, packet.links});
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

// ------------------------------------------------------------------------------------------------------ seen from
// outside

LatencyTerms FlitNetwork::terms(const Arrival& arrival) const {
  LatencyTerms t;
  t.source_queueing_cycles = arrival.inject_cycle - arrival.create_cycle;
  t.router_cycles = std::int64_t{arrival.hops} * (va_delay_ + sa_delay_ + traversal_ + 1);
  t.link_cycles = arrival.link_cycles + 2 * kTerminalLinkLatency + 1;
  t.serialisation_cycles = arrival.size_flits - 1;
  t.contention_cycles = arrival.cycle - arrival.inject_cycle - t.router_cycles - t.link_cycles - t.serialisation_cycles;
  return t;
}

std::int64_t FlitNetwork::flit_hops() const {
  std::int64_t sum = 0;
  for (const std::int64_t flits : flits_) sum += flits;
  return sum;
}

std::vector<std::pair<std::int32_t, std::int32_t>> FlitNetwork::connected_outputs() const {
  std::vector<std::pair<std::int32_t, std::int32_t>> found;
  for (std::int32_t r = 0; r < spec_.routers; ++r) {
    for (std::int32_t p = 0; p < spec_.ports; ++p) {
      const Port& port = ports_[(as_u32(r) << port_shift_) + as_u32(p)];
      if (port.arrive != 0 || port.terminal != kNoLink) found.emplace_back(r, p);
    }
  }
  return found;
}

std::vector<OutputCounters> FlitNetwork::connected_counters() {
  book_running_waits();
  std::vector<OutputCounters> all;
  for (const auto& [router, port] : connected_outputs()) {
    for (std::uint32_t v = 0; v < num_vcs_; ++v) {
      const std::size_t at = (as_u32(router) << vc_shift_) + as_u32(port) * num_vcs_ + v;
      all.push_back({flits_[at], no_credit_[at], lost_switch_[at], busy_vc_[at], lost_vc_[at]});
    }
  }
  return all;
}

// Books the part of every wait that lies at or before the last step; the rest is booked when it ends.
void FlitNetwork::book_running_waits() {
  const auto next = static_cast<std::uint32_t>(cycle_ + 1 - base_);
  for (std::uint32_t r = 0; r < routers_.size(); ++r) {
    const Router& router = routers_[r];
    const std::uint32_t base = r << vc_shift_;
    for (std::uint64_t rest = router.blocked | router.parked | router.va; rest != 0; rest &= rest - 1) {
      const std::uint32_t bit = lowest(rest);
      const InputVc& vc = inputs_[base + bit];
      std::uint32_t& since = since_[base + bit];
      const auto waited = static_cast<std::int32_t>(next - since);
      if (waited <= 0) continue;
      const std::uint32_t asked = base + vc.output * num_vcs_ + lowest(vc.vcs);
      if ((router.blocked >> bit & 1U) != 0) {
        no_credit_[base + vc.output_vc] += waited;
      } else if ((router.parked >> bit & 1U) != 0) {
        busy_vc_[asked] += waited;
      } else {
        lost_vc_[asked] += waited;
      }
      since = next;
    }
  }
}

std::int64_t FlitNetwork::injected_to(std::int32_t terminal) const { return injected_to_[as_size(terminal)]; }
std::int64_t FlitNetwork::ejected_at(std::int32_t terminal) const { return ejected_at_[as_size(terminal)]; }

std::string FlitNetwork::name_of_input(std::uint32_t input) const {
  const InputVc& vc = inputs_[input];
  return "router " + std::to_string(input >> vc_shift_) + " input port " + std::to_string(vc.port) + " VC " +
         std::to_string(vc.vc);
}

std::string FlitNetwork::verify_conservation() const {
  std::int64_t held = 0;
  const std::size_t router_slots = inputs_.size() * (ring_mask_ + 1);
  for (std::size_t slot = 0; slot < router_slots; ++slot) held += (rings_[slot] & kFlit) != 0 ? 1 : 0;
  if (held != injected_flits_ - ejected_flits_) {
    return "flits are lost: " + std::to_string(injected_flits_) + " injected, " + std::to_string(ejected_flits_) +
           " ejected, but " + std::to_string(held) + " in buffers and on links";
  }
  const std::uint32_t horizon = static_cast<std::uint32_t>(cycle_ - base_) + wheel_mask_;
  for (std::size_t slot = 0; slot < rings_.size(); ++slot) {
    if ((rings_[slot] & kFlit) != 0 || rings_[slot] <= horizon) continue;
    const std::size_t vc = slot / (ring_mask_ + 1);
    if (vc >= inputs_.size()) {
      const std::size_t n = (vc - inputs_.size()) / num_vcs_;
      return "a credit of node " + std::to_string(n) + "'s ejection channel never returned";
    }
    return "a credit of " + name_of_input(static_cast<std::uint32_t>(vc)) + " never returned";
  }
  if (!idle()) return {};
  for (std::size_t n = 0; n < terminals_.size(); ++n) {
    if (injected_to_[n] != ejected_at_[n]) {
      return "node " + std::to_string(n) + " received " + std::to_string(ejected_at_[n]) + " of " +
             std::to_string(injected_to_[n]) + " flits sent to it";
    }
  }
  for (std::uint32_t r = 0; r < routers_.size(); ++r) {
    const Router& router = routers_[r];
    if ((router.va | router.va_joining[0] | router.va_joining[1] | router.sa | router.sa_joining | router.blocked |
         router.parked) != 0) {
      return "router " + std::to_string(r) + " still has a VC at work in an empty network";
    }
    for (std::uint32_t p = 0; p < as_u32(spec_.ports); ++p) {
      const Port& port = ports_[(r << port_shift_) + p];
      const bool connected = port.arrive != 0 || port.terminal != kNoLink;
      if (connected && static_cast<std::uint32_t>(std::popcount(port.free_vcs)) != num_vcs_) {
        return "an output VC of router " + std::to_string(r) + " port " + std::to_string(p) + " was never released";
      }
    }
  }
  return {};
}

std::string FlitNetwork::wait_for_cycle() const {
  // Each waiting input VC names one it waits for: the one that holds the slot or the VC it needs.
  const auto waits_for = [&](std::uint32_t input, std::string& reason) -> std::int64_t {
    const std::uint32_t router = input >> vc_shift_;
    const std::uint32_t base = router << vc_shift_;
    const std::uint64_t bit = std::uint64_t{1} << (input - base);
    const InputVc& vc = inputs_[input];
    if ((routers_[router].blocked & bit) != 0) {
      const Port& port = ports_[(router << port_shift_) + vc.output];
      const OutputVc& out = outputs_[base + vc.output_vc];
      const std::uint32_t word = rings_[credit_slot(out.write, port.gap)];
      reason = " waits for a credit of output port " + std::to_string(vc.output) + " VC " +
               std::to_string(vc.output_vc - vc.output * num_vcs_);
      if ((word & kFlit) == 0) return -1;
      return out.down;
    }
    if ((routers_[router].parked & bit) != 0) {
      reason = " waits for an output VC of port " + std::to_string(vc.output);
      return base + outputs_[base + vc.output * num_vcs_ + lowest(vc.vcs)].owner;
    }
    if (vc.output != kNoPort && vc.visible == 0) {
      reason = " is empty in the middle of a packet and waits for its next flit";
      const Port& port = ports_[(router << port_shift_) + vc.port];
      if (port.source != 0) return -1;
      const std::uint32_t up = port.up + vc.vc;
      return (up & ~((1U << vc_shift_) - 1)) + outputs_[up].owner;
    }
    return -2;
  };
  std::string longest;
  std::size_t longest_length = 0;
  std::vector<std::uint32_t> seen(inputs_.size(), 0);
  std::uint32_t walk = 0;
  for (std::uint32_t start = 0; start < inputs_.size(); ++start) {
    if (seen[start] != 0) continue;
    ++walk;
    std::vector<std::uint32_t> chain;
    std::vector<std::string> reasons;
    std::uint32_t at = start;
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
  return longest.empty() ? "no VC waits" : longest;
}

std::size_t FlitNetwork::core_bytes() const {
  const auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  std::size_t sum = sizeof(*this);
  sum += bytes(rings_) + bytes(routers_) + bytes(ports_) + bytes(inputs_) + bytes(outputs_) + bytes(since_);
  sum += bytes(routes_) + bytes(vc_sets_) + bytes(active_) + bytes(wheel_) + bytes(packets_) + bytes(terminals_);
  sum += bytes(queues_) + bytes(source_write_) + bytes(active_sources_) + bytes(future_sources_);
  sum += bytes(batch_start_) + bytes(batch_end_) + bytes(last_send_) + bytes(window_injected_) + bytes(window_ejected_);
  sum += bytes(injected_to_) + bytes(ejected_at_) + bytes(flits_) + bytes(no_credit_) + bytes(lost_switch_);
  sum += bytes(busy_vc_) + bytes(lost_vc_) + bytes(arrivals_) + bytes(departures_);
  sum += bytes(spec_.links) + bytes(spec_.terminals) + bytes(spec_.classes);
  for (const WheelSlot& slot : wheel_) sum += bytes(slot.arrivals) + bytes(slot.wakes);
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
  for (std::uint32_t& stamp : since_) stamp -= static_cast<std::uint32_t>(delta);
  if ((delta & 1) != 0) {
    for (Router& router : routers_) std::swap(router.va_joining[0], router.va_joining[1]);
  }
  const auto turn = static_cast<std::ptrdiff_t>(delta & static_cast<std::int64_t>(wheel_mask_));
  std::rotate(wheel_.begin(), wheel_.begin() + turn, wheel_.end());
  base_ = next_base;
}

void FlitNetwork::visit(sim::Visitor& v) {
  using sim::Kind;
  if (cycle_ >= 0) rebase(cycle_);
  v.value(Kind::stamp, base_);
  v.value(Kind::stamp, cycle_);
  v.vector(Kind::state, rings_);
  v.vector(Kind::state, routers_);
  v.vector(Kind::state, ports_);
  v.vector(Kind::state, inputs_);
  v.vector(Kind::state, outputs_);
  v.vector(Kind::state, since_);
  v.vector(Kind::state, active_);
  for (WheelSlot& slot : wheel_) {
    v.vector(Kind::state, slot.arrivals);
    v.vector(Kind::state, slot.wakes);
  }
  v.vector(Kind::state, packets_);
  v.value(Kind::state, free_packet_);
  v.vector(Kind::state, terminals_);
  v.vector(Kind::state, queues_);
  v.vector(Kind::state, source_write_);
  v.vector(Kind::state, active_sources_);
  v.vector(Kind::state, future_sources_);
  v.vector(Kind::state, batch_start_);
  v.vector(Kind::state, batch_end_);
  v.vector(Kind::state, last_send_);
  v.value(Kind::counter, injected_flits_);
  v.value(Kind::counter, ejected_flits_);
  v.value(Kind::state, queued_packets_);
  v.value(Kind::state, fault_countdown_);
  v.value(Kind::state, window_begin_);
  v.value(Kind::state, window_end_);
  for (auto* counters : {&window_injected_, &window_ejected_, &injected_to_, &ejected_at_, &flits_, &no_credit_,
                         &lost_switch_, &busy_vc_, &lost_vc_}) {
    v.vector(Kind::counter, *counters);
  }
  v.vector(Kind::state, arrivals_);
  v.vector(Kind::state, departures_);
}

}  // namespace cosim::noc
