#include "mem/channel_config.hpp"

#include <limits>

namespace cosim::mem {
namespace {

bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

}  // namespace

std::string ChannelConfig::sram_problems() const {
  std::string out;
  const auto fail = [&](const std::string& text) { out += text + "\n"; };
  if (kind == MemoryKind::dram) {
    if (port_bytes != 0 || ports != 0) fail("port_bytes and ports belong to SRAM");
    return out;
  }
  if (port_bytes < 1 || port_bytes > (1 << 20)) {
    fail("port_bytes must be 1 to 2^20, got " + std::to_string(port_bytes));
  }
  if (ports < 1 || ports > kMaxPorts) {
    fail("an SRAM bank has 1 to " + std::to_string(kMaxPorts) + " ports, got " + std::to_string(ports));
  }
  if (pseudo_channels != 1 || stack_ids != 1 || slots_per_cycle != 1 || shared_queues || slot_freed_at_act) {
    fail("an SRAM channel has one pseudo-channel, one stack id, one slot per cycle and queues of its own");
  }
  if (refresh != Refresh::none || page_policy != PagePolicy::open || !rules.empty() || coalesce_writes) {
    fail("SRAM has no refresh, no rows to close, no command rules, and absorbs no writes");
  }
  return out;
}

std::string ChannelConfig::problems() const {
  std::string out = sram_problems();
  const auto fail = [&](const std::string& text) { out += text + "\n"; };
  if (pseudo_channels < 1 || pseudo_channels > kMaxPseudoChannels) {
    fail("pseudo_channels must be 1 or 2, got " + std::to_string(pseudo_channels));
  }
  if (stack_ids < 1 || bank_groups < 1 || banks_per_group < 1 || banks() > kMaxBanks) {
    fail("stack_ids x bank_groups x banks_per_group must be 1 to " + std::to_string(kMaxBanks) + " banks, got " +
         std::to_string(stack_ids) + " x " + std::to_string(bank_groups) + " x " + std::to_string(banks_per_group));
  }
  if (rows < 1 || rows > std::numeric_limits<std::int32_t>::max() || columns < 1 || columns > (1 << 20)) {
    fail("rows and columns must be positive and fit, got " + std::to_string(rows) + " and " + std::to_string(columns));
  }
  if (!is_power_of_two(access_bytes)) {
    fail("access_bytes must be a power of two, got " + std::to_string(access_bytes));
  }
  if (slots_per_cycle < 1 || slots_per_cycle > 2) {
    fail("slots_per_cycle must be 1 or 2, got " + std::to_string(slots_per_cycle));
  }
  if (rising_edge_only.size() != static_cast<std::size_t>(kCommands)) {
    fail("rising_edge_only needs one entry per command");
  }
  int windows = 0;
  for (const Rule& r : rules) {
    const std::string name = std::string(kCommandNames[static_cast<std::size_t>(index(r.from))]) + " -> " +
                             std::string(kCommandNames[static_cast<std::size_t>(index(r.to))]);
    if (r.value < 0 || r.value > (1 << 24)) {
      fail("constraint " + name + " has the value " + std::to_string(r.value) + "; expected 0 to 2^24 ticks");
    }
    const bool all_banks_to = r.to == Command::PREab || r.to == Command::REFab;
    const bool all_banks_from = r.from == Command::PREab || r.from == Command::REFab;
    if ((all_banks_to || all_banks_from) && r.scope != Scope::channel && r.scope != Scope::pseudo_channel) {
      fail("constraint " + name + " names an all-bank command, so its scope must be channel or pseudo_channel");
    }
    if (r.window != 1) {
      ++windows;
      if (r.from != Command::ACT || r.to != Command::ACT || r.scope != Scope::pseudo_channel || r.window < 2 ||
          r.window > kMaxWindow) {
        fail("constraint " + name + " has a window of " + std::to_string(r.window) +
             "; only ACT -> ACT of a pseudo-channel may have one, of 2 to " + std::to_string(kMaxWindow));
      }
    }
  }
  if (windows > 1) fail("at most one ACT window (tFAW) can be given, got " + std::to_string(windows));
  if (read_latency < 1 || write_latency < 0 || precharge_ticks < 0) {
    fail("read_latency must be at least 1, write_latency and precharge_ticks at least 0");
  }
  if (refresh != Refresh::none && refresh_interval < 1) {
    fail("refresh needs an interval of at least one tick, got " + std::to_string(refresh_interval));
  }
  if (refresh_set < 1 || banks() % refresh_set != 0 || (refresh_set > 1 && refresh_blocks_channel)) {
    fail("refresh_set must divide the banks, and is 1 where a refresh blocks its channel; got " +
         std::to_string(refresh_set));
  }
  if (postponed_refreshes < 0) fail("postponed_refreshes must not be negative");
  if (page_timeout < 0) fail("page_timeout must not be negative");
  if (read_queue < 1 || write_queue < 1 || read_queue > 4096 || write_queue > 4096) {
    fail("read_queue and write_queue must be 1 to 4096, got " + std::to_string(read_queue) + " and " +
         std::to_string(write_queue));
  }
  if (write_low < 0 || write_high < 1 || write_low >= write_high || write_high > write_queue) {
    fail("write watermarks must satisfy 0 <= low < high <= write_queue, got low " + std::to_string(write_low) +
         ", high " + std::to_string(write_high) + ", write_queue " + std::to_string(write_queue));
  }
  if (age_cap < 0 || age_cap > (1 << 20)) fail("age_cap must be 0 (none) to 2^20 requests");
  return out;
}

}  // namespace cosim::mem
