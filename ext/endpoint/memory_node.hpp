// A memory endpoint at command level: channels behind one read-return buffer per pseudo-channel.
//
// Granted tiles are cut into bursts lazily. Each pseudo-channel takes the bursts that the address map gives it, tile
// after tile in the order in which the grants arrived, demands before prefetches, as its queue has room. A burst that
// has come off the bus stays in its pseudo-channel's read-return buffer until the packet that carries it has left the
// source; without a free slot no further read is issued, so a congested network slows the DRAM. The commands of a tick
// are decided on what was known before it. Bursts of one tile and pseudo-channel share packets; a packet that is not
// full leaves when its tile's last burst is in, or when the return buffer is full and it is the oldest (else partial
// packets could fill the buffer for ever). To the compute node that the memory is stacked with, bursts leave one by one
// on a path of their own. A copy streams in from another memory endpoint, held back by a write buffer
// as large as the read-return buffer, and is done when its last burst is in the banks.
//
// A tile of a stream to several nodes is read once, when all of them have granted it. Behind the return buffer its
// bursts go two ways, to the compute node the memory is stacked with and into the network for all others; a slot is
// free when both have taken them.
//
// Channels that are told the same do the same: as long as a tile has as many bursts for each of them and all have free
// return slots, one is stepped for all (memory_lockstep.cpp), whatever the refresh.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "endpoint/inflow.hpp"
#include "mem/address_map.hpp"
#include "mem/channel.hpp"
#include "sim/node.hpp"

namespace cosim::endpoint {

struct MemoryNodeConfig {
  sim::Clock clock{1'000'000'000};  // of command slots (ticks)
  std::int32_t channels = 1;
  std::int32_t read_return_slots = 64;    // bursts, per pseudo-channel
  std::int64_t packet_payload_bytes = 0;  // at most this many bytes leave together
  std::int64_t grant_latency_fs = 0;      // to the source of a copy
  std::int32_t network = -1;
  std::int32_t near_reader = -1;  // the compute node it is stacked with, -1: none ...
  std::int32_t near_path = -1;    // ... and the path there
};

class MemoryNode final : public sim::Node, private mem::RequestNames {
 public:
  // Throws std::invalid_argument with every problem found.
  MemoryNode(const MemoryNodeConfig& config, const mem::ChannelConfig& channel, const mem::AddressMap& map,
             sim::TaskGraph& graph);

  [[nodiscard]] sim::Fs next_event() const override;
  [[nodiscard]] sim::Fs next_progress() const override;
  void evaluate(sim::Fs t) override;
  void visit(sim::Visitor& v) override;
  void regions(sim::Canonical& c) override;
  void canonical(sim::Canonical& c) override;
  void named_slots(sim::Canonical& c) override;
  [[nodiscard]] sim::Fs visible_at(sim::Fs committed) const override { return next_edge(committed); }
  [[nodiscard]] sim::Fs next_edge(sim::Fs t) const override {
    return config_.clock.edge_fs(config_.clock.edge_after(t));
  }
  [[nodiscard]] std::string waiting_for() const override;
  void keep_journal(sim::Journal* journal) override;
  void set_every_edge(bool on) override;
  void set_lockstep(bool on) override;
  void leave_lockstep() override;
  [[nodiscard]] bool in_lockstep() const { return in_step_; }
  // Bursts that a channel was stepped for; in lockstep one stands for all channels.
  [[nodiscard]] std::int64_t stepped_bursts() const { return stepped_bursts_; }

  [[nodiscard]] std::int32_t channels() const { return config_.channels; }
  [[nodiscard]] const mem::Channel& channel(std::int32_t channel);
  [[nodiscard]] std::int64_t last_tick() const { return tick_; }
  [[nodiscard]] std::int64_t granted_bytes() const { return granted_bytes_; }
  [[nodiscard]] std::int64_t read_bytes() const { return read_bytes_; }
  [[nodiscard]] std::int64_t cancelled_bytes() const { return cancelled_bytes_; }
  [[nodiscard]] std::int64_t written_bytes() const { return written_bytes_; }
  // Asked = read + cancelled + under way, and each controller's own law; empty when it holds.
  [[nodiscard]] std::string conservation_error() const;

 private:
  struct Tile {
    std::int64_t stream = -1;
    std::int64_t end = 0;          // first byte behind it
    std::int32_t reader = -1;      // node
    std::int32_t bursts_left = 0;  // not yet sent on, or called off
    std::int64_t order = 0;        // of its grant
    std::int32_t next_free = -1;
    std::uint8_t message_class = 0;
    std::uint8_t prefetch = 0;
    std::uint8_t reserved[2] = {};
    std::int32_t group = -1;  // of readers, instead of `reader`
    std::int32_t reserved_too = 0;
  };
  struct Waiting {  // a tile of a stream to several nodes that not all of them have granted
    std::int64_t stream = -1;
    std::int64_t address = 0;
    std::int64_t bytes = 0;
    std::int32_t group = -1;
    std::int32_t granted = 0;
  };
  struct Share {                   // of one tile in one pseudo-channel
    std::int64_t next = -1;        // byte address of its next burst, -1: all asked for
    std::int32_t bursts_left = 0;  // not yet off the bus
    std::int32_t gathered = 0;     // bursts off the bus that wait for their packet to fill
  };
  struct Unit {  // bytes handed to the network together
    std::int32_t pseudo_channel = 0;
    std::int32_t bursts = 0;
    std::int32_t next_free = -1;
    std::int32_t leaving = 1;  // ways on which it has not left yet
  };
  struct Ready {  // a burst that will be off the bus at `tick`
    std::int64_t tick;
    std::int32_t tile;
    std::int32_t reserved;
  };
  struct Written {  // a burst of a copy that will be in the banks at `tick`
    std::int64_t tick;
    std::int64_t task;
    static bool later(const Written& x, const Written& y) {  // order of the heap
      return x.tick != y.tick ? x.tick > y.tick : x.task > y.task;
    }
  };
  struct Lane {                         // of one pseudo-channel of one channel
    std::vector<std::int32_t> demands;  // tiles with bursts to ask for, oldest first
    std::vector<std::int32_t> prefetches;
    std::vector<Ready> ready;  // FIFO from `ready_at`
    std::uint64_t ready_at = 0;
    std::int64_t gathered = 0;  // bursts in the return buffer that wait for their packet ...
    std::int64_t leaving = 0;   // ... and bursts of packets that have not left the source yet
  };
  void tag(sim::Canonical& c, mem::Op op, std::uint64_t tag) override;
  void row(sim::Canonical& c, std::int32_t& row) override;
  void find_stripe();
  void show_regions(sim::Canonical& c) const;
  void show_tiles(sim::Canonical& c);
  bool all_granted(const sim::Message& m);
  void begin(const sim::Message& m, std::int64_t tick);
  void take_completions(std::size_t channel);
  void find_ready();
  void find_span();
  void try_join(std::int64_t tick);
  void copy_leader(std::int64_t tick);
  void spread(std::int64_t tick);
  void release(std::size_t lane, std::int32_t bursts, std::int64_t tick);
  void note_commands(std::size_t channel);
  void find_lanes();
  void ask_writes(std::int64_t tick);
  void finish_writes(std::int64_t tick, sim::Fs t);
  [[nodiscard]] mem::Request request(std::int64_t address, mem::Op op) const;
  [[nodiscard]] std::size_t lane_of(std::int64_t address) const;
  void cancel(std::int64_t stream, std::int32_t reader, std::int64_t tick, sim::Fs t);
  void flush(std::int32_t tile, std::size_t lane, sim::Fs t, bool partial);
  void flush_oldest(std::size_t lane, sim::Fs t);
  void ask(std::int64_t tick);
  bool ask_from(std::vector<std::int32_t>& tiles, std::size_t lane, std::int64_t tick);
  void collect(std::int64_t tick, sim::Fs t);
  void send(std::int32_t tile, std::size_t lane, std::int32_t bursts, sim::Fs t);
  void leave(std::int32_t tile, std::size_t lane, std::int32_t bursts, sim::Fs t);
  void burst_gone(std::int32_t tile, std::int32_t bursts);
  // Those that are stepped.
  [[nodiscard]] std::size_t live_channels() const { return in_step_ ? 1 : controllers_.size(); }
  [[nodiscard]] std::size_t live_lanes() const { return in_step_ ? static_cast<std::size_t>(pcs_) : lanes_.size(); }
  [[nodiscard]] std::int64_t next_of_lane(std::int64_t address, std::size_t lane, std::int64_t end) const;
  [[nodiscard]] Share& share(std::int32_t tile, std::size_t lane) {
    return shares_[static_cast<std::size_t>(tile) * lanes_.size() + lane];
  }
  [[nodiscard]] sim::Fs next_of(bool progress_only) const;

  MemoryNodeConfig config_;
  mem::AddressMap map_;
  std::vector<std::unique_ptr<mem::Channel>> controllers_;
  std::vector<std::int64_t> command_tick_;  // next event of each controller, as of the last evaluation
  std::int64_t burst_bytes_;
  std::int32_t packet_bursts_;
  std::int32_t pcs_;
  bool lanes_plain_ = false;
  std::uint64_t lane_mask_ = 0;                // address bits that choose the lane ...
  std::vector<std::uint64_t> lane_pattern_;    // ... and their values, per lane
  int row_shift_ = -1;                         // row = address >> row_shift_; -1: other bits decide, too
  std::int64_t stripe_bytes_ = 0;              // addresses that differ by this differ in their rows only
  std::vector<Lane> lanes_;                    // [channel * pseudo_channels + pseudo_channel]
  std::vector<std::int64_t> ready_tick_;       // per lane, of its first burst that comes off the bus, and the first ...
  std::int64_t next_ready_ = mem::kNeverTick;  // ... of all
  std::vector<std::uint8_t> touched_;          // channels that have done or were told something in this tick
  std::vector<Tile> tiles_;
  std::vector<Waiting> waiting_;  // in the order of their first grants
  std::vector<Share> shares_;     // [tile * lanes + lane]
  std::int32_t free_tile_ = -1;
  std::vector<Unit> units_;
  std::int32_t free_unit_ = -1;
  std::int64_t tick_ = -1;  // last evaluated
  std::int64_t granted_bytes_ = 0;
  std::int64_t read_bytes_ = 0;
  std::int64_t cancelled_bytes_ = 0;
  std::int64_t written_bytes_ = 0;
  Inflows inflows_;
  std::vector<Written> writes_;  // under way, a heap
  sim::TaskGraph& graph_;
  std::int64_t tiles_open_ = 0;
  std::int64_t orders_ = 0;

  // lockstep: channel 0 and its lanes are those of all, but for `leaving` of the lanes and their return slots
  struct Leaving {  // of all lanes of a pseudo-channel, the leader's has filled a packet
    std::int32_t pseudo_channel;
    std::int32_t tile;
    std::int32_t bursts;
  };
  bool in_step_ = false;
  bool lockstep_on_ = true;
  std::int32_t least_slots_ = 2;  // a tick issues at most one read of a pseudo-channel: none is ever without a slot
  std::int64_t stepped_bursts_ = 0;
  bool stale_ = false;                     // the others have not been told since
  std::int64_t span_bytes_ = 0;            // that many bytes, so aligned, are as many bursts for all; 0: no lockstep
  std::int64_t joined_tick_ = -1;          // the others are as they were then ...
  mem::Statistics leader_then_;            // ... and what the leader had counted
  std::vector<std::int32_t> free_slots_;   // the leader's, by pseudo-channel: as many as the lane with the fewest has
  std::vector<std::int32_t> more_slots_;   // of a lane than of the leader
  std::vector<Leaving> leaving_together_;  // empty between instants

  std::vector<std::int64_t> journal_at_;  // [lane * banks + bank] last entry of a bank; empty without a journal
};

}  // namespace cosim::endpoint
