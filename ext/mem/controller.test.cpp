#include "mem/controller.hpp"

#include <doctest/doctest.h>

#include <tuple>
#include <vector>

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
  ChannelConfig c;
  c.rows = 2;
  c.columns = 2;
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
  ChannelConfig c;
  c.stack_ids = 4;
  c.bank_groups = 4;
  c.banks_per_group = 4;
  c.rows = 1 << 15;
  c.columns = 32;
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
