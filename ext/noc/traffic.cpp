#include "noc/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "noc/bits.hpp"

namespace cosim::noc {

namespace {

// Whether a run may end is asked this often, and packets are offered no further ahead.
constexpr std::int64_t kChunkCycles = 256;

// About as many packets are offered at a time, so that those waiting, and what comes of them, stay in a core's caches.
constexpr double kPacketsAhead = 2048.0;
constexpr double kMostParts = 32.0;  // of a chunk

// Nothing will move, and flits are left.
[[noreturn]] void throw_deadlock(const FlitNetwork& network) {
  throw sim::DeadlockError("the network is deadlocked at cycle " + std::to_string(network.last_cycle()) + ": " +
                           std::to_string(network.flits_in_flight()) + " flits in flight, " +
                           std::to_string(network.packets_queued()) + " packets at their sources, nothing can move; " +
                           network.wait_for_cycle());
}

}  // namespace

void check_routing(const FlitNetwork& network) {
  if (!network.failure().empty()) throw RoutingError(network.failure());
}

void check_laws(const FlitNetwork& network) {
  const std::string broken = network.verify_conservation();
  if (!broken.empty()) throw LawBroken("conservation law of the network broken: " + broken);
}

GeometricGap::GeometricGap(double probability) : longer_{}, first_{} {
  const double failure = 1.0 - probability;
  const auto q = failure <= 0.0 ? 0ULL : static_cast<std::uint64_t>(std::ldexp(failure, 64));
  unsigned __int128 power = q;
  for (std::size_t k = 0; k < kTable; ++k) {
    longer_[k] = static_cast<std::uint64_t>(power);
    power = power * q >> 64U;
  }
  for (std::size_t byte = 0; byte < first_.size(); ++byte) {
    const std::uint64_t largest = static_cast<std::uint64_t>(byte) << 56U | ((1ULL << 56U) - 1);
    std::uint16_t k = 0;
    while (k < kTable && largest < longer_[k]) ++k;
    first_[byte] = k;
  }
}

inline std::int64_t GeometricGap::draw(sim::RandomStream& random) const {
  std::int64_t gap = 0;
  while (true) {
    const std::uint64_t u = random.next();
    std::size_t k = first_[u >> 56U];
    while (k < kTable && u < longer_[k]) ++k;
    if (k < kTable) return gap + static_cast<std::int64_t>(k) + 1;
    gap += static_cast<std::int64_t>(kTable);  // the process has no memory
  }
}

void Histogram::add_beyond(std::int64_t value) {
  if (value >= kCounted) {
    large_.push_back(value);
    return;
  }
  const auto at = static_cast<std::size_t>(value);
  counts_.resize(std::max(at + 1, 2 * counts_.size()));
  ++counts_[at];
}

std::int64_t Histogram::count() const {
  std::int64_t sum = static_cast<std::int64_t>(large_.size());
  for (const std::int64_t count : counts_) sum += count;
  return sum;
}

std::int64_t Histogram::max() const {
  if (!large_.empty()) return *std::max_element(large_.begin(), large_.end());
  std::size_t value = counts_.size();
  while (value > 0 && counts_[value - 1] == 0) --value;
  return static_cast<std::int64_t>(value) - 1;
}

std::int64_t Histogram::percentile(double p) const {
  const std::int64_t values = count();
  if (values == 0) return -1;
  const auto rank = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(p * static_cast<double>(values))));
  std::int64_t seen = 0;
  for (std::size_t value = 0; value < counts_.size(); ++value) {
    seen += counts_[value];
    if (seen >= rank) return static_cast<std::int64_t>(value);
  }
  std::vector<std::int64_t> sorted = large_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<std::size_t>(std::min(rank - seen, static_cast<std::int64_t>(sorted.size())) - 1)];
}

TrafficRun::TrafficRun(const NetworkSpec& network, TrafficSpec traffic)
    : traffic_(std::move(traffic)),
      network_(network),
      gap_(traffic_.injection_rate / traffic_.packet_size_flits),
      offer_cycles_(kChunkCycles) {
  batch_cycles_ = std::max<std::int64_t>(traffic_.measure_cycles / static_cast<std::int64_t>(kBatches), 1);
  const auto terminals = static_cast<std::int32_t>(network.terminals.size());
  std::string problems;
  const auto need = [&](bool holds, const std::string& text) {
    if (!holds) problems += (problems.empty() ? "" : "\n") + text;
  };
  need(traffic_.packet_size_flits >= 1, "packet_size_flits must be at least 1");
  need(traffic_.injection_rate > 0 && traffic_.injection_rate <= traffic_.packet_size_flits,
       "injection_rate must be in (0, packet_size_flits]: a source creates at most one packet a cycle");
  need(traffic_.warmup_cycles >= 0 && traffic_.measure_cycles >= 1 && traffic_.max_drain_cycles >= 0,
       "warmup_cycles and max_drain_cycles must not be negative and measure_cycles at least 1");
  need(traffic_.permutation.empty() || traffic_.permutation.size() == network.terminals.size(),
       "a permutation needs one destination per terminal");
  need(traffic_.nodes.size() == traffic_.weights.size(), "one weight per hotspot node expected");
  need((traffic_.dest_sets.empty() || traffic_.dest_sets.size() == network.terminals.size()) &&
           (traffic_.source_sets.empty() || traffic_.source_sets.size() == network.terminals.size()),
       "one set of nodes per terminal expected");
  std::vector<std::int32_t> sending;
  for (const auto& set : traffic_.source_sets) sending.insert(sending.end(), set.begin(), set.end());
  std::sort(sending.begin(), sending.end());
  need(std::adjacent_find(sending.begin(), sending.end()) == sending.end(),
       "a node is a source of one reduction at most");
  const auto known = [&](std::int32_t node) { return node >= 0 && node < terminals; };
  need(std::all_of(traffic_.permutation.begin(), traffic_.permutation.end(), known) &&
           std::all_of(traffic_.nodes.begin(), traffic_.nodes.end(), known),
       "a destination is not a terminal");
  for (const std::uint64_t weight : traffic_.weights) {
    need(weight >= 1 && weight <= (1ULL << 32U), "a hotspot weight must be 1 to 2^32");
    cumulative_.push_back((cumulative_.empty() ? 0 : cumulative_.back()) + weight);
  }
  if (!problems.empty()) throw std::invalid_argument(problems);
  for (std::size_t n = 0; n < traffic_.dest_sets.size(); ++n) {
    const std::vector<std::int32_t>& dests = traffic_.dest_sets[n];
    groups_.push_back(dests.empty() ? -1 : network_.multicast_group(static_cast<std::int32_t>(n), dests));
  }
  sources_.resize(network.terminals.size());
  for (std::size_t n = 0; n < sources_.size(); ++n) {
    sources_[n].random = sim::RandomStream(traffic_.seed, n);
    sources_[n].next_create = gap_.draw(sources_[n].random) - 1;
  }
  network_.count_window(traffic_.warmup_cycles, traffic_.warmup_cycles + traffic_.measure_cycles);
  if (traffic_.warmup_cycles == 0) before_ = network_.connected_counters();
  // The order of the offers, source by source, shows where packets are numbered or sessions and sums begin.
  if (network_.routing_function() == nullptr && network_.router_models() == nullptr && network_.sessions() == nullptr &&
      network_.reductions() == nullptr) {
    const double packets = static_cast<double>(sources_.size()) * traffic_.injection_rate / traffic_.packet_size_flits;
    const double parts = std::clamp(std::ceil(packets * kChunkCycles / kPacketsAhead), 1.0, kMostParts);
    offer_cycles_ = kChunkCycles / static_cast<std::int64_t>(parts);
  }
}

inline std::int32_t TrafficRun::destination(std::int32_t source, sim::RandomStream& random) const {
  if (!traffic_.permutation.empty()) return traffic_.permutation[static_cast<std::size_t>(source)];
  if (traffic_.nodes.empty()) return static_cast<std::int32_t>(random.below(sources_.size()));
  if (traffic_.nodes.size() == 1) return traffic_.nodes[0];
  const std::uint64_t at = random.below(cumulative_.back());
  const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), at);
  return traffic_.nodes[static_cast<std::size_t>(found - cumulative_.begin())];
}

// Every destination of a reduction has a process of its own; its sources create their packets in the same cycle.
void TrafficRun::generate_reductions(std::int64_t end) {
  PacketIn packet;
  packet.size_flits = traffic_.packet_size_flits;
  packet.message_class = traffic_.message_class;
  for (std::size_t n = 0; n < traffic_.source_sets.size(); ++n) {
    const std::vector<std::int32_t>& nodes = traffic_.source_sets[n];
    if (nodes.empty()) continue;
    packet.dest = static_cast<std::int32_t>(n);
    for (std::int64_t& create = sources_[n].next_create; create < end; create += gap_.draw(sources_[n].random)) {
      packet.create_cycle = create;
      packet.group = network_.begin_reduction(packet.dest, nodes, packet.size_flits, packet.message_class);
      for (const std::int32_t node : nodes) {
        packet.source = node;
        network_.offer(packet);
      }
      if (create < traffic_.warmup_cycles || create >= traffic_.warmup_cycles + traffic_.measure_cycles) continue;
      const auto contributions = static_cast<std::int64_t>(nodes.size());
      result_.created_packets += contributions;
      result_.created_flits += contributions * packet.size_flits;
    }
  }
  generated_to_ = end;
}

void TrafficRun::generate(std::int64_t end) {
  if (!traffic_.source_sets.empty()) {
    generate_reductions(end);
    return;
  }
  const std::int64_t window_begin = traffic_.warmup_cycles;
  const std::int64_t window_end = window_begin + traffic_.measure_cycles;
  PacketIn packet;
  packet.size_flits = traffic_.packet_size_flits;
  packet.message_class = traffic_.message_class;
  std::int64_t created = 0;
  std::int64_t created_flits = 0;
  for (std::size_t n = 0; n < sources_.size(); ++n) {
    const std::int64_t copies = groups_.empty() ? 1 : static_cast<std::int64_t>(traffic_.dest_sets[n].size());
    if (copies == 0) continue;
    sim::RandomStream random = sources_[n].random;
    std::int64_t create = sources_[n].next_create;
    packet.source = static_cast<std::int32_t>(n);
    while (create < end) {
      packet.create_cycle = create;
      if (groups_.empty()) {
        packet.dest = destination(packet.source, random);
      } else {
        packet.group = groups_[n];
      }
      network_.offer(packet);
      const bool measured = create >= window_begin && create < window_end;
      created += measured ? copies : 0;
      created_flits += measured ? traffic_.packet_size_flits : 0;
      create += gap_.draw(random);
    }
    sources_[n] = {random, create};
  }
  result_.created_packets += created;
  result_.created_flits += created_flits;
  generated_to_ = end;
}

void TrafficRun::collect() {
  const std::int64_t window_begin = traffic_.warmup_cycles;
  const std::int64_t window_end = window_begin + traffic_.measure_cycles;
  const std::int64_t deadline = window_end + traffic_.max_drain_cycles;
  LatencySums sums;
  std::int64_t flit_latency = 0;
  for (const Arrival& arrival : network_.arrivals()) {
    if (arrival.create_cycle < window_begin || arrival.create_cycle >= window_end || arrival.cycle >= deadline)
      continue;
    const std::int64_t packet_latency = arrival.cycle - arrival.create_cycle;
    const std::int64_t network_latency = arrival.cycle - arrival.inject_cycle;
    ++sums.packets;
    sums.hops += arrival.hops;
    sums.link_cycles += arrival.link_cycles;
    sums.packet_latency_cycles += packet_latency;
    sums.network_latency_cycles += network_latency;
    if (arrival.retry_cycles != 0) sums.retry_cycles += network_.terms(arrival).retry_cycles;
    sums.reduction_wait_cycles += arrival.reduction_wait_cycles;
    flit_latency += arrival.flit_latency_sum_cycles;
    const std::int64_t into = arrival.create_cycle - window_begin;
    const auto batch = std::min(static_cast<std::size_t>(into / batch_cycles_), kBatches - 1);
    ++result_.batch_packets[batch];
    result_.batch_packet_latency_sums_cycles[batch] += packet_latency;
    result_.packet_latency.add(packet_latency);
    result_.network_latency.add(network_latency);
  }
  sums.flits = sums.packets * traffic_.packet_size_flits;
  result_.delivered_packets += sums.packets;
  result_.packet_latency_sum_cycles += sums.packet_latency_cycles;
  result_.network_latency_sum_cycles += sums.network_latency_cycles;
  result_.flit_latency_sum_cycles += flit_latency;
  result_.hops_sum += sums.hops;
  const LatencyTerms terms = network_.terms(sums);
  result_.terms_sum.source_queueing_cycles += terms.source_queueing_cycles;
  result_.terms_sum.router_cycles += terms.router_cycles;
  result_.terms_sum.link_cycles += terms.link_cycles;
  result_.terms_sum.serialisation_cycles += terms.serialisation_cycles;
  result_.terms_sum.contention_cycles += terms.contention_cycles;
  result_.terms_sum.retry_cycles += terms.retry_cycles;
  result_.terms_sum.reduction_wait_cycles += terms.reduction_wait_cycles;
  network_.arrivals().clear();
  network_.departures().clear();
}

bool TrafficRun::advance(std::int64_t max_work) {
  const std::int64_t window_begin = traffic_.warmup_cycles;
  const std::int64_t window_end = window_begin + traffic_.measure_cycles;
  const std::int64_t deadline = window_end + traffic_.max_drain_cycles;
  std::int64_t budget = max_work;
  while (!done_ && budget > 0) {
    if (!emptying_) {
      if (generated_to_ == chunk_end_) {
        chunk_end_ += kChunkCycles;
        for (const std::int64_t edge : {window_begin, window_end, deadline}) {
          if (generated_to_ < edge) chunk_end_ = std::min(chunk_end_, edge);
        }
      }
      generate(std::min(chunk_end_, generated_to_ + offer_cycles_));
    }
    const std::int64_t end = emptying_ ? kNoEvent : generated_to_;
    std::int64_t steps = 0;
    std::int64_t next = network_.next_event();
    while (next < end && steps < kChunkCycles) {
      network_.step(next);
      next = network_.next_event();
      ++steps;
    }
    check_routing(network_);
    budget -= steps * static_cast<std::int64_t>(sources_.size()) + offer_cycles_;
    collect();
    if (emptying_) {
      if (next == kNoEvent) finish();
      continue;
    }
    if (end != chunk_end_) continue;
    if (end == window_begin) before_ = network_.connected_counters();
    if (end == window_end) {
      const std::vector<OutputCounters> after = network_.connected_counters();
      result_.window = after;
      for (std::size_t i = 0; i < after.size(); ++i) {
        result_.window[i].flits -= before_[i].flits;
        result_.window[i].no_credit -= before_[i].no_credit;
        result_.window[i].lost_switch -= before_[i].lost_switch;
        result_.window[i].busy_vc -= before_[i].busy_vc;
        result_.window[i].lost_vc -= before_[i].lost_vc;
      }
    }
    if (end >= window_end && (result_.delivered_packets == result_.created_packets || end >= deadline)) {
      emptying_ = true;
      network_.cancel_queued();
    }
  }
  return done_;
}

// What was sent has been let through: the laws must hold for every flit of the run.
void TrafficRun::finish() {
  if (!network_.idle()) {
    check_laws(network_);
    throw_deadlock(network_);
  }
  check_laws(network_);
  const auto nodes = static_cast<std::ptrdiff_t>(sources_.size());  // behind them are reduction units
  const auto& injected = network_.window_injected();
  const auto& ejected = network_.window_ejected();
  result_.injected_flits = std::accumulate(injected.begin(), injected.begin() + nodes, std::int64_t{0});
  result_.ejected_flits = std::accumulate(ejected.begin(), ejected.begin() + nodes, std::int64_t{0});
  result_.ejected_flits_least = *std::min_element(ejected.begin(), ejected.begin() + nodes);
  result_.flit_hops = network_.flit_hops();
  result_.end_cycle = network_.last_cycle();
  result_.core_bytes = network_.core_bytes();
  done_ = true;
}

PacketRun::PacketRun(const NetworkSpec& network, const std::vector<PacketIn>& packets,
                     const std::vector<std::vector<std::int32_t>>& dest_sets,
                     const std::vector<std::int64_t>& reductions)
    : network_(network), records_(packets.size()), several_(packets.size()) {
  std::map<std::int64_t, std::vector<std::size_t>> parts;  // rows of each reduction
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    if (reductions[i] >= 0) parts[reductions[i]].push_back(i);
  }
  std::map<std::int64_t, std::int32_t> group;
  for (const auto& [number, rows] : parts) {
    std::vector<std::int32_t> sources;
    for (const std::size_t row : rows) sources.push_back(packets[row].source);
    const PacketIn& first = packets[rows[0]];
    group[number] = network_.begin_reduction(first.dest, sources, first.size_flits, first.message_class);
  }
  for (std::size_t i = 0; i < packets.size(); ++i) {
    PacketIn packet = packets[i];
    packet.tag = i;
    if (i < dest_sets.size() && !dest_sets[i].empty()) {
      several_[i] = 1;
      const bool session = network_.sessions() != nullptr && as_size(packet.message_class) < network.classes.size() &&
                           network.classes[as_size(packet.message_class)].session;
      packet.group = session ? network_.session_group(packet.source, dest_sets[i])
                             : network_.multicast_group(packet.source, dest_sets[i]);
    }
    if (i < reductions.size() && reductions[i] >= 0) packet.group = group[reductions[i]];
    network_.offer(packet);
  }
  if (network_.sessions() != nullptr) waits_.resize(packets.size());
}

// What the network has booked since the last call. A packet's waits come before its arrivals.
void PacketRun::collect() {
  for (const SessionWait& wait : network_.session_waits()) waits_[wait.tag] += wait.cycles;
  network_.session_waits().clear();
  network_.refusals().clear();
  for (const Arrival& arrival : network_.arrivals()) {
    PacketRecord record{arrival.inject_cycle, arrival.cycle, arrival.hops, network_.terms(arrival)};
    if (!waits_.empty()) record.terms.wait_for_session(waits_[arrival.tag]);
    if (several_[arrival.tag] == 0) {
      records_[arrival.tag] = record;
    } else {
      deliveries_.push_back({static_cast<std::int64_t>(arrival.tag), arrival.dest, record});
    }
  }
  network_.arrivals().clear();
  network_.departures().clear();
  if (network_.sessions() == nullptr) return;
  std::vector<SessionRecord>& ended = network_.sessions()->records();
  sessions_.insert(sessions_.end(), ended.begin(), ended.end());
  ended.clear();
}

bool PacketRun::advance(std::int64_t max_work) {
  std::int64_t next = network_.next_event();
  const std::int64_t stop = network_.flit_hops() + max_work;
  std::int64_t steps = 0;
  while (next != kNoEvent) {
    network_.step(next);
    next = network_.next_event();
    if (++steps % 1024 == 0 && network_.flit_hops() + steps >= stop) break;
  }
  collect();
  check_routing(network_);
  if (next != kNoEvent) return false;
  check_laws(network_);
  if (!network_.idle()) throw_deadlock(network_);
  for (const Delivery& delivery : deliveries()) {
    PacketRecord& record = records_[static_cast<std::size_t>(delivery.packet)];
    if (delivery.record.eject_cycle > record.eject_cycle) record = delivery.record;
  }
  return true;
}

std::vector<Delivery> PacketRun::deliveries() const {
  std::vector<Delivery> sorted = deliveries_;
  std::sort(sorted.begin(), sorted.end(), [](const Delivery& a, const Delivery& b) {
    return a.packet != b.packet ? a.packet < b.packet : a.dest < b.dest;
  });
  return sorted;
}

}  // namespace cosim::noc
