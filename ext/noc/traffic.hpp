// Open-loop synthetic traffic on a network: Bernoulli sources, warm-up, measurement window, drain.
//
// Semantics as BookSim2's latency runs: every source creates a packet with probability rate / size in each cycle,
// queues them without bound, and goes on doing so during the drain; latencies are those of the packets created in the
// window; injected and accepted flits are those sent by sources and read by nodes in the window, whatever their age.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "noc/flit_network.hpp"
#include "sim/engine.hpp"
#include "sim/random.hpp"

namespace cosim::noc {

// A law of the simulator is broken: a fault of ours, never of the input.
class LawBroken : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Throws LawBroken when a conservation law does not hold.
void check_laws(const FlitNetwork& network);

// Throws RoutingError when the routing function ended the run.
void check_routing(const FlitNetwork& network);

struct TrafficSpec {
  // Destination of a packet: `permutation`[source] when not empty; else one of `nodes` by `weights`; both empty: any
  // terminal, the source included.
  std::vector<std::int32_t> permutation;
  // Per terminal, when not empty: the nodes that each of its packets goes to, of a multicast class; with none of them
  // it sends nothing. A packet then counts once per node, in latencies and packets.
  std::vector<std::vector<std::int32_t>> dest_sets;
  // Per terminal, when not empty: the nodes that each send a packet of a reduction class for it at the same time; every
  // node is a source of one terminal at most. Each contribution counts as a packet.
  std::vector<std::vector<std::int32_t>> source_sets;
  std::vector<std::int32_t> nodes;
  std::vector<std::uint64_t> weights;
  double injection_rate = 0.1;  // flits per terminal and cycle, in (0, packet_size_flits]
  std::int32_t packet_size_flits = 1;
  std::int32_t message_class = 0;
  std::int64_t warmup_cycles = 0;
  std::int64_t measure_cycles = 1;
  std::int64_t max_drain_cycles = 0;
  std::uint64_t seed = 1;
};

// Cycles from one success of a Bernoulli process to the next, from one 64-bit draw (more for gaps above 256). Integer
// arithmetic only, so equal on every machine.
class GeometricGap {
 public:
  explicit GeometricGap(double probability);
  [[nodiscard]] std::int64_t draw(sim::RandomStream& random) const;

 private:
  static constexpr std::size_t kTable = 256;
  std::array<std::uint64_t, kTable> longer_;  // [k]: 2^64 P(gap > k + 1)
  std::array<std::uint16_t, 256> first_;      // shortest gap - 1 a draw with this top byte can mean
};

// An exact distribution of non-negative integers: small values by count, the rest one by one.
class Histogram {
 public:
  void add(std::int64_t value) {
    if (static_cast<std::uint64_t>(value) < counts_.size()) {
      ++counts_[static_cast<std::size_t>(value)];
    } else {
      add_beyond(value);
    }
  }
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] std::int64_t max() const;  // -1 when empty
  // The smallest value v such that at least a share p of all values is <= v (nearest rank); -1 when empty.
  [[nodiscard]] std::int64_t percentile(double p) const;

 private:
  static constexpr std::int64_t kCounted = 1 << 16;
  void add_beyond(std::int64_t value);
  std::vector<std::int64_t> counts_;
  std::vector<std::int64_t> large_;
};

// Consecutive parts of the measurement window, by packet creation, for intervals from batch means.
inline constexpr std::size_t kBatches = 20;

struct TrafficResult {
  std::int64_t created_packets = 0;    // in the window
  std::int64_t delivered_packets = 0;  // of those
  std::int64_t created_flits = 0;      // in the window
  std::int64_t packet_latency_sum_cycles = 0;
  std::int64_t network_latency_sum_cycles = 0;
  std::int64_t flit_latency_sum_cycles = 0;
  std::int64_t hops_sum = 0;
  LatencyTerms terms_sum;
  std::array<std::int64_t, kBatches> batch_packets{};  // delivered, and their latencies
  std::array<std::int64_t, kBatches> batch_packet_latency_sums_cycles{};
  Histogram packet_latency;
  Histogram network_latency;
  std::int64_t injected_flits = 0;  // in the window, as ejected_flits
  std::int64_t ejected_flits = 0;
  std::int64_t ejected_flits_least = 0;  // of the terminal with the fewest
  std::int64_t flit_hops = 0;            // whole run
  std::int64_t end_cycle = 0;            // last cycle of the run, the final emptying included
  std::size_t core_bytes = 0;
  std::vector<OutputCounters> window;  // of FlitNetwork::connected_outputs()
};

class TrafficRun {
 public:
  TrafficRun(const NetworkSpec& network, TrafficSpec traffic);

  // Runs on for about `max_work` flit-hops and cycles; true when the run is complete. Throws sim::DeadlockError and
  // LawBroken.
  bool advance(std::int64_t max_work);

  [[nodiscard]] const TrafficResult& result() const { return result_; }
  [[nodiscard]] const FlitNetwork& network() const { return network_; }
  [[nodiscard]] std::int64_t cycle() const { return network_.last_cycle(); }

 private:
  struct Source {
    sim::RandomStream random;
    std::int64_t next_create = 0;
  };

  void generate(std::int64_t end);
  void generate_reductions(std::int64_t end);
  [[nodiscard]] std::int32_t destination(std::int32_t source, sim::RandomStream& random) const;
  void collect();
  void finish();

  TrafficSpec traffic_;
  FlitNetwork network_;
  GeometricGap gap_;
  std::int64_t batch_cycles_ = 1;
  std::vector<std::uint64_t> cumulative_;
  std::vector<std::int32_t> groups_;  // per terminal, of dest_sets; -1: it sends nothing
  std::vector<Source> sources_;
  std::int64_t generated_to_ = 0;  // every packet created before has been offered
  std::int64_t offer_cycles_;      // at a time
  std::int64_t chunk_end_ = 0;     // where the run is looked at next
  bool emptying_ = false;
  bool done_ = false;
  std::vector<OutputCounters> before_;
  TrafficResult result_;
};

// A given list of packets, run until the last one has arrived.
struct PacketRecord {
  std::int64_t inject_cycle = -1;
  std::int64_t eject_cycle = -1;
  std::int64_t hops = 0;
  LatencyTerms terms;
};

// A multicast's arrival at one of its nodes.
struct Delivery {
  std::int64_t packet = 0;
  std::int64_t dest = 0;
  PacketRecord record;
};

class PacketRun {
 public:
  // `packets` in the order of their sources' FIFOs; tags are ignored. `dest_sets[i]`, when not empty, stands instead of
  // the destination of packet i; its record is that of the last node reached (of several, the lowest). That of a packet
  // which the session arbiter refused has cycles -1. Packets of one number `reductions[i]` >= 0 are the contributions
  // of one reduction, to the destination of the first.
  PacketRun(const NetworkSpec& network, const std::vector<PacketIn>& packets,
            const std::vector<std::vector<std::int32_t>>& dest_sets = {},
            const std::vector<std::int64_t>& reductions = {});

  bool advance(std::int64_t max_work);

  [[nodiscard]] const std::vector<PacketRecord>& records() const { return records_; }
  [[nodiscard]] FlitNetwork& network() { return network_; }
  // Of the packets with sets, by packet and node.
  [[nodiscard]] std::vector<Delivery> deliveries() const;
  // Of the network, in the order in which they ended.
  [[nodiscard]] const std::vector<SessionRecord>& sessions() const { return sessions_; }

 private:
  void collect();

  FlitNetwork network_;
  std::vector<PacketRecord> records_;
  std::vector<std::int64_t> waits_;  // per packet: for sessions; empty without a session class
  std::vector<SessionRecord> sessions_;
  std::vector<std::uint8_t> several_;  // per packet: it has a set
  std::vector<Delivery> deliveries_;
};

}  // namespace cosim::noc
