// What a flit-level network is built from: a graph of routers, links and terminals, its pipeline and its routes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "noc/allocator.hpp"
#include "noc/routing.hpp"

namespace cosim::noc {

// Injection and ejection links take one cycle.
inline constexpr std::int32_t kTerminalLinkLatency = 1;
// Injection, ejection, and the cycle in which the node reads.
inline constexpr std::int32_t kTerminalCycles = 2 * kTerminalLinkLatency + 1;

// One direction of a channel. At most one flit a cycle; `buffer_flits` is the depth of each input VC at its far end.
struct LinkSpec {
  std::int32_t from_router = 0;
  std::int32_t from_port = 0;
  std::int32_t to_router = 0;
  std::int32_t to_port = 0;
  std::int32_t latency = 1;
  std::int32_t buffer_flits = 8;
};

// A node: one injection and one ejection channel on one port of a router. Its index is its node id.
struct TerminalSpec {
  std::int32_t router = 0;
  std::int32_t port = 0;
};

// Message classes use disjoint VCs; a larger priority injects first. A packet of a multicast class may have several
// destinations. One of a session class has a set of them and uses no VC: it is streamed over links that leave packet
// mode. Packets of a reduction class may be contributions to a sum, which routers make where their ways join.
struct ClassSpec {
  std::uint32_t vc_mask = 0;
  std::int32_t priority = 0;
  bool multicast = false;
  bool session = false;
  bool reduction = false;
  // Static virtual-channel allocation: all packets of one source use one VC of the class on every link, that with the
  // source's number, modulo how many there are, of those that their route may use there.
  bool static_vcs = false;
};

// What sessions of links cost and how long they may last; cycles.
struct SessionSpec {
  std::int32_t setup_cycles = 4;           // from the links' being empty to the first flit
  std::int32_t teardown_cycles = 4;        // from the last flit's being read to the links' return
  std::int32_t segment_delay = 1;          // of a router's bus switch
  std::int64_t max_session_cycles = 4096;  // from the links' being empty to their return
  std::int32_t idle_cycles = 0;            // a session waits for a further packet
  std::int32_t max_waiting = -1;           // sessions that wait for links; more are refused. -1: any number
};

// The units that sum packets: on the last `ports` ports of every router. 0: none.
struct ReductionSpec {
  std::int32_t ports = 0;
  std::int32_t combine_delay = 1;  // cycles from reading the last flit that a flit of the sum needs to its leaving
};

// Links between routers that flip bits, and what finding and mending that costs.
struct RetrySpec {
  double bit_error_rate = 0.0;  // 0: links without retry
  std::int32_t flit_bits = 0;   // of a flit on the link, beside
  std::int32_t crc_bits = 16;   // those that guard it
  std::int32_t nack_delay =
      1;  // cycles from a bad flit's arrival to the NACK's leaving, and the sender's to begin again
  std::uint64_t seed = 1;
};

// A route is looked up once per head and router: output port in the low byte, index into `vc_sets` in the high byte.
struct RouteTable {
  std::vector<std::uint16_t> entries;  // [router * terminals + destination]
  std::vector<std::uint32_t> vc_sets;  // VC masks a route may ask for; 0 is usually "all"
};

// From `at_cycle` on sources wait until the network is empty, then these routes hold: links have failed.
struct RouteChange {
  std::int64_t at_cycle = 0;
  RouteTable routes;
};

// How heads get output VCs and flits the switch. The default costs a network nothing beyond its own matching.
struct AllocationSpec {
  AllocatorKind vc = AllocatorKind::islip;
  AllocatorKind sw = AllocatorKind::islip;
  ArbiterKind arbiter = ArbiterKind::round_robin;  // of separable allocators
  std::int32_t iterations = 1;                     // of iSLIP
  bool age_priority = false;                       // the packet created first goes first
  // A head asks for the switch while it asks for a VC; what it wins without a VC and a credit is lost.
  bool speculative = false;
  std::shared_ptr<const UserAllocatorFactory> vc_plugin;  // of kind plugin
  std::shared_ptr<const UserAllocatorFactory> sw_plugin;

  [[nodiscard]] bool plain() const {
    return vc == AllocatorKind::islip && sw == AllocatorKind::islip && iterations == 1 && !age_priority && !speculative;
  }
};

struct RouterModelPlugin;

struct NetworkSpec {
  std::int32_t routers = 0;
  std::int32_t ports = 0;  // of every router, those of reduction units last; unused ports stay unconnected
  std::vector<LinkSpec> links;
  std::vector<TerminalSpec> terminals;
  std::vector<ClassSpec> classes;  // empty: one class on all VCs
  SessionSpec sessions;            // of the session classes
  ReductionSpec reduction;         // of the reduction classes
  RetrySpec retry;
  RoutingSpec routing;
  RouteTable routes;                       // of kind `table`
  std::vector<RouteChange> route_changes;  // of kind `table`, ascending

  std::int32_t num_vcs = 4;
  std::int32_t vc_buf_size = 8;
  std::int32_t routing_delay = 1;     // 0: look-ahead routing
  std::int32_t vc_alloc_delay = 1;    // >= 1
  std::int32_t sw_alloc_delay = 1;    // >= 1
  std::int32_t st_prepare_delay = 0;  // switch traversal is st_prepare_delay + st_final_delay >= 1
  std::int32_t st_final_delay = 1;
  std::int32_t credit_delay = 1;
  AllocationSpec allocation;
  // An output VC is released when the credit of the tail comes back, not when the tail wins the switch.
  bool wait_for_tail_credit = false;
  // The user's routers, which do for themselves what routing, pipeline and allocation above say.
  std::shared_ptr<const RouterModelPlugin> router_model;
  // As BookSim2: one batch of flits at a time traverses a router's switch; routing functions draw from its generator in
  // its order (exact for delays R = V = S = 1); iSLIP ignores the priorities of candidates.
  bool compat_booksim2 = false;

  [[nodiscard]] bool has_sessions() const;           // a class is a session class
  [[nodiscard]] bool has_reductions() const;         // a class is a reduction class
  [[nodiscard]] std::int32_t multicast_vcs() const;  // VCs of a port that belong to multicast classes
  // Branches that a router may have at work beyond the first of each input VC.
  [[nodiscard]] std::int64_t extra_branches() const {
    return static_cast<std::int64_t>(multicast_vcs()) * ports * (ports - 1);
  }

  // Every problem of this description, one sentence each; empty when a network can be built from it.
  [[nodiscard]] std::vector<std::string> problems() const;
};

}  // namespace cosim::noc
