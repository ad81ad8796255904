// The flit-level network as a node of the engine: messages in, packets through the network, messages out.
//
// A message is cut into packets of at most max_packet_flits, a header in the first flit of each. Messages of one
// terminal and class leave in the order in which they became visible; only two packets at a time are handed to the
// network, so a message of any size costs the same memory. An endpoint with several terminals uses them in turn,
// packet by packet.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "noc/flit_network.hpp"
#include "sim/node.hpp"

namespace cosim::endpoint {

struct FlitNetworkNodeConfig {
  sim::Clock clock{1'000'000'000};
  std::int64_t flit_bytes = 0;
  std::int64_t header_bytes = 0;
  std::int32_t max_packet_flits = 0;
  std::int32_t message_classes = 1;
  std::vector<std::int32_t> endpoint_node;                    // node ids of the endpoints ...
  std::vector<std::vector<std::int32_t>> endpoint_terminals;  // ... and their terminals
};

// Sums over delivered packets of one message class.
struct ClassLatency {
  std::int64_t packets = 0;
  std::int64_t flits = 0;
  std::int64_t payload_bytes = 0;
  std::int64_t hops = 0;
  std::int64_t latency_cycles = 0;  // from the hand-over to the network to the last flit read
  noc::LatencyTerms terms;
};

class FlitNetworkNode final : public sim::Node {
 public:
  // Throws std::invalid_argument with every problem found.
  FlitNetworkNode(const noc::NetworkSpec& spec, FlitNetworkNodeConfig config, std::int32_t task_graph);

  [[nodiscard]] sim::Fs next_event() const override;
  void evaluate(sim::Fs t) override;
  void visit(sim::Visitor& v) override;
  [[nodiscard]] sim::Fs visible_at(sim::Fs committed) const override {
    return config_.clock.edge_fs(config_.clock.edge_after(committed));
  }
  [[nodiscard]] std::string waiting_for() const override;

  [[nodiscard]] const noc::FlitNetwork& network() const { return network_; }
  // Of every VC of every link, in the order of the spec's links.
  [[nodiscard]] std::vector<noc::OutputCounters> link_counters();
  [[nodiscard]] const std::vector<ClassLatency>& class_latency() const { return class_latency_; }
  [[nodiscard]] std::int64_t messages_in_flight() const { return in_flight_; }
  // Conservation of flits and credits, and of message bytes per class; empty when it holds.
  [[nodiscard]] std::string conservation_error() const;

  // Payload of a full packet.
  [[nodiscard]] std::int64_t packet_payload_bytes() const { return payload_; }

 private:
  struct Outgoing {
    std::int64_t tag = 0;    // of `delivered`
    std::int64_t reply = 0;  // of `sent`
    std::int64_t bytes = 0;
    std::int64_t unsent_bytes = 0;     // not yet in a packet
    std::int32_t packets_left = 0;     // not yet delivered
    std::int32_t departures_left = 0;  // not yet out of the source
    std::int32_t source = 0;           // endpoint index
    std::int32_t destination = 0;
    std::int32_t next = -1;  // in its queue, or free
    std::uint8_t message_class = 0;
    std::uint8_t flags = 0;
    std::uint16_t reserved = 0;
  };
  struct Queue {  // messages of one endpoint and class that are not wholly in packets
    std::int32_t first = -1;
    std::int32_t last = -1;
    std::int32_t in_network = 0;  // packets handed over whose tail has not left
    std::int32_t turn = 0;        // terminal of the next packet
  };
  void begin(const sim::Message& m, std::int64_t cycle);
  void pump(std::size_t queue, std::int64_t cycle);
  [[nodiscard]] std::int32_t endpoint_of(std::int64_t node) const;

  FlitNetworkNodeConfig config_;
  noc::FlitNetwork network_;
  std::int32_t task_graph_;
  std::int64_t payload_;
  std::vector<std::int32_t> endpoint_of_node_;
  std::vector<std::int32_t> destination_turn_;  // per endpoint
  std::vector<Outgoing> messages_;
  std::int32_t free_message_ = -1;
  std::vector<Queue> queues_;  // [endpoint * classes + class]
  std::int64_t in_flight_ = 0;
  std::vector<std::int64_t> injected_bytes_;
  std::vector<std::int64_t> delivered_bytes_;
  std::vector<ClassLatency> class_latency_;
};

}  // namespace cosim::endpoint
