// One memory channel as plain integers: the standard's data after every unit, rounding rule and expression is resolved.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mem/command.hpp"

namespace cosim::mem {

class ChannelFactory;

inline constexpr int kMaxPseudoChannels = 2;
inline constexpr int kMaxBanks = 64;  // of one pseudo-channel, all stack ids together: one bit each in a mask
inline constexpr int kMaxWindow = 8;
inline constexpr int kMaxPorts = 8;

// Where a constraint holds, seen from the bank of the earlier command. `channel` is the command bus, shared by the
// pseudo-channels.
enum class Scope : std::uint8_t { channel, pseudo_channel, stack_id, other_stack_id, bank_group, bank };
inline constexpr int kScopes = 6;

// `to` may not be issued within `value` ticks after the `window`-th last `from` in the same scope. Ticks count first
// command cycles; multi-cycle commands are already accounted for.
struct Rule {
  Scope scope = Scope::bank;
  Command from = Command::ACT;
  Command to = Command::ACT;
  std::int32_t value = 0;
  std::int32_t window = 1;
};

enum class MemoryKind : std::uint8_t { dram, sram };
enum class Refresh : std::uint8_t { none, all_bank, per_bank };
enum class PagePolicy : std::uint8_t { open, closed, timeout };

struct ChannelConfig {
  MemoryKind kind = MemoryKind::dram;
  int pseudo_channels = 1;
  int stack_ids = 1;
  int bank_groups = 1;
  int banks_per_group = 1;
  std::int64_t rows = 1;
  int columns = 1;  // bursts of a row
  int access_bytes = 32;
  int slots_per_cycle = 1;          // ticks of one CK
  bool shared_command_bus = false;  // one command per tick instead of one row and one column command
  std::vector<std::uint8_t> rising_edge_only = std::vector<std::uint8_t>(kCommands, 0);  // only at odd ticks
  std::vector<Rule> rules;

  int read_latency = 1;   // ticks from RD to the last beat
  int write_latency = 1;  // ticks from WR to the last beat; 0: a write counts as done when its WR is issued
  int precharge_ticks = 0;
  int refresh_all_ticks = 0;
  int refresh_bank_ticks = 0;

  Refresh refresh = Refresh::none;
  std::int32_t refresh_interval = 0;  // ticks
  // Banks that one per-bank refresh takes, equally far apart: 1, or one of every bank group (same-bank refresh).
  int refresh_set = 1;
  int postponed_refreshes = 0;

  PagePolicy page_policy = PagePolicy::open;
  std::int32_t page_timeout = 0;  // ticks without a column command

  int read_queue = 32;
  int write_queue = 32;
  int write_high = 26;       // enter write mode at this many writes ...
  int write_low = 6;         // ... and leave it at this many when reads wait
  std::int64_t age_cap = 0;  // younger requests that may overtake an older one; 0: any number

  // The compatibility switches of the value set `ramulator2.1`; all false is the truer behaviour.
  bool slot_freed_at_act = false;              // an activated request leaves its queue at ACT, not at RD or WR
  bool ties_by_arrival_tick = false;           // requests of one tick count as equally old where a hit holds a PRE back
  bool refresh_blocks_channel = false;         // a pending refresh stops every request of the channel
  bool reads_return_in_order = false;          // a forwarded read waits for older reads
  bool coalesce_writes = false;                // a write to a queued address is absorbed
  bool shared_queues = false;                  // the pseudo-channels share queues, mode and refresh order
  bool refresh_pairs_pseudo_channels = false;  // per-bank refresh takes the same bank of every pseudo-channel at once

  // SRAM only: bytes that a port moves in a tick, and ports of a bank.
  int port_bytes = 0;
  int ports = 0;

  bool log_commands = false;

  std::shared_ptr<const ChannelFactory> plugin;  // a channel of somebody else's in place of ours

  [[nodiscard]] int banks() const { return stack_ids * bank_groups * banks_per_group; }
  // Every contradiction found, one per line; empty when the configuration can be simulated.
  [[nodiscard]] std::string problems() const;

 private:
  [[nodiscard]] std::string sram_problems() const;
};

}  // namespace cosim::mem
