// A memory endpoint as a rate: granted tiles are read first come, first served at the peak bandwidth, demands before
// prefetches and copies, each after a fixed latency. No banks, no refresh, no return buffer: what a formula assumes.
// What a copy writes takes its turn like a read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "endpoint/inflow.hpp"
#include "sim/node.hpp"
#include "sim/task_graph.hpp"

namespace cosim::endpoint {

struct RateMemoryConfig {
  sim::Clock clock{1'000'000'000};
  std::int64_t bytes_per_second = 0;
  std::int64_t latency_fs = 0;
  std::int64_t grant_latency_fs = 0;  // to the source of a copy
  std::int64_t copy_chunk_bytes = 0;  // granted at once; the write buffer holds two
  std::int32_t network = -1;
  std::int32_t near_reader = -1;  // the compute node it is stacked with, -1: none ...
  std::int32_t near_path = -1;    // ... and the path there
};

class RateMemory final : public sim::ClockedNode {
 public:
  RateMemory(const RateMemoryConfig& config, sim::TaskGraph& graph);

  [[nodiscard]] sim::Fs next_event() const override;
  void evaluate(sim::Fs t) override;
  void visit(sim::Visitor& v) override;
  void canonical(sim::Canonical& c) override;
  [[nodiscard]] std::string waiting_for() const override;

  [[nodiscard]] std::int64_t read_bytes() const { return read_bytes_; }
  [[nodiscard]] std::int64_t cancelled_bytes() const { return cancelled_bytes_; }
  [[nodiscard]] std::int64_t written_bytes() const { return written_bytes_; }
  [[nodiscard]] std::int64_t busy_fs() const { return busy_fs_; }

 private:
  struct Grant {
    std::int64_t stream;
    std::int64_t bytes;
    std::int32_t reader;
    std::uint8_t message_class;
    std::uint8_t prefetch;
    std::uint8_t write;  // of the copy `stream`
    std::uint8_t reserved;
    std::int32_t group;  // of readers, instead of `reader`, -1: none
    std::int32_t reserved_too;
  };
  struct Waiting {  // a tile of a stream to several nodes that not all of them have granted
    std::int64_t stream;
    std::int64_t address;
    std::int32_t granted;
    std::int32_t reserved;
  };
  bool all_granted(const sim::Message& m);
  void serve(sim::Fs t);

  RateMemoryConfig config_;
  std::vector<Grant> demands_;
  std::vector<Grant> prefetches_;
  std::vector<Waiting> waiting_;
  std::uint8_t busy_ = 0;
  Grant current_{};
  sim::Fs done_ = 0;
  std::int64_t read_bytes_ = 0;
  std::int64_t cancelled_bytes_ = 0;
  std::int64_t written_bytes_ = 0;
  std::int64_t busy_fs_ = 0;
  Inflows inflows_;
  sim::TaskGraph& graph_;
};

}  // namespace cosim::endpoint
