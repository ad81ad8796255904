// What exact skipping hands out: forms of a system, and a report.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/time.hpp"

namespace cosim::sim {

class Canonical;

// Parts of the form, at least one of every component. A form that lacks one is a mutant: tests must tell it from a
// whole one.
enum class Part : std::uint8_t {
  nothing,
  inbox,      // when messages are seen
  phase,      // where in a clock's cycle the present is
  progress,   // of a stream: bytes that have arrived
  room,       // free tiles of a buffer
  rate,       // the end of a read of a memory that is a rate
  returns,    // when bursts come off the bus
  tiles,      // bursts that a tile still waits for
  copies,     // progress of a copy
  timing,     // earliest ticks of commands
  row,        // open rows
  refresh,    // when the next refresh is due
  queue,      // ages of requests
  sram,       // when a port is free
  link,       // when a link is free
  path,       // when a near-memory path is free
  arbiter,    // last winners of switch allocation
  credit,     // when free slots may be used
  vc,         // output VCs of packets
  wake,       // what wakes up when
  allocator,  // arbiters of the other allocators
  turn,       // terminals in turn
};
inline constexpr std::array<std::string_view, 22> kPartNames = {
    "nothing", "inbox", "phase", "progress", "room", "rate",    "returns", "tiles", "copies", "timing",    "row",
    "refresh", "queue", "sram",  "link",     "path", "arbiter", "credit",  "vc",    "wake",   "allocator", "turn"};

// A canonical form, and the values of everything that is not part of it but grows or stands still, in the order of the
// walk.
struct Form {
  Fs now = 0;
  std::vector<std::int64_t> same;
  std::vector<std::int64_t> grows;
};

// What was skipped and why not more.
struct SkipReport {
  std::int64_t jumps = 0;
  std::int64_t periods = 0;   // skipped
  std::int64_t instants = 0;  // skipped
  Fs time = 0;                // skipped
  std::int64_t looks = 0;
  std::int64_t found = 0;                       // periods proved
  std::map<std::string, std::int64_t> reasons;  // why a stretch was stepped to its end: stretches
};

// What can be walked (canonical.hpp).
class Walked {
 public:
  virtual ~Walked() = default;
  virtual void walk(Canonical& c) = 0;
};

}  // namespace cosim::sim
