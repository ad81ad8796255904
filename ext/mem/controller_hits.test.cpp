#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <tuple>

#include "mem/test_channels.hpp"

using namespace cosim::mem;

namespace {

// Enough rules that hits, activated requests, row commands and the other pseudo-channel get in one another's way.
ChannelConfig config(int pseudo_channels, bool shared_bus) {
  ChannelConfig c = test::channel_of({pseudo_channels, 2, 2, 2, 8, 16});
  test::set_queues(c, 12, 8, 6, 2);
  c.shared_command_bus = shared_bus;
  c.read_latency = 9;
  c.write_latency = 7;
  c.log_commands = true;
  for (const Command each : {Command::RD, Command::WR}) {
    c.rules.push_back({Scope::channel, each, Command::RD, 1, 1});
    c.rules.push_back({Scope::channel, each, Command::WR, 1, 1});
    c.rules.push_back({Scope::pseudo_channel, each, each, 2, 1});
    c.rules.push_back({Scope::bank_group, each, each, 3, 1});
    c.rules.push_back({Scope::other_stack_id, each, each, 4, 1});
    c.rules.push_back({Scope::pseudo_channel, each, each == Command::RD ? Command::WR : Command::RD, 8, 1});
    c.rules.push_back({Scope::bank, each, Command::PREpb, each == Command::RD ? 5 : 12, 1});
    c.rules.push_back({Scope::bank, Command::ACT, each, 6, 1});
  }
  c.rules.push_back({Scope::bank, Command::WR, Command::WR, 4, 1});
  c.rules.push_back({Scope::bank, Command::ACT, Command::PREpb, 13, 1});
  c.rules.push_back({Scope::bank, Command::ACT, Command::ACT, 19, 1});
  c.rules.push_back({Scope::bank, Command::PREpb, Command::ACT, 6, 1});
  c.rules.push_back({Scope::pseudo_channel, Command::ACT, Command::ACT, 3, 1});
  if (shared_bus) {
    for (const Command from : {Command::RD, Command::WR}) {
      c.rules.push_back({Scope::channel, from, Command::ACT, 2, 1});
      c.rules.push_back({Scope::channel, from, Command::PREpb, 2, 1});
      c.rules.push_back({Scope::channel, Command::ACT, from, 2, 1});
    }
  }
  return c;
}

}  // namespace

TEST_CASE("a run of row hits is what single events would have been") {
  std::int64_t hits = 0;
  for (const bool shared_bus : {false, true}) {
    for (int pseudo_channels = 1; pseudo_channels <= 2; ++pseudo_channels) {
      for (unsigned seed = 1; seed <= 24; ++seed) {
        const ChannelConfig c = config(pseudo_channels, shared_bus);
        std::mt19937_64 draws(seed);
        const auto below = [&](std::uint64_t n) { return draws() % n; };
        const std::uint64_t writes = below(3) * 4;  // of 100 stretches: whole streams of one kind
        const std::uint64_t gap = below(2) * below(30);
        test::Requests requests;
        test::Arrivals arrive;
        std::int64_t at = 0;
        Request r;
        for (std::uint64_t i = 0; i < 1500; ++i) {
          if (i % 48 == 0) {
            r.row = static_cast<std::int32_t>(below(3));
            r.stack_id = static_cast<std::uint8_t>(below(2));
            r.bank = static_cast<std::uint8_t>(below(2));
            r.op = below(12) < writes ? Op::write : Op::read;
          }
          Request each = r;
          each.pc = static_cast<std::uint8_t>(i % static_cast<std::uint64_t>(pseudo_channels));
          each.bg = static_cast<std::uint8_t>(i / 2 % 2);
          each.column = static_cast<std::int32_t>(i / 4 % 16);
          if (below(40) == 0) each.op = each.op == Op::read ? Op::write : Op::read;
          if (below(60) == 0) each.priority = static_cast<std::int8_t>(below(2));
          each.tag = i;
          if (gap != 0 && below(3) == 0) at += static_cast<std::int64_t>(below(gap));
          requests[each.pc].push_back(each);
          arrive[each.pc].push_back(at);
        }
        const test::Served in_runs = test::served(c, requests, arrive, false);
        CHECK(in_runs.conservation == "");
        CHECK((in_runs == test::served(c, requests, arrive, true)));
        hits += std::count_if(in_runs.completed.begin(), in_runs.completed.end(),
                              [](const auto& each) { return std::get<RowResult>(each) == RowResult::hit; });
      }
    }
  }
  CHECK(hits > 75'000);
}
