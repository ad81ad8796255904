// Links that flip bits: every flit carries a CRC and stays in the sender's replay buffer until it has been
// acknowledged.
//
// A flit whose CRC fails is answered by a NACK; the sender goes back to it and sends it and all that followed again
// (go-back-N), so flits arrive in order. What this does to a flit is known when it is sent: its first transmission
// begins when those of the flits before it are over, each further one a round trip later. The replay buffer is as deep
// as the VCs behind the link: a flit that has a credit has a place in it, and the place is free before the credit is
// back. Assumed: the CRC finds every error, acknowledgements are not disturbed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "noc/spec.hpp"
#include "sim/random.hpp"
#include "sim/visit.hpp"

namespace cosim::noc {

class LinkRetry {
 public:
  explicit LinkRetry(const NetworkSpec& spec);

  // A flit is handed to `link` [router * ports + port] at `sent` and would be at its far end `time` cycles later.
  // Returns the cycle at which it is there without an error.
  std::int64_t send(std::size_t link, std::int64_t sent, std::int64_t time) {
    Link& l = links_[link];
    std::int64_t start = sent > l.free_at ? sent : l.free_at;
    while (l.random.next() < threshold_) {
      start += 2 * time + nack_delay_;
      ++l.retries;
    }
    l.free_at = start + 1;
    ++l.flits;
    return start + time;
  }

  struct Counters {
    std::int64_t flits = 0;    // handed to the link
    std::int64_t retries = 0;  // transmissions that failed
  };
  [[nodiscard]] Counters counters(std::size_t link) const { return {links_[link].flits, links_[link].retries}; }
  [[nodiscard]] std::size_t core_bytes() const { return sizeof(*this) + links_.capacity() * sizeof(Link); }
  void visit(sim::Visitor& v) { v.vector(sim::Kind::stamp, links_); }

 private:
  struct Link {
    sim::RandomStream random;
    std::int64_t free_at = 0;
    std::int64_t flits = 0;
    std::int64_t retries = 0;
  };
  std::vector<Link> links_;
  std::uint64_t threshold_ = 0;  // of 2^64: a flit fails
  std::int64_t nack_delay_ = 0;
};

// 2^64 times the probability that one of `bits` bits is wrong, in integers, so the same on every machine.
[[nodiscard]] std::uint64_t flit_error_threshold(double bit_error_rate, std::int64_t bits);

}  // namespace cosim::noc
