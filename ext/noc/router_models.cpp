#include "noc/router_models.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "noc/flit_network_inline.hpp"
#include "sim/random.hpp"

namespace cosim::noc {

namespace {

constexpr std::uint32_t kErrorBytes = 512;
// from a flit's leaving its endpoint to the first call that shows it
constexpr std::int64_t kInjection = kTerminalLinkLatency + 1;

}  // namespace

RouterModels::RouterModels(const RouterModelPlugin& plugin, const NetworkSpec& network)
    : plugin_(plugin), graph_(network, plugin.topology, plugin.dims, plugin.flit_bytes) {
  std::memcpy(&table_, plugin_.table, std::min<std::size_t>(plugin_.table->struct_size, sizeof(table_)));
  const auto routers = as_u32(network.routers);
  ports_ = as_u32(network.ports);
  vcs_ = as_u32(network.num_vcs);
  credit_delay_ = as_u32(network.credit_delay);
  seed_key_ = sim::mix64(network.routing.seed);
  most_quiet_cycles_ = network.routing.no_progress_cycles;
  const std::size_t places = std::size_t{routers} * ports_;
  upstream_.assign(places, kNone);
  std::uint32_t longest = 1;
  for (const LinkSpec& link : network.links) {
    upstream_[as_u32(link.to_router) * ports_ + as_u32(link.to_port)] =
        as_u32(link.from_router) * ports_ + as_u32(link.from_port);
    longest = std::max(longest, as_u32(link.latency));
  }
  due_mask_ = std::bit_ceil(std::size_t{longest} + 2 + credit_delay_) - 1;
  due_.resize(due_mask_ + 1);
  waiting_.assign(network.terminals.size(), kNone);
  wanted_.assign(routers, kNoEvent);
  active_.resize((routers + 63) / 64);
  arrived_.assign(places, kNone);
  credits_.resize(places);
  shown_arrived_.resize(ports_);
  shown_waiting_.resize(ports_);
  sent_.resize(ports_);
  freed_.resize(ports_);
  std::string problem;
  for (std::uint32_t r = 0; r < routers && problem.empty(); ++r) {
    cosim_router_info info{sizeof(cosim_router_info), as_u32(network.vc_buf_size), 1, 0};
    std::array<char, kErrorBytes> error{};
    void* self = nullptr;
    const std::int32_t status =
        table_.create(&graph_.table(), r, plugin_.params.c_str(), &info, &self, error.data(), error.size());
    error.back() = '\0';
    if (status != COSIM_OK) {
      problem = "refuses router " + std::to_string(r) + ": " + (error[0] != '\0' ? error.data() : "no reason given") +
                " (status " + std::to_string(status) + ")";
      break;
    }
    routers_.push_back(self);
    if (r == 0) info_ = info;
    if (info.pipeline_cycles < 1) problem = "states a pipeline of 0 cycles, expected at least 1";
    if (info.buffer_flits != info_.buffer_flits || info.pipeline_cycles != info_.pipeline_cycles) {
      problem = "states other buffer_flits or pipeline_cycles for router " + std::to_string(r) + " than for router 0";
    }
  }
  if (!problem.empty()) {
    for (void* self : routers_) table_.destroy(self);
    throw std::invalid_argument(std::string("the router model '") + table_.name + "' " + problem);
  }
  room_.assign(places * vcs_, info_.buffer_flits);
  held_.assign(places * vcs_, 0);
}

RouterModels::~RouterModels() {
  for (void* self : routers_) table_.destroy(self);
}

bool RouterModels::fail(FlitNetwork& network, std::uint32_t router, const std::string& text) const {
  network.failure_ = std::string("router model '") + table_.name + "': " + text + " (router " + std::to_string(router) +
                     ", cycle " + std::to_string(network.cycle_) + ")";
  network.stuck_ = 1;
  return false;
}

std::string RouterModels::name_of(const FlitNetwork& network, std::uint32_t flit) const {
  const Flit& f = flits_[flit];
  const auto& packet = network.packets_[f.packet];
  return "flit " + std::to_string(f.index) + " of packet " + std::to_string(network.packet_number_[f.packet]) +
         " from node " + std::to_string(packet.source) + " to node " + std::to_string(packet.dest);
}

// ---------------------------------------------------------------------------------------------------------------
// events

void RouterModels::wish(std::uint32_t router, std::int64_t cycle) {
  wanted_[router] = cycle;
  if (cycle == kNoEvent) return;
  wishes_.push_back({cycle, router, 0});
  std::push_heap(wishes_.begin(), wishes_.end(), std::greater<>());
}

std::int64_t RouterModels::next_event(std::int64_t cycle) const {
  std::int64_t first = wishes_.empty() ? kNoEvent : std::max(cycle + 1, wishes_.front().cycle);
  const std::int64_t last = std::min(first - 1, cycle + static_cast<std::int64_t>(due_mask_));
  for (std::int64_t t = cycle + 1; t <= last; ++t) {
    if (!due_[static_cast<std::size_t>(t) & due_mask_].empty()) return t;
  }
  return first;
}

// Flits and credits that arrive, and routers that wanted to be called.
void RouterModels::deliver(std::int64_t cycle) {
  std::vector<Event>& due = due_[static_cast<std::size_t>(cycle) & due_mask_];
  for (const Event& event : due) {
    activate(event.port / ports_);
    if (event.flit == kNone) {
      credits_[event.port] |= bit64(event.vc);
      ++room_[std::size_t{event.port} * vcs_ + event.vc];
      continue;
    }
    Flit& flit = flits_[event.flit];
    flit.place = event.port / ports_;
    ++flit.hops;
    arrived_at_[event.flit] = cycle;
    arrived_[event.port] = event.flit;
    if (info_.buffer_flits != 0) ++held_[std::size_t{event.port} * vcs_ + flit.vc];
    ++in_routers_;
    --on_links_;
  }
  due.clear();
  while (!wishes_.empty() && wishes_.front().cycle <= cycle) {
    const Wish wish = wishes_.front();
    std::pop_heap(wishes_.begin(), wishes_.end(), std::greater<>());
    wishes_.pop_back();
    if (wanted_[wish.router] == wish.cycle) activate(wish.router);
  }
}

void RouterModels::offer(FlitNetwork& network, std::uint32_t now) {
  for (std::size_t word = 0; word < network.source_words(); ++word) {
    for (std::uint64_t rest = std::exchange(network.sources_active()[word], 0); rest != 0; rest &= rest - 1) {
      const std::uint32_t terminal = static_cast<std::uint32_t>(word) * 64 + lowest(rest);
      if (waiting_[terminal] == kNone) offer_of(network, terminal, now);
    }
  }
}

// The next flit of a node begins to wait at its router's port, two cycles after it could leave the node. Of several
// classes the larger priority goes first, equal ones take turns, flit by flit.
void RouterModels::offer_of(FlitNetwork& network, std::uint32_t terminal, std::uint32_t now) {
  std::int64_t soonest = kNoEvent;
  for (std::size_t g = 0; g + 1 < network.class_groups_.size(); ++g) {
    const std::uint32_t begin = network.class_groups_[g];
    const std::uint32_t size = network.class_groups_[g + 1] - begin;
    const std::uint32_t turn = network.terminals_[terminal].turn;
    const std::uint32_t first = turn > begin && turn < begin + size ? turn - begin : 0;
    for (std::uint32_t i = 0; i < size; ++i) {
      const std::uint32_t position = begin + (first + i) % size;
      auto& queue = network.queues_[terminal * network.num_classes_ + network.class_order_[position]];
      if (queue.first == FlitNetwork::kNoPacket) continue;
      const auto& packet = network.packets_[queue.first];
      const std::uint32_t left = queue.left != 0 ? queue.left : as_u32(packet.size);
      if (left <= packet.held) continue;
      if (queue.left == 0 && packet.create + kInjection > network.cycle_) {
        soonest = std::min(soonest, packet.create + kInjection);
        continue;
      }
      queue.left = left;
      std::uint32_t flit = free_flit_;
      if (flit != kNone) {
        free_flit_ = flits_[flit].packet;
      } else {
        flit = static_cast<std::uint32_t>(flits_.size());
        flits_.emplace_back();
        arrived_at_.emplace_back();
      }
      const std::uint32_t vc = lowest(network.class_masks_[packet.message_class]);
      flits_[flit] = {queue.first, as_u32(packet.size) - left, 0, 0, kWaiting, vc, 0};
      waiting_[terminal] = flit;
      ++waiting_flits_;
      network.terminals_[terminal].turn = position + 1;
      activate(as_u32(network.spec_.terminals[terminal].router));
      return;
    }
  }
  if (soonest == kNoEvent) return;
  if (soonest - network.cycle_ <= kInjection) {
    network.wake_at(now + static_cast<std::uint32_t>(soonest - network.cycle_), FlitNetwork::kTerminal, terminal);
  } else {
    network.schedule_source(terminal, soonest);
  }
}

// -----------------------------------------------------------------------------------------------------------------
// calls

void RouterModels::show(const FlitNetwork& network, std::uint32_t flit, cosim_flit& shown) const {
  const Flit& f = flits_[flit];
  const auto& packet = network.packets_[f.packet];
  shown.id = flit;
  shown.vc = f.vc;
  shown.src = as_u32(packet.source);
  shown.dst = as_u32(packet.dest);
  shown.class_id = packet.message_class;
  shown.index = f.index;
  shown.packet_flits = as_u32(packet.size);
  shown.hops = f.place == kWaiting ? 0 : f.hops - 1;
  shown.packet_id = network.packet_number_[f.packet];
  shown.create_cycle = static_cast<std::uint64_t>(packet.create);
  shown.state = f.state;
}

bool RouterModels::call(FlitNetwork& network, std::uint32_t router, std::uint32_t now) {
  const std::size_t first = std::size_t{router} * ports_;
  cosim_router_step io{};
  io.struct_size = sizeof(io);
  io.cycle = static_cast<std::uint64_t>(network.cycle_);
  io.rand = sim::mix64(seed_key_ ^ sim::mix64(io.cycle ^ sim::mix64(router)));
  for (std::uint32_t p = 0; p < ports_; ++p) {
    const std::uint32_t flit = std::exchange(arrived_[first + p], kNone);
    if (flit != kNone) {
      io.arrived_ports |= bit64(p);
      show(network, flit, shown_arrived_[p]);
    }
    const std::uint32_t terminal = graph_.ejects(first + p);
    if (terminal != COSIM_NO_LINK && waiting_[terminal] != kNone) {
      io.waiting_ports |= bit64(p);
      show(network, waiting_[terminal], shown_waiting_[p]);
    }
    freed_[p] = 0;
  }
  io.arrived = shown_arrived_.data();
  io.waiting = shown_waiting_.data();
  io.credits = &credits_[first];
  io.sent = sent_.data();
  io.freed = freed_.data();
  io.next_event = COSIM_NEVER;
  ++calls_;
  const std::uint64_t waiting = io.waiting_ports;
  const std::int32_t status = table_.step(routers_[router], &io);
  std::fill_n(credits_.begin() + static_cast<std::ptrdiff_t>(first), ports_, 0);
  if (status != COSIM_OK) return fail(network, router, "step returned the error " + std::to_string(status));
  if ((io.taken_ports & ~waiting) != 0) {
    return fail(network, router,
                "took a flit of port " + std::to_string(lowest(io.taken_ports & ~waiting)) + ", at which none waits");
  }
  for (std::uint64_t rest = io.taken_ports; rest != 0; rest &= rest - 1) {
    if (!take(network, router, lowest(rest), now)) return false;
  }
  for (std::uint32_t p = 0; p < ports_; ++p) {
    if (freed_[p] != 0 && !free_slots(network, router, p)) return false;
  }
  for (std::uint64_t rest = io.sent_ports; rest != 0; rest &= rest - 1) {
    if (lowest(rest) >= ports_) {
      return fail(
          network, router,
          "sent to port " + std::to_string(lowest(rest)) + "; a router has " + std::to_string(ports_) + " ports");
    }
    if (!send(network, router, lowest(rest), sent_[lowest(rest)])) return false;
  }
  if (io.next_event <= io.cycle) {
    return fail(network, router,
                "asked for a call in cycle " + std::to_string(io.next_event) +
                    ", expected a later one than the present or COSIM_NEVER");
  }
  wish(router,
       io.next_event >= static_cast<std::uint64_t>(kNoEvent) ? kNoEvent : static_cast<std::int64_t>(io.next_event));
  return true;
}

// The flit that waits at a port enters; the next one of its node may wait from the next cycle on.
bool RouterModels::take(FlitNetwork& network, std::uint32_t router, std::uint32_t port, std::uint32_t now) {
  const std::uint32_t terminal = graph_.ejects(std::size_t{router} * ports_ + port);
  Flit& flit = flits_[waiting_[terminal]];
  arrived_at_[waiting_[terminal]] = network.cycle_;
  waiting_[terminal] = kNone;
  --waiting_flits_;
  ++in_routers_;
  flit.place = router;
  flit.hops = 1;
  auto& packet = network.packets_[flit.packet];
  const std::int64_t left_node = network.cycle_ - kInjection;
  if (flit.index == 0) {
    packet.inject = left_node;
    network.injected_to_[as_size(packet.dest)] += packet.size;
  }
  packet.flit_sum -= left_node;
  ++network.injected_flits_;
  network.window_injected_[terminal] += left_node >= network.window_begin_ && left_node < network.window_end_ ? 1 : 0;
  network.wake_at(now + 1, FlitNetwork::kTerminal, terminal);
  auto& queue = network.queues_[terminal * network.num_classes_ + packet.message_class];
  if (--queue.left != 0) return true;
  network.departures_.push_back({packet.tag, left_node});
  --network.queued_packets_;
  queue.first = packet.next;
  if (queue.first == FlitNetwork::kNoPacket) queue.last = FlitNetwork::kNoPacket;
  return true;
}

bool RouterModels::free_slots(FlitNetwork& network, std::uint32_t router, std::uint32_t port) {
  const std::uint32_t input = router * ports_ + port;
  const std::uint32_t up = upstream_[input];
  const std::string name = "freed a slot of input port " + std::to_string(port);
  if (up == kNone) return fail(network, router, name + ", which no link feeds");
  if (info_.buffer_flits == 0) return fail(network, router, name + " and stated that it has no buffers");
  const std::int64_t when = network.cycle_ + graph_.link_latency(up) + 1 + credit_delay_;
  for (std::uint64_t rest = freed_[port]; rest != 0; rest &= rest - 1) {
    const std::uint32_t vc = lowest(rest);
    const std::string vc_name = " VC " + std::to_string(vc);
    if (vc >= vcs_) return fail(network, router, name + vc_name + "; there are " + std::to_string(vcs_) + " VCs");
    if (held_[std::size_t{input} * vcs_ + vc] == 0)
      return fail(network, router, name + vc_name + ", all of which are free");
    --held_[std::size_t{input} * vcs_ + vc];
    at(when, {up, kNone, vc});
  }
  return true;
}

bool RouterModels::send(FlitNetwork& network, std::uint32_t router, std::uint32_t port, const cosim_flit& sent) {
  const std::uint32_t output = router * ports_ + port;
  const std::string name = "sent to port " + std::to_string(port);
  if (sent.id >= flits_.size() || flits_[sent.id].place != router) {
    return fail(network, router, name + " the flit of id " + std::to_string(sent.id) + ", which is not in this router");
  }
  Flit& flit = flits_[sent.id];
  const auto& packet = network.packets_[flit.packet];
  const std::string what = name + " " + name_of(network, sent.id);
  const std::uint32_t terminal = graph_.ejects(output);
  if (terminal == COSIM_NO_LINK && graph_.neighbor(output) == COSIM_NO_LINK) {
    return fail(network, router, what + ": the port has no link");
  }
  if (terminal != COSIM_NO_LINK && terminal != as_u32(packet.dest)) {
    return fail(network, router, what + ": the port ejects at node " + std::to_string(terminal));
  }
  const std::uint64_t vcs = graph_.class_vcs(packet.message_class);
  if (sent.vc >= vcs_ || (vcs >> sent.vc & 1U) == 0) {
    return fail(
        network, router,
        what + " on VC " + std::to_string(sent.vc) + ", expected one of its class, mask " + std::to_string(vcs));
  }
  if (network.cycle_ - arrived_at_[sent.id] < info_.pipeline_cycles - 1) {
    return fail(network, router,
                what + " " + std::to_string(network.cycle_ - arrived_at_[sent.id]) +
                    " cycles after it came; the router states a pipeline of " + std::to_string(info_.pipeline_cycles) +
                    " cycles");
  }
  --in_routers_;
  ++network.output(first_id(router) + port * network.num_vcs_ + sent.vc).flits;
  if (terminal != COSIM_NO_LINK) {
    read(network, terminal, sent.id);
    return true;
  }
  if (info_.buffer_flits != 0) {
    std::uint32_t& room = room_[std::size_t{output} * vcs_ + sent.vc];
    if (room == 0) return fail(network, router, what + " on VC " + std::to_string(sent.vc) + " without a credit");
    --room;
  }
  flit.place = kOnLink;
  flit.vc = sent.vc;
  flit.state = sent.state;
  flit.link_cycles += graph_.link_latency(output);
  ++on_links_;
  at(network.cycle_ + graph_.link_latency(output) + 1,
     {graph_.neighbor(output) * ports_ + graph_.neighbor_port(output), sent.id, sent.vc});
  return true;
}

// A node reads a flit; its packet is there when all of its flits are. A packet's way is that of the flit sent last.
void RouterModels::read(FlitNetwork& network, std::uint32_t terminal, std::uint32_t flit) {
  Flit& f = flits_[flit];
  auto& packet = network.packets_[f.packet];
  const std::int64_t cycle = network.cycle_ + kTerminalLinkLatency + 1;
  quiet_since_ = network.cycle_;
  packet.flit_sum += cycle;
  ++network.ejected_flits_;
  ++network.ejected_at_[terminal];
  network.window_ejected_[terminal] += cycle >= network.window_begin_ && cycle < network.window_end_ ? 1 : 0;
  if (!network.watched_.empty() && network.watched_[terminal] != 0) {
    network.flit_arrivals_.push_back({packet.tag, cycle, packet.create, packet.inject,
                                      static_cast<std::int32_t>(f.hops), static_cast<std::int32_t>(f.link_cycles)});
  }
  if (f.index + 1 == as_u32(packet.size)) packet.path = std::uint64_t{f.hops} << 32U | f.link_cycles;
  if (read_.size() <= f.packet) read_.resize(f.packet + std::size_t{1});
  const std::uint32_t slot = f.packet;
  f = {free_flit_, 0, 0, 0, kFree, 0, 0};
  free_flit_ = flit;
  if (++read_[slot] != as_u32(packet.size)) return;
  read_[slot] = 0;
  network.arrivals_.push_back({packet.tag, cycle, packet.create, packet.inject, packet.flit_sum, packet.source,
                               packet.dest, packet.size, packet.message_class,
                               static_cast<std::int32_t>(packet.path >> 32U),
                               static_cast<std::int32_t>(packet.path & ~0U)});
  packet.next = network.free_packet_;
  network.free_packet_ = slot;
}

void RouterModels::step(FlitNetwork& network, std::uint32_t now) {
  deliver(network.cycle_);
  offer(network, now);
  for (std::size_t word = 0; word < active_.size(); ++word) {
    for (std::uint64_t rest = std::exchange(active_[word], 0); rest != 0; rest &= rest - 1) {
      if (!call(network, static_cast<std::uint32_t>(word) * 64 + lowest(rest), now)) return;
    }
  }
  if (flits() + waiting_flits_ == 0) {
    quiet_since_ = network.cycle_;
  } else if (network.cycle_ - quiet_since_ > most_quiet_cycles_) {
    network.failure_ = std::string("router model '") + table_.name + "': no node has read a flit for " +
                       std::to_string(most_quiet_cycles_) + " cycles (cycle " + std::to_string(network.cycle_) + "); " +
                       left(network);
    network.stuck_ = 1;
  }
}

// ------------------------------------------------------------------------------------------------------- laws and
// state

std::string RouterModels::verify_idle() const {
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (held_[i] != 0) {
      return "router " + std::to_string(i / vcs_ / ports_) + " never freed a slot of input port " +
             std::to_string(i / vcs_ % ports_) + " VC " + std::to_string(i % vcs_);
    }
  }
  return {};
}

std::string RouterModels::left(const FlitNetwork& network) const {
  constexpr std::size_t kMostNamed = 8;
  std::string text = std::to_string(in_routers_) + " flits in routers, " + std::to_string(on_links_) + " on links, " +
                     std::to_string(waiting_flits_) + " waiting at their nodes:";
  std::size_t named = 0;
  for (std::uint32_t flit = 0; flit < flits_.size() && named < kMostNamed; ++flit) {
    const std::uint32_t place = flits_[flit].place;
    if (place == kFree) continue;
    ++named;
    text += "\n  " + name_of(network, flit) +
            (place == kOnLink ? " on a link"
             : place == kWaiting
                 ? " waiting at its node"
                 : " in router " + std::to_string(place) + " since cycle " + std::to_string(arrived_at_[flit]));
  }
  return text;
}

std::size_t RouterModels::core_bytes() const {
  const auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  std::size_t sum = sizeof(*this) + bytes(routers_) + bytes(upstream_) + bytes(flits_) + bytes(arrived_at_);
  sum += bytes(read_) + bytes(waiting_) + bytes(room_) + bytes(held_) + bytes(due_) + bytes(wanted_) + bytes(wishes_);
  sum += bytes(active_) + bytes(arrived_) + bytes(credits_);
  for (const auto& due : due_) sum += bytes(due);
  return sum;
}

void RouterModels::visit(sim::Visitor& v, std::int64_t cycle) {
  using sim::Kind;
  v.vector(Kind::state, flits_);
  v.vector(Kind::stamp, arrived_at_);
  v.value(Kind::state, free_flit_);
  v.vector(Kind::state, read_);
  v.vector(Kind::state, waiting_);
  v.vector(Kind::state, room_);
  v.vector(Kind::state, held_);
  for (std::size_t i = 0; i <= due_mask_; ++i)
    v.vector(Kind::state, due_[(static_cast<std::size_t>(cycle) + i) & due_mask_]);
  v.vector(Kind::stamp, wanted_);
  v.value(Kind::state, in_routers_);
  v.value(Kind::state, on_links_);
  v.value(Kind::state, waiting_flits_);
  v.value(Kind::stamp, quiet_since_);
  v.value(Kind::counter, calls_);
  wishes_.clear();
  for (std::uint32_t r = 0; r < wanted_.size(); ++r) wish(r, wanted_[r]);
  if ((table_.caps & COSIM_CAP_STATELESS_MODEL) != 0) return;
  const std::string who = std::string("the router model '") + table_.name + "'";
  if (table_.save == nullptr) {
    throw std::runtime_error(who + " keeps state and has no save and load: a run with it cannot be saved");
  }
  for (void* self : routers_) {
    state_.resize(table_.save(self, nullptr, 0));
    if (table_.save(self, state_.data(), state_.size()) != state_.size()) {
      throw std::runtime_error(who + " saves another size than it said");
    }
    const std::vector<std::uint8_t> before = state_;
    v.vector(Kind::state, state_);
    if (state_ != before && table_.load(self, state_.data(), state_.size()) != COSIM_OK) {
      throw std::runtime_error(who + " cannot load what it has saved");
    }
  }
}

}  // namespace cosim::noc
