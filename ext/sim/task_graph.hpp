// The tasks of the layers in flight and what they wait for.
//
// Python lowers a layer to columns of tasks and hands them in with the instant at which they take effect; a task
// becomes ready when all it depends on is done, runs on its node, and is freed when it retires.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/node.hpp"

namespace cosim::sim {

enum class TaskKind : std::uint8_t {
  transfer,  // bytes from source to destination endpoint, or to all of a group, through the network
  fetch,     // a stream of weights: memory endpoint -> compute endpoint, tile by tile
  compute,   // cycles on a compute endpoint, in tiles of the stream it consumes, if any
  delay,     // a fixed time
  decision,  // hands control back to the caller
  copy,      // a migration: a stream from one memory endpoint written into the banks of another; without a source, an
             // erasure: the memory endpoint writes its banks over by itself
  revoke,    // withdraws a prefetch that no demand has claimed
  stream,    // weights read once at a memory endpoint, for all compute endpoints of a group, tile by tile
};

struct Task {
  TaskKind kind = TaskKind::delay;
  std::uint8_t message_class = 0;
  std::uint8_t prefetch = 0;  // fetch: revocable, no compute task waits for it yet
  std::uint8_t finished = 0;
  std::int32_t waits = 0;         // unfinished predecessors, plus one until its layer takes effect
  std::int32_t source = -1;       // node
  std::int32_t destination = -1;  // node; the executing one for fetch and compute
  std::int64_t bytes = 0;         // transfer, fetch, copy, stream
  std::int64_t address = 0;       // fetch, copy, stream: first byte in the source memory endpoint
  std::int64_t to_address = 0;    // copy: first byte in the destination memory endpoint
  std::int64_t cycles = 0;        // compute: cycles of the endpoint's clock; delay: femtoseconds
  std::int64_t stream = -1;       // compute: the fetch or stream whose tiles it consumes; revoke: the prefetch
  std::int64_t key = -1;          // fetch: identity of the weights (a demand fetch adopts a prefetch of equal key);
                                  // decision: handed back to the caller
  Fs ready_fs = -1;
  Fs start_fs = -1;
  Fs end_fs = -1;
  Fs waited_fs = 0;              // compute: time between ready and start during which the endpoint served others
  Fs stalled_fs = 0;             // compute: waits for tiles after the start
  std::int64_t used_bytes = 0;   // fetch: bytes taken over from a prefetch; prefetch: bytes a demand took over
  std::int64_t moved_bytes = 0;  // fetch: bytes that arrived over the network; stream: at all members together
  std::int32_t first_successor = -1;
  std::int32_t announced = 0;  // fetch: its compute node has seen it
  std::int32_t group = -1;     // stream, transfer: of add_group(), instead of `destination`
  std::int32_t members_left = 0;
};

struct Decision {
  std::int64_t task = -1;
  std::int64_t key = -1;
  Fs time = 0;
};

class TaskGraph final : public Node {
 public:
  // A set of nodes that streams go to; groups are kept. Behind the group's number those of the group without its first,
  // second, ... member follow. Throws std::invalid_argument for an empty set and for a node named twice.
  std::int32_t add_group(std::vector<std::int32_t> nodes);
  [[nodiscard]] std::int32_t groups() const { return static_cast<std::int32_t>(group_first_.size()) - 1; }
  // The nodes of a group, ascending.
  [[nodiscard]] std::span<const std::int32_t> group(std::int32_t number) const {
    const auto at = static_cast<std::size_t>(number);
    return {group_nodes_.data() + group_first_[at], group_nodes_.data() + group_first_[at + 1]};
  }

  // Adds tasks that take effect at `effective` (>= now). after[k] -> before[k] (indices into `tasks`, or global ids of
  // earlier tasks as -2 - id; finished ones count as satisfied). Returns the global id of tasks[0].
  // Throws std::invalid_argument on an index out of range, an effective time in the past, a fetch that is no
  // prefetch and has not exactly one compute task in `tasks`, or a stream that has not one on each of its group's
  // nodes: its tiles would stay in the buffer.
  std::int64_t submit(std::span<const Task> tasks, std::span<const std::int64_t> before,
                      std::span<const std::int64_t> after, Fs effective, Fs now);

  [[nodiscard]] Task& task(std::int64_t id) { return tasks_[static_cast<std::size_t>(id - first_)]; }
  [[nodiscard]] const Task& task(std::int64_t id) const { return tasks_[static_cast<std::size_t>(id - first_)]; }
  // Whether task(id) is there: its record has not been taken and compacted away.
  [[nodiscard]] bool holds(std::int64_t id) const {
    return id >= first_ && id < first_ + static_cast<std::int64_t>(tasks_.size());
  }
  [[nodiscard]] std::int64_t unfinished() const { return unfinished_; }
  // Tasks that are neither finished nor an unclaimed prefetch: what a run waits for.
  [[nodiscard]] std::int64_t demanded() const { return demanded_; }
  [[nodiscard]] std::vector<Decision>& decisions() { return decisions_; }

  // Moves the finished tasks' records out, in order of task id.
  struct Record {
    std::int64_t id;
    Task task;
  };
  [[nodiscard]] std::vector<Record> take_records();

  // The node that transfers go to, and where endpoints are of several networks, that of one endpoint's.
  void set_network(std::int32_t node) { network_ = node; }
  void set_network_of(std::int32_t endpoint, std::int32_t network);
  // The network that has reported a livelock, -1: none.
  [[nodiscard]] std::int32_t livelocked() const { return livelocked_; }

  [[nodiscard]] Fs next_event() const override { return inbox_.next(); }
  void evaluate(Fs t) override;
  void visit(Visitor& v) override;
  void canonical(Canonical&) override {}  // it is at rest between its own instants, which no period contains
  [[nodiscard]] Fs visible_at(Fs committed) const override { return committed; }
  [[nodiscard]] std::string waiting_for() const override;

 private:
  struct Edge {
    std::int64_t successor;
    std::int32_t next;
    std::int32_t reserved;
  };
  void ready(std::int64_t id, Fs t);
  void finish(std::int64_t id, Fs t);
  void compact();

  std::int32_t network_ = -1;
  std::int32_t livelocked_ = -1;
  std::vector<std::int32_t> network_of_;  // by node, -1: network_
  std::int64_t first_ = 0;                // global id of tasks_[0]
  std::vector<Task> tasks_;
  std::vector<Edge> edges_;
  std::vector<std::int32_t> group_nodes_;
  std::vector<std::uint32_t> group_first_ = {0};  // and the end
  std::int32_t free_edge_ = -1;
  std::int64_t unfinished_ = 0;
  std::int64_t demanded_ = 0;
  std::vector<std::int64_t> finished_;  // ids finished since the last take_records
  std::vector<Decision> decisions_;
};

}  // namespace cosim::sim
