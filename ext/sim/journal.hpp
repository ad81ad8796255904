// What links and banks did and for which task, for whoever wants to look at a run. Kept on request, up to a limit; no
// part of the simulated state, and nothing simulated depends on it.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/time.hpp"

namespace cosim::sim {

struct LinkUse {  // by one packet, or by one chunk of reserved links
  Fs begin = 0;   // the first flit is at the link's far end
  Fs end = 0;     // one cycle after the last is
  std::int64_t task = -1;
  std::int32_t network = -1;  // node
  std::int32_t link = -1;     // of the network; from the number of its links on: of its terminals
  std::int32_t vc = -1;       // -1 on reserved links
  std::int32_t flits = 0;     // 0 on reserved links
};

struct BankUse {  // one command, or several column commands of one task to one row with nothing in between
  Fs begin = 0;   // of the first command
  Fs last = 0;    // of the last one
  std::int64_t task = -1;
  std::int32_t memory = -1;  // node
  std::int32_t channel = -1;
  std::int32_t pseudo_channel = -1;
  std::int32_t bank = -1;  // within the pseudo-channel; -1: all of its banks, or a memory without banks
  std::int32_t row = -1;
  std::int32_t bursts = 0;
  std::uint8_t command = 0;
};

class Journal {
 public:
  explicit Journal(std::int64_t limit) : limit_(limit) {}

  // Whether there is room for one more; what has none is counted.
  [[nodiscard]] bool room() {
    if (static_cast<std::int64_t>(links.size() + banks.size()) < limit_) return true;
    ++left_out_;
    return false;
  }
  [[nodiscard]] std::int64_t left_out() const { return left_out_; }

  std::vector<LinkUse> links;
  std::vector<BankUse> banks;

 private:
  std::int64_t limit_;
  std::int64_t left_out_ = 0;
};

}  // namespace cosim::sim
