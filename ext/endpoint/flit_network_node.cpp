#include "endpoint/flit_network_node.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace cosim::endpoint {

using sim::Fs;
using sim::Message;
using sim::MessageKind;

namespace {
constexpr std::int32_t kPacketsAhead = 2;  // per terminal: the next packet waits behind the one that leaves
}

FlitNetworkNode::FlitNetworkNode(const noc::NetworkSpec& spec, FlitNetworkNodeConfig config, std::int32_t task_graph)
    : config_(std::move(config)),
      network_(spec),
      task_graph_(task_graph),
      payload_(config_.max_packet_flits * config_.flit_bytes - config_.header_bytes) {
  if (config_.flit_bytes <= 0 || config_.max_packet_flits <= 0 || config_.header_bytes < 0 || payload_ <= 0) {
    throw std::invalid_argument("a packet of " + std::to_string(config_.max_packet_flits) + " flits of " +
                                std::to_string(config_.flit_bytes) + " B has no room behind a header of " +
                                std::to_string(config_.header_bytes) + " B");
  }
  if (config_.endpoint_node.size() != config_.endpoint_terminals.size()) {
    throw std::invalid_argument("every endpoint needs its list of terminals");
  }
  for (std::size_t e = 0; e < config_.endpoint_node.size(); ++e) {
    if (config_.endpoint_terminals[e].empty()) throw std::invalid_argument("an endpoint needs at least one terminal");
    const auto node = static_cast<std::size_t>(config_.endpoint_node[e]);
    if (endpoint_of_node_.size() <= node) endpoint_of_node_.resize(node + 1, -1);
    endpoint_of_node_[node] = static_cast<std::int32_t>(e);
  }
  const auto classes = static_cast<std::size_t>(config_.message_classes);
  destination_turn_.assign(config_.endpoint_node.size(), 0);
  queues_.assign(config_.endpoint_node.size() * classes, {});
  injected_bytes_.assign(classes, 0);
  delivered_bytes_.assign(classes, 0);
  class_latency_.assign(classes, {});
}

std::int32_t FlitNetworkNode::endpoint_of(std::int64_t node) const {
  return endpoint_of_node_[static_cast<std::size_t>(node)];
}

Fs FlitNetworkNode::next_event() const {
  const std::int64_t cycle = network_.next_event();
  return std::min(inbox_.next(), cycle == noc::kNoEvent ? sim::kNever : config_.clock.edge_fs(cycle));
}

void FlitNetworkNode::begin(const Message& m, std::int64_t cycle) {
  std::int32_t slot = free_message_;
  if (slot >= 0) {
    free_message_ = messages_[static_cast<std::size_t>(slot)].next;
  } else {
    slot = static_cast<std::int32_t>(messages_.size());
    messages_.emplace_back();
  }
  const auto packets = static_cast<std::int32_t>((m.bytes + payload_ - 1) / payload_);
  Outgoing& message = messages_[static_cast<std::size_t>(slot)];
  message = {m.c, m.address,       m.bytes, m.bytes, packets, packets, endpoint_of(m.a), endpoint_of(m.b),
             -1,  m.message_class, m.flags, 0};
  ++in_flight_;
  injected_bytes_[m.message_class] += m.bytes;
  const std::size_t index =
      static_cast<std::size_t>(message.source) * static_cast<std::size_t>(config_.message_classes) + m.message_class;
  Queue& queue = queues_[index];
  if (queue.first < 0) {
    queue.first = queue.last = slot;
  } else {
    messages_[static_cast<std::size_t>(queue.last)].next = slot;
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
    Outgoing& message = messages_[static_cast<std::size_t>(slot)];
    const std::int64_t bytes = std::min(payload_, message.unsent_bytes);
    const auto destination = static_cast<std::size_t>(message.destination);
    const std::vector<std::int32_t>& sinks = config_.endpoint_terminals[destination];
    std::int32_t& sink_turn = destination_turn_[destination];
    noc::PacketIn packet;
    packet.create_cycle = cycle;
    packet.source = terminals[static_cast<std::size_t>(queue.turn)];
    packet.dest = sinks[static_cast<std::size_t>(sink_turn)];
    packet.size_flits =
        static_cast<std::int32_t>((bytes + config_.header_bytes + config_.flit_bytes - 1) / config_.flit_bytes);
    packet.message_class = message.message_class;
    packet.tag = static_cast<std::uint64_t>(slot);
    network_.offer(packet);
    queue.turn = (queue.turn + 1) % static_cast<std::int32_t>(terminals.size());
    sink_turn = (sink_turn + 1) % static_cast<std::int32_t>(sinks.size());
    ++queue.in_network;
    message.unsent_bytes -= bytes;
    if (message.unsent_bytes == 0) {
      queue.first = message.next;
      message.next = -1;
    }
  }
}

void FlitNetworkNode::evaluate(Fs t) {
  const std::int64_t cycle = config_.clock.edge_at_or_before(t);
  while (inbox_.due(t)) begin(inbox_.pop(), cycle);
  if (network_.next_event() > cycle) return;
  network_.step(cycle);
  if (!network_.failure().empty()) throw noc::RoutingError(network_.failure());
  for (const noc::Departure& d : network_.departures()) {
    Outgoing& message = messages_[static_cast<std::size_t>(d.tag)];
    const std::size_t index =
        static_cast<std::size_t>(message.source) * static_cast<std::size_t>(config_.message_classes) +
        message.message_class;
    --queues_[index].in_network;
    if (--message.departures_left == 0 && (message.flags & sim::kReplyWhenSent) != 0) {
      Message m;
      m.kind = MessageKind::sent;
      m.c = message.reply;
      post(config_.endpoint_node[static_cast<std::size_t>(message.source)], m, config_.clock.edge_fs(d.cycle));
    }
    pump(index, cycle + 1);
  }
  network_.departures().clear();
  for (const noc::Arrival& a : network_.arrivals()) {
    ClassLatency& sums = class_latency_[static_cast<std::size_t>(a.message_class)];
    const noc::LatencyTerms terms = network_.terms(a);
    ++sums.packets;
    sums.flits += a.size_flits;
    sums.hops += a.hops;
    sums.latency_cycles += a.cycle - a.create_cycle;
    sums.terms.source_queueing_cycles += terms.source_queueing_cycles;
    sums.terms.router_cycles += terms.router_cycles;
    sums.terms.link_cycles += terms.link_cycles;
    sums.terms.serialisation_cycles += terms.serialisation_cycles;
    sums.terms.contention_cycles += terms.contention_cycles;
    Outgoing& message = messages_[static_cast<std::size_t>(a.tag)];
    if (--message.packets_left > 0) continue;
    sums.payload_bytes += message.bytes;
    delivered_bytes_[message.message_class] += message.bytes;
    --in_flight_;
    Message m;
    m.kind = MessageKind::delivered;
    m.c = message.tag;
    m.bytes = message.bytes;
    m.message_class = message.message_class;
    const bool transfer = (message.flags & sim::kDeliverToGraph) != 0;
    post(transfer ? task_graph_ : config_.endpoint_node[static_cast<std::size_t>(message.destination)], m,
         config_.clock.edge_fs(a.cycle));
    message.next = free_message_;
    free_message_ = static_cast<std::int32_t>(a.tag);
  }
  network_.arrivals().clear();
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
  v.vector(Kind::state, queues_);
  v.value(Kind::state, in_flight_);
  v.vector(Kind::counter, injected_bytes_);
  v.vector(Kind::counter, delivered_bytes_);
  v.vector(Kind::counter, class_latency_);
}

std::string FlitNetworkNode::waiting_for() const {
  if (in_flight_ == 0) return {};
  return "\n  network: " + std::to_string(in_flight_) + " messages under way, " +
         std::to_string(network_.flits_in_flight()) + " flits in the network\n" + network_.wait_for_cycle();
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
