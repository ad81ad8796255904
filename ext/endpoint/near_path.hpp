// The direct path of a memory to the compute endpoint it is stacked with (through-silicon vias, hybrid bonds): what is
// read for that endpoint goes there without the network, message after message at the path's bandwidth.
#pragma once

#include <cstdint>
#include <string>

#include "sim/node.hpp"

namespace cosim::endpoint {

struct NearPathConfig {
  std::int64_t bytes_per_second = 0;
  std::int64_t latency_fs = 0;  // behind the last byte
};

class NearPath final : public sim::Node {
 public:
  // Throws std::invalid_argument where the bandwidth is not positive or the latency negative.
  explicit NearPath(const NearPathConfig& config);

  [[nodiscard]] sim::Fs next_event() const override { return inbox_.next(); }
  void evaluate(sim::Fs t) override;
  void visit(sim::Visitor& v) override;
  void canonical(sim::Canonical& c) override;
  // No clock: what is committed at t is seen right after it.
  [[nodiscard]] sim::Fs visible_at(sim::Fs committed) const override { return committed + 1; }
  [[nodiscard]] std::string waiting_for() const override { return {}; }

  [[nodiscard]] std::int64_t moved_bytes() const { return moved_bytes_; }
  [[nodiscard]] std::int64_t busy_fs() const { return busy_fs_; }

 private:
  NearPathConfig config_;
  sim::Fs free_at_ = 0;
  std::int64_t moved_bytes_ = 0;
  std::int64_t busy_fs_ = 0;
};

}  // namespace cosim::endpoint
