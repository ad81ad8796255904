// Proof that a network's routing cannot deadlock, or the cycle of waits that it allows.
//
// Channels are the VCs of links. A packet whose head stands in one may wait for the channels that its routing offers
// next: these pairs are the channel-dependency graph, found here by asking the routing for every way of every packet,
// whatever it draws. Without a cycle there is no deadlock (Dally and Seitz, IEEE TC 1987). With one there is none
// either, if an escape VC of every class is always offered, never left and free of cycles, and no packet waits in
// another VC behind a packet that got there first (Duato, IEEE TPDS 1993).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "noc/spec.hpp"

namespace cosim::noc {

struct Channel {
  std::int32_t from_router = 0;
  std::int32_t from_port = 0;
  std::int32_t to_router = 0;
  std::int32_t vc = 0;
};

enum class DeadlockProof : std::uint8_t {
  none,     // `cycle` may close
  acyclic,  // no cycle of dependencies
  escape,   // cycles among adaptive VCs, all with an escape
};

struct DependencyReport {
  DeadlockProof proof = DeadlockProof::none;
  std::int64_t channels = 0;      // that packets use
  std::int64_t dependencies = 0;  // pairs of them
  std::vector<Channel> cycle;     // each waits for the next, the last for the first; empty with proof acyclic
  std::string problem;            // a packet that its routing leaves without a way, or a way without end
};

// Throws std::invalid_argument when `spec` describes no network.
[[nodiscard]] DependencyReport check_dependencies(const NetworkSpec& spec);

}  // namespace cosim::noc
