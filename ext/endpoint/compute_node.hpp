// An endpoint that computes: a queue of jobs, one compute engine, and a buffer of tiles that weights stream into.
//
// A stream that goes to several nodes gets a tile when all of them have granted it. All nodes see such streams in one
// order, in which they grant them: one has room only when every earlier one is wholly granted.
//
// A job runs tile by tile: it starts once its tokens are here (its task is ready) and the first tile has arrived, and
// waits for each further tile. A freed tile is granted again, to the running job's stream first, then to the streams
// in the order in which they were announced, demands before prefetches; so the running job can always go on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/node.hpp"
#include "sim/task_graph.hpp"

namespace cosim::endpoint {

struct ComputeNodeConfig {
  sim::Clock clock{1'000'000'000};
  std::int64_t tile_bytes = 0;
  std::int64_t buffer_tiles = 0;
  std::int64_t grant_latency_cycles = 0;
};

class ComputeNode final : public sim::ClockedNode {
 public:
  ComputeNode(const ComputeNodeConfig& config, sim::TaskGraph& graph);

  [[nodiscard]] sim::Fs next_event() const override;
  void evaluate(sim::Fs t) override;
  void visit(sim::Visitor& v) override;
  void regions(sim::Canonical& c) override;
  void canonical(sim::Canonical& c) override;
  [[nodiscard]] std::string waiting_for() const override;

  // Time the compute engine was at work, without stalls.
  [[nodiscard]] std::int64_t busy_cycles() const { return busy_cycles_; }
  [[nodiscard]] std::int64_t wasted_bytes() const { return wasted_bytes_; }
  [[nodiscard]] std::int64_t free_tiles() const { return free_tiles_; }
  [[nodiscard]] std::int64_t buffer_tiles() const { return config_.buffer_tiles; }
  // Streams and jobs that are still here; zero at the end of a run.
  [[nodiscard]] std::int64_t unfinished() const {
    return static_cast<std::int64_t>(streams_.size() + jobs_.size()) + (running_ ? 1 : 0);
  }

 private:
  struct Stream {
    std::int64_t task = -1;  // the fetch; a prefetch's own task until a demand adopts it
    std::int64_t uid = -1;   // what grants and deliveries name: the first task's id
    std::int64_t key = -1;
    std::int64_t address = 0;
    std::int64_t bytes = 0;
    std::int64_t tiles = 0;
    std::int64_t granted = 0;  // tiles
    std::int64_t granted_bytes = 0;
    std::int64_t arrived_bytes = 0;
    std::int64_t consumed = 0;       // tiles
    std::int64_t dropped_bytes = 0;  // of a withdrawn prefetch: arrived late or never sent
    std::int32_t memory = -1;
    std::uint8_t message_class = 0;
    std::uint8_t prefetch = 0;
    std::uint8_t withdrawn = 0;    // tiles are given back, what is under way is dropped on arrival
    std::uint8_t fetched = 0;      // its fetch task has been reported done
    std::uint8_t calling_off = 0;  // the memory has not said yet what it will not send
    std::uint8_t reserved[3] = {};
    std::int32_t group = -1;  // of a stream that goes to several nodes
    [[nodiscard]] std::int64_t arrived_tiles(std::int64_t tile) const {
      return arrived_bytes == bytes ? tiles : arrived_bytes / tile;
    }
  };
  struct Job {
    std::int64_t task = -1;
    std::int64_t cycles = 0;
    std::int64_t tiles = 0;
    std::int64_t stream_task = -1;
    std::int64_t ready_edge = 0;
    std::int64_t occupied_at_ready = 0;
    // The first `cycles mod tiles` tiles take one cycle more than the others.
    [[nodiscard]] std::int64_t longer_tiles() const { return cycles % tiles; }
    [[nodiscard]] std::int64_t cycles_of(std::int64_t tile) const {
      return cycles / tiles + (tile < longer_tiles() ? 1 : 0);
    }
  };

  void announce(std::int64_t task, std::int64_t n);
  void arrived(std::int64_t uid, std::int64_t bytes);
  void withdraw(Stream& s, std::int64_t n);
  void withdrawn_bytes(std::int64_t uid, std::int64_t bytes);
  void end_tile(std::int64_t n);
  void start_work(std::int64_t n);
  void grant(std::int64_t n);
  bool grant_to(Stream& s, std::int64_t n);
  [[nodiscard]] bool waits_its_turn(const Stream& s) const;
  void report_done(std::int64_t task, std::int64_t n);
  [[nodiscard]] Stream* stream_of(std::int64_t task);
  [[nodiscard]] Stream* stream_by_uid(std::int64_t uid);
  [[nodiscard]] std::int64_t tile_bytes_of(const Stream& s, std::int64_t tile) const;
  // Cycles during which the engine was held by a job, stalls included, until edge n.
  [[nodiscard]] std::int64_t occupied(std::int64_t n) const {
    return occupied_cycles_ + (running_ ? n - running_since_ : 0);
  }

  ComputeNodeConfig config_;
  sim::TaskGraph& graph_;

  std::vector<Stream> streams_;              // in the order of announcement
  std::vector<Job> jobs_;                    // ready, not yet started, in the order of arrival
  std::vector<std::int64_t> early_revokes_;  // of prefetches that have not been announced
  std::int64_t free_tiles_;
  std::uint8_t running_ = 0;
  std::uint8_t stalled_ = 0;   // the running job waits for a tile
  Job job_;                    // the running one
  std::int64_t tile_ = 0;      // being worked on, or waited for
  std::int64_t tile_end_ = 0;  // edge
  std::int64_t running_since_ = 0;
  std::int64_t stall_since_ = 0;
  std::int64_t busy_cycles_ = 0;
  std::int64_t occupied_cycles_ = 0;
  std::int64_t wasted_bytes_ = 0;
};

}  // namespace cosim::endpoint
