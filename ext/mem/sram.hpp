// One SRAM channel: banks with ports of a width, a fixed latency, a queue.
//
// A tick is a clock cycle. A port moves `port_bytes` in a cycle; an access that does not fill its last cycle leaves the
// rest of it to the next one, so that a stream moves exactly `port_bytes` a cycle. A bank takes its requests in the
// order in which they came; a read that has no return slot lets writes to other places pass. An access that ends in
// cycle t is done at t + latency.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mem/channel.hpp"
#include "sim/faults.hpp"

namespace cosim::mem {

class Sram final : public Channel {
 public:
  explicit Sram(const ChannelConfig& config);  // std::invalid_argument lists every problem

  [[nodiscard]] bool can_accept(Op op, int pc) const override;
  void accept(const Request& request, std::int64_t tick) override;
  bool try_accept(const Request& request, std::int64_t tick) override;

  [[nodiscard]] std::int64_t next_event() const override;
  [[nodiscard]] std::int64_t next_progress() const override { return next_event(); }
  void advance(std::int64_t tick) override;

  void set_return_slots(int pc, int slots) override;
  void release_slot(int pc, std::int64_t tick) override;
  std::int64_t cancel(std::uint64_t first_tag, std::uint64_t last_tag, std::int64_t tick) override;

  [[nodiscard]] std::int64_t queued() const override { return waiting_[0] + waiting_[1]; }
  [[nodiscard]] const ChannelConfig& config() const override { return config_; }
  [[nodiscard]] const ChannelCounters& counters() const override { return counters_; }
  // busy_ticks: port cycles, of all ports together.
  [[nodiscard]] BankCounters bank_counters(int pc, int bank, std::int64_t tick) const override;
  [[nodiscard]] std::int64_t any_open_ticks(std::int64_t) const override { return 0; }
  [[nodiscard]] std::int64_t refreshes(int) const override { return 0; }
  [[nodiscard]] std::vector<IssuedCommand> recent_commands() const override;

  [[nodiscard]] std::string verify_conservation() const override;
  [[nodiscard]] std::string describe_wait() const override;

  void normalise(std::int64_t tick) override;
  void visit(sim::Visitor& v) override;
  void walk(sim::Canonical& c, const sim::Present& present, RequestNames& names) override;

 private:
  static constexpr std::int32_t kNoLimit = std::numeric_limits<std::int32_t>::max();

  struct Waiting {
    std::int64_t seen_at = 0;  // first tick at which it may start
    std::uint64_t tag = 0;
    std::int32_t row = 0;
    std::int32_t column = 0;
    Op op = Op::read;
    std::uint8_t message_class = 0;
    std::int8_t priority = 0;
    std::uint8_t reserved[5] = {};
  };
  struct Port {
    std::int64_t tick = 0;   // the cycle in which it is free again ...
    std::int32_t bytes = 0;  // ... but for these bytes
    std::int32_t reserved = 0;
  };

  // The request of `bank` that goes next, -1 when none may.
  [[nodiscard]] std::ptrdiff_t choose(std::size_t bank) const;
  [[nodiscard]] std::size_t first_port(std::size_t bank) const;
  void start(std::size_t bank, std::size_t at, std::size_t port, std::int64_t tick);

  ChannelConfig config_;
  sim::Fault fault_;
  std::vector<std::vector<Waiting>> banks_;  // oldest first, higher priority before
  std::vector<Port> ports_;                  // [bank * ports + port]
  std::array<std::int32_t, 2> waiting_{};    // reads, writes
  std::int32_t return_slots_ = kNoLimit;
  std::int64_t now_ = -1;
  std::int64_t blocked_since_ = -1;
  ChannelCounters counters_;
  std::vector<BankCounters> bank_counters_;
  std::vector<IssuedCommand> recent_;
  std::int64_t recorded_ = 0;
};

}  // namespace cosim::mem
