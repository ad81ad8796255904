// What is handed to a network and what it books: packets in, arrivals and departures out.
#pragma once

#include <cstdint>
#include <limits>

namespace cosim::noc {

inline constexpr std::int64_t kNoEvent = std::numeric_limits<std::int64_t>::max();

struct PacketIn {
  std::int64_t create_cycle = 0;
  std::int32_t source = 0;  // terminal
  std::int32_t dest = 0;    // terminal
  std::int32_t size_flits = 1;
  std::int32_t message_class = 0;
  std::uint64_t tag = 0;        // handed back with the arrival and the departure
  std::int32_t held_flits = 0;  // of size_flits, the last ones, that supply() will hand over
  std::int32_t group = -1;      // of multicast_group() or session_group(), instead of `dest`; of begin_reduction()
};

inline constexpr std::int32_t kMostHeldFlits = 65'535;

// A packet whose tail has won its last switch; `cycle` may lie a few cycles ahead (see step).
struct Arrival {
  std::uint64_t tag = 0;
  std::int64_t cycle = 0;         // the node has read the tail
  std::int64_t create_cycle = 0;  //
  std::int64_t inject_cycle = 0;  // the head left the source
  std::int64_t flit_latency_sum_cycles = 0;
  std::int32_t source = 0;
  std::int32_t dest = 0;
  std::int32_t size_flits = 0;
  std::int32_t message_class = 0;
  std::int32_t hops = 0;                   // routers visited
  std::int32_t link_cycles = 0;            // of all links between routers on its way
  std::int64_t retry_cycles = 0;           // by which links with retry held its tail
  std::int64_t reduction_wait_cycles = 0;  // of a contribution: at units, for the others
};

// One flit read at a watched terminal, booked like an arrival.
struct FlitArrival {
  std::uint64_t tag = 0;
  std::int64_t cycle = 0;
  std::int64_t create_cycle = 0;
  std::int64_t inject_cycle = 0;
  std::int32_t hops = 0;         // of its packet's head
  std::int32_t link_cycles = 0;  //
};

// The tail of a packet has left its source at `cycle`: the source's buffer is free.
struct Departure {
  std::uint64_t tag = 0;
  std::int64_t cycle = 0;
};

// A packet over one channel into a router, noted when its tail is there.
struct Passage {
  std::uint64_t tag = 0;
  std::int64_t first_cycle = 0;  // of its head at the far end
  std::int64_t last_cycle = 0;   // of its tail
  std::int32_t router = 0;
  std::int32_t port = 0;
  std::int32_t vc = 0;
  std::int32_t flits = 0;
};

// A packet was the first of its source's class and could not leave because its way led over links of a session; one
// event per wait, booked at its end and before the packet's departure.
struct SessionWait {
  std::uint64_t tag = 0;
  std::int64_t cycles = 0;
};

// A packet of a session class that the arbiter refused: it is never sent.
struct Refusal {
  std::uint64_t tag = 0;
  std::int64_t cycle = 0;
};

}  // namespace cosim::noc
