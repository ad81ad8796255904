// In-network reduction: packets of several nodes for one node are summed where their ways join.
//
// The ways of a route table to one destination form a tree. Where two or more of them join, the router's reduction unit
// sums them: it is attached to ports of the router of its own, reads the packets that come together there
// (contributions, or sums made further up) flit by flit, and sends one sum on towards the destination. Flit i of a sum
// leaves combine_delay cycles after flit i of the last of its parts has been read, or later. Every link of the tree
// carries the packet once.
//
// What goes from one of these places to the next is a packet of its own, a leg. So a router knows nothing of
// reductions but where a leg ends.
//
// Why this does not deadlock: a unit reads what comes, always (it holds a partial sum per reduction that passes it; how
// many it held at once is counted). A sum begins when the first flit of all of its parts has been read. By then these
// own every VC up to the unit, nothing stands before them in these, and the unit takes their flits: they come, and by
// the same token so do the sum's, as deep as the tree may be. So no leg waits for anything but the next channel of its
// way, and these follow the routes of unicasts to the destination: a table without a cycle of channel dependencies
// stays free of deadlock.
//
// A contribution carries a number that its reduction and source determine; units add these numbers. The destination
// must read the sum of all of them: a law.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "noc/packet.hpp"
#include "noc/spec.hpp"
#include "sim/faults.hpp"
#include "sim/visit.hpp"

namespace cosim::noc {

// The way of a packet from a source, or of a sum from a unit, to the next unit or the destination.
struct ReductionLeg {
  static constexpr std::uint32_t kToDestination = ~0U;
  std::uint32_t join = kToDestination;  // where it ends
  std::uint32_t unit = 0;               // router * unit ports + port that reads it there
};

// Where legs join: a router of the tree with several ways in.
struct ReductionJoin {
  std::uint32_t router = 0;
  std::uint32_t first_part = 0;  // into parts(): its legs
  std::uint32_t parts = 0;
  std::uint32_t unit = 0;  // that sends the sum
};

struct ReductionTree {
  std::int32_t dest = 0;
  std::uint32_t first_source = 0;  // ascending
  std::uint32_t sources = 0;
  std::uint32_t first_leg = 0;   // a leg per source, then one per join
  std::uint32_t first_join = 0;  // upstream first
  std::uint32_t joins = 0;
};

// The trees of a network's route table.
class ReductionTrees {
 public:
  explicit ReductionTrees(const NetworkSpec& spec);

  // The tree's number; trees are kept. Throws std::invalid_argument with the reason when there is none.
  std::uint32_t tree(std::int32_t dest, std::vector<std::int32_t> sources);

  [[nodiscard]] std::size_t count() const { return trees_.size(); }
  [[nodiscard]] const ReductionTree& at(std::uint32_t number) const { return trees_[number]; }
  [[nodiscard]] std::int32_t source(std::uint32_t number) const { return sources_[number]; }
  [[nodiscard]] const ReductionLeg& leg(std::uint32_t number) const { return legs_[number]; }
  [[nodiscard]] const ReductionJoin& join(std::uint32_t number) const { return joins_[number]; }
  [[nodiscard]] std::uint32_t part(std::uint32_t number) const { return parts_[number]; }

  [[nodiscard]] std::size_t core_bytes() const;
  void visit(sim::Visitor& v);

 private:
  [[nodiscard]] std::vector<std::uint32_t> way_from(std::int32_t source, std::int32_t dest) const;

  // of the network, never changed
  std::size_t ports_ = 0;
  std::size_t terminals_ = 0;
  std::uint32_t unit_ports_ = 0;
  std::vector<std::int32_t> behind_;  // [router * ports + port]: the router behind the link, -1: none
  std::vector<std::int32_t> router_of_;
  RouteTable routes_;

  std::vector<ReductionTree> trees_;
  std::vector<std::uint32_t> sorted_;  // by destination and sources
  std::vector<std::int32_t> sources_;
  std::vector<ReductionLeg> legs_;
  std::vector<ReductionJoin> joins_;
  std::vector<std::uint32_t> parts_;
};

// What a router's unit did.
struct ReductionUnit {
  std::int64_t sums = 0;
  std::int64_t parts = 0;      // packets read
  std::int64_t most_open = 0;  // partial sums held at once
  std::int64_t open = 0;
};

// The reductions on their way, and the units' partial sums.
class Reductions {
 public:
  explicit Reductions(const NetworkSpec& spec);

  // A part of a reduction at the end of its leg has just raised what its sum may send.
  struct Progress {
    std::uint32_t sum = 0;
    bool more = false;  // a further flit of the sum may leave combine_delay cycles after this one was read
    bool end = false;   // the destination has read the tail: finish()
  };

  [[nodiscard]] ReductionTrees& trees() { return trees_; }
  [[nodiscard]] const ReductionTrees& trees() const { return trees_; }

  // A reduction of this tree, of packets of `size` flits of one class. Its sources offer one packet each.
  std::uint32_t begin(std::uint32_t tree, std::int32_t size, std::int32_t message_class);
  // Why `packet` is none of reduction `packet.group`; empty when it is one.
  [[nodiscard]] std::string wrong(const PacketIn& packet) const;
  // The packet in `slot` is the contribution of its source.
  void offer(const PacketIn& packet, std::uint32_t slot);
  // Names what is in a packet's slot: nothing of a reduction.
  void forget(std::uint32_t slot);
  // The unit that reads the leg in `slot`, kNoUnit for the destination.
  static constexpr std::uint32_t kNoUnit = ~0U;
  [[nodiscard]] std::uint32_t unit_of(std::uint32_t slot) const;
  [[nodiscard]] bool has(std::uint32_t slot) const { return slot < leg_of_.size() && leg_of_[slot] != kNone; }
  // The first flit of a contribution has left its source: it is not cancelled any more.
  void leave(std::uint32_t slot);
  [[nodiscard]] bool under_way(std::uint32_t slot) const;
  // A contribution that has not left is taken back, with the others of its reduction.
  void cancel(std::uint32_t slot);

  // A flit of the leg in `slot` is read at cycle `read`; `tail` with what its packet knows then.
  struct Tail {
    std::int64_t create = 0;
    std::int64_t inject = 0;
    std::int64_t flit_sum = 0;  // reads - leavings of its flits
    std::uint64_t path = 0;
    std::uint64_t tag = 0;
  };
  Progress read(std::uint32_t slot, std::int64_t read, const Tail* tail);

  // One more flit of a sum may leave at `cycle`. The first one makes a packet, which the network puts in `slot_of()`.
  struct Ready {
    bool first = false;
    std::int32_t dest = 0;
    std::int32_t size = 0;
    std::int32_t message_class = 0;
    std::uint32_t source_unit = 0;
    std::uint32_t unit = kNoUnit;  // that reads it
  };
  [[nodiscard]] Ready ready(std::uint32_t sum, std::int64_t cycle);
  void put(std::uint32_t sum, std::uint32_t slot);
  [[nodiscard]] std::uint32_t slot_of(std::uint32_t sum) const { return sums_[sum].slot; }

  // The contributions of the reduction whose last leg, in `slot`, has just been read, each with the terms of its whole
  // way; then the reduction is over.
  void finish(std::uint32_t slot, std::int64_t read, std::vector<Arrival>& arrivals);

  [[nodiscard]] std::int64_t open() const { return open_; }
  [[nodiscard]] const std::vector<ReductionUnit>& units() const { return units_; }  // per router
  // The first broken law in words; `idle`: no packet is left in the network.
  [[nodiscard]] std::string verify(bool idle) const;
  // Who waits for whom, behind a text about VCs; empty when no reduction is open.
  [[nodiscard]] std::string waiting() const;
  [[nodiscard]] std::size_t core_bytes() const;
  void visit(sim::Visitor& v);

 private:
  static constexpr std::uint32_t kNone = ~0U;

  struct Open {
    std::uint64_t expected = 0;  // the sum of what its contributions carry
    std::int64_t number = 0;     // of begin()
    std::int64_t read_sum = 0;   // cycles in which the destination read flits of the last leg
    std::uint32_t tree = 0;
    std::uint32_t first_part = 0;  // in parts_: a leg per source and join
    std::uint32_t first_sum = 0;   // in sums_
    std::uint32_t next = kNone;    // free one of its tree
    std::int32_t size = 0;
    std::int32_t message_class = 0;
    std::uint32_t offered = 0;
    std::uint8_t alive = 0;
    std::uint8_t under_way = 0;
    std::uint8_t unused[2] = {};
  };
  struct Part {  // a leg of an open reduction
    Tail tail;
    std::int64_t tail_read = 0;
    std::uint64_t value = 0;
    std::uint32_t read = 0;  // flits
    std::uint32_t open = 0;
    std::uint32_t offered = 0;  // of a source's: 1
    std::uint32_t unused = 0;
  };
  struct Sum {  // a join of an open reduction
    std::int64_t tail_ready = 0;
    std::uint32_t open = 0;
    std::uint32_t done = 0;   // flits that all parts have brought
    std::uint32_t ready = 0;  // of these, that may leave
    std::uint32_t slot = kNone;
  };

  [[nodiscard]] const ReductionTree& tree_of(const Open& open) const { return trees_.at(open.tree); }
  [[nodiscard]] static std::uint64_t value_of(std::int64_t number, std::int32_t source);
  void end(std::uint32_t open);
  [[nodiscard]] std::int64_t waited(const Open& open) const;

  ReductionTrees trees_;
  std::int64_t pipeline_cycles_ = 0;  // of a router
  std::vector<std::uint32_t> way_;    // of the contribution at hand: its leg, then those of sums
  std::vector<Open> opens_;
  std::vector<std::uint32_t> free_;  // per tree: its first free one
  std::vector<Part> parts_;
  std::vector<Sum> sums_;
  std::vector<std::uint32_t> leg_of_;  // per packet slot: part, kNone
  std::vector<ReductionUnit> units_;
  sim::Fault fault_ = sim::Fault::none;
  std::int64_t fault_countdown_ = 0;
  std::int64_t begun_ = 0;
  std::int64_t open_ = 0;
  std::int64_t wrong_sums_ = 0;
};

}  // namespace cosim::noc
