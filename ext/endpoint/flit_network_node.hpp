// A flit-level network as a node of the engine: messages in, packets through the network, messages out.
//
// A message is cut into packets of at most max_packet_flits, a header in the first flit of each. Messages of one
// terminal and class leave in the order in which they became visible; only two packets at a time are handed to the
// network, so a message of any size costs the same memory. An endpoint with several terminals uses them in turn,
// packet by packet.
//
// A system of several levels has several of these, joined by gateways (gateway.hpp), which are endpoints here. A
// message for another network is cut into packets that fit every network on its way; each of them leaves for the
// gateway when that has room for it. What a gateway sends enters the network as it arrives there, flit by flit. With
// `legs` = 2 the packets that come down from a gateway towards the root of the levels have VCs of their own: what they
// wait for never waits for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "noc/flit_network.hpp"
#include "sim/node.hpp"
#include "sim/task_graph.hpp"

namespace cosim::endpoint {

// The gateway direction that takes packets from this network on, and when it sees what is sent to it.
struct GatewayPort {
  std::int32_t node = -1;
  sim::Clock clock{1'000'000'000};
  std::int32_t synchroniser_cycles = 0;
};

struct FlitNetworkNodeConfig {
  std::string name;  // of reports
  sim::Clock clock{1'000'000'000};
  std::int64_t flit_bytes = 0;
  std::int64_t header_bytes = 0;
  std::int32_t max_packet_flits = 0;
  std::int32_t message_classes = 1;
  std::vector<std::int32_t> endpoint_node;                    // node ids of the endpoints ...
  std::vector<std::vector<std::int32_t>> endpoint_terminals;  // ... and their terminals
  const sim::TaskGraph* graph = nullptr;                      // whose groups are sent to
  std::int64_t livelock_cycles = 1'000'000;  // in which flits move and none arrives, before the run is given up

  // Systems of several levels. Gateways are endpoints too: by the node that sends here, and by the one that takes on.
  std::int32_t legs = 1;               // core classes per message class: 2: class * 2, and + 1 for `descends`
  std::vector<std::uint8_t> descends;  // per endpoint: sends what comes from nearer to the root
  std::vector<GatewayPort> gateways;   // that take packets on
  std::int32_t nodes = 0;              // of the engine
  std::vector<std::int32_t>
      gateway_towards;  // [endpoint * nodes + node] -> position in `gateways`, -1: an endpoint here
  std::vector<std::int64_t> payload_towards;  // [endpoint * nodes + node] most payload of a packet on the whole way
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

// Terms of latencies from the first hand-over to the last flit read at the destination, over all levels. This network's
// part of them, the gateways' included through which packets came; `packets` and `latency_fs` count those that end
// here. Over all networks of a run that is over, the terms sum to latency_fs.
struct JourneyTerms {
  std::int64_t packets = 0;
  std::int64_t latency_fs = 0;
  std::int64_t source_queueing_fs = 0;
  std::int64_t router_fs = 0;
  std::int64_t link_fs = 0;
  std::int64_t serialisation_fs = 0;  // at the destination
  std::int64_t contention_fs = 0;
  std::int64_t session_wait_fs = 0;
  std::int64_t retry_fs = 0;    // of heads at gateways it is in contention
  std::int64_t gateway_fs = 0;  // from the head's arrival at a gateway to its hand-over, and waits for flits behind it
};

class FlitNetworkNode final : public sim::ClockedNode, private noc::PacketTags {
 public:
  // Throws std::invalid_argument with every problem found.
  FlitNetworkNode(const noc::NetworkSpec& spec, FlitNetworkNodeConfig config, std::int32_t task_graph);

  [[nodiscard]] sim::Fs next_event() const override;
  void evaluate(sim::Fs t) override;
  void visit(sim::Visitor& v) override;
  void canonical(sim::Canonical& c) override;
  [[nodiscard]] std::string waiting_for() const override;
  void keep_journal(sim::Journal* journal) override;

  [[nodiscard]] const noc::FlitNetwork& network() const { return network_; }
  // Of every VC of every link, in the order of the spec's links.
  [[nodiscard]] std::vector<noc::OutputCounters> link_counters();
  [[nodiscard]] const std::vector<ClassLatency>& class_latency() const { return class_latency_; }
  [[nodiscard]] const std::vector<JourneyTerms>& journeys() const { return journeys_; }
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
    std::int32_t packets_left = 0;     // not yet delivered, here or to the gateway
    std::int32_t departures_left = 0;  // not yet out of the source
    std::int32_t source = 0;           // endpoint index
    std::int32_t destination = 0;      // endpoint index; of the gateway, when it goes on
    std::int32_t gateway = -1;         // position in the configuration, when it goes on
    std::int32_t next_free = -1;
    std::uint8_t message_class = 0;
    std::uint8_t flags = 0;
    std::uint8_t reserved[2] = {};
    std::int32_t group = -1;   // of the task graph, instead of `destination`
    sim::Fs last_read_fs = 0;  // of a group: the latest delivery
  };
  struct Ready {  // what may leave: packets of one message
    std::int64_t bytes = 0;
    std::int32_t message = -1;
    std::int32_t parcel = -1;  // the one packet, -1: `bytes` are to be cut
    std::int32_t next = -1;    // in its queue, or free
    std::int32_t member = -1;  // of the message's group, -1: all of it
  };
  struct Queue {  // of one endpoint and class
    std::int32_t first = -1;
    std::int32_t last = -1;
    std::int32_t in_network = 0;  // packets handed over whose tail has not left
    std::int32_t turn = 0;        // terminal of the next packet
  };
  struct Parcel {  // a packet that comes from or goes to a gateway
    std::int64_t bytes = 0;
    std::int64_t start_fs = -1;    // handed to its first network
    std::int64_t head_fs = -1;     // its head's arrival at the gateway behind it
    std::int64_t last_supply = 0;  // cycle
    std::int32_t message = -1;
    std::int32_t from_piece = -1;  // record at the gateway it comes from
    std::int32_t to_piece = -1;    // record at the gateway it goes to
    std::int32_t flits = 0;
    std::int32_t supplied = 0;
    std::int32_t read = 0;  // flits that the gateway has read; of a group, nodes that have the packet
    std::uint32_t packet = kNoPacket;
    std::int32_t next_free = -1;
  };
  static constexpr std::uint32_t kNoPacket = ~0U;

  void show(sim::Canonical& c, std::uint64_t tag) override;
  void show_message(sim::Canonical& c, std::int64_t slot);
  std::int32_t begin(const sim::Message& m, std::int64_t cycle, sim::Fs t);
  void begin_group(Outgoing& message, std::int32_t slot, const sim::Message& m, std::int64_t cycle);
  void arrived_at_member(const noc::Arrival& a, std::int32_t slot, std::int32_t parcel);
  void waited(const noc::SessionWait& wait);
  void push(std::int32_t message, std::int32_t parcel, std::int64_t bytes, std::int64_t cycle,
            std::int32_t member = -1);
  void pump(std::size_t queue, std::int64_t cycle);
  std::int32_t new_parcel(std::int32_t message, std::int64_t bytes);
  void open(const sim::Message& m, std::int64_t cycle, sim::Fs t);
  void room(const sim::Message& m, std::int64_t cycle);
  void packet(const sim::Message& m, std::int64_t cycle, sim::Fs t);
  void supply(const sim::Message& m, std::int64_t cycle);
  void read_at_gateway(const noc::FlitArrival& a);
  void departed(const noc::Departure& d, std::int64_t cycle);
  void arrived(const noc::Arrival& a);
  void note_passages();
  void book_journey(const noc::Arrival& a, const noc::LatencyTerms& terms, const Parcel* parcel);
  void post_to_gateway(std::int32_t gateway, const sim::Message& m, sim::Fs committed);
  [[nodiscard]] std::int32_t endpoint_of(std::int64_t node) const;
  [[nodiscard]] std::int32_t flits_of(std::int64_t payload) const {
    return static_cast<std::int32_t>((payload + config_.header_bytes + config_.flit_bytes - 1) / config_.flit_bytes);
  }
  [[nodiscard]] std::size_t queue_of(const Outgoing& m) const {
    return static_cast<std::size_t>(m.source) * static_cast<std::size_t>(config_.message_classes) + m.message_class;
  }

  FlitNetworkNodeConfig config_;
  noc::FlitNetwork network_;
  std::int32_t task_graph_;
  std::int64_t payload_;
  enum class GroupWay : std::uint8_t { each, multicast, session };
  std::vector<GroupWay> group_way_;  // per message class: how what goes to a group travels
  std::vector<std::int32_t> endpoint_of_node_;
  std::vector<std::int32_t> endpoint_of_terminal_;
  std::vector<std::int32_t> destination_turn_;  // per endpoint
  std::vector<Outgoing> messages_;
  std::int32_t free_message_ = -1;
  std::vector<Ready> ready_;
  std::int32_t free_ready_ = -1;
  std::vector<Queue> queues_;  // [endpoint * classes + class]
  std::vector<Parcel> parcels_;
  std::int32_t free_parcel_ = -1;
  std::vector<std::vector<std::int32_t>> message_of_;  // per endpoint: message of a gateway's record of it ...
  std::vector<std::vector<std::int32_t>> parcel_of_;   // ... and parcel of its record of a packet
  std::int64_t in_flight_ = 0;
  std::int64_t ejected_ = 0;        // flits, when one arrived last ...
  std::int64_t moves_without_ = 0;  // ... and steps since then
  std::vector<std::int64_t> injected_bytes_;
  std::vector<std::int64_t> delivered_bytes_;
  std::vector<ClassLatency> class_latency_;
  std::vector<JourneyTerms> journeys_;
  std::vector<std::int32_t> link_into_;  // [router * ports + port], from the number of links on: terminals; of journals
};

}  // namespace cosim::endpoint
