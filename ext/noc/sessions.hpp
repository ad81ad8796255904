// Sessions of the collaborative memory network (CMN): links leave packet mode together, carry a stream from one node
// to many at a flit per cycle, and return.
//
// A packet of a session class has a source and a set of nodes. When it is the first of its source it asks the arbiter
// for the links of its tree, for the source's forwarding unit (DFU) and for the receiving unit (DRU) of every node.
// Sessions are granted in the order in which they asked: one that is held up by another one waits, and so does a later
// one that needs something an earlier one waits for; others pass. A granted session first lets its links drain:
// sources send no new packet over them, packets in the network go on. When none that has yet to pass is left the links
// are detached; the stream begins setup_cycles later. It carries the packets of the source for this set one behind the
// other, waits up to idle_cycles for a further one, and ends when another set is next or when the next packet would
// hold the links for more than max_session_cycles. They return teardown_cycles after the last flit has been read, and
// packets have them for at least one cycle before the next session takes them.
//
// Flit i of a packet that leaves at t is read by a node at t + i + hops x segment_delay + links + 3. All of a packet is
// known when it leaves, so a session costs an event per packet and none per flit.
//
// Why this does not deadlock: a session that streams waits for nothing and returns its links in bounded time. One that
// drains waits for packets in the network alone. These wait for each other as the routing lets them, which is free of
// deadlock, and never for a session: only packets that have not left their source do. No packet joins those that a
// draining session waits for, so it does not wait for ever. Sessions that wait hold nothing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "noc/packet.hpp"
#include "noc/spec.hpp"
#include "sim/faults.hpp"
#include "sim/visit.hpp"

namespace cosim::noc {

// A node of a session's tree.
struct SessionStop {
  std::int32_t dest = 0;
  std::int32_t hops = 0;         // routers on the way, the destination's included
  std::int32_t link_cycles = 0;  // of the links between them
  std::int32_t reserved = 0;
};

// A source with a set of nodes, and what a session of them owns.
struct SessionTree {
  std::int32_t source = 0;
  std::uint32_t first_resource = 0;  // links first, then the units
  std::uint32_t resources = 0;
  std::uint32_t links = 0;
  std::uint32_t first_stop = 0;  // ascending in nodes
  std::uint32_t stops = 0;
  std::int64_t reach_cycles = 0;  // from a flit's leaving to its reading by the last node
};

// The trees of a network: of every source the shortest ways by latency, of equal ones that of the router reached first,
// lowest port first: on a mesh dimension order.
class SessionTrees {
 public:
  explicit SessionTrees(const NetworkSpec& spec);

  // The tree's number; trees are kept. Throws std::invalid_argument with the reason when there is none.
  std::uint32_t tree(std::int32_t source, std::vector<std::int32_t> dests);

  [[nodiscard]] const SessionTree& at(std::uint32_t number) const { return trees_[number]; }
  [[nodiscard]] std::size_t count() const { return trees_.size(); }
  [[nodiscard]] std::uint32_t resource(std::uint32_t number) const { return resources_[number]; }
  [[nodiscard]] const SessionStop& stop(std::uint32_t number) const { return stops_[number]; }
  // Links are [router * ports + port]; behind them a forwarding and a receiving unit per node.
  [[nodiscard]] std::size_t links() const { return links_; }
  [[nodiscard]] std::size_t resource_count() const { return links_ + 2 * terminals_; }
  // Largest packet of a session of this tree that returns its links in time; 0: none does.
  [[nodiscard]] std::int64_t room(std::uint32_t number) const;
  // The links of a tree as (router, port), ascending.
  [[nodiscard]] std::vector<std::pair<std::int32_t, std::int32_t>> links_of(std::uint32_t number) const;

  [[nodiscard]] std::size_t core_bytes() const;
  void visit(sim::Visitor& v);

 private:
  struct Edge {
    std::int32_t to = -1;  // router behind the link
    std::int32_t latency = 0;
  };
  struct Way {  // from a source's router to this one
    std::int64_t latency = -1;
    std::int32_t hops = 0;
    std::uint32_t link = 0;  // the last on the way
    std::int32_t from = -1;  // its router
  };
  [[nodiscard]] std::vector<Way> ways_from(std::int32_t router) const;

  SessionSpec spec_;
  std::size_t ports_ = 0;
  std::size_t links_ = 0;
  std::size_t terminals_ = 0;
  std::vector<Edge> edges_;  // [router * ports + port]
  std::vector<std::int32_t> router_of_;

  std::vector<SessionTree> trees_;
  std::vector<std::uint32_t> resources_;
  std::vector<SessionStop> stops_;
  std::vector<std::uint32_t> sorted_;  // trees by source and nodes
};

// What became of a session.
struct SessionRecord {
  std::int32_t source = 0;
  std::uint32_t tree = 0;
  std::int64_t ask_cycle = 0;
  std::int64_t grant_cycle = 0;   // its links drain from here on
  std::int64_t detach_cycle = 0;  // they carry no packet any more: set-up begins
  std::int64_t return_cycle = 0;  // packets may use them again
  std::int64_t packets = 0;
  std::int64_t flits = 0;  // that the source sent
};

class Sessions {
 public:
  explicit Sessions(const NetworkSpec& spec);

  [[nodiscard]] SessionTrees& trees() { return trees_; }
  [[nodiscard]] const SessionTrees& trees() const { return trees_; }

  // Queues a packet of group `packet.group`, a tree of its source that has room for it.
  void offer(const PacketIn& packet);
  // The first cycle at which step() changes anything.
  [[nodiscard]] std::int64_t next() const { return next_; }
  // Advances to `cycle` <= next(). Returns whether links have returned to the packets.
  bool step(std::int64_t cycle, std::vector<Arrival>& arrivals, std::vector<Departure>& departures,
            std::vector<SessionWait>& waits, std::vector<Refusal>& refusals);

  // Whether packets must not start over `link`.
  [[nodiscard]] bool taken(std::size_t link) const { return owner_[link] >= 0; }
  [[nodiscard]] bool any_taken() const { return !running_.empty(); }
  // A packet that has left its source will pass `link`; its tail has, and is off the link at `clear`.
  void expect(std::size_t link) { ++due_[link]; }
  void passed(std::size_t link, std::int64_t now, std::int64_t clear);

  [[nodiscard]] bool idle() const { return packets_left_ == 0 && running_.empty(); }
  [[nodiscard]] std::int64_t packets_left() const { return packets_left_; }
  // Drops packets that have not left; returns how many.
  std::int64_t cancel_queued();

  [[nodiscard]] std::int64_t asked() const { return asked_; }
  [[nodiscard]] std::int64_t refused() const { return refused_; }
  [[nodiscard]] std::int64_t flit_hops() const { return flit_hops_; }  // flits times routers of their trees
  // Per link [router * ports + port]: flits of sessions, and cycles for which it was out of packet mode.
  [[nodiscard]] const std::vector<std::int64_t>& flits() const { return link_flits_; }
  [[nodiscard]] const std::vector<std::int64_t>& detached_cycles() const { return link_cycles_; }
  // Sessions that have ended since the owner last cleared them.
  [[nodiscard]] std::vector<SessionRecord>& records() { return records_; }

  // The first broken law in words, empty when all hold.
  [[nodiscard]] std::string verify(bool network_empty) const;
  // Who waits for links, as text; empty when nobody does.
  [[nodiscard]] std::string waiting() const;
  [[nodiscard]] std::size_t core_bytes() const;
  void visit(sim::Visitor& v);

 private:
  static constexpr std::uint32_t kNone = ~0U;
  struct Packet {
    std::int64_t create = 0;
    std::uint64_t tag = 0;
    std::uint32_t tree = 0;
    std::int32_t size = 0;
    std::int32_t message_class = 0;
    std::uint32_t next = kNone;  // of its source, or free
  };
  struct Source {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
    std::int64_t first_since = 0;  // the first packet has been that, but for its creation
    std::int32_t session = -1;
    std::int32_t reserved = 0;
  };
  enum Phase : std::int32_t { kWaiting = 0, kDraining = 1, kStreaming = 2, kReturning = 3 };
  struct Session {
    SessionRecord record;
    std::int64_t at = kNoEvent;  // what is next: start of a stream or packet, end of the wait for one, return
    std::int64_t busy_until = 0;
    std::int64_t last_read = 0;
    Phase phase = kWaiting;
    std::int32_t reserved = 0;
  };

  void ask(std::int64_t cycle);
  void grant(std::int64_t cycle);
  bool refuse(std::int64_t cycle, std::vector<Refusal>& refusals);
  void drain(Session& s, std::int64_t cycle);
  void stream(Session& s, std::int64_t cycle, std::vector<Arrival>& arrivals, std::vector<Departure>& departures,
              std::vector<SessionWait>& waits);
  void give_back(std::int32_t number);
  void pop(Source& source, std::int64_t since);

  SessionSpec spec_;
  SessionTrees trees_;
  std::vector<Packet> packets_;
  std::uint32_t free_packet_ = kNone;
  std::vector<Source> sources_;        // per node
  std::vector<std::int32_t> pending_;  // nodes with packets and without a session, ascending
  std::vector<Session> sessions_;      // slots
  std::vector<std::int32_t> free_;     // of them
  std::vector<std::int32_t> order_;    // sessions that wait, in the order in which they asked
  std::vector<std::int32_t> running_;  // sessions that own links
  std::vector<std::int32_t> owner_;    // session per resource, -1
  std::vector<std::uint8_t> claimed_;  // per resource, while grants are made
  std::vector<std::int32_t> due_;      // per link: packets in the network that have yet to pass
  std::vector<std::int64_t> clear_;    // per link: it carries no flit of those that have passed from here on
  sim::Fault fault_ = sim::Fault::none;
  std::int64_t fault_countdown_ = 0;
  std::int64_t next_ = kNoEvent;
  std::int64_t packets_left_ = 0;  // not refused and not sent
  std::int64_t asked_ = 0;         // packets offered
  std::int64_t sent_ = 0;
  std::int64_t refused_ = 0;
  std::int64_t cancelled_ = 0;
  std::int64_t sent_flits_ = 0;
  std::int64_t due_deliveries_ = 0;  // of what was sent: flits times nodes ...
  std::int64_t deliveries_ = 0;      // ... and as they were booked
  std::int64_t flit_hops_ = 0;
  std::int64_t shared_ = 0;  // resources granted while another session owned them
  std::vector<std::int64_t> link_flits_;
  std::vector<std::int64_t> link_cycles_;
  std::vector<SessionRecord> records_;
};

}  // namespace cosim::noc
