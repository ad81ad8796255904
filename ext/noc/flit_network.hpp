// Flit-level network of input-queued virtual-channel routers with credits, exact to the cycle.
//
// Cycle model (the terms of BookSim2): a head that arrives at t is routed in [t, t + R), takes part in VC allocation
// from t + R, in switch allocation V cycles after it won, and leaves S - 1 + X cycles after it won the switch; over a
// link of latency L it arrives L + 1 cycles after it was sent. Allocation is iSLIP with one iteration, built into the
// cycle; any other is in flit_network_allocate.cpp. A slot freed at t may be used by the upstream router's switch
// allocation at t + L + 1 + credit_delay.
//
// How it is fast: a slot of a VC ring holds either a flit or the cycle from which the upstream side may use it, so
// there are no credit counters and no credit events; the winner of a switch allocation is written into the downstream
// slot at once and only its arrival is an event. All VC states are bits of masks; routers without work are never
// visited. Every effect on another router is at least two cycles away, so one pass in any router order is exact.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "noc/link_retry.hpp"
#include "noc/multicast.hpp"
#include "noc/packet.hpp"
#include "noc/reductions.hpp"
#include "noc/route_ways.hpp"
#include "noc/router_models.hpp"
#include "noc/sessions.hpp"
#include "noc/spec.hpp"
#include "sim/faults.hpp"
#include "sim/huge_pages.hpp"
#include "sim/visit.hpp"

namespace cosim::sim {
class Canonical;
struct Present;
}  // namespace cosim::sim

namespace cosim::noc {

// The terms of a packet's latency; their sum is cycle - create_cycle.
struct LatencyTerms {
  std::int64_t source_queueing_cycles = 0;
  std::int64_t router_cycles = 0;          // hops x pipeline depth
  std::int64_t link_cycles = 0;            // links, injection and ejection channels, and the final read
  std::int64_t serialisation_cycles = 0;   // size - 1
  std::int64_t contention_cycles = 0;      // waiting for VCs, switches and credits
  std::int64_t retry_cycles = 0;           // of the rest, what links that sent flits again account for
  std::int64_t session_wait_cycles = 0;    // held at the source by a session; of a session packet: waiting for its own
  std::int64_t reduction_wait_cycles = 0;  // of a contribution to a sum: at reduction units, for the others
  // Takes what SessionWait events say out of the time at the source.
  void wait_for_session(std::int64_t cycles) {
    source_queueing_cycles -= cycles;
    session_wait_cycles += cycles;
  }
};

// Sums over packets, from which their latency terms follow.
struct LatencySums {
  std::int64_t packets = 0;
  std::int64_t flits = 0;
  std::int64_t hops = 0;
  std::int64_t link_cycles = 0;
  std::int64_t packet_latency_cycles = 0;
  std::int64_t network_latency_cycles = 0;
  std::int64_t retry_cycles = 0;  // as terms() of each has them
  std::int64_t reduction_wait_cycles = 0;
};

// Counters of one output VC of one router.
struct OutputCounters {
  std::int64_t flits = 0;        // that won the switch towards it
  std::int64_t no_credit = 0;    // cycles a flit waited for a slot downstream
  std::int64_t lost_switch = 0;  // cycles a flit with a credit lost switch allocation
  std::int64_t busy_vc = 0;      // cycles a head waited with every VC it may use owned
  std::int64_t lost_vc = 0;      // cycles a head lost VC allocation
};

// Shows what the owner of a network knows by the tags of its packets.
class PacketTags {
 public:
  virtual ~PacketTags() = default;
  virtual void show(sim::Canonical& c, std::uint64_t tag) = 0;
};

class FlitNetwork {
 public:
  // Throws std::invalid_argument with every problem of `spec`.
  explicit FlitNetwork(const NetworkSpec& spec);

  // Queues a packet at its source; create_cycle must be later than the last step. Packets of one source and class are
  // a FIFO in the order of the calls. Returns the packet's handle for supply(), good until its tail has left the
  // source. Throws std::invalid_argument for what does not exist.
  std::uint32_t offer(const PacketIn& packet);
  // The number of a multicast: a source with a set of nodes. A packet of a multicast class that carries it forks where
  // the routes part and has an arrival per node; it fits every VC on its way: multicast_room() flits. Throws
  // std::invalid_argument when there is no multicast class or the routes are no tree.
  std::int32_t multicast_group(std::int32_t source, const std::vector<std::int32_t>& dests);
  [[nodiscard]] std::int32_t multicast_room(std::int32_t group) const;
  // The number of a source with a set of nodes for packets of session classes. Throws std::invalid_argument when there
  // is no such class, no way leads to a node or no packet fits a session of it.
  std::int32_t session_group(std::int32_t source, const std::vector<std::int32_t>& dests);
  // A reduction by which `dest` gets the sum of a packet of `size_flits` flits from each of `sources`: the number for
  // PacketIn::group of their packets of a reduction class. Every packet has an arrival of its own, when the sum is
  // there; terms() of it are those of its whole way. Throws std::invalid_argument for what does not exist.
  std::int32_t begin_reduction(std::int32_t dest, const std::vector<std::int32_t>& sources, std::int32_t size_flits,
                               std::int32_t message_class);
  // Hands over `flits` more of the held flits of a packet; they may leave from the next step on.
  void supply(std::uint32_t packet, std::int32_t flits);
  // From now on every flit read at `terminal` is booked in flit_arrivals().
  void watch(std::int32_t terminal);
  // From now on packets are noted in passages() channel by channel, or no longer. No part of the state.
  void note_passages(bool on);

  // The first cycle at which step() changes anything; kNoEvent when nothing will happen without an offer. With flits
  // in flight or packets queued, kNoEvent means deadlock, or that the routing function failed.
  [[nodiscard]] std::int64_t next_event() const;

  // Advances to `cycle`, which is later than the last step and no later than next_event(). Arrivals are booked when the
  // tail wins its last switch, arrival_lead_cycles() before their cycle.
  void step(std::int64_t cycle);

  // The routing function; nullptr where routes are looked up.
  [[nodiscard]] const RoutingFunction* routing_function() const { return routing_.get(); }
  // The routers of the user's; nullptr with the built-in ones.
  [[nodiscard]] const RouterModels* router_models() const { return models_.get(); }
  // Why a routing function, allocator or router of the user's ended the run; empty when none did.
  [[nodiscard]] const std::string& failure() const { return failure_; }

  // Booked since the owner last cleared them, in an order that depends on nothing but the offers.
  [[nodiscard]] std::vector<Arrival>& arrivals() { return arrivals_; }
  [[nodiscard]] std::vector<Departure>& departures() { return departures_; }
  [[nodiscard]] std::vector<FlitArrival>& flit_arrivals() { return flit_arrivals_; }
  [[nodiscard]] std::vector<SessionWait>& session_waits() { return session_waits_; }
  [[nodiscard]] std::vector<Refusal>& refusals() { return refusals_; }
  // nullptr without retry.
  [[nodiscard]] const LinkRetry* retry() const { return retry_.get(); }
  // nullptr without a session class.
  [[nodiscard]] Sessions* sessions() { return sessions_.get(); }
  [[nodiscard]] const Sessions* sessions() const { return sessions_.get(); }

  // The cycle of every change of routes so far at which the new ones began to hold.
  [[nodiscard]] const std::vector<std::int64_t>& route_changes_made() const { return changes_made_; }
  // nullptr without a reduction class.
  [[nodiscard]] const Reductions* reductions() const { return reductions_.get(); }

  [[nodiscard]] std::vector<Passage>& passages() { return passages_; }

  [[nodiscard]] std::int64_t last_cycle() const { return cycle_; }
  [[nodiscard]] std::int64_t flits_in_flight() const { return injected_flits_ + copied_flits_ - ejected_flits_; }
  [[nodiscard]] std::int64_t copied_flits() const { return copied_flits_; }  // by the branches of multicasts
  [[nodiscard]] std::int64_t ejected_flits() const { return ejected_flits_; }
  [[nodiscard]] std::int64_t packets_queued() const { return queued_packets_; }  // not wholly injected
  [[nodiscard]] bool idle() const {
    return flits_in_flight() == 0 && queued_packets_ == 0 && (sessions_ == nullptr || sessions_->idle()) &&
           (reductions_ == nullptr || reductions_->open() == 0);
  }
  [[nodiscard]] std::int64_t arrival_lead_cycles() const { return traversal_ + kTerminalLinkLatency + 1; }
  [[nodiscard]] LatencyTerms terms(const Arrival& arrival) const;
  [[nodiscard]] LatencyTerms terms(const LatencySums& sums) const;

  // From now on without the instructions that only some processors have; results are the same.
  void use_portable_cycle() { cycle_function_ = choose_cycle(true); }

  // Removes packets whose head has not left its source; returns how many.
  std::int64_t cancel_queued();

  // Counts flits sent by sources and read by nodes in [begin, end) apart, from now on.
  void count_window(std::int64_t begin, std::int64_t end);
  [[nodiscard]] const std::vector<std::int64_t>& window_injected() const { return window_injected_; }  // per terminal
  [[nodiscard]] const std::vector<std::int64_t>& window_ejected() const { return window_ejected_; }

  [[nodiscard]] std::int64_t flit_hops() const;  // flits that left a router, ejection included
  // Connected output ports as (router, port), ascending.
  [[nodiscard]] std::vector<std::pair<std::int32_t, std::int32_t>> connected_outputs() const;
  // Counters of every VC of connected_outputs(), VC by VC, up to and including the last step: running waits are booked.
  [[nodiscard]] std::vector<OutputCounters> connected_counters();
  [[nodiscard]] std::int64_t injected_to(std::int32_t terminal) const;  // flits
  [[nodiscard]] std::int64_t ejected_at(std::int32_t terminal) const;   // flits

  // The first broken conservation law in words, empty when all hold: flits in buffers and on links = injected + copied
  // - ejected; when idle also injected = ejected per destination, every slot free again and every output VC released.
  [[nodiscard]] std::string verify_conservation() const;

  // Who waits for whom, as text: the cycle of routers, VCs and credits when there is one, else the longest chain found.
  [[nodiscard]] std::string wait_for_cycle() const;

  // Bytes of the simulator's own arrays.
  [[nodiscard]] std::size_t core_bytes() const;

  // Shows all state; stamps inside become relative to the last step first, so that equal futures look equal.
  void visit(sim::Visitor& v);
  // The canonical form, as part of node `node`; the present is in cycles. Routes must come from a table.
  void canonical(sim::Canonical& c, std::int32_t node, const sim::Present& present, PacketTags& tags);

  [[nodiscard]] const NetworkSpec& spec() const { return spec_; }

 private:
  static constexpr std::uint8_t kNoPort = 255;
  static constexpr std::uint8_t kNone = 255;  // kNone + 1 is 0 to round_robin()
  static constexpr std::uint32_t kNoLink = ~0U;

  // Sets of a router's input VCs; pairs are indexed by the parity of the cycle in which they act.
  template <class Set>
  struct Router {
    Set va[2] = {};   // in VC allocation
    Set sa[2] = {};   // in switch allocation: a flit and, as far as is known, a credit
    Set blocked = 0;  // a flit without a credit
    Set parked = 0;   // a head whose VCs are all owned
  };
  struct InputVc {
    std::uint32_t front = 0;         // slot of the oldest flit
    std::uint32_t vcs = 0;           // output VCs this route may use
    std::uint32_t visible = 0;       // flits that have arrived
    std::uint32_t since = 0;         // start of the present wait: for a credit, for any VC to be released; of a head
                                     // with several candidates also for being granted one
    std::uint8_t output = kNoPort;   // of the packet at the front, kNoPort when idle
    std::uint8_t output_vc = kNone;  // bit of the last output VC allocated; iSLIP accepts from the next one on
    std::uint8_t port = 0;           // its own port and VC
    std::uint8_t vc = 0;
    std::uint32_t lanes = 0;  // small routers: 1 << port | 256 << output, the ports that a flit occupies
    void send_to(std::uint32_t to) {
      output = static_cast<std::uint8_t>(to);
      lanes = (lanes & 255U) | 256U << (to & 7U);
    }
  };
  struct OutputVc {
    std::int64_t flits = 0;      // that won the switch towards it
    std::uint32_t write = 0;     // next slot downstream (at a terminal: of its ejection ring)
    std::uint32_t down = 0;      // input VC downstream
    std::uint32_t bit = 0;       // 1 << vc
    std::uint8_t owner = kNone;  // input VC bit, or the last owner's; iSLIP grants from the next one on
    std::uint8_t port = 0;       // its own port and VC
    std::uint8_t vc = 0;
    std::uint8_t unused = 0;
  };
  struct Port {
    std::uint64_t step = 0;            // 1 router << 32 | latency of the link into this input
    std::uint32_t free_vcs = 0;        // output VCs without an owner
    std::uint32_t link_time = 0;       // cycles from sending to arrival downstream
    std::uint32_t credit = 0;          // cycles from freeing a slot of this input to its use upstream
    std::uint32_t up = 0;              // first output VC upstream, or terminal
    std::uint32_t terminal = kNoLink;  // ejecting to
    // last winners of switch allocation; the search begins after them
    std::uint8_t sa_input = kNone;   // of this output
    std::uint8_t sa_output = kNone;  // of this input
    std::uint8_t sa_vc = kNone;      // of this input
    std::uint8_t source = 0;         // 1: fed by a terminal
  };
  template <class Set>
  struct Routed {
    Set to = 0;  // input VCs routed to this output
  };
  template <class Set>
  struct PortOf : Routed<Set>, Port {};
  // All of a router but its buffers, in one block. Most routers fit the small one.
  template <std::uint32_t kPorts, std::uint32_t kVcs, class SetType>
  struct alignas(sim::kCacheLine) Record {
    using Set = SetType;
    static constexpr std::uint32_t kMostPorts = kPorts;
    static constexpr std::uint32_t kMostInputs = kVcs;
    Router<Set> masks;
    // to whole cache lines, so that nothing saved is indeterminate
    static constexpr std::size_t kUsed =
        sizeof(Router<Set>) + kPorts * sizeof(PortOf<Set>) + kVcs * (sizeof(InputVc) + sizeof(OutputVc));
    std::uint64_t unused[(sim::kCacheLine - kUsed % sim::kCacheLine) / sizeof(std::uint64_t)] = {};
    PortOf<Set> ports[kPorts];
    InputVc in[kVcs];
    OutputVc out[kVcs];
  };
  template <class RecordReference>
  using SetOf = typename std::remove_cvref_t<RecordReference>::Set;
  using SmallRecord = Record<8, 32, std::uint64_t>;
  using LargeRecord = Record<64, 64, std::uint64_t>;
  using WideRecord = Record<kMostVcs, kMostVcs, VcSet>;
  struct Stalls {  // of an output VC, as OutputCounters
    std::int64_t no_credit = 0;
    std::int64_t lost_switch = 0;
    std::int64_t busy_vc = 0;
    std::int64_t lost_vc = 0;
  };
  struct alignas(sim::kCacheLine) Packet {
    std::int64_t create = 0;
    std::int64_t inject = 0;
    std::uint64_t tag = 0;
    std::int64_t flit_sum = 0;
    std::uint64_t path = 0;  // routers visited << 32 | latencies of the links between them
    std::int32_t source = 0;
    std::int32_t dest = 0;
    std::int32_t size = 0;
    std::uint32_t next = 0;  // in the source's FIFO or the free list
    // of the routing function; of a multicast 1 + the next node of its tree; of a reduction's leg kLeg | its unit
    std::uint32_t route_state = 0;
    std::uint8_t message_class = 0;
    std::uint8_t copy = 0;   // 1: made by a branch
    std::uint16_t held = 0;  // flits that the source does not have yet
  };
  struct SourceQueue {
    std::uint32_t first = kNoPacket;
    std::uint32_t last = kNoPacket;
    std::uint32_t left = 0;  // flits of `first` still to send; 0 before its head has left
    std::uint8_t vc = 0;
    std::uint8_t after = 0;  // VC to try first
    std::uint8_t unused[2] = {};
  };
  struct Terminal {
    std::uint32_t input = 0;  // first input VC of its injection port
    std::uint32_t gap = 0;
    std::uint32_t turn = 0;  // class to try first among equals
    std::uint32_t unused = 0;
    std::int64_t armed = kNoEvent;  // cycle of the earliest scheduled wake for a packet's creation
  };
  struct FutureSource {
    std::int64_t cycle = 0;
    std::uint32_t terminal = 0;
    std::uint32_t unused = 0;
    friend bool operator>(const FutureSource& a, const FutureSource& b) {
      return a.cycle != b.cycle ? a.cycle > b.cycle : a.terminal > b.terminal;
    }
  };

  static constexpr std::uint32_t kNoPacket = ~0U;
  static constexpr std::uint32_t kFlit = 1U << 31U;
  static constexpr std::uint32_t kTail = 1U << 30U;
  static constexpr std::uint32_t kWaiter = 1U << 29U;  // somebody upstream waits for this slot
  static constexpr std::uint32_t kPacketMask = kWaiter - 1;
  static constexpr std::uint32_t kNeverFree = kFlit - 1;  // a credit lost by a fault point
  static constexpr std::uint32_t kRebaseAfter = 1U << 30U;
  static constexpr std::uint32_t kIndexMask = (1U << 29U) - 1;
  static constexpr std::uint32_t kLeg = 1U << 31U;  // route_state: the packet ends at a reduction unit
  enum Wake : std::uint32_t {
    kCredit = 0,
    kTerminal = 1,
    kJoinVa = 2,
    kJoinSa = 3,
    kRoute = 4,
    kRelease = 5,        // an output VC, by the credit of its tail
    kReleaseSource = 6,  // a terminal's injection VC, named by the input VC it feeds
    kSum = 7,            // a flit of a reduction's sum may leave its unit
  };

  void build(const NetworkSpec& spec);
  std::uint32_t new_slot();
  void enqueue(std::uint32_t slot);
  // Calls use(record) with router `r`, whatever its size.
  template <class Use>
  decltype(auto) with_router(std::uint32_t r, Use use) {
    if (!small_.empty()) return use(small_[r]);
    if (!large_.empty()) return use(large_[r]);
    return use(wide_[r]);
  }
  template <class Use>
  decltype(auto) with_router(std::uint32_t r, Use use) const {
    if (!small_.empty()) return use(std::as_const(small_[r]));
    if (!large_.empty()) return use(std::as_const(large_[r]));
    return use(std::as_const(wide_[r]));
  }
  [[nodiscard]] Router<VcSet> masks(std::uint32_t r) const {
    return with_router(r, [](const auto& record) {
      const auto& m = record.masks;
      return Router<VcSet>{{m.va[0], m.va[1]}, {m.sa[0], m.sa[1]}, m.blocked, m.parked};
    });
  }
  [[nodiscard]] VcSet routed_to(std::uint32_t r, std::uint32_t p) const {
    return with_router(r, [p](const auto& record) { return VcSet{record.ports[p].to}; });
  }
  template <class Set>
  static void put(Set& into, std::uint32_t bit) {
    into |= bit_in<Set>(bit);
  }
  template <class Set>
  static void drop(Set& from, std::uint32_t bit) {
    from &= ~bit_in<Set>(bit);
  }
  void route_to(std::uint32_t id, std::uint32_t p) {
    with_router(router_of(id), [&](auto& record) { put(record.ports[p].to, bit_of(id)); });
  }
  [[nodiscard]] Port& port(std::uint32_t r, std::uint32_t p) {
    return with_router(r, [p](auto& record) -> Port& { return record.ports[p]; });
  }
  [[nodiscard]] InputVc& input(std::uint32_t id) {
    return with_router(router_of(id), [id](auto& record) -> InputVc& { return record.in[bit_of(id)]; });
  }
  [[nodiscard]] OutputVc& output(std::uint32_t id) {
    return with_router(router_of(id), [id](auto& record) -> OutputVc& { return record.out[bit_of(id)]; });
  }
  [[nodiscard]] const Port& port(std::uint32_t r, std::uint32_t p) const {
    return with_router(r, [p](const auto& record) -> const Port& { return record.ports[p]; });
  }
  [[nodiscard]] const InputVc& input(std::uint32_t id) const {
    return with_router(router_of(id), [id](const auto& record) -> const InputVc& { return record.in[bit_of(id)]; });
  }
  [[nodiscard]] const OutputVc& output(std::uint32_t id) const {
    return with_router(router_of(id), [id](const auto& record) -> const OutputVc& { return record.out[bit_of(id)]; });
  }
  // Input VCs, and output VCs, of all routers without holes: numbers of their rings and stall counters.
  [[nodiscard]] std::size_t dense(std::uint32_t id) const {
    return std::size_t{router_of(id)} * vcs_per_router_ + (bit_of(id));
  }
  [[nodiscard]] std::uint32_t sparse(std::size_t number) const {
    return first_id(static_cast<std::uint32_t>(number / vcs_per_router_)) +
           static_cast<std::uint32_t>(number % vcs_per_router_);
  }
  [[nodiscard]] std::size_t input_vcs() const { return std::size_t{num_routers_} * vcs_per_router_; }
  // Ring size - buffer depth of an output's rings downstream.
  [[nodiscard]] std::uint32_t& gap(std::uint32_t r, std::uint32_t p) {
    return gaps_[std::size_t{r} * static_cast<std::uint32_t>(spec_.ports) + p];
  }
  [[nodiscard]] std::uint32_t gap(std::uint32_t r, std::uint32_t p) const {
    return gaps_[std::size_t{r} * static_cast<std::uint32_t>(spec_.ports) + p];
  }
  [[nodiscard]] Stalls& stalls(std::uint32_t id) { return stalls_[dense(id)]; }
  // The output VC that the wait of a head for one is charged to.
  [[nodiscard]] std::uint32_t charged(std::uint32_t id) const {
    const InputVc& vc = input(id);
    return base_of(id) + vc.output * num_vcs_ + static_cast<std::uint32_t>(std::countr_zero(vc.vcs));
  }

  // Of the VCs that a route offers, those that a packet may use: its class's, of a class with static VCs one of them.
  [[nodiscard]] std::uint32_t vcs_of(const Packet& packet, std::uint32_t offered) const {
    const std::uint32_t vcs = offered & class_masks_[packet.message_class];
    return (static_classes_ >> packet.message_class & 1U) == 0 ? vcs : static_vc(vcs, packet);
  }
  [[nodiscard]] std::uint32_t static_vc(std::uint32_t vcs, const Packet& packet) const;

  [[nodiscard]] std::uint32_t advance(std::uint32_t slot) const;
  // The slot whose release allows writing to `write`: `write` itself when the ring is as deep as the buffer.
  [[nodiscard]] std::uint32_t credit_slot(std::uint32_t write, std::uint32_t gap) const {
    return (write & ~ring_mask_) | ((write + gap) & ring_mask_);
  }
  [[nodiscard]] std::uint64_t* va_active(std::uint32_t cycle) { return active_.data() + (cycle & 1U) * router_words_; }
  [[nodiscard]] std::uint64_t* sa_active(std::uint32_t cycle) {
    return active_.data() + (2 + (cycle & 1U)) * router_words_;
  }
  [[nodiscard]] std::uint64_t* sources_active() { return active_.data() + 4 * router_words_; }
  [[nodiscard]] std::size_t source_words() const { return active_.size() - 4 * router_words_; }
  [[nodiscard]] std::uint32_t arrivals_count(std::uint32_t slot) const {
    return arrivals_end_[slot] - slot * arrivals_room_;
  }
  void note_arrivals(std::uint32_t now);
  void wake_at(std::uint32_t when, Wake kind, std::uint32_t index);
  void arrive_at(std::uint32_t when, std::uint32_t id);
  // Input VCs that take part in an allocation; one, or those of a router.
  void join_va(std::uint32_t id, std::uint32_t when);
  void join_sa(std::uint32_t id, std::uint32_t when);
  void join_va(std::uint32_t r, VcSet bits, std::uint32_t when);
  void join_sa(std::uint32_t r, VcSet bits, std::uint32_t when);
  void run_wakes(std::uint32_t now);
  void activate(std::uint32_t terminal);
  [[noreturn]] void refuse(const PacketIn& packet) const;
  [[nodiscard]] bool fits_its_group(const PacketIn& packet) const;
  bool send_by_priority(std::uint32_t terminal, std::uint32_t now);
  bool send_of_class(std::uint32_t terminal, std::uint32_t message_class, std::uint32_t now);
  void arm(std::uint32_t terminal, std::uint32_t now);
  void schedule_source(std::uint32_t terminal, std::int64_t cycle);
  void watch_slot(std::uint32_t slot, std::uint32_t now, Wake kind, std::uint32_t index);
  void park(std::uint32_t id, std::uint32_t now);
  void unpark(std::uint32_t r, std::uint32_t p, std::uint32_t now);
  void block(std::uint32_t id, std::uint32_t now);
  void wake_upstream(const Port& in, std::uint32_t vc, std::uint32_t freed);
  [[nodiscard]] std::uint32_t batched_send(std::uint32_t r, std::uint32_t p, std::uint32_t now);
  void order_grant(std::uint32_t id);
  void order_body(std::uint32_t id);
  void book_running_waits();
  [[nodiscard]] std::string name_of_input(std::uint32_t id) const;

  // One cycle, compiled per shape and instruction set: flit_network_cycle.cpp.
  struct Cycle;
  friend struct Cycle;
  using CycleFunction = void (*)(FlitNetwork&, std::uint32_t);
  [[nodiscard]] CycleFunction choose_cycle(bool portable) const;
  void rebase(std::int64_t next_base);

  // The canonical form: flit_network_canonical.cpp
  struct Walk;

  // multicast: flit_network_multicast.cpp. An input VC of a multicast class has a lane per output: the VC itself for
  // the first branch of the packet at its front, and `ports - 1` numbers behind the router's input VCs. A lane is an
  // InputVc that reads the ring of its VC: the allocators see one requester more.
  struct Branch {  // of a lane
    std::uint32_t packet = kNoPacket;
    std::uint32_t sent = 0;  // flits
  };
  struct Fork {         // of an input VC; no lanes: the packet at its front has one way
    VcSet lanes = 0;    // all branches
    VcSet pending = 0;  // those that have not sent the tail
  };
  void build_multicast(const NetworkSpec& spec);
  void reserve_copies(std::uint32_t copies);
  void free_copy(std::uint32_t slot);
  void book_injection(std::uint32_t slot);
  void route_branches(std::uint32_t id, std::uint32_t join);
  bool send_branch(std::uint32_t id, const Fork& fork, std::uint32_t& word);
  void end_fork(std::uint32_t id, Fork& fork, std::uint32_t parent, const InputVc& last);
  [[nodiscard]] std::uint32_t first_lane(std::uint32_t id) const {
    const InputVc& vc = input(id);
    return base_of(id) + vc.port * num_vcs_ + vc.vc;
  }
  [[nodiscard]] std::uint32_t extra_lane(std::uint32_t p, std::uint32_t vc, std::uint32_t i) const;
  [[nodiscard]] std::uint32_t waiting_lane(std::uint32_t id) const;
  [[nodiscard]] std::string multicast_left() const;

  // allocators other than iSLIP with one iteration: flit_network_allocate.cpp
  struct Allocation {
    Allocator vcs;  // input VCs x output VCs
    Allocator ports;
    bool facts = false;           // a user's allocator wants to know the packets behind the requests
    AllocationRequests requests;  // of the router at hand
    std::vector<std::uint8_t>
        next_vc;  // [router * ports + port]: the VC of an input to prefer among those for an output
  };
  // What switch allocation made of a router's input VCs.
  struct Moves {
    VcSet winners = 0;  // their front flits move
    VcSet again = 0;    // ask again in the next cycle
  };
  // Heads that ask for the switch while they ask for a VC.
  struct Speculation {
    VcSet heads = 0;
    VcSet granted = 0;        // those that got a VC in this cycle
    VcSet wasted = 0;         // those that could not use a switch grant
    VcSet outputs[kMostVcs];  // ports that each of them asks for
  };
  void build_allocation(const NetworkSpec& spec);
  [[nodiscard]] Moves allocate(std::uint32_t r, VcSet heads, VcSet flits, std::uint32_t now);
  VcSet allocate_heads(std::uint32_t r, VcSet heads, std::uint32_t now, Speculation& speculation);
  [[nodiscard]] bool add_head(std::uint32_t id, std::uint32_t now, Speculation& speculation);
  [[nodiscard]] Moves allocate_flits(std::uint32_t r, VcSet flits, std::uint32_t now, const Speculation& speculation);
  void put_forward(std::uint32_t r, std::uint32_t bit, std::uint32_t out, bool speculative);
  [[nodiscard]] std::int64_t age_key(std::uint32_t id) const;
  [[nodiscard]] bool has_credit(std::uint32_t r, std::uint32_t resource, std::uint32_t now) const;
  void tell_facts(std::uint32_t id, bool speculative);
  void fail_allocator(const Allocator& allocator);
  void head_waits(std::uint32_t id, std::uint32_t now);
  void release_later(std::uint32_t id, std::uint32_t out, std::uint32_t sent, std::uint32_t freed);
  void release(std::uint32_t id, std::uint32_t now);
  void release_source(std::uint32_t id);
  [[nodiscard]] bool waits_for_tail_credit(std::uint32_t out) const;

  // links with retry: flit_network_retry.cpp
  struct LateArrival {  // beyond the wheel's reach
    std::int64_t cycle = 0;
    std::uint32_t input_vc = 0;
    std::uint32_t reserved = 0;
    friend bool operator>(const LateArrival& a, const LateArrival& b) {
      return a.cycle != b.cycle ? a.cycle > b.cycle : a.input_vc > b.input_vc;
    }
  };
  void send_with_retry(std::uint32_t r, std::uint32_t p, std::uint32_t sent, std::uint32_t down, std::uint32_t word);
  void take_late_arrivals();
  std::int64_t take_retries(std::uint32_t slot) { return std::exchange(retry_of_[slot], 0); }

  // sessions: flit_network_sessions.cpp
  struct HeldQueue {  // a source's class whose first packet may not leave
    std::uint32_t queue = 0;
    std::uint32_t reserved = 0;
    std::int64_t since = 0;
  };
  void build_sessions(const NetworkSpec& spec);
  void refuse_session(const PacketIn& packet) const;
  std::uint32_t offer_session(const PacketIn& packet);
  void step_sessions(std::int64_t cycle);
  [[nodiscard]] bool held_by_session(std::uint32_t queue);
  template <class Visit>
  bool any_link_of(const Packet& packet, Visit visit) const;
  void book_links(const Packet& packet);

  // reductions: flit_network_reduction.cpp. The units are terminals behind the nodes.
  void build_reductions(const NetworkSpec& spec);
  void read_leg(std::uint32_t slot, std::int64_t read, bool tail);
  void advance_sum(std::uint32_t sum);
  [[nodiscard]] bool ends_here(const Packet& packet, std::uint32_t r) const {
    return packet.route_state >= kLeg && (packet.route_state & ~kLeg) / unit_ports_ == r;
  }
  [[nodiscard]] std::uint32_t unit_port(const Packet& packet) const {
    return static_cast<std::uint32_t>(spec_.ports) - unit_ports_ + (packet.route_state & ~kLeg) % unit_ports_;
  }

  // routes that change: flit_network_reroute.cpp
  struct Change {
    std::int64_t at_cycle = 0;
    RouteTable routes;
  };
  void build_route_changes(const NetworkSpec& spec);
  [[nodiscard]] bool drained() const;
  [[nodiscard]] std::int64_t next_change() const;
  void step_route_change();
  void take_routes();

  // routers of the user's: router_models.cpp
  friend class RouterModels;
  static void run_models(FlitNetwork& network, std::uint32_t now) { network.models_->step(network, now); }

  // routing functions: flit_network_routing.cpp
  friend class RouterView;
  // When BookSim2 would have put a VC into a router's queues: earlier in the queue is smaller.
  struct QueueOrder {
    std::int64_t va = 0;
    std::int64_t sa_cycle = 0;
    std::int64_t sa = 0;
    friend bool operator<(const QueueOrder& a, const QueueOrder& b) {
      return a.sa_cycle != b.sa_cycle ? a.sa_cycle < b.sa_cycle : a.sa < b.sa;
    }
  };
  void build_routing(const NetworkSpec& spec);
  void run_ticks();
  void route_arrived(std::uint32_t now);
  void order_as_booksim();
  void ask_again(std::uint32_t now);
  bool ask(std::uint32_t id, std::uint32_t now);
  void offer_candidates(std::uint32_t id, std::uint32_t join, std::uint32_t now);
  void drop_candidates(std::uint32_t id);
  void ask_later(std::uint32_t id);
  void allocate_several(std::uint32_t r, VcSet requests, std::uint32_t now);
  void grant_candidate(std::uint32_t id, std::uint32_t resource, std::uint32_t now);
  void take_candidate(std::uint32_t id, std::uint32_t resource, std::uint32_t now);
  [[nodiscard]] VcSet asked_vcs(std::uint32_t id) const;
  void note_progress(std::uint32_t now);
  void judge_progress();
  void fail(std::uint32_t id, const std::string& what);
  [[nodiscard]] bool is_wrong(std::uint32_t r, const Packet& packet, const Candidate& candidate) const;
  [[nodiscard]] std::string wrong_candidate(std::uint32_t id, const Candidate& candidate) const;

  NetworkSpec spec_;
  CycleFunction cycle_function_ = nullptr;
  std::uint32_t num_routers_ = 0;
  std::uint32_t num_vcs_ = 0;
  std::uint32_t ports_ = 0;              // of a router
  std::uint32_t vcs_per_router_ = 0;     // ports * num_vcs
  std::uint32_t nodes_ = 0;              // terminals that are no reduction units
  std::uint32_t unit_ports_ = 0;         // of a router
  std::uint8_t port_of_[kMostVcs] = {};  // of a VC's bit
  std::uint8_t vc_of_[kMostVcs] = {};
  std::uint32_t ring_mask_ = 0;
  std::uint32_t wakes_mask_ = 0;
  std::uint32_t traversal_ = 0;  // S - 1 + X
  std::uint32_t va_delay_ = 0;   // R
  std::uint32_t sa_delay_ = 0;   // V
  std::uint32_t ejection_reuse_ = 0;
  bool any_gap_ = false;
  bool far_ = false;  // the state is larger than a core's caches
  bool batched_ = false;
  bool wait_for_tail_ = false;
  sim::Fault fault_ = sim::Fault::none;

  sim::ArrayBlock memory_;          // of the arrays that are spans
  std::span<std::uint32_t> rings_;  // of every input VC, then of every terminal's ejection VCs
  std::span<SmallRecord> small_;    // the routers; two of the three are empty
  std::span<LargeRecord> large_;
  std::span<WideRecord> wide_;
  std::span<Stalls> stalls_;
  std::vector<std::uint32_t> gaps_;  // [router * ports + port]
  std::span<std::uint16_t> routes_;
  std::vector<std::uint32_t> vc_sets_;
  // Routers and terminals with work, a bit each: VC and switch allocation by the parity of the cycle, then sources.
  std::vector<std::uint64_t> active_;
  std::size_t router_words_ = 0;
  std::vector<std::uint32_t> at_work_;  // room for the routers, or terminals, with work in a cycle
  // events by cycle modulo the wheel's size: input VCs at which a flit arrives, wakes as kind << 29 | index
  std::span<std::uint32_t> arrivals_due_;    // at most one per channel and cycle: fixed room per cycle
  std::vector<std::uint32_t> arrivals_end_;  // per cycle of the wheel: behind its last entry in arrivals_due_
  std::vector<std::vector<std::uint32_t>> wakes_due_;
  std::uint32_t arrivals_room_ = 0;
  std::uint32_t arrivals_mask_ = 0;

  std::vector<Packet, sim::HugePageAllocator<Packet>> packets_;
  std::uint32_t free_packet_ = kNoPacket;
  std::vector<Terminal> terminals_;
  std::vector<SourceQueue> queues_;           // [terminal * classes + class]
  std::vector<std::uint32_t> source_write_;   // [terminal * num_vcs + vc]
  std::vector<FutureSource> future_sources_;  // binary heap, earliest first
  std::vector<std::uint32_t> class_masks_;
  std::uint64_t static_classes_ = 0;         // a bit per class whose flows keep one VC
  std::vector<std::uint32_t> class_order_;   // by priority, largest first
  std::vector<std::uint32_t> class_groups_;  // first position of each group of equal priority, and the end
  std::uint32_t num_classes_ = 1;

  // BookSim2's switch traversal: the batch in progress per router, the last send per output
  std::vector<std::uint32_t> batch_start_;
  std::vector<std::uint32_t> batch_end_;
  std::vector<std::uint32_t> last_send_;

  std::unique_ptr<Allocation> allocation_;  // none: iSLIP with one iteration
  // both empty where VCs do not wait for the credits of their tails
  std::vector<std::uint32_t> source_owned_;  // per terminal: injection VCs in use
  std::vector<VcSet> awaits_tail_;           // per router: output VCs whose tail has left

  std::unique_ptr<RouterModels> models_;  // none: the routers built in here

  // multicast; all empty without such a class
  std::unique_ptr<MulticastTrees> trees_;
  std::vector<Branch> branches_;  // [id of the lane]
  std::vector<Fork> forks_;       // [dense(input VC)]
  std::uint64_t multicast_classes_ = 0;
  std::uint32_t multicast_vcs_ = 0;
  std::uint32_t free_copy_ = kNoPacket;
  std::uint32_t copies_free_ = 0;
  std::uint32_t copies_due_ = 0;  // that packets on their way may yet make
  std::int64_t copied_flits_ = 0;

  // links with retry; all empty without
  std::unique_ptr<LinkRetry> retry_;
  std::vector<LateArrival> late_arrivals_;  // binary heap, earliest first
  std::vector<std::int64_t> retry_of_;      // per packet slot

  // sessions; all empty without such a class
  std::unique_ptr<Sessions> sessions_;
  std::vector<std::int32_t> router_behind_;  // [router * ports + port], -1: a node
  std::vector<HeldQueue> held_;
  std::vector<std::uint8_t> is_held_;  // per queue
  std::vector<SessionWait> session_waits_;
  std::vector<Refusal> refusals_;

  std::unique_ptr<Reductions> reductions_;  // none without a class of them

  // routes that change; all empty when they do not
  std::vector<Change> changes_;
  RouteTable first_routes_;
  std::vector<std::int64_t> changes_made_;
  std::uint8_t draining_ = 0;  // sources wait for the network to be empty

  std::unique_ptr<RouteWays> ways_;  // instead of `routes_`; none with a table or a routing function
  // routing functions; all but the streams, which ways draw from too, are empty where routes are looked up
  std::unique_ptr<RoutingFunction> routing_;
  RoutingTraits traits_;
  RouteDraws draws_;
  std::vector<sim::RandomStream> streams_;  // per router
  std::vector<BooksimRandom> booksim_draws_;
  std::vector<QueueOrder> queue_order_;  // per input VC
  std::vector<std::uint32_t> to_route_;  // input VCs with a head to route in this cycle: left behind by a tail,
  std::vector<std::uint32_t> arrived_;   // and arrived
  std::vector<Candidate> candidates_;    // [input VC * room + i]
  std::vector<std::uint8_t> candidate_count_;
  std::uint32_t candidate_room_ = 1;
  std::vector<VcSet> asking_;                 // per router: heads to route again in the next cycle
  std::vector<std::uint64_t> asking_active_;  // routers, a bit each
  std::vector<std::uint64_t> packet_number_;  // per packet slot: number of the offer
  std::uint64_t packets_offered_ = 0;
  std::int64_t last_progress_ = 0;
  std::int64_t draws_before_ = 0;  // made before the present step asked again
  std::uint8_t stuck_ = 0;         // nothing will move without an offer
  std::string failure_;

  std::int64_t base_ = 0;    // cycle of stamp 0
  std::int64_t cycle_ = -1;  // last step
  std::int64_t injected_flits_ = 0;
  std::int64_t ejected_flits_ = 0;
  std::int64_t queued_packets_ = 0;
  std::int64_t fault_countdown_ = 0;
  std::int64_t window_begin_ = 0;
  std::int64_t window_end_ = 0;
  std::vector<std::int64_t> window_injected_;
  std::vector<std::int64_t> window_ejected_;
  std::vector<std::int64_t> injected_to_;
  std::vector<std::int64_t> ejected_at_;

  std::vector<Arrival> arrivals_;
  std::vector<Departure> departures_;
  std::vector<std::uint8_t> watched_;  // per terminal, empty when none is
  std::vector<FlitArrival> flit_arrivals_;
  std::vector<Passage> open_passages_;  // per input VC; empty when none are noted
  std::vector<Passage> passages_;
};

}  // namespace cosim::noc
