#include "mem/controller.hpp"

#include <doctest/doctest.h>

#include <random>
#include <tuple>
#include <vector>

#include "mem/test_channels.hpp"

using namespace cosim;
using namespace cosim::mem;

namespace {

// Bytes of what decides the future; statistics are counters.
class StateSize final : public sim::Visitor {
 public:
  std::size_t total = 0;

 protected:
  void bytes(sim::Kind kind, void*, std::size_t size, std::size_t) override {
    if (kind != sim::Kind::counter) total += size;
  }
};

}  // namespace

TEST_CASE("a row may be closed in the tick of its last hit when no rule keeps them apart") {
  ChannelConfig c = test::channel_of({});
  c.log_commands = true;
  c.rules = {{Scope::bank, Command::ACT, Command::RD, 5, 1},
             {Scope::bank, Command::RD, Command::RD, 10, 1},
             {Scope::bank, Command::PREpb, Command::ACT, 5, 1}};
  Controller controller(c);
  for (std::uint64_t i = 0; i < 3; ++i) {
    Request r;
    r.row = i == 2 ? 1 : 0;
    r.column = i == 1 ? 1 : 0;
    r.tag = i;
    controller.accept(r, 0);
  }
  for (std::int64_t t = controller.next_event(); t != kNeverTick; t = controller.next_event()) controller.advance(t);
  std::vector<std::tuple<std::int64_t, Command>> issued;
  for (const IssuedCommand& i : controller.commands) issued.emplace_back(i.tick, i.command);
  const std::vector<std::tuple<std::int64_t, Command>> expected = {{1, Command::ACT},  {6, Command::RD},
                                                                   {16, Command::RD},  {16, Command::PREpb},
                                                                   {21, Command::ACT}, {26, Command::RD}};
  CHECK((issued == expected));
}

TEST_CASE("a pseudo-channel of 64 banks with queues of 32 fits 8 KB") {
  ChannelConfig c = test::channel_of({1, 4, 4, 4, 1 << 15, 32});
  const auto size = [&] {
    Controller controller(c);
    StateSize state;
    controller.visit(state);
    return state.total;
  };
  CHECK(size() <= 8192);
  const std::size_t one = size();
  c.pseudo_channels = 2;
  CHECK(size() <= 2 * one);
}

TEST_CASE("requests taken by the channel itself go as those offered one by one") {
  for (const bool shared_bus : {false, true}) {
    for (const int pseudo_channels : {1, 2}) {
      ChannelConfig c = test::channel_of({pseudo_channels, 1, 2, 2, 4, 4});
      test::set_queues(c, 6, 6, 4, 1);
      c.age_cap = 8;
      c.shared_command_bus = shared_bus;
      c.log_commands = true;
      c.rules = {{Scope::bank, Command::ACT, Command::RD, 5, 1},      {Scope::bank, Command::ACT, Command::WR, 4, 1},
                 {Scope::bank, Command::PREpb, Command::ACT, 5, 1},   {Scope::bank, Command::WR, Command::PREpb, 7, 1},
                 {Scope::bank_group, Command::RD, Command::RD, 3, 1}, {Scope::channel, Command::RD, Command::RD, 1, 1},
                 {Scope::channel, Command::ACT, Command::ACT, 2, 1}};
      std::mt19937 draws(7);
      test::Requests requests;
      test::Arrivals arrive;
      for (std::int64_t i = 0; i < 600; ++i) {
        Request r;
        r.op = draws() % 3 == 0 ? Op::write : Op::read;
        r.pc = static_cast<std::uint8_t>(pseudo_channels == 2 ? draws() % 2 : 0);
        r.bg = static_cast<std::uint8_t>(draws() % 2);
        r.bank = static_cast<std::uint8_t>(draws() % 2);
        r.row = static_cast<std::int32_t>(draws() % 4);
        r.column = static_cast<std::int32_t>(draws() % 4);
        r.tag = static_cast<std::uint64_t>(i);
        requests[r.pc].push_back(r);
        arrive[r.pc].push_back(i < 300 ? 0 : i * 9);
      }
      const test::Served by_itself = test::served(c, requests, arrive, false);
      CHECK(by_itself.completed.size() == 600);
      CHECK(by_itself.conservation == "");
      CHECK((by_itself == test::served(c, requests, arrive, true)));
    }
  }
}

TEST_CASE("a row that stays open for any number of time bases is open for exactly that long") {
  ChannelConfig c = test::channel_of({});
  c.rules = {{Scope::bank, Command::ACT, Command::RD, 5, 1}};
  Controller controller(c);
  Request r;
  std::int64_t opened = -1;
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{3} << 30, std::int64_t{11} << 30}) {
    r.column = at == 0 ? 0 : 1;
    controller.accept(r, at);
    for (std::int64_t t = controller.next_event(); t != kNeverTick; t = controller.next_event()) controller.advance(t);
    if (at == 0) opened = 1;
    const std::int64_t now = at + 100;
    CHECK(controller.any_open_ticks(now) == now - opened);
    CHECK(controller.bank_counters(0, 0, now).busy_ticks == now - opened);
    const std::int64_t later = now + (std::int64_t{2} << 30);
    controller.normalise(later);
    CHECK(controller.any_open_ticks(later) == later - opened);
    CHECK(controller.bank_counters(0, 0, later).busy_ticks == later - opened);
  }
}
