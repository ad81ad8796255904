// What exact skipping hands out: forms of a system, and a report.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/time.hpp"

namespace cosim::sim {

class Canonical;

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
