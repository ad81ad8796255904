// A memory channel behind a user's table of C functions (cosim/plugin/cosim_memory.h): what crosses is checked here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cosim/plugin/cosim_memory.h"
#include "mem/channel.hpp"

namespace cosim::mem {

// A memory plug-in broke the contract; the text names it, the burst and the tick.
class MemoryPluginError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A table of functions, what of the memory ChannelConfig does not say, and what its owner knows of it.
struct MemoryPlugin final : public ChannelFactory {
  const cosim_memory_v1* table = nullptr;
  std::shared_ptr<const void> library;  // whatever must live as long as the table is used
  std::string params = "{}";            // compact JSON
  std::string preset;
  std::uint64_t peak_bytes_per_second = 0;
  std::uint64_t tick_fs_num = 1;
  std::uint64_t tick_fs_den = 1;

  [[nodiscard]] std::unique_ptr<Channel> create(const ChannelConfig& config) const override;
};

// Calls of PluginChannel that offer or advance throw MemoryPluginError.
class PluginChannel final : public Channel {
 public:
  // Throws std::invalid_argument with the plug-in's own words when it refuses.
  PluginChannel(const MemoryPlugin& plugin, const ChannelConfig& config);
  PluginChannel(const PluginChannel&) = delete;
  PluginChannel(PluginChannel&&) = delete;
  PluginChannel& operator=(const PluginChannel&) = delete;
  PluginChannel& operator=(PluginChannel&&) = delete;
  ~PluginChannel() override;

  // One burst that the plug-in refused waits here per pseudo-channel, and is offered again after each advance.
  [[nodiscard]] bool can_accept(Op op, int pc) const override;
  void accept(const Request& request, std::int64_t tick) override;
  bool try_accept(const Request& request, std::int64_t tick) override;
  [[nodiscard]] std::int64_t next_event() const override { return next_; }
  [[nodiscard]] std::int64_t next_progress() const override { return next_; }
  void advance(std::int64_t tick) override;

  void set_return_slots(int pc, int slots) override { slots_[static_cast<std::size_t>(pc)] = slots; }
  void release_slot(int pc, std::int64_t tick) override;
  // Of the bursts that wait here: what the plug-in has taken it does not give back.
  std::int64_t cancel(std::uint64_t first_tag, std::uint64_t last_tag, std::int64_t tick) override;

  [[nodiscard]] std::int64_t queued() const override;
  [[nodiscard]] const ChannelConfig& config() const override { return config_; }
  [[nodiscard]] const ChannelCounters& counters() const override { return counters_; }
  // Bytes, reads and writes; rows are the plug-in's own business.
  [[nodiscard]] BankCounters bank_counters(int pc, int bank, std::int64_t tick) const override;
  [[nodiscard]] std::int64_t any_open_ticks(std::int64_t /*tick*/) const override { return 0; }
  [[nodiscard]] std::int64_t refreshes(int /*pc*/) const override { return 0; }
  [[nodiscard]] std::vector<IssuedCommand> recent_commands() const override { return {}; }
  [[nodiscard]] std::string verify_conservation() const override;
  [[nodiscard]] std::string describe_wait() const override;
  void normalise(std::int64_t /*tick*/) override {}
  // Throws std::runtime_error when the plug-in has no save and load.
  void visit(sim::Visitor& v) override;
  void walk(sim::Canonical& c, const sim::Present& present, RequestNames& names) override;

 private:
  struct Burst {
    std::uint64_t id = 0;
    std::uint64_t tag = 0;
    std::int64_t accepted = 0;
    std::uint8_t pc = 0;
    Op op = Op::read;
    std::uint8_t message_class = 0;
    std::uint8_t reserved[5] = {};
  };
  struct Waiting {
    Request request;
    std::uint8_t used = 0;
    std::uint8_t reserved[7] = {};
  };
  static constexpr std::int32_t kNoLimit = std::numeric_limits<std::int32_t>::max();

  [[nodiscard]] bool offer(const Request& request, std::int64_t tick);
  void offer_waiting(std::int64_t tick);
  void take(const cosim_memory_completion& done, std::int64_t tick);
  void log_commands();
  void learn_next();
  [[noreturn]] void fail(const std::string& what) const;
  [[nodiscard]] std::string name() const { return table_.name; }

  MemoryPlugin plugin_;
  ChannelConfig config_;
  cosim_memory_config asked_{};
  cosim_memory_v1 table_{};  // as much of the plug-in's as both sides know
  void* self_ = nullptr;
  std::int64_t now_ = -1;
  std::int64_t advanced_ = -1;
  std::int64_t next_ = 0;
  std::uint64_t ids_ = 0;
  std::vector<Burst> under_way_;  // ids ascending
  std::array<Waiting, kMaxPseudoChannels> waiting_{};
  std::array<std::int32_t, kMaxPseudoChannels> slots_{kNoLimit, kNoLimit};  // free return slots
  ChannelCounters counters_;
  std::vector<BankCounters> bank_counters_;
};

}  // namespace cosim::mem
