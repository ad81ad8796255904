#include "endpoint/flit_network_node.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "endpoint/gateway.hpp"
#include "sim/canonical.hpp"

namespace cosim::endpoint {

using sim::Fs;
using sim::Message;
using sim::MessageKind;

namespace {
constexpr std::int32_t kPacketsAhead = 2;  // per terminal: the next packet waits behind the one that leaves
}

FlitNetworkNode::FlitNetworkNode(const noc::NetworkSpec& spec, FlitNetworkNodeConfig config, std::int32_t task_graph)
    : ClockedNode(config.clock),
      config_(std::move(config)),
      network_(spec),
      task_graph_(task_graph),
      payload_(config_.max_packet_flits * config_.flit_bytes - config_.header_bytes) {
  if (config_.flit_bytes <= 0 || config_.max_packet_flits <= 0 || config_.header_bytes < 0 || payload_ <= 0) {
    throw std::invalid_argument("a packet of " + std::to_string(config_.max_packet_flits) + " flits of " +
                                std::to_string(config_.flit_bytes) + " B has no room behind a header of " +
                                std::to_string(config_.header_bytes) + " B");
  }
  const std::size_t endpoints = config_.endpoint_node.size();
  if (endpoints != config_.endpoint_terminals.size()) {
    throw std::invalid_argument("every endpoint needs its list of terminals");
  }
  for (std::size_t e = 0; e < endpoints; ++e) {
    if (config_.endpoint_terminals[e].empty()) throw std::invalid_argument("an endpoint needs at least one terminal");
    const auto node = static_cast<std::size_t>(config_.endpoint_node[e]);
    if (endpoint_of_node_.size() <= node) endpoint_of_node_.resize(node + 1, -1);
    endpoint_of_node_[node] = static_cast<std::int32_t>(e);
  }
  const auto classes = static_cast<std::size_t>(config_.message_classes);
  const std::size_t routes = endpoints * static_cast<std::size_t>(config_.nodes);
  config_.descends.resize(endpoints);
  if (config_.gateway_towards.size() != routes || config_.payload_towards.size() != routes) {
    throw std::invalid_argument("every endpoint needs its way to every node");
  }
  if (spec.classes.size() > 1 && spec.classes.size() != classes * static_cast<std::size_t>(config_.legs)) {
    throw std::invalid_argument("the network has " + std::to_string(spec.classes.size()) + " classes for " +
                                std::to_string(classes) + " message classes on " + std::to_string(config_.legs) +
                                " legs");
  }
  for (const GatewayPort& gateway : config_.gateways) {
    if (config_.max_packet_flits > noc::kMostHeldFlits) {
      throw std::invalid_argument("a packet through a gateway has at most 65535 flits");
    }
    for (const std::int32_t terminal : config_.endpoint_terminals[static_cast<std::size_t>(endpoint_of(gateway.node))])
      network_.watch(terminal);
  }
  for (std::size_t e = 0; e < endpoints; ++e) {
    for (const std::int32_t terminal : config_.endpoint_terminals[e]) {
      const auto at = static_cast<std::size_t>(terminal);
      if (endpoint_of_terminal_.size() <= at) endpoint_of_terminal_.resize(at + 1, -1);
      endpoint_of_terminal_[at] = static_cast<std::int32_t>(e);
    }
  }
  group_way_.assign(classes, GroupWay::each);
  for (std::size_t c = 0; c < classes && spec.classes.size() > 1; ++c) {
    const noc::ClassSpec& core = spec.classes[c * static_cast<std::size_t>(config_.legs)];
    if (core.multicast) group_way_[c] = GroupWay::multicast;
    if (core.session) group_way_[c] = GroupWay::session;
  }
  destination_turn_.assign(endpoints, 0);
  message_of_.resize(endpoints);
  parcel_of_.resize(endpoints);
  queues_.assign(endpoints * classes, {});
  injected_bytes_.assign(classes, 0);
  delivered_bytes_.assign(classes, 0);
  class_latency_.assign(classes, {});
  journeys_.assign(classes, {});
}

std::int32_t FlitNetworkNode::endpoint_of(std::int64_t node) const {
  return endpoint_of_node_[static_cast<std::size_t>(node)];
}

Fs FlitNetworkNode::next_event() const {
  const std::int64_t cycle = network_.next_event();
  return std::min(inbox_.next(), cycle == noc::kNoEvent ? sim::kNever : clock_.edge_fs(cycle));
}

void FlitNetworkNode::post_to_gateway(std::int32_t gateway, const Message& m, Fs committed) {
  const GatewayPort& port = config_.gateways[static_cast<std::size_t>(gateway)];
  post(port.node, m, synchronised(port.clock, port.synchroniser_cycles, committed));
}

// A message that starts or goes on here; m.a and m.b are the nodes it enters at and ends at.
std::int32_t FlitNetworkNode::begin(const Message& m, std::int64_t cycle, Fs t) {
  std::int32_t slot = free_message_;
  if (slot >= 0) {
    free_message_ = messages_[static_cast<std::size_t>(slot)].next_free;
  } else {
    slot = static_cast<std::int32_t>(messages_.size());
    messages_.emplace_back();
  }
  Outgoing& message = messages_[static_cast<std::size_t>(slot)];
  message = {};
  message.tag = m.c;
  message.bytes = m.bytes;
  message.source = endpoint_of(m.a);
  message.message_class = m.message_class;
  message.flags = m.flags;
  if (m.b <= sim::kGroup) {
    begin_group(message, slot, m, cycle);
    return slot;
  }
  const bool comes_on = m.kind == MessageKind::open;
  std::int64_t payload = payload_;
  if (config_.nodes > 0) {
    const std::size_t way = static_cast<std::size_t>(message.source) * static_cast<std::size_t>(config_.nodes) +
                            static_cast<std::size_t>(m.b);
    message.gateway = config_.gateway_towards[way];
    payload = comes_on ? m.address : config_.payload_towards[way];
  }
  if (!comes_on) message.reply = m.address;
  message.packets_left = static_cast<std::int32_t>((m.bytes + payload - 1) / payload);
  message.departures_left = message.packets_left;
  ++in_flight_;
  injected_bytes_[m.message_class] += m.bytes;
  if (message.gateway < 0) {
    message.destination = endpoint_of(m.b);
    if (!comes_on) push(slot, -1, m.bytes, cycle);
    return slot;
  }
  message.destination = endpoint_of(config_.gateways[static_cast<std::size_t>(message.gateway)].node);
  Message open;
  open.kind = MessageKind::open;
  open.message_class = m.message_class;
  open.flags = static_cast<std::uint8_t>((m.flags & sim::kDeliverToGraph) | (comes_on ? 0 : sim::kAskForAll));
  open.a = slot;
  open.b = m.b;
  open.c = m.c;
  open.bytes = m.bytes;
  open.address = payload;
  post_to_gateway(message.gateway, open, t);
  return slot;
}

// A message to every node of a group: in a multicast or session class packets for all, else a message to each.
void FlitNetworkNode::begin_group(Outgoing& message, std::int32_t slot, const Message& m, std::int64_t cycle) {
  message.group = static_cast<std::int32_t>(sim::kGroup - m.b);
  message.reply = m.address;
  const auto members = static_cast<std::int32_t>(config_.graph->group(message.group).size());
  const bool one_by_one = group_way_[message.message_class] == GroupWay::each;
  const auto packets = static_cast<std::int32_t>((m.bytes + payload_ - 1) / payload_);
  message.packets_left = packets * members;
  message.departures_left = one_by_one ? packets * members : packets;
  ++in_flight_;
  injected_bytes_[message.message_class] += m.bytes * members;
  if (!one_by_one) {
    push(slot, -1, m.bytes, cycle);
    return;
  }
  for (std::int32_t member = 0; member < members; ++member) push(slot, -1, m.bytes, cycle, member);
}

void FlitNetworkNode::push(std::int32_t message, std::int32_t parcel, std::int64_t bytes, std::int64_t cycle,
                           std::int32_t member) {
  std::int32_t slot = free_ready_;
  if (slot >= 0) {
    free_ready_ = ready_[static_cast<std::size_t>(slot)].next;
  } else {
    slot = static_cast<std::int32_t>(ready_.size());
    ready_.emplace_back();
  }
  ready_[static_cast<std::size_t>(slot)] = {bytes, message, parcel, -1, member};
  const std::size_t index = queue_of(messages_[static_cast<std::size_t>(message)]);
  Queue& queue = queues_[index];
  if (queue.first < 0) {
    queue.first = queue.last = slot;
  } else {
    ready_[static_cast<std::size_t>(queue.last)].next = slot;
    queue.last = slot;
  }
  pump(index, cycle);
}

void FlitNetworkNode::pump(std::size_t index, std::int64_t cycle) {
  Queue& queue = queues_[index];
  const auto endpoint = index / static_cast<std::size_t>(config_.message_classes);
  const std::vector<std::int32_t>& terminals = config_.endpoint_terminals[endpoint];
  while (queue.first >= 0 && queue.in_network < kPacketsAhead * static_cast<std::int32_t>(terminals.size())) {
    const std::int32_t slot = queue.first;
    Ready& ready = ready_[static_cast<std::size_t>(slot)];
    const Outgoing& message = messages_[static_cast<std::size_t>(ready.message)];
    const std::int64_t bytes = std::min(payload_, ready.bytes);
    noc::PacketIn packet;
    packet.create_cycle = cycle;
    packet.source = terminals[static_cast<std::size_t>(queue.turn)];
    if (message.group >= 0) {
      std::vector<std::int32_t> sinks;
      const auto members = config_.graph->group(message.group);
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (ready.member >= 0 && static_cast<std::size_t>(ready.member) != i) continue;
        const auto& of_member = config_.endpoint_terminals[static_cast<std::size_t>(endpoint_of(members[i]))];
        sinks.push_back(of_member[static_cast<std::size_t>(queue.turn) % of_member.size()]);
      }
      packet.dest = sinks[0];
      if (ready.member < 0) {
        packet.group = group_way_[message.message_class] == GroupWay::session
                           ? network_.session_group(packet.source, sinks)
                           : network_.multicast_group(packet.source, sinks);
      }
      const std::int32_t carried = new_parcel(ready.message, bytes);
      Parcel& parcel = parcels_[static_cast<std::size_t>(carried)];
      parcel.start_fs = clock_.edge_fs(cycle);
      parcel.supplied = static_cast<std::int32_t>(sinks.size());
      packet.tag = static_cast<std::uint64_t>(carried + 1) << 32U;
    } else {
      const auto destination = static_cast<std::size_t>(message.destination);
      const std::vector<std::int32_t>& sinks = config_.endpoint_terminals[destination];
      std::int32_t& sink_turn = destination_turn_[destination];
      packet.dest = sinks[static_cast<std::size_t>(sink_turn)];
      sink_turn = (sink_turn + 1) % static_cast<std::int32_t>(sinks.size());
    }
    packet.size_flits = flits_of(bytes);
    packet.message_class = message.message_class * config_.legs + (config_.legs > 1 ? config_.descends[endpoint] : 0);
    packet.tag |= static_cast<std::uint32_t>(ready.message);
    if (ready.parcel >= 0) {
      Parcel& parcel = parcels_[static_cast<std::size_t>(ready.parcel)];
      packet.tag |= static_cast<std::uint64_t>(ready.parcel + 1) << 32U;
      if (parcel.from_piece >= 0) {
        packet.held_flits = parcel.flits - parcel.supplied;
        journeys_[message.message_class].gateway_fs += clock_.edge_fs(cycle) - parcel.head_fs;
      } else {
        parcel.start_fs = clock_.edge_fs(cycle);
      }
      parcel.packet = network_.offer(packet);
    } else {
      network_.offer(packet);
    }
    queue.turn = (queue.turn + 1) % static_cast<std::int32_t>(terminals.size());
    ++queue.in_network;
    ready.bytes -= bytes;
    if (ready.bytes == 0) {
      queue.first = ready.next;
      ready.next = free_ready_;
      free_ready_ = slot;
    }
  }
}

std::int32_t FlitNetworkNode::new_parcel(std::int32_t message, std::int64_t bytes) {
  std::int32_t slot = free_parcel_;
  if (slot >= 0) {
    free_parcel_ = parcels_[static_cast<std::size_t>(slot)].next_free;
  } else {
    slot = static_cast<std::int32_t>(parcels_.size());
    parcels_.emplace_back();
  }
  Parcel& parcel = parcels_[static_cast<std::size_t>(slot)];
  parcel = {};
  parcel.bytes = bytes;
  parcel.message = message;
  parcel.flits = flits_of(bytes);
  return slot;
}

namespace {

void set_at(std::vector<std::int32_t>& table, std::int64_t index, std::int32_t value) {
  const auto at = static_cast<std::size_t>(index);
  if (table.size() <= at) table.resize(at + 1, -1);
  table[at] = value;
}

}  // namespace

// A gateway says that a message will come from it.
void FlitNetworkNode::open(const Message& m, std::int64_t cycle, Fs t) {
  Message here = m;
  here.a = m.from;
  set_at(message_of_[static_cast<std::size_t>(endpoint_of(m.from))], m.a, begin(here, cycle, t));
}

// A gateway has room for a packet.
void FlitNetworkNode::room(const Message& m, std::int64_t cycle) {
  const auto message = static_cast<std::int32_t>(m.a);
  const std::int32_t slot = m.c >= 0 ? static_cast<std::int32_t>(m.c) : new_parcel(message, m.bytes);
  parcels_[static_cast<std::size_t>(slot)].to_piece = static_cast<std::int32_t>(m.b);
  push(message, slot, m.bytes, cycle);
}

// The first flit of a packet is there at a gateway.
void FlitNetworkNode::packet(const Message& m, std::int64_t cycle, Fs t) {
  const auto endpoint = static_cast<std::size_t>(endpoint_of(m.from));
  const std::int32_t message = message_of_[endpoint][static_cast<std::size_t>(m.a)];
  const std::int32_t slot = new_parcel(message, m.bytes);
  Parcel& parcel = parcels_[static_cast<std::size_t>(slot)];
  parcel.start_fs = m.c;
  parcel.head_fs = m.address;
  parcel.from_piece = static_cast<std::int32_t>(m.b);
  set_at(parcel_of_[endpoint], m.b, slot);
  const Outgoing& outgoing = messages_[static_cast<std::size_t>(message)];
  if (outgoing.gateway < 0) {
    push(message, slot, m.bytes, cycle);
    return;
  }
  Message ask;
  ask.kind = MessageKind::ask;
  ask.message_class = m.message_class;
  ask.a = message;
  ask.b = slot;
  ask.bytes = m.bytes;
  post_to_gateway(outgoing.gateway, ask, t);
}

void FlitNetworkNode::supply(const Message& m, std::int64_t cycle) {
  const std::vector<std::int32_t>& parcels = parcel_of_[static_cast<std::size_t>(endpoint_of(m.from))];
  Parcel& parcel = parcels_[static_cast<std::size_t>(parcels[static_cast<std::size_t>(m.b)])];
  const auto flits = static_cast<std::int32_t>(m.bytes);
  parcel.supplied += flits;
  parcel.last_supply = cycle;
  if (parcel.packet != kNoPacket) network_.supply(parcel.packet, flits);
}

void FlitNetworkNode::departed(const noc::Departure& d, std::int64_t cycle) {
  Outgoing& message = messages_[d.tag & 0xFFFF'FFFFU];
  const std::size_t index = queue_of(message);
  --queues_[index].in_network;
  const std::int32_t source = config_.endpoint_node[static_cast<std::size_t>(message.source)];
  Message m;
  m.kind = MessageKind::sent;
  m.message_class = message.message_class;
  if (d.tag >> 32U != 0) {
    const Parcel& parcel = parcels_[(d.tag >> 32U) - 1];
    if (parcel.from_piece >= 0) {
      m.c = parcel.from_piece;
      post(source, m, clock_.edge_fs(d.cycle));
    }
  }
  if (--message.departures_left == 0 && (message.flags & sim::kReplyWhenSent) != 0) {
    m.c = message.reply;
    post(source, m, clock_.edge_fs(d.cycle));
  }
  pump(index, cycle + 1);
}

// A gateway has read a flit: the packet's payload so far is there.
void FlitNetworkNode::read_at_gateway(const noc::FlitArrival& a) {
  Parcel& parcel = parcels_[(a.tag >> 32U) - 1];
  const Outgoing& message = messages_[static_cast<std::size_t>(parcel.message)];
  const Fs arrived = clock_.edge_fs(a.cycle);
  if (parcel.read++ == 0) {
    // The terms end with the head: what follows it is the gateway's, or the destination's serialisation.
    noc::Arrival head;
    head.cycle = a.cycle;
    head.create_cycle = a.create_cycle;
    head.inject_cycle = a.inject_cycle;
    head.size_flits = 1;
    head.message_class = message.message_class;
    head.hops = a.hops;
    head.link_cycles = a.link_cycles;
    book_journey(head, network_.terms(head), nullptr);
    parcel.head_fs = arrived;
  }
  Message m;
  m.kind = MessageKind::flits;
  m.message_class = message.message_class;
  m.a = parcel.to_piece;
  m.b = parcel.start_fs;
  m.c = parcel.head_fs;
  m.bytes = std::clamp<std::int64_t>(parcel.read * config_.flit_bytes - config_.header_bytes, 0, parcel.bytes);
  post_to_gateway(message.gateway, m, arrived);
}

// Lays the terms one after the other, so that they sum exactly whatever the clock.
void FlitNetworkNode::book_journey(const noc::Arrival& a, const noc::LatencyTerms& terms, const Parcel* parcel) {
  JourneyTerms& sums = journeys_[static_cast<std::size_t>(a.message_class)];
  std::int64_t cycle = a.create_cycle;
  const auto lay = [&](std::int64_t& sum, std::int64_t cycles) {
    sum += clock_.edge_fs(cycle + cycles) - clock_.edge_fs(cycle);
    cycle += cycles;
  };
  // What the source waited for flits, as far as it delayed the tail: that makes up time in routers, where only heads
  // are routed and get a VC.
  std::int64_t starved = 0;
  if (parcel != nullptr && parcel->from_piece >= 0) {
    starved =
        std::clamp<std::int64_t>(parcel->last_supply - (a.inject_cycle + a.size_flits - 1), 0, terms.contention_cycles);
  }
  lay(sums.source_queueing_fs, terms.source_queueing_cycles);
  lay(sums.router_fs, terms.router_cycles);
  lay(sums.link_fs, terms.link_cycles);
  lay(sums.serialisation_fs, terms.serialisation_cycles);
  lay(sums.gateway_fs, starved);
  lay(sums.contention_fs, terms.contention_cycles - starved);
  lay(sums.retry_fs, terms.retry_cycles);
}

// What a packet waited for a session was booked as time at its source when it arrived, or will be.
void FlitNetworkNode::waited(const noc::SessionWait& wait) {
  const Outgoing& message = messages_[wait.tag & 0xFFFF'FFFFU];
  const auto parcel = static_cast<std::int32_t>(wait.tag >> 32U) - 1;
  const bool shared = message.group >= 0;
  const std::int64_t times = shared ? parcels_[static_cast<std::size_t>(parcel)].supplied : 1;
  noc::LatencyTerms& terms = class_latency_[message.message_class].terms;
  terms.wait_for_session(times * wait.cycles);
  const std::int64_t now = network_.last_cycle();
  const Fs span = clock_.edge_fs(now) - clock_.edge_fs(now - wait.cycles);
  journeys_[message.message_class].source_queueing_fs -= times * span;
  journeys_[message.message_class].session_wait_fs += times * span;
}

// A packet to a group has reached one of its nodes, which is told; the task graph, when the last has all.
void FlitNetworkNode::arrived_at_member(const noc::Arrival& a, std::int32_t slot, std::int32_t parcel_slot) {
  Outgoing& message = messages_[static_cast<std::size_t>(slot)];
  Parcel& parcel = parcels_[static_cast<std::size_t>(parcel_slot)];
  const Fs read = clock_.edge_fs(a.cycle);
  message.last_read_fs = std::max(message.last_read_fs, read);
  class_latency_[message.message_class].payload_bytes += parcel.bytes;
  delivered_bytes_[message.message_class] += parcel.bytes;
  const bool transfer = (message.flags & sim::kDeliverToGraph) != 0;
  Message m;
  m.kind = MessageKind::delivered;
  m.c = message.tag;
  m.bytes = parcel.bytes;
  m.message_class = message.message_class;
  if (!transfer) {
    const auto endpoint = static_cast<std::size_t>(endpoint_of_terminal_[static_cast<std::size_t>(a.dest)]);
    post(config_.endpoint_node[endpoint], m, read);
  }
  if (++parcel.read == parcel.supplied) {
    parcel.next_free = free_parcel_;
    free_parcel_ = parcel_slot;
  }
  if (--message.packets_left > 0) return;
  m.bytes = message.bytes;
  if (transfer) post(task_graph_, m, message.last_read_fs);
  --in_flight_;
  message.next_free = free_message_;
  free_message_ = slot;
}

void FlitNetworkNode::arrived(const noc::Arrival& arrival) {
  noc::Arrival a = arrival;
  a.message_class = arrival.message_class / config_.legs;
  ClassLatency& sums = class_latency_[static_cast<std::size_t>(a.message_class)];
  const noc::LatencyTerms terms = network_.terms(arrival);
  ++sums.packets;
  sums.flits += a.size_flits;
  sums.hops += a.hops;
  sums.latency_cycles += a.cycle - a.create_cycle;
  sums.terms.source_queueing_cycles += terms.source_queueing_cycles;
  sums.terms.router_cycles += terms.router_cycles;
  sums.terms.link_cycles += terms.link_cycles;
  sums.terms.serialisation_cycles += terms.serialisation_cycles;
  sums.terms.contention_cycles += terms.contention_cycles;
  sums.terms.retry_cycles += terms.retry_cycles;
  const auto slot = static_cast<std::int32_t>(a.tag & 0xFFFF'FFFFU);
  const auto parcel_slot = static_cast<std::int32_t>(a.tag >> 32U) - 1;
  Outgoing& message = messages_[static_cast<std::size_t>(slot)];
  if (message.gateway < 0) {
    const Parcel* parcel = parcel_slot >= 0 ? &parcels_[static_cast<std::size_t>(parcel_slot)] : nullptr;
    book_journey(a, terms, parcel);
    const Fs start = parcel != nullptr ? parcel->start_fs : clock_.edge_fs(a.create_cycle);
    ++journeys_[message.message_class].packets;
    journeys_[message.message_class].latency_fs += clock_.edge_fs(a.cycle) - start;
  }
  if (message.group >= 0) {
    arrived_at_member(a, slot, parcel_slot);
    return;
  }
  if (parcel_slot >= 0) {
    parcels_[static_cast<std::size_t>(parcel_slot)].next_free = free_parcel_;
    free_parcel_ = parcel_slot;
  }
  if (--message.packets_left > 0) return;
  sums.payload_bytes += message.bytes;
  delivered_bytes_[message.message_class] += message.bytes;
  --in_flight_;
  if (message.gateway < 0) {
    Message m;
    m.kind = MessageKind::delivered;
    m.c = message.tag;
    m.bytes = message.bytes;
    m.message_class = message.message_class;
    const bool transfer = (message.flags & sim::kDeliverToGraph) != 0;
    post(transfer ? task_graph_ : config_.endpoint_node[static_cast<std::size_t>(message.destination)], m,
         clock_.edge_fs(a.cycle));
  }
  message.next_free = free_message_;
  free_message_ = slot;
}

void FlitNetworkNode::keep_journal(sim::Journal* journal) {
  sim::Node::keep_journal(journal);
  network_.note_passages(journal != nullptr);
  link_into_.clear();
  if (journal == nullptr) return;
  const noc::NetworkSpec& spec = network_.spec();
  link_into_.assign(static_cast<std::size_t>(spec.routers) * static_cast<std::size_t>(spec.ports), -1);
  const auto into = [&](std::int32_t router, std::int32_t port) -> std::int32_t& {
    return link_into_[static_cast<std::size_t>(router) * static_cast<std::size_t>(spec.ports) +
                      static_cast<std::size_t>(port)];
  };
  std::int32_t number = 0;
  for (const noc::LinkSpec& link : spec.links) into(link.to_router, link.to_port) = number++;
  for (const noc::TerminalSpec& terminal : spec.terminals) into(terminal.router, terminal.port) = number++;
}

// Before arrivals are booked: a message's record is reused when its last packet has arrived.
void FlitNetworkNode::note_passages() {
  for (const noc::Passage& p : network_.passages()) {
    if (!journal_->room()) continue;
    const auto port = static_cast<std::size_t>(p.router) * static_cast<std::size_t>(network_.spec().ports) +
                      static_cast<std::size_t>(p.port);
    journal_->links.push_back({clock_.edge_fs(p.first_cycle), clock_.edge_fs(p.last_cycle + 1),
                               messages_[p.tag & 0xFFFF'FFFFU].tag, id(), link_into_[port], p.vc, p.flits});
  }
  network_.passages().clear();
}

void FlitNetworkNode::evaluate(Fs t) {
  const std::int64_t cycle = clock_.edge_at_or_before(t);
  while (inbox_.due(t)) {
    const Message m = inbox_.pop();
    switch (m.kind) {
      case MessageKind::send:
        begin(m, cycle, t);
        break;
      case MessageKind::open:
        open(m, cycle, t);
        break;
      case MessageKind::room:
        room(m, cycle);
        break;
      case MessageKind::packet:
        packet(m, cycle, t);
        break;
      case MessageKind::supply:
        supply(m, cycle);
        break;
      default:
        throw std::logic_error("a network cannot read this message");
    }
  }
  const bool due = network_.next_event() <= cycle;
  if (!due && !every_edge_) return;
  network_.step(cycle);
  if (!network_.failure().empty()) throw noc::RoutingError(network_.failure());
  if (journal_ != nullptr) note_passages();
  for (const noc::SessionWait& wait : network_.session_waits()) waited(wait);
  network_.session_waits().clear();
  if (network_.sessions() != nullptr) network_.sessions()->records().clear();
  for (const noc::Departure& d : network_.departures()) departed(d, cycle);
  network_.departures().clear();
  for (const noc::FlitArrival& a : network_.flit_arrivals()) read_at_gateway(a);
  network_.flit_arrivals().clear();
  for (const noc::Arrival& a : network_.arrivals()) arrived(a);
  network_.arrivals().clear();
  if (network_.ejected_flits() != ejected_ || network_.flits_in_flight() == 0) {
    ejected_ = network_.ejected_flits();
    moves_without_ = 0;
  } else if (due && ++moves_without_ == config_.livelock_cycles) {
    Message m;
    m.kind = MessageKind::livelock;
    post(task_graph_, m, t);
  }
}

std::vector<noc::OutputCounters> FlitNetworkNode::link_counters() {
  const std::vector<noc::OutputCounters> all = network_.connected_counters();
  const auto outputs = network_.connected_outputs();
  const auto vcs = static_cast<std::size_t>(network_.spec().num_vcs);
  std::vector<noc::OutputCounters> found;
  found.reserve(network_.spec().links.size() * vcs);
  for (const noc::LinkSpec& link : network_.spec().links) {
    const auto at = std::lower_bound(outputs.begin(), outputs.end(), std::pair{link.from_router, link.from_port});
    const auto first = all.begin() + (at - outputs.begin()) * static_cast<std::ptrdiff_t>(vcs);
    found.insert(found.end(), first, first + static_cast<std::ptrdiff_t>(vcs));
  }
  return found;
}

void FlitNetworkNode::visit(sim::Visitor& v) {
  using sim::Kind;
  visit_mail(v);
  network_.visit(v);
  v.vector(Kind::state, destination_turn_);
  v.vector(Kind::state, messages_);
  v.value(Kind::state, free_message_);
  v.vector(Kind::state, ready_);
  v.value(Kind::state, free_ready_);
  v.vector(Kind::state, queues_);
  v.vector(Kind::stamp, parcels_);
  v.value(Kind::state, free_parcel_);
  for (auto& table : message_of_) v.vector(Kind::state, table);
  for (auto& table : parcel_of_) v.vector(Kind::state, table);
  v.value(Kind::state, in_flight_);
  v.value(Kind::counter, ejected_);
  v.value(Kind::state, moves_without_);
  v.vector(Kind::counter, injected_bytes_);
  v.vector(Kind::counter, delivered_bytes_);
  v.vector(Kind::counter, class_latency_);
  v.vector(Kind::counter, journeys_);
}

void FlitNetworkNode::show(sim::Canonical& c, std::uint64_t tag) {
  c.same(tag >> 32U);
  show_message(c, static_cast<std::int64_t>(tag & 0xFFFF'FFFFU));
}

void FlitNetworkNode::show_message(sim::Canonical& c, std::int64_t slot) {
  if (!c.name(id(), sim::Space::messages, slot, messages_.size())) return;
  const Outgoing& m = messages_[static_cast<std::size_t>(slot)];
  if (m.group >= 0) {
    c.refuse("a message goes to several endpoints");
    return;
  }
  c.same(m.tag);
  c.same(m.group);
  c.same(m.bytes);
  c.same(m.packets_left);
  c.same(m.departures_left);
  c.same(m.source);
  c.same(m.destination);
  c.same(m.gateway);
  c.same(m.message_class);
  c.same(m.flags);
  if ((m.flags & sim::kReplyWhenSent) == 0 || m.departures_left == 0) return;
  c.unit(config_.endpoint_node[static_cast<std::size_t>(m.source)], m.reply);
}

void FlitNetworkNode::canonical(sim::Canonical& c) {
  if (!config_.gateways.empty() || config_.legs > 1) {
    c.refuse("the system has several levels");
    return;
  }
  c.phase(clock_);
  c.same(in_flight_);
  c.same(moves_without_);
  // A network at rest stays behind.
  sim::Present present = c.present(clock_);
  std::int64_t last = network_.last_cycle();
  present.now = last;
  c.held(last, present);
  present.shift = last - network_.last_cycle();
  for (const std::int32_t turn : destination_turn_) c.same(turn);
  canonical_mail(c);
  for (Queue& queue : queues_) {
    c.same(queue.in_network);
    if (!c.lacks(sim::Part::turn)) c.same(queue.turn);
    for (std::int32_t at = queue.first; at >= 0 && !c.differs(); at = ready_[static_cast<std::size_t>(at)].next) {
      if (!c.name(id(), sim::Space::ready, at, ready_.size())) {  // each waits in one place
        c.differ();
        return;
      }
      const Ready& ready = ready_[static_cast<std::size_t>(at)];
      if (ready.next < 0) c.same(at == queue.last);
      c.same(ready.member);
      c.same(ready.bytes);
      c.same(ready.parcel);
      show_message(c, ready.message);
    }
    c.same(-1);
  }
  if (c.differs()) return;
  network_.canonical(c, id(), present, *this);
  if (c.differs()) return;
  c.free_slots(id(), sim::Space::ready, free_ready_, -1, ready_.size(),
               [this](std::size_t slot) { return ready_[slot].next; });
  c.free_slots(id(), sim::Space::messages, free_message_, -1, messages_.size(),
               [this](std::size_t slot) { return messages_[slot].next_free; });
  c.same(network_.ejected_flits() - ejected_);
  c.grows(ejected_);
  c.grow(injected_bytes_);
  c.grow(delivered_bytes_);
  for (ClassLatency& sums : class_latency_) {
    for (std::int64_t* sum : {&sums.packets, &sums.flits, &sums.payload_bytes, &sums.hops, &sums.latency_cycles,
                              &sums.terms.source_queueing_cycles, &sums.terms.router_cycles, &sums.terms.link_cycles,
                              &sums.terms.serialisation_cycles, &sums.terms.contention_cycles}) {
      c.grows(*sum);
    }
  }
  for (JourneyTerms& sums : journeys_) {
    for (std::int64_t* sum : {&sums.packets, &sums.latency_fs, &sums.source_queueing_fs, &sums.router_fs, &sums.link_fs,
                              &sums.serialisation_fs, &sums.contention_fs, &sums.gateway_fs, &sums.session_wait_fs}) {
      c.grows(*sum);
    }
  }
}

std::string FlitNetworkNode::waiting_for() const {
  if (in_flight_ == 0) return {};
  std::string text = "\n  network " + (config_.name.empty() ? "" : config_.name + " ") + "(node " +
                     std::to_string(id()) + "): " + std::to_string(in_flight_) + " messages under way, " +
                     std::to_string(network_.flits_in_flight()) + " flits in the network";
  if (config_.livelock_cycles <= moves_without_) {
    text += ", none read in " + std::to_string(moves_without_) + " cycles in which something moved";
  }
  return text + "\n" + network_.wait_for_cycle();
}

std::string FlitNetworkNode::conservation_error() const {
  const std::string flits = network_.verify_conservation();
  if (!flits.empty()) return flits;
  for (std::size_t c = 0; c < injected_bytes_.size(); ++c) {
    if (in_flight_ == 0 && injected_bytes_[c] != delivered_bytes_[c]) {
      return "class " + std::to_string(c) + ": " + std::to_string(injected_bytes_[c]) + " B injected, " +
             std::to_string(delivered_bytes_[c]) + " B delivered";
    }
  }
  return {};
}

}  // namespace cosim::endpoint
