// One cycle of a network: arrivals, sources, VC allocation, switch allocation.
//
// Compiled once per shape: the size of a router's record, and whether the network is plain: one message class, R = V =
// 1, buffers of one depth that is a power of two, and routes from a table that may use any VC, or RouteWays, which have
// a shape of their own. What a plain network does not use costs it nothing; allocators other than iSLIP with one
// iteration have shapes of their own. On x86-64 every shape is compiled a second time with BMI (shifts and bit scans
// without detours); the processor at hand decides which is called.
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "noc/flit_network_inline.hpp"

namespace cosim::noc {

struct FlitNetwork::Cycle {
  // Whether the state is fetched into the caches ahead of its use; `either` is decided by the network at hand.
  enum class Fetch { no, yes, either };
  static constexpr std::uint32_t kAhead = 8;  // arrivals, or sources, between two links of a chain of reads

  // What the loops read over and over; a copy, so that the compiler sees that no store changes it.
  template <class RecordType, std::uint32_t kVcs, std::uint32_t kRing, bool kMulticast = false,
            Fetch kFetch = Fetch::no, bool kByWays = false>
  struct Local {
    using Record = RecordType;
    using Set = typename Record::Set;
    static constexpr bool kForks = kMulticast;
    static constexpr bool kWays = kByWays;  // of a plain network: routes are RouteWays
    static constexpr bool kFetches = kFetch != Fetch::no;
    static constexpr bool kEither = kFetch == Fetch::either;
    FlitNetwork& n;
    Record* records;
    std::uint32_t* rings;
    Packet* packets;
    const std::uint16_t* routes;
    const RouteWays* ways;
    std::size_t terminals;
    std::uint32_t* due;
    std::uint32_t* ends;
    std::uint32_t due_mask;
    std::uint32_t any_ring_mask;
    std::uint32_t any_num_vcs;
    std::uint32_t now;
    std::uint32_t even;  // parity of now, and of now + 1
    std::uint32_t odd;
    bool any_far;
    std::uint64_t* va_now;  // routers at work in this cycle and the next
    std::uint64_t* va_next;
    std::uint64_t* sa_now;
    std::uint64_t* sa_next;

    Local(FlitNetwork& network, Record* first, std::uint32_t cycle)
        : n(network),
          records(first),
          rings(network.rings_.data()),
          packets(network.packets_.data()),
          routes(network.routes_.data()),
          ways(network.ways_.get()),
          terminals(network.nodes_),
          due(network.arrivals_due_.data()),
          ends(network.arrivals_end_.data()),
          due_mask(network.arrivals_mask_),
          any_ring_mask(network.ring_mask_),
          any_num_vcs(network.num_vcs_),
          now(cycle),
          even(cycle & 1U),
          odd(~cycle & 1U),
          any_far(network.far_),
          va_now(network.va_active(cycle)),
          va_next(network.va_active(cycle + 1)),
          sa_now(network.sa_active(cycle)),
          sa_next(network.sa_active(cycle + 1)) {}

    [[nodiscard]] COSIM_INLINE std::uint32_t num_vcs() const { return kVcs != 0 ? kVcs : any_num_vcs; }
    [[nodiscard]] COSIM_INLINE std::uint32_t ring_mask() const { return kRing != 0 ? kRing - 1 : any_ring_mask; }
    [[nodiscard]] COSIM_INLINE std::uint32_t after(std::uint32_t slot) const {
      const std::uint32_t next = slot + 1;
      return (next & ring_mask()) != 0 ? next : slot - ring_mask();
    }
    [[nodiscard]] COSIM_INLINE bool far() const { return kFetch == Fetch::yes || (kFetch == Fetch::either && any_far); }
    COSIM_INLINE void arrive(std::uint32_t when, std::uint32_t id) const { due[ends[when & due_mask]++] = id; }
  };

  // Routes the packet at the front of an idle VC; it takes part in VC allocation `wait` cycles from now.
  template <bool kPlain, std::uint32_t kWait, class L>
  static COSIM_INLINE void route_head(const L& l, std::uint32_t r, std::uint32_t bit, InputVc& vc,
                                      typename L::Record& record) {
    Packet& packet = l.packets[l.rings[vc.front] & kPacketMask];
    std::uint32_t output = 0;
    [[maybe_unused]] std::uint32_t vcs = ~0U;
    if (L::kWays || (!kPlain && l.ways != nullptr)) {
      const RouteWays::Way way =
          l.ways->take(r, vc.port, as_u32(packet.dest), packet.message_class, packet.route_state,
                       [&](std::uint32_t n) { return static_cast<std::uint32_t>(l.n.streams_[r].below(n)); });
      output = way.port;
      vcs = way.vcs;
      if constexpr (kPlain) vc.vcs = vcs;
    } else {
      if constexpr (L::kForks) {
        if (packet.route_state != 0 && packet.route_state < kLeg) {
          l.n.route_branches(first_id(r) + bit, l.now + kWait - 1 + l.n.va_delay_);
          return;
        }
      }
      const std::uint32_t route = l.routes[r * l.terminals + as_size(packet.dest)];
      output = route & 255U;
      if constexpr (!kPlain) vcs = l.n.vc_sets_[route >> 8U];
      if constexpr (L::kForks) {
        if (l.n.ends_here(packet, r)) {
          output = l.n.unit_port(packet);
          vcs = ~0U;
        }
      }
    }
    packet.path += record.ports[vc.port].step;
    vc.send_to(output);
    record.ports[output].to |= bit_in<typename L::Set>(bit);
    if constexpr (!kPlain) {
      vc.vcs = l.n.vcs_of(packet, vcs);
      const std::uint32_t join = l.now + kWait - 1 + l.n.va_delay_;
      if (l.n.va_delay_ > 1) {
        l.n.wake_at(join, kJoinVa, first_id(r) + bit);
      } else {
        record.masks.va[join & 1U] |= bit_in<typename L::Set>(bit);
        l.n.va_active(join)[r >> 6U] |= bit64(r & 63U);
      }
    }
    if constexpr (kPlain) {
      record.masks.va[kWait == 1 ? l.odd : l.even] |= bit_in<typename L::Set>(bit);
      (kWait == 1 ? l.va_next : l.va_now)[r >> 6U] |= bit64(r & 63U);
    }
  }

  // ------------------------------------------------------------------------------------------------ fetching ahead

  static COSIM_INLINE void fetch(const void* address) { __builtin_prefetch(address, 1); }

  template <class L>
  static COSIM_INLINE void fetch_route(const L& l, std::uint32_t r, const Packet& packet) {
    if (L::kWays || (L::kEither && l.ways != nullptr)) {
      fetch(l.ways->place(r, as_u32(packet.dest)));
    } else if (!L::kEither || !l.n.routes_.empty()) {
      fetch(&l.routes[r * l.terminals + as_size(packet.dest)]);
    }
  }

  // How far each of the next arrivals is fetched.
  struct Chain {
    static constexpr std::uint32_t kLength = 4 * kAhead;  // a power of two
    union Link {
      const std::uint32_t* slot;
      const Packet* packet;
    };
    Link links[kLength];  // of arrival i at i modulo the length
  };

  // What an arrival reads is a chain: input VC, slot, packet, route. Each call fetches a link of the chain of an
  // arrival further down the list.
  template <class L>
  static COSIM_INLINE void fetch_arrival(const L& l, Chain& chain, const std::uint32_t* due, std::uint32_t i,
                                         std::uint32_t end) {
    constexpr std::uint32_t kWrap = Chain::kLength - 1;
    if (i + 4 * kAhead < end) {
      const std::uint32_t id = due[i + 4 * kAhead];
      const auto& record = l.records[router_of(id)];
      fetch(&record.masks);
      fetch(&record.in[bit_of(id)]);
    }
    if (i + 3 * kAhead < end) {
      const std::uint32_t id = due[i + 3 * kAhead];
      const auto& record = l.records[router_of(id)];
      const InputVc& vc = record.in[bit_of(id)];
      const std::uint32_t* const slot = &l.rings[vc.front];
      chain.links[(i + 3 * kAhead) & kWrap].slot = slot;
      fetch(slot);
      fetch(&record.ports[vc.port]);
    }
    if (i >= kAhead && i + 2 * kAhead < end) {
      Chain::Link& link = chain.links[(i + 2 * kAhead) & kWrap];
      link.packet = &l.packets[*link.slot & kPacketMask];
      fetch(link.packet);
    }
    if (i >= 2 * kAhead && i + kAhead < end) {
      fetch_route(l, router_of(due[i + kAhead]), *chain.links[(i + kAhead) & kWrap].packet);
    }
  }

  template <bool kPlain, class L>
  static COSIM_INLINE void run_arrivals(const L& l) {
    const std::uint32_t slot = l.now & l.due_mask;
    const std::uint32_t begin = slot * l.n.arrivals_room_;
    const std::uint32_t end = std::exchange(l.ends[slot], begin);
    [[maybe_unused]] Chain chain;
    for (std::uint32_t i = begin; i < end; ++i) {
      if constexpr (L::kFetches) {
        if (l.far()) fetch_arrival(l, chain, l.due + begin, i - begin, end - begin);
      }
      const std::uint32_t id = l.due[i];
      const std::uint32_t r = router_of(id);
      const std::uint32_t bit = bit_of(id);
      auto& record = l.records[r];
      InputVc& vc = record.in[bit];
      if constexpr (L::kForks) {
        const Fork& fork = l.n.forks_[l.n.dense(id)];
        if (fork.lanes != 0) {
          typename L::Set join = 0;
          for (auto rest = static_cast<typename L::Set>(fork.lanes); rest != 0; rest &= rest - 1) {
            if (record.in[lowest(rest)].visible++ == 0) join |= rest & (0 - rest);
          }
          join &= static_cast<typename L::Set>(fork.pending);
          record.masks.sa[l.even] |= join;
          if (join != 0) l.sa_now[r >> 6U] |= bit64(r & 63U);
          continue;
        }
      }
      if (vc.visible++ != 0) continue;
      if (vc.output == kNoPort) {
        if (!kPlain && l.n.routing_ != nullptr) {
          l.n.arrived_.push_back(id);
        } else {
          route_head<kPlain, 1>(l, r, bit, vc, record);
        }
        continue;
      }
      record.masks.sa[l.even] |= bit_in<typename L::Set>(bit);
      l.sa_now[r >> 6U] |= bit64(r & 63U);
      if constexpr (!kPlain) l.n.order_body(id);
    }
  }

  // -------------------------------------------------------------------------------------------------------- sources

  // The first VC with a credit after the last one used; the packet keeps it once its head has left.
  template <bool kPlain, class L>
  static COSIM_INLINE bool choose_vc(const L& l, std::uint32_t terminal, std::uint32_t message_class,
                                     SourceQueue& queue, Packet& packet) {
    FlitNetwork& n = l.n;
    const std::uint32_t* writes = &n.source_write_[std::size_t{terminal} * l.num_vcs()];
    std::uint32_t rest = kPlain ? n.class_masks_[message_class] : n.vcs_of(packet, ~0U);
    if (!kPlain && n.wait_for_tail_) {
      rest &= ~n.source_owned_[terminal];
      if (rest == 0) return false;
    }
    std::uint32_t vc = round_robin(rest, queue.after);
    while (true) {
      const std::uint32_t slot = kPlain ? writes[vc] : n.credit_slot(writes[vc], n.terminals_[terminal].gap);
      if (l.rings[slot] <= l.now) break;
      rest &= ~(1U << vc);
      if (rest == 0) return false;
      vc = round_robin(rest, vc);
    }
    queue.vc = as_u8(vc);
    queue.after = as_u8(vc + 1);
    queue.left = as_u32(packet.size);
    if (!kPlain && n.wait_for_tail_) n.source_owned_[terminal] |= 1U << vc;
    packet.inject = n.cycle_;
    if (!kPlain && !n.forks_.empty()) {
      n.book_injection(queue.first);
    } else {
      n.injected_to_[as_size(packet.dest)] += packet.size;
    }
    return true;
  }

  // One flit of one class; false when none can leave now.
  template <bool kPlain, class L>
  static COSIM_INLINE bool send(const L& l, std::uint32_t terminal, std::uint32_t message_class) {
    FlitNetwork& n = l.n;
    SourceQueue& queue = n.queues_[kPlain ? terminal : terminal * n.num_classes_ + message_class];
    const std::uint32_t slot = queue.first;
    if (slot == kNoPacket) return false;
    Packet& packet = l.packets[slot];
    if (queue.left == 0) {
      if (packet.create > n.cycle_ || as_u32(packet.size) <= packet.held) return false;
      if (!kPlain && n.draining_ != 0) return false;
      if (!kPlain && n.sessions_ != nullptr && n.sessions_->any_taken() &&
          n.held_by_session(terminal * n.num_classes_ + message_class)) {
        return false;
      }
      if (!choose_vc<kPlain>(l, terminal, message_class, queue, packet)) return false;
    } else {
      if (queue.left <= packet.held) return false;
      const std::uint32_t at = n.source_write_[std::size_t{terminal} * l.num_vcs() + queue.vc];
      if (l.rings[kPlain ? at : n.credit_slot(at, n.terminals_[terminal].gap)] > l.now) return false;
    }
    std::uint32_t& write = n.source_write_[std::size_t{terminal} * l.num_vcs() + queue.vc];
    const bool tail = queue.left == 1;
    l.rings[write] = kFlit | (tail ? kTail : 0U) | slot;
    write = l.after(write);
    l.arrive(l.now + as_u32(kTerminalLinkLatency) + 1, n.terminals_[terminal].input + queue.vc);
    packet.flit_sum -= n.cycle_;
    ++n.injected_flits_;
    n.window_injected_[terminal] += n.cycle_ >= n.window_begin_ && n.cycle_ < n.window_end_ ? 1 : 0;
    --queue.left;
    if (!tail) return true;
    if (kPlain || terminal < n.nodes_) n.departures_.push_back({packet.tag, n.cycle_});
    --n.queued_packets_;
    queue.first = packet.next;
    if (queue.first == kNoPacket) {
      queue.last = kNoPacket;
      if (n.num_classes_ == 1) n.sources_active()[terminal >> 6U] &= ~bit64(terminal & 63U);
    } else if (kPlain && l.packets[queue.first].create > n.cycle_ + 1) {
      n.sources_active()[terminal >> 6U] &= ~bit64(terminal & 63U);
      n.schedule_source(terminal, l.packets[queue.first].create);
    }
    return true;
  }

  // Fills the network's room for lists with what has work, by words of 64 bits; returns how many.
  template <class L, class Word>
  static COSIM_INLINE std::uint32_t list_work(const L& l, std::size_t words, Word word_at) {
    std::uint32_t* const work = l.n.at_work_.data();
    std::uint32_t end = 0;
    for (std::size_t word = 0; word < words; ++word) {
      for (std::uint64_t rest = word_at(word); rest != 0; rest &= rest - 1) {
        work[end++] = static_cast<std::uint32_t>(word) * 64 + lowest(rest);
      }
    }
    return end;
  }

  // What a source's flit reads, in three steps: queue, packet and slots, the packet behind.
  template <class L>
  static COSIM_INLINE void fetch_source(const L& l, std::uint32_t i, std::uint32_t end) {
    FlitNetwork& n = l.n;
    const std::uint32_t* work = n.at_work_.data();
    if (i + 3 * kAhead < end) {
      const std::uint32_t terminal = work[i + 3 * kAhead];
      fetch(&n.queues_[std::size_t{terminal} * n.num_classes_]);
      fetch(&n.source_write_[std::size_t{terminal} * l.num_vcs()]);
      fetch(&n.terminals_[terminal]);
      fetch(&n.window_injected_[terminal]);
    }
    if (i + 2 * kAhead < end) {
      const std::uint32_t terminal = work[i + 2 * kAhead];
      const SourceQueue& queue = n.queues_[std::size_t{terminal} * n.num_classes_];
      if (queue.first != kNoPacket) fetch(&l.packets[queue.first]);
      for (std::uint32_t vc = 0; vc < l.num_vcs(); vc += 2) {
        fetch(&l.rings[n.source_write_[std::size_t{terminal} * l.num_vcs() + vc]]);
      }
    }
    if (i + kAhead < end) {
      const SourceQueue& queue = n.queues_[std::size_t{work[i + kAhead]} * n.num_classes_];
      if (queue.first == kNoPacket) return;
      const Packet& packet = l.packets[queue.first];
      fetch(&n.injected_to_[as_size(packet.dest)]);
      if (packet.next != kNoPacket) fetch(&l.packets[packet.next]);
    }
  }

  template <bool kPlain, class L>
  static COSIM_INLINE void run_sources(const L& l) {
    FlitNetwork& n = l.n;
    const auto run = [&](std::uint32_t terminal) __attribute__((always_inline)) {
      const bool sent =
          kPlain || n.num_classes_ == 1 ? send<kPlain>(l, terminal, 0) : n.send_by_priority(terminal, l.now);
      if (!sent) n.arm(terminal, l.now);
    };
    if constexpr (L::kFetches) {
      const std::uint32_t end =
          list_work(l, n.source_words(), [&](std::size_t word) { return n.sources_active()[word]; });
      for (std::uint32_t i = 0; i < end; ++i) {
        if (l.far()) fetch_source(l, i, end);
        run(n.at_work_[i]);
      }
    } else {
      for (std::size_t word = 0; word < n.source_words(); ++word) {
        for (std::uint64_t rest = n.sources_active()[word]; rest != 0; rest &= rest - 1) {
          run(static_cast<std::uint32_t>(word) * 64 + lowest(rest));
        }
      }
    }
  }

  // -------------------------------------------------------------------------------------------------- VC allocation

  template <bool kPlain, class L>
  static COSIM_INLINE void grant_vc(const L& l, typename L::Record& record, std::uint32_t r, std::uint32_t bit,
                                    Port& port, std::uint32_t resource) {
    InputVc& vc = record.in[bit];
    OutputVc& out = record.out[resource];
    port.free_vcs &= ~out.bit;
    out.owner = as_u8(bit);
    vc.output_vc = as_u8(resource);
    if constexpr (!kPlain) {
      l.n.order_grant(first_id(r) + bit);
      if (l.n.sa_delay_ != 1) l.n.wake_at(l.now + l.n.sa_delay_, kJoinSa, first_id(r) + bit);
    }
  }

  // Several heads ask for VCs of one output. Returns the winners.
  template <bool kPlain, class L>
  static COSIM_INLINE typename L::Set allocate_contended(const L& l, typename L::Record& record, std::uint32_t r,
                                                         typename L::Set requests, std::uint32_t output) {
    using Set = typename L::Set;
    constexpr bool kAnyVc = kPlain && !L::kWays;
    auto& port = record.ports[output];
    const std::uint32_t free = port.free_vcs;
    const std::uint32_t first = output * l.num_vcs();
    std::uint32_t wanted = ~0U;
    std::uint32_t common = ~0U;
    if (kAnyVc && free == 0) {
      for (Set rest = requests; rest != 0; rest &= rest - 1) l.n.park(first_id(r) + lowest(rest), l.now);
      return 0;
    }
    if constexpr (!kAnyVc) {
      wanted = 0;
      for (Set rest = requests; rest != 0; rest &= rest - 1) {
        const std::uint32_t bit = lowest(rest);
        if ((free & record.in[bit].vcs) == 0) {
          l.n.park(first_id(r) + bit, l.now);
          requests &= ~bit_in<Set>(bit);
        } else {
          wanted |= record.in[bit].vcs;
          common &= record.in[bit].vcs;
        }
      }
    }
    Set grants[L::Record::kMostInputs];  // output VCs, per head
    Set granted = 0;
    for (std::uint32_t rest = free & wanted; rest != 0; rest &= rest - 1) {
      const std::uint32_t vc = lowest(rest);
      Set candidates = requests;
      if (!kAnyVc && (common >> vc & 1U) == 0) {
        for (Set each = requests; each != 0; each &= each - 1) {
          const std::uint32_t bit = lowest(each);
          if ((record.in[bit].vcs >> vc & 1U) == 0) candidates &= ~bit_in<Set>(bit);
        }
      }
      const std::uint32_t winner = round_robin(candidates, record.out[first + vc].owner + 1U);
      if ((granted >> winner & 1U) == 0) grants[winner] = 0;
      granted |= bit_in<Set>(winner);
      grants[winner] |= bit_in<Set>(first + vc);
    }
    for (Set rest = granted; rest != 0; rest &= rest - 1) {
      const std::uint32_t winner = lowest(rest);
      grant_vc<kPlain>(l, record, r, winner, port, round_robin(grants[winner], record.in[winner].output_vc + 1U));
    }
    const Set losers = requests & ~granted;
    if (losers != 0) {
      for (Set rest = losers; rest != 0; rest &= rest - 1) {
        ++l.n.stalls(l.n.charged(first_id(r) + lowest(rest))).lost_vc;
      }
      record.masks.va[l.odd] |= losers;
      l.va_next[r >> 6U] |= bit64(r & 63U);
    }
    return granted;
  }

  // iSLIP with one iteration: every free output VC grants the first requester at or after its pointer, every requester
  // accepts the first grant at or after its own; both pointers move past an accepted pair. Credits are not looked at.
  // Returns the winners.
  template <bool kPlain, class L>
  static COSIM_INLINE typename L::Set allocate_vcs(const L& l, typename L::Record& record, std::uint32_t r,
                                                   typename L::Set requests) {
    using Set = typename L::Set;
    constexpr bool kAnyVc = kPlain && !L::kWays;
    if (kPlain && single(requests)) {
      const std::uint32_t bit = lowest(requests);
      const InputVc& vc = record.in[bit];
      const std::uint32_t output = vc.output;
      auto& port = record.ports[output];
      const Set offered = kAnyVc ? port.free_vcs : port.free_vcs & vc.vcs;
      if (offered == 0) {
        l.n.park(first_id(r) + bit, l.now);
        return 0;
      }
      grant_vc<kPlain>(l, record, r, bit, port, round_robin(offered << output * l.num_vcs(), vc.output_vc + 1U));
      return requests;
    }
    Set won = 0;
    while (requests != 0) {
      const std::uint32_t bit = lowest(requests);
      const InputVc& vc = record.in[bit];
      const std::uint32_t output = vc.output;
      auto& port = record.ports[output];
      const Set same = requests & port.to;
      requests &= ~same;
      if (!single(same)) {
        won |= allocate_contended<kPlain>(l, record, r, same, output);
        continue;
      }
      const Set offered = kAnyVc ? port.free_vcs : port.free_vcs & vc.vcs;
      if (offered == 0) {
        l.n.park(first_id(r) + bit, l.now);
        continue;
      }
      grant_vc<kPlain>(l, record, r, bit, port, round_robin(offered << output * l.num_vcs(), vc.output_vc + 1U));
      won |= same;
    }
    return won;
  }

  // ---------------------------------------------------------------------------------------------- switch allocation

  // The input and the output port that a request occupies, as bits.
  struct SmallLanes {
    std::uint32_t bits = 0;
    SmallLanes() = default;
    COSIM_INLINE explicit SmallLanes(const InputVc& vc) : bits(vc.lanes) {}
    COSIM_INLINE SmallLanes& operator|=(const SmallLanes& other) {
      bits |= other.bits;
      return *this;
    }
    [[nodiscard]] COSIM_INLINE friend SmallLanes operator&(SmallLanes a, const SmallLanes& b) {
      a.bits &= b.bits;
      return a;
    }
    [[nodiscard]] COSIM_INLINE bool any() const { return bits != 0; }
  };
  template <class Set>
  struct LargeLanes {
    Set in = 0;
    Set out = 0;
    LargeLanes() = default;
    COSIM_INLINE explicit LargeLanes(const InputVc& vc) : in(bit_in<Set>(vc.port)), out(bit_in<Set>(vc.output)) {}
    COSIM_INLINE LargeLanes& operator|=(const LargeLanes& other) {
      in |= other.in;
      out |= other.out;
      return *this;
    }
    [[nodiscard]] COSIM_INLINE friend LargeLanes operator&(LargeLanes a, const LargeLanes& b) {
      a.in &= b.in;
      a.out &= b.out;
      return a;
    }
    [[nodiscard]] COSIM_INLINE bool any() const { return (in | out) != 0; }
  };

  // match_switch for two requests of one input, one output or both.
  template <class Record>
  static COSIM_INLINE typename Record::Set match_two(const Record& record, typename Record::Set requests) {
    const auto upper = requests & (requests - 1);
    const auto lower = requests ^ upper;
    const InputVc& a = record.in[lowest(lower)];
    const InputVc& b = record.in[lowest(upper)];
    std::uint32_t of_a = a.port;  // what the two differ in, and where the search for it begins
    std::uint32_t of_b = b.port;
    std::uint32_t last = record.ports[a.output].sa_input;
    if (of_a == of_b) {
      of_a = a.output;
      of_b = b.output;
      last = record.ports[a.port].sa_output;
      if (of_a == of_b) {
        of_a = a.vc;
        of_b = b.vc;
        last = record.ports[a.port].sa_vc;
      }
    }
    return round_robin(bit_in<typename Record::Set>(of_a) | bit_in<typename Record::Set>(of_b), last + 1U) == of_a
               ? lower
               : upper;
  }

  // Per input and output the first VC at or after the input's round robin is put forward; then iSLIP over the ports.
  // Returns the winners.
  template <class L>
  static COSIM_INLINE typename L::Set match_switch(const L& l, typename L::Record& record, typename L::Set requests) {
    using Set = typename L::Set;
    Set asking[L::Record::kMostPorts];  // inputs, per output
    Set outputs = 0;
    for (Set rest = requests; rest != 0; rest &= rest - 1) {
      const InputVc& vc = record.in[lowest(rest)];
      const std::uint32_t output = vc.output;
      if ((outputs >> output & 1U) == 0) asking[output] = 0;
      outputs |= bit_in<Set>(output);
      asking[output] |= bit_in<Set>(vc.port);
    }
    Set grants[L::Record::kMostPorts];  // outputs, per input
    Set granted = 0;
    for (Set rest = outputs; rest != 0; rest &= rest - 1) {
      const std::uint32_t output = lowest(rest);
      const std::uint32_t input = round_robin(asking[output], record.ports[output].sa_input + 1U);
      if ((granted >> input & 1U) == 0) grants[input] = 0;
      granted |= bit_in<Set>(input);
      grants[input] |= bit_in<Set>(output);
    }
    const Set vc_bits = bit_in<Set>(l.num_vcs()) - 1;
    Set winners = 0;
    for (Set rest = granted; rest != 0; rest &= rest - 1) {
      const std::uint32_t input = lowest(rest);
      const std::uint32_t output = round_robin(grants[input], record.ports[input].sa_output + 1U);
      const std::uint32_t shift = input * l.num_vcs();
      if constexpr (L::kForks) {
        std::uint32_t lanes[32];  // per VC
        std::uint32_t vcs = 0;
        for (Set each = requests & record.ports[output].to; each != 0; each &= each - 1) {
          const InputVc& vc = record.in[lowest(each)];
          if (vc.port != input) continue;
          vcs |= 1U << vc.vc;
          lanes[vc.vc] = lowest(each);
        }
        winners |= bit_in<Set>(lanes[round_robin(vcs, record.ports[input].sa_vc + 1U)]);
        continue;
      }
      const Set candidates = (requests & record.ports[output].to) >> shift & vc_bits;
      winners |= bit_in<Set>(shift + round_robin(candidates, record.ports[input].sa_vc + 1U));
    }
    return winners;
  }

  // Branches that send the same flit as a winner of their VC, to outputs that nobody won: the crossbar hands a flit to
  // several outputs at once.
  template <class Record>
  static typename Record::Set fan_out(const Record& record, typename Record::Set rivals, typename Record::Set winners) {
    using Set = typename Record::Set;
    Set taken = 0;  // outputs
    for (Set rest = winners; rest != 0; rest &= rest - 1) taken |= bit_in<Set>(record.in[lowest(rest)].output);
    Set more = 0;
    for (Set rest = rivals & ~winners; rest != 0; rest &= rest - 1) {
      const InputVc& lane = record.in[lowest(rest)];
      if ((taken >> lane.output & 1U) != 0) continue;
      for (Set each = winners; each != 0; each &= each - 1) {
        const InputVc& winner = record.in[lowest(each)];
        if (winner.port != lane.port || winner.vc != lane.vc || winner.front != lane.front) continue;
        taken |= bit_in<Set>(lane.output);
        more |= rest & (0 - rest);
        break;
      }
    }
    return more;
  }

  template <bool kForks>
  static COSIM_INLINE void eject(FlitNetwork& n, std::uint32_t terminal, std::uint32_t word, std::uint32_t sent) {
    const std::uint32_t slot = word & kPacketMask;
    Packet& packet = n.packets_[slot];
    const std::int64_t read = n.base_ + sent + kTerminalLinkLatency + 1;
    packet.flit_sum += read;
    ++n.ejected_flits_;
    ++n.ejected_at_[terminal];
    n.window_ejected_[terminal] += read >= n.window_begin_ && read < n.window_end_ ? 1 : 0;
    if (!n.watched_.empty() && n.watched_[terminal] != 0) {
      n.flit_arrivals_.push_back({packet.tag, read, packet.create, packet.inject,
                                  static_cast<std::int32_t>(packet.path >> 32U),
                                  static_cast<std::int32_t>(packet.path & ~0U)});
    }
    if constexpr (kForks) {
      if (n.reductions_ != nullptr && n.reductions_->has(slot)) {
        n.read_leg(slot, read, (word & kTail) != 0);
        return;
      }
    }
    if ((word & kTail) == 0) return;
    n.arrivals_.push_back({packet.tag, read, packet.create, packet.inject, packet.flit_sum, packet.source, packet.dest,
                           packet.size, packet.message_class, static_cast<std::int32_t>(packet.path >> 32U),
                           static_cast<std::int32_t>(packet.path & ~0U)});
    if constexpr (kForks) {
      if (n.retry_ != nullptr) n.arrivals_.back().retry_cycles = n.take_retries(slot);
      if (packet.copy != 0) {
        n.free_copy(slot);
        return;
      }
    }
    packet.next = n.free_packet_;
    n.free_packet_ = slot;
  }

  // Moves the front flit of an input VC: frees its slot, writes it downstream, books an ejection. Returns whether the
  // VC asks for the switch again in the next cycle.
  template <bool kPlain, class L>
  static COSIM_INLINE bool win_switch(const L& l, typename L::Record& record, std::uint32_t r, std::uint32_t bit) {
    FlitNetwork& n = l.n;
    InputVc& vc = record.in[bit];
    const std::uint32_t output = vc.output;
    const std::uint32_t input_port = vc.port;
    Port& in = record.ports[input_port];
    auto& to = record.ports[output];
    OutputVc& out = record.out[vc.output_vc];

    in.sa_vc = vc.vc;
    in.sa_output = as_u8(output);
    to.sa_input = as_u8(input_port);

    const std::uint32_t front = vc.front;
    std::uint32_t word = l.rings[front];
    const std::uint32_t freed = l.now + in.credit;
    [[maybe_unused]] Fork* fork = nullptr;
    [[maybe_unused]] const std::uint32_t parent = word & kPacketMask;
    bool last = true;  // the slot is freed
    if constexpr (L::kForks) {
      fork = &n.forks_[n.dense(n.first_lane(first_id(r) + bit))];
      if (fork->lanes != 0) last = n.send_branch(first_id(r) + bit, *fork, word);
    }
    if (!L::kForks || last) {
      l.rings[front] = freed;
      if constexpr (sim::kFaultsCompiled) {
        if (n.fault_ == sim::Fault::drop_credit && --n.fault_countdown_ == 0) l.rings[front] = kNeverFree;
      }
      if ((word & kWaiter) != 0) n.wake_upstream(in, vc.vc, freed);
    }
    vc.front = l.after(front);
    const std::uint32_t visible = --vc.visible;
    ++out.flits;

    const std::uint32_t write = out.write;
    const std::uint32_t sent = !kPlain && n.batched_ ? n.batched_send(r, output, l.now) : l.now + n.traversal_;
    bool lost = false;
    if constexpr (sim::kFaultsCompiled) lost = n.fault_ == sim::Fault::lose_flit && --n.fault_countdown_ == 0;
    if (!lost) {
      out.write = l.after(write);
      if (to.terminal != kNoLink) {
        l.rings[write] = sent + n.ejection_reuse_;
        eject<L::kForks>(n, to.terminal, word, sent);
      } else {
        l.rings[write] = word & ~kWaiter;
        if (!L::kForks || n.retry_ == nullptr) {
          l.arrive(sent + to.link_time, out.down);
        } else {
          n.send_with_retry(r, output, sent, out.down, word);
        }
      }
    }

    if ((word & kTail) == 0) return visible != 0;
    if constexpr (L::kForks) {
      if (n.sessions_ != nullptr && to.terminal == kNoLink) {
        n.sessions_->passed(r * as_u32(n.spec_.ports) + output, n.cycle_, n.base_ + sent + to.link_time);
      }
    }
    if (!kPlain && n.wait_for_tail_) {
      n.release_later(first_id(r) + bit, vc.output_vc, sent, l.rings[front]);
    } else {
      to.free_vcs |= out.bit;
    }
    to.to &= ~bit_in<typename L::Set>(bit);
    if ((record.masks.parked & to.to) != 0) n.unpark(r, output, l.now);
    vc.output = kNoPort;
    if constexpr (L::kForks) {
      if (fork->lanes != 0) {
        fork->pending &= ~vc_bit(bit);
        if (fork->pending != 0) return false;
        const std::uint32_t first = n.first_lane(first_id(r) + bit);
        n.end_fork(first, *fork, parent, vc);
        if (visible != 0) route_head<kPlain, 2>(l, r, bit_of(first), record.in[bit_of(first)], record);
        return false;
      }
    }
    if (visible == 0) return false;
    if (!kPlain && n.routing_ != nullptr) {
      n.wake_at(l.now + 1, kRoute, first_id(r) + bit);
    } else {
      route_head<kPlain, 2>(l, r, bit, vc, record);
    }
    return false;
  }

  // Returns the VCs that ask again in the next cycle.
  template <bool kPlain, class L>
  static COSIM_INLINE typename L::Set allocate_switch(const L& l, typename L::Record& record, std::uint32_t r,
                                                      typename L::Set requests) {
    using Set = typename L::Set;
    using Lanes =
        typename std::conditional_t<std::is_same_v<typename L::Record, SmallRecord>, SmallLanes, LargeLanes<Set>>;
    if (kPlain && single(requests)) {
      const std::uint32_t bit = lowest(requests);
      if (l.rings[record.out[record.in[bit].output_vc].write] <= l.now) {
        return win_switch<kPlain>(l, record, r, bit) ? requests : 0;
      }
      l.n.block(first_id(r) + bit, l.now);
      return 0;
    }
    Lanes used;
    Lanes clash;  // lanes asked for twice
    for (Set rest = requests; rest != 0; rest &= rest - 1) {
      const std::uint32_t bit = lowest(rest);
      const InputVc& vc = record.in[bit];
      std::uint32_t slot = record.out[vc.output_vc].write;
      if (!kPlain && l.n.any_gap_) slot = l.n.credit_slot(slot, l.n.gap(r, vc.output));
      if (l.rings[slot] > l.now) {
        l.n.block(first_id(r) + bit, l.now);
        requests &= ~bit_in<Set>(bit);
        continue;
      }
      const Lanes lanes(vc);
      clash |= used & lanes;
      used |= lanes;
    }
    Set again = 0;
    if (clash.any()) {
      Set rivals = 0;
      for (Set rest = requests; rest != 0; rest &= rest - 1) {
        if ((clash & Lanes(record.in[lowest(rest)])).any()) rivals |= rest & (0 - rest);
      }
      const bool two = single(rivals & (rivals - 1));
      Set winners = two ? match_two(record, rivals) : match_switch(l, record, rivals);
      if constexpr (L::kForks) winners |= fan_out(record, rivals, winners);
      again = rivals & ~winners;
      for (Set rest = again; rest != 0; rest &= rest - 1) {
        ++l.n.stalls_[std::size_t{r} * l.n.vcs_per_router_ + record.in[lowest(rest)].output_vc].lost_switch;
      }
      requests &= ~again;
    }
    for (; requests != 0; requests &= requests - 1) {
      const bool more = win_switch<kPlain>(l, record, r, lowest(requests));
      if (more) again |= requests & (0 - requests);
    }
    return again;
  }

  // ------------------------------------------------------------------------------------------------- both allocations

  // VC allocation of a router; whether a head that won asks for the switch in the next cycle.
  template <bool kPlain, class L>
  static COSIM_INLINE bool allocate_heads(const L& l, std::uint32_t r) {
    using Set = typename L::Set;
    auto& record = l.records[r];
    const Set requests = record.masks.va[l.even];
    record.masks.va[l.even] = 0;
    if (!kPlain && l.n.traits_.several) {
      l.n.allocate_several(r, requests, l.now);
      return false;
    }
    const Set won = allocate_vcs<kPlain>(l, record, r, requests);
    if (!kPlain && l.n.sa_delay_ != 1) return false;
    record.masks.sa[l.odd] |= won;
    return won != 0;
  }

  // Switch allocation of a router; whether a VC asks again in the next cycle.
  template <bool kPlain, class L>
  static COSIM_INLINE bool allocate_flits(const L& l, std::uint32_t r) {
    using Set = typename L::Set;
    auto& record = l.records[r];
    const Set requests = record.masks.sa[l.even];
    record.masks.sa[l.even] = 0;
    const Set again = allocate_switch<kPlain>(l, record, r, requests);
    record.masks.sa[l.odd] |= again;
    return again != 0;
  }

  // Takes the routers of a set, by words of 64 bits; those whose `allocate` says so ask for the switch next.
  template <class L, class Allocate>
  static COSIM_INLINE void run_allocation(const L& l, std::uint64_t* set, Allocate allocate) {
    for (std::size_t word = 0; word < l.n.router_words_; ++word) {
      std::uint64_t rest = std::exchange(set[word], 0);
      if (rest == 0) continue;
      std::uint64_t next = 0;
      for (; rest != 0; rest &= rest - 1) {
        if (allocate(static_cast<std::uint32_t>(word) * 64 + lowest(rest))) next |= rest & (0 - rest);
      }
      l.sa_next[word] |= next;
    }
  }

  // What the allocations of a router read is a chain too: masks and ports, input VCs, output VCs and slots, slots
  // downstream, and of a head that comes to the front its packet. Each call fetches a link of the chain of a router
  // further down the list.
  template <class L>
  static COSIM_INLINE void fetch_large_router(const L& l, std::uint32_t i, std::uint32_t end) {
    const std::uint32_t* work = l.n.at_work_.data();
    if (i + 7 < end) {
      const auto& record = l.records[work[i + 7]];
      const char* const end_of_ports = reinterpret_cast<const char*>(record.ports + l.n.ports_);
      for (const char* at = reinterpret_cast<const char*>(&record); at < end_of_ports; at += sim::kCacheLine) fetch(at);
    }
    if (i + 6 < end) {
      const auto& record = l.records[work[i + 6]];
      for (auto rest = record.masks.va[l.even] | record.masks.sa[l.even]; rest != 0; rest &= rest - 1) {
        fetch(&record.in[lowest(rest)]);
      }
    }
    if (i + 5 < end) {
      const auto& record = l.records[work[i + 5]];
      const auto heads = record.masks.va[l.even];
      for (auto rest = heads; rest != 0; rest &= rest - 1) {
        const std::uint32_t first = record.in[lowest(rest)].output * l.num_vcs();
        fetch(&record.out[first]);
        fetch(&record.out[first + l.num_vcs() - 1]);
        if (!single(heads)) fetch(&l.n.stalls_[std::size_t{work[i + 5]} * l.n.vcs_per_router_ + first]);
      }
      for (auto rest = record.masks.sa[l.even]; rest != 0; rest &= rest - 1) {
        const InputVc& vc = record.in[lowest(rest)];
        fetch(&l.rings[vc.front]);
        fetch(&record.out[vc.output_vc]);
      }
    }
    if (i + 3 < end) {
      const auto& record = l.records[work[i + 3]];
      for (auto rest = record.masks.sa[l.even]; rest != 0; rest &= rest - 1) {
        const InputVc& vc = record.in[lowest(rest)];
        fetch(&l.rings[record.out[vc.output_vc].write]);
        if (vc.visible > 1) {
          fetch(&l.packets[l.rings[l.after(vc.front)] & kPacketMask]);
        } else if (record.ports[vc.output].terminal != kNoLink) {
          fetch(&l.packets[l.rings[vc.front] & kPacketMask]);
        }
      }
    }
  }

  // By four lines: one or the other behind the end too.
  static COSIM_INLINE void fetch_lines(const void* first, const void* end) {
    const char* const last = static_cast<const char*>(end);
    for (const char* at = static_cast<const char*>(first); at < last; at += 4 * sim::kCacheLine) {
      fetch(at);
      fetch(at + sim::kCacheLine);
      fetch(at + 2 * sim::kCacheLine);
      fetch(at + 3 * sim::kCacheLine);
    }
  }

  // The allocations of a router find in its record what they read next. Small records are fetched whole: to look which
  // of their lines will be used takes more than to fetch all. What a packet that comes to the front reads is fetched
  // once its record is there.
  template <class L>
  static COSIM_INLINE void fetch_router(const L& l, std::uint32_t i, std::uint32_t end) {
    const std::uint32_t* work = l.n.at_work_.data();
    if constexpr (std::is_same_v<typename L::Record, SmallRecord>) {
      if (i + 3 < end) {
        const auto& record = l.records[work[i + 3]];
        fetch_lines(&record, record.ports + l.n.ports_);
        fetch_lines(record.in, record.in + l.n.vcs_per_router_);
        fetch_lines(record.out, record.out + l.n.vcs_per_router_);
      }
    } else {
      fetch_large_router(l, i, end);
    }
    if (i + 1 < end) {
      const auto& record = l.records[work[i + 1]];
      for (auto rest = record.masks.sa[l.even]; rest != 0; rest &= rest - 1) {
        const InputVc& vc = record.in[lowest(rest)];
        if (vc.visible > 1) fetch_route(l, work[i + 1], l.packets[l.rings[l.after(vc.front)] & kPacketMask]);
      }
    }
  }

  // Nothing that one router does is seen by another in the same cycle, so both allocations of a router may follow each
  // other; passes of their own take fewer instructions.
  template <bool kPlain, class L>
  static COSIM_INLINE void run_allocations(const L& l) {
    if constexpr (L::kFetches) {
      const std::uint32_t end = list_work(l, l.n.router_words_, [&](std::size_t word) {
        return std::exchange(l.va_now[word], 0) | std::exchange(l.sa_now[word], 0);
      });
      for (std::uint32_t i = 0; i < end; ++i) {
        if (l.far()) fetch_router(l, i, end);
        const std::uint32_t r = l.n.at_work_[i];
        const auto& masks = l.records[r].masks;
        bool next = false;
        if (masks.va[l.even] != 0) next = allocate_heads<kPlain>(l, r);
        if (masks.sa[l.even] != 0) next |= allocate_flits<kPlain>(l, r);
        if (next) l.sa_next[r >> 6U] |= bit64(r & 63U);
      }
    } else {
      run_allocation(l, l.va_now,
                     [&](std::uint32_t r) __attribute__((always_inline)) { return allocate_heads<kPlain>(l, r); });
      run_allocation(l, l.sa_now,
                     [&](std::uint32_t r) __attribute__((always_inline)) { return allocate_flits<kPlain>(l, r); });
    }
  }

  // Both allocations of every router at work, by allocators of any kind.
  template <class L>
  static COSIM_INLINE void run_allocators(const L& l) {
    for (std::size_t word = 0; word < l.n.router_words_; ++word) {
      std::uint64_t rest = l.va_now[word] | l.sa_now[word];
      l.va_now[word] = l.sa_now[word] = 0;
      for (; rest != 0; rest &= rest - 1) {
        const std::uint32_t r = static_cast<std::uint32_t>(word) * 64 + lowest(rest);
        auto& record = l.records[r];
        const auto heads = std::exchange(record.masks.va[l.even], 0);
        const auto flits = std::exchange(record.masks.sa[l.even], 0);
        const Moves moves = l.n.allocate(r, heads, flits, l.now);
        auto again = moves.again;
        for (auto each = moves.winners; each != 0; each &= each - 1) {
          if (win_switch<false>(l, record, r, lowest(each))) again |= each & (0 - each);
        }
        record.masks.sa[l.odd] |= static_cast<typename L::Set>(again);
        if (again != 0) l.sa_next[word] |= rest & (0 - rest);
      }
    }
  }

  template <bool kPlain, std::uint32_t kVcs = 0, std::uint32_t kRing = 0, bool kForks = false, bool kAllocators = false,
            Fetch kFetch = Fetch::either, bool kWays = false, class Record>
  static COSIM_INLINE void run(FlitNetwork& n, Record* records, std::uint32_t now) {
    const Local<Record, kVcs, kRing, kForks, kFetch, kWays> l(n, records, now);
    run_arrivals<kPlain>(l);
    if (!kPlain && n.routing_ != nullptr) {
      n.run_ticks();
      n.route_arrived(now);
    }
    run_sources<kPlain>(l);
    if (!kPlain && n.routing_ != nullptr) n.ask_again(now);
    if constexpr (kAllocators) {
      run_allocators(l);
    } else {
      run_allocations<kPlain>(l);
    }
    if (!kPlain && n.routing_ != nullptr) n.judge_progress();
  }

  struct Shape {
    bool small = false;
    bool wide = false;
    bool forks = false;
    bool allocators = false;
    bool plain = false;
    bool ways = false;
    bool common = false;
    bool far = false;
  };

  // COSIM_SHAPES(name, attribute) defines a cycle for every shape, and which it is; the first is that of the default
  // configuration.
#define COSIM_SHAPES(suffix, attribute)                                                                                \
  attribute static void common##suffix(FlitNetwork& n, std::uint32_t now) {                                            \
    run<true, 4, 8, false, false, Fetch::no>(n, n.small_.data(), now);                                                 \
  }                                                                                                                    \
  attribute static void common_far##suffix(FlitNetwork& n, std::uint32_t now) {                                        \
    run<true, 4, 8, false, false, Fetch::yes>(n, n.small_.data(), now);                                                \
  }                                                                                                                    \
  attribute static void ways##suffix(FlitNetwork& n, std::uint32_t now) {                                              \
    run<true, 0, 0, false, false, Fetch::no, true>(n, n.small_.data(), now);                                           \
  }                                                                                                                    \
  attribute static void ways_far##suffix(FlitNetwork& n, std::uint32_t now) {                                          \
    run<true, 0, 0, false, false, Fetch::yes, true>(n, n.small_.data(), now);                                          \
  }                                                                                                                    \
  attribute static void small_plain##suffix(FlitNetwork& n, std::uint32_t now) { run<true>(n, n.small_.data(), now); } \
  attribute static void small_any##suffix(FlitNetwork& n, std::uint32_t now) {                                         \
    run<false, 0, 0, false, false, Fetch::no>(n, n.small_.data(), now);                                                \
  }                                                                                                                    \
  attribute static void small_any_far##suffix(FlitNetwork& n, std::uint32_t now) {                                     \
    run<false>(n, n.small_.data(), now);                                                                               \
  }                                                                                                                    \
  attribute static void large_plain##suffix(FlitNetwork& n, std::uint32_t now) { run<true>(n, n.large_.data(), now); } \
  attribute static void large_any##suffix(FlitNetwork& n, std::uint32_t now) { run<false>(n, n.large_.data(), now); }  \
  attribute static void wide_any##suffix(FlitNetwork& n, std::uint32_t now) { run<false>(n, n.wide_.data(), now); }    \
  attribute static void large_forking##suffix(FlitNetwork& n, std::uint32_t now) {                                     \
    run<false, 0, 0, true>(n, n.large_.data(), now);                                                                   \
  }                                                                                                                    \
  attribute static void wide_forking##suffix(FlitNetwork& n, std::uint32_t now) {                                      \
    run<false, 0, 0, true>(n, n.wide_.data(), now);                                                                    \
  }                                                                                                                    \
  attribute static void small_allocators##suffix(FlitNetwork& n, std::uint32_t now) {                                  \
    run<false, 0, 0, false, true>(n, n.small_.data(), now);                                                            \
  }                                                                                                                    \
  attribute static void large_allocators##suffix(FlitNetwork& n, std::uint32_t now) {                                  \
    run<false, 0, 0, false, true>(n, n.large_.data(), now);                                                            \
  }                                                                                                                    \
  attribute static void wide_allocators##suffix(FlitNetwork& n, std::uint32_t now) {                                   \
    run<false, 0, 0, false, true>(n, n.wide_.data(), now);                                                             \
  }                                                                                                                    \
  attribute static CycleFunction shape##suffix(const Shape& shape) {                                                   \
    if (shape.forks) return shape.wide ? wide_forking##suffix : large_forking##suffix;                                 \
    if (shape.allocators && shape.small) return small_allocators##suffix;                                              \
    if (shape.allocators) return shape.wide ? wide_allocators##suffix : large_allocators##suffix;                      \
    if (shape.common) return shape.far ? common_far##suffix : common##suffix;                                          \
    if (shape.ways) return shape.far ? ways_far##suffix : ways##suffix;                                                \
    if (shape.wide) return wide_any##suffix;                                                                           \
    if (shape.plain) return shape.small ? small_plain##suffix : large_plain##suffix;                                   \
    if (shape.small) return shape.far ? small_any_far##suffix : small_any##suffix;                                     \
    return large_any##suffix;                                                                                          \
  }

  COSIM_SHAPES(, )
#if defined(__x86_64__)
  COSIM_SHAPES(_bmi, __attribute__((target("bmi,bmi2,lzcnt,popcnt"))))
#endif
#undef COSIM_SHAPES
};

bool FlitNetwork::send_of_class(std::uint32_t terminal, std::uint32_t message_class, std::uint32_t now) {
  const Cycle::Local<SmallRecord, 0, 0> l(*this, small_.data(), now);  // the records are not looked at
  return Cycle::send<false>(l, terminal, message_class);
}

FlitNetwork::CycleFunction FlitNetwork::choose_cycle([[maybe_unused]] bool portable) const {
  if (models_ != nullptr) return run_models;
  const std::uint32_t all_vcs = num_vcs_ == 32 ? ~0U : (1U << num_vcs_) - 1U;
  const bool simple = routing_ == nullptr && num_classes_ == 1 && class_masks_[0] == all_vcs && static_classes_ == 0 &&
                      !any_gap_ && !batched_ && va_delay_ == 1 && sa_delay_ == 1 && !wait_for_tail_ && changes_.empty();
  Cycle::Shape shape;
  shape.small = !small_.empty();
  shape.wide = !wide_.empty();
  shape.forks = !forks_.empty();
  shape.allocators = allocation_ != nullptr;
  shape.ways = simple && shape.small && ways_ != nullptr;
  shape.plain = simple && ways_ == nullptr && vc_sets_.size() == 1 && (vc_sets_[0] & all_vcs) == all_vcs;
  shape.common = shape.plain && shape.small && num_vcs_ == 4 && ring_mask_ == 7;
  shape.far = far_;
#if defined(__x86_64__)
  if (!portable && __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0) {
    return Cycle::shape_bmi(shape);
  }
#endif
  return Cycle::shape(shape);
}

}  // namespace cosim::noc
