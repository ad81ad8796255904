#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "mem/test_channels.hpp"

using namespace cosim::mem;

namespace {

ChannelConfig small_memory(Refresh refresh) {
  ChannelConfig c = test::channel_of({1, 1, 2, 2, 1 << 20, 8});
  test::set_queues(c, 8, 8, 6, 2);
  c.age_cap = 16;
  c.log_commands = true;
  c.rising_edge_only[0] = 1;
  c.precharge_ticks = 6;
  c.refresh = refresh;
  c.refresh_interval = refresh == Refresh::none ? 0 : 150;
  c.rules = {{Scope::pseudo_channel, Command::ACT, Command::ACT, 3, 1},
             {Scope::pseudo_channel, Command::ACT, Command::ACT, 17, 4},
             {Scope::pseudo_channel, Command::RD, Command::RD, 2, 1},
             {Scope::pseudo_channel, Command::RD, Command::WR, 5, 1},
             {Scope::pseudo_channel, Command::WR, Command::RD, 9, 1},
             {Scope::bank_group, Command::RD, Command::RD, 4, 1},
             {Scope::bank, Command::ACT, Command::RD, 7, 1},
             {Scope::bank, Command::ACT, Command::WR, 7, 1},
             {Scope::bank, Command::RD, Command::PREpb, 4, 1},
             {Scope::bank, Command::WR, Command::PREpb, 8, 1},
             {Scope::bank, Command::ACT, Command::PREpb, 15, 1},
             {Scope::bank, Command::PREpb, Command::ACT, 6, 1},
             {Scope::bank, Command::PREpb, Command::REFpb, 6, 1},
             {Scope::bank, Command::REFpb, Command::ACT, 40, 1}};
  return c;
}

Request nth(std::int64_t i, std::int32_t row) {
  Request r;
  r.op = i % 11 == 3 ? Op::write : Op::read;
  r.bg = static_cast<std::uint8_t>(i & 1);
  r.bank = static_cast<std::uint8_t>(i >> 4 & 1);
  r.row = row + static_cast<std::int32_t>(i >> 5);
  r.column = static_cast<std::int32_t>(i >> 1 & 7);
  r.tag = static_cast<std::uint64_t>(i);
  return r;
}

// Offers the requests from `next` on and advances up to `until`, both moved by `by`, their banks under its names.
void play(Controller& c, std::int64_t& next, std::int64_t until, const Origin& by) {
  const auto offer = [&](std::int64_t t) {
    while (true) {
      Request r = nth(next, by.row);
      r.tag += by.tag;
      if (by.turn != nullptr) {
        const std::size_t bank = by.turn->real[static_cast<std::size_t>(r.bg * 2 + r.bank)];
        r.bg = static_cast<std::uint8_t>(bank / 2);
        r.bank = static_cast<std::uint8_t>(bank % 2);
        r.row += by.turn->row[bank];
      }
      if (!c.try_accept(r, t)) return;
      ++next;
    }
  };
  if (next == 0) offer(by.tick);
  for (std::int64_t t = c.next_event(); t <= until + by.tick; t = c.next_event()) {
    c.advance(t);
    offer(t);
  }
}

// Plays on with two controllers, the second one moved by `by`: they issue the same commands, to banks under its names.
void go_on_alike(Controller& first, Controller& second, std::int64_t next, std::int64_t until, const Origin& by) {
  std::int64_t next_too = next;
  play(first, next, until, {});
  play(second, next_too, until, by);
  CHECK(next == next_too);
  REQUIRE(first.commands.size() == second.commands.size());
  REQUIRE(first.commands.size() > 100);
  for (std::size_t i = 0; i < first.commands.size(); ++i) {
    const IssuedCommand& c = first.commands[i];
    const int bank = c.bank < 0 || by.turn == nullptr ? c.bank : by.turn->real[static_cast<std::size_t>(c.bank)];
    CHECK(c.tick + by.tick == second.commands[i].tick);
    CHECK(c.command == second.commands[i].command);
    CHECK(bank == second.commands[i].bank);
  }
}

}  // namespace

TEST_CASE("a controller goes on from a canonical form at another tick, row and tag") {
  for (const Refresh refresh : {Refresh::none, Refresh::per_bank}) {
    for (const std::int64_t at : {40, 151, 333, 700}) {
      Controller first(small_memory(refresh));
      std::int64_t next = 0;
      play(first, next, at, {});
      first.commands.clear();
      first.completions.clear();
      std::vector<std::int32_t> form;
      REQUIRE(first.canonical({at, 0, 0}, true, form));
      const Statistics before = first.statistics(at);

      Controller second(small_memory(refresh));
      const Origin by{1'000'000, 4096, 77};
      second.jump(0, form, {at + by.tick, by.row, by.tag}, before);
      std::vector<std::int32_t> again;
      REQUIRE(second.canonical({at + by.tick, by.row, by.tag}, true, again));
      CHECK(form == again);

      go_on_alike(first, second, next, at + 500, by);
      for (std::size_t i = 0; i < first.completions.size(); ++i) {
        CHECK(first.completions[i].tag + by.tag == second.completions[i].tag);
        CHECK(first.completions[i].done_tick + by.tick == second.completions[i].done_tick);
        CHECK(first.completions[i].row_result == second.completions[i].row_result);
      }
      const Statistics one = first.statistics(at + 500);
      const Statistics two = second.statistics(at + 500 + by.tick);
      CHECK(one.channel.any_open_ticks == two.channel.any_open_ticks);
      CHECK(one.channel.served_reads == two.channel.served_reads);
      for (std::size_t b = 0; b < one.banks.size(); ++b) CHECK(one.banks[b].busy_ticks == two.banks[b].busy_ticks);
      CHECK(first.verify_conservation().empty());
      CHECK(second.verify_conservation().empty());
    }
  }
}

TEST_CASE("a controller goes on from a canonical form under other names of its banks") {
  BankTurn turn;
  turn.real = {3, 2, 0, 1};  // groups change places, and the banks of one group do
  turn.name = {2, 3, 1, 0};
  turn.row = {0, 5, 0, 2};
  for (const Refresh refresh : {Refresh::none, Refresh::all_bank}) {
    for (const PagePolicy policy : {PagePolicy::open, PagePolicy::closed}) {
      for (const std::int64_t at : {40, 151, 333, 700}) {
        ChannelConfig config = small_memory(refresh);
        config.page_policy = policy;
        Controller first(config);
        REQUIRE(first.banks_are_alike());
        std::int64_t next = 0;
        play(first, next, at, {});
        first.commands.clear();
        std::vector<std::int32_t> form;
        REQUIRE(first.canonical({at, 0, 0}, true, form));

        Controller second(config);
        const Origin by{1'000'000, 4096, 77, &turn};
        const Statistics before = first.statistics(at);
        Statistics turned;
        turned.add(before, 1, 4, turn);
        second.jump(0, form, {at + by.tick, by.row, by.tag, &turn}, turned);
        std::vector<std::int32_t> again;
        REQUIRE(second.canonical({at + by.tick, by.row, by.tag, &turn}, true, again));
        CHECK(form == again);
        again.clear();
        REQUIRE(second.canonical({at + by.tick, by.row, by.tag}, true, again));
        CHECK(form != again);

        go_on_alike(first, second, next, at + 500, by);
        const Statistics one = first.statistics(at + 500);
        const Statistics two = second.statistics(at + 500 + by.tick);
        for (std::size_t b = 0; b < one.banks.size(); ++b) {
          CHECK(one.banks[b].busy_ticks == two.banks[turn.real[b]].busy_ticks);
          CHECK(one.banks[b].bytes == two.banks[turn.real[b]].bytes);
        }
        CHECK(second.verify_conservation().empty());
      }
    }
  }
  ChannelConfig config = small_memory(Refresh::per_bank);
  CHECK_FALSE(Controller(config).banks_are_alike());  // banks are refreshed in their order
  config = small_memory(Refresh::none);
  config.page_policy = PagePolicy::timeout;
  config.page_timeout = 50;
  CHECK_FALSE(Controller(config).banks_are_alike());  // of idle rows the first bank's is closed first
}

TEST_CASE("a canonical form without refresh leaves the refresh of its channel alone") {
  Controller c(small_memory(Refresh::per_bank));
  std::int64_t next = 0;
  play(c, next, 140, {});
  CHECK(c.next_refresh() == 150);
  std::vector<std::int32_t> form;
  REQUIRE(c.canonical({140, 0, 0}, false, form));
  Statistics none;
  none.banks.resize(4);
  c.jump(140, form, {146, 0, 0}, none);
  CHECK(c.next_refresh() == 150);
}

TEST_CASE("a form with refresh comes again when its banks have had their turn") {
  for (const bool stops_channel : {false, true}) {
    for (const Refresh refresh : {Refresh::all_bank, Refresh::per_bank}) {
      ChannelConfig config = small_memory(refresh);
      config.refresh_blocks_channel = stops_channel;
      const std::int64_t turn = std::int64_t{150} * (refresh == Refresh::per_bank ? config.banks() : 1);
      Controller c(config);
      const auto form_at = [&](std::int64_t at) {
        for (std::int64_t t = c.next_event(); t <= at; t = c.next_event()) c.advance(t);
        std::vector<std::int32_t> form;
        REQUIRE(c.canonical({at, 0, 0}, true, form));
        return form;
      };
      const auto before = form_at(turn + 100);
      CHECK(before != form_at(turn + 102));
      CHECK(before == form_at(2 * turn + 100));
      CHECK(before == form_at(9 * turn + 100));
    }
  }
}

TEST_CASE("what differs for the future differs in the canonical form") {
  const auto form_after = [](std::int64_t at, std::int32_t row, bool one_more, int slots) {
    Controller c(small_memory(Refresh::none));
    c.set_return_slots(0, slots);
    std::int64_t next = 0;
    play(c, next, at, {0, row, 0});
    if (one_more) {
      Request r = nth(3, row);
      r.column = 7;
      (void)c.try_accept(r, at);
    }
    std::vector<std::int32_t> form;
    REQUIRE(c.canonical({at, row, 0}, true, form));
    return form;
  };
  const auto same = form_after(90, 0, false, 500);
  CHECK(same == form_after(90, 12, false, 500));
  CHECK(same != form_after(90, 0, true, 500));
  CHECK(same != form_after(90, 0, false, 499));
  CHECK(same != form_after(91, 0, false, 500));
}
