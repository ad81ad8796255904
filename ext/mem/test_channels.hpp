// Channels that tests run, and requests served by them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "mem/controller.hpp"

namespace cosim::mem::test {

struct Shape {
  int pseudo_channels = 1;
  int stack_ids = 1;
  int bank_groups = 1;
  int banks_per_group = 1;
  std::int64_t rows = 2;
  int columns = 2;
};

inline ChannelConfig channel_of(const Shape& shape) {
  ChannelConfig c;
  c.pseudo_channels = shape.pseudo_channels;
  c.stack_ids = shape.stack_ids;
  c.bank_groups = shape.bank_groups;
  c.banks_per_group = shape.banks_per_group;
  c.rows = shape.rows;
  c.columns = shape.columns;
  return c;
}

inline void set_queues(ChannelConfig& c, int reads, int writes, int high, int low) {
  c.read_queue = reads;
  c.write_queue = writes;
  c.write_high = high;
  c.write_low = low;
}

// HBM2 at 2 Gb/s without refresh and without the rules that short runs never meet: RD is 15 CK behind ACT (which takes
// two), the last beat 16 CK behind RD, RDs to one bank 4 CK apart, to different bank groups 2.
inline ChannelConfig hbm2_channel(int access_bytes = 32) {
  ChannelConfig c = channel_of({2, 1, 4, 4, 64, 32});
  c.access_bytes = access_bytes;
  c.rules = {
      {Scope::channel, Command::ACT, Command::ACT, 2},        {Scope::channel, Command::ACT, Command::PREpb, 2},
      {Scope::pseudo_channel, Command::RD, Command::RD, 2},   {Scope::bank_group, Command::RD, Command::RD, 4},
      {Scope::pseudo_channel, Command::WR, Command::WR, 2},   {Scope::bank_group, Command::WR, Command::WR, 4},
      {Scope::pseudo_channel, Command::RD, Command::WR, 13},  {Scope::pseudo_channel, Command::WR, Command::RD, 15},
      {Scope::pseudo_channel, Command::ACT, Command::ACT, 4}, {Scope::bank, Command::ACT, Command::ACT, 48},
      {Scope::bank, Command::ACT, Command::RD, 15},           {Scope::bank, Command::ACT, Command::WR, 13},
      {Scope::bank, Command::ACT, Command::PREpb, 35},        {Scope::bank, Command::RD, Command::PREpb, 5},
      {Scope::bank, Command::WR, Command::PREpb, 23},         {Scope::bank, Command::PREpb, Command::ACT, 13},
  };
  c.read_latency = 16;
  c.write_latency = 7;
  c.precharge_ticks = 14;
  return c;
}

// What requests, offered pseudo-channel by pseudo-channel, came to.
struct Served {
  std::array<std::vector<std::int64_t>, kMaxPseudoChannels> accepted;
  std::vector<std::tuple<std::int64_t, Command, int, int>> issued;                          // tick, pc, bank
  std::vector<std::tuple<std::uint64_t, std::int64_t, std::int64_t, RowResult>> completed;  // tag, issue, done
  std::string conservation;

  bool operator==(const Served&) const = default;
};

using Requests = std::array<std::vector<Request>, kMaxPseudoChannels>;
using Arrivals = std::array<std::vector<std::int64_t>, kMaxPseudoChannels>;

// Serves all of them: taken by the channel in runs as it likes, or offered one by one and advanced event by event.
inline Served served(const ChannelConfig& config, const Requests& requests, const Arrivals& arrive, bool one_by_one) {
  Controller controller(config);
  Served out;
  std::vector<Offers> offers;
  for (std::size_t pc = 0; pc < requests.size(); ++pc) {
    out.accepted[pc].assign(requests[pc].size(), -1);
    if (!requests[pc].empty()) offers.push_back({requests[pc], arrive[pc], out.accepted[pc]});
  }
  std::int64_t tick = 0;
  while (!std::all_of(offers.begin(), offers.end(), [](const Offers& o) { return o.all_taken(); })) {
    tick = one_by_one ? controller.Channel::serve(offers, tick) : controller.serve(offers, tick);
  }
  for (std::int64_t t = controller.next_event(); t != kNeverTick; t = controller.next_event()) controller.advance(t);
  for (const IssuedCommand& i : controller.commands) out.issued.emplace_back(i.tick, i.command, i.pc, i.bank);
  for (const Completion& d : controller.completions) {
    out.completed.emplace_back(d.tag, d.issue_tick, d.done_tick, d.row_result);
  }
  out.conservation = controller.verify_conservation();
  return out;
}

}  // namespace cosim::mem::test
