#include "mem/timing_rules.hpp"

#include <doctest/doctest.h>

using namespace cosim::mem;

namespace {

ChannelConfig config() {  // 2 stack ids of 2 groups of 4 banks
  ChannelConfig c;
  c.stack_ids = 2;
  c.bank_groups = 2;
  c.banks_per_group = 4;
  return c;
}

struct State {
  EarliestTicks e;
  Gates bus{};
  State() {
    for (PerBank<std::int32_t>& banks : e.banks) banks.fill(kLongAgo);
    e.own.fill(kLongAgo);
    e.act_ring.fill(kLongAgo);
    bus.fill(kLongAgo);
  }
  [[nodiscard]] std::int32_t rd(std::size_t bank) const {
    return std::max({e.at(BankClass::rd, bank), e.own[gate_index(Command::RD)], bus[gate_index(Command::RD)]});
  }
};

}  // namespace

TEST_CASE("a rule delays the banks of its scope") {
  ChannelConfig c = config();
  c.rules = {{Scope::pseudo_channel, Command::RD, Command::RD, 2, 1},
             {Scope::other_stack_id, Command::RD, Command::RD, 3, 1},
             {Scope::bank_group, Command::RD, Command::RD, 4, 1},
             {Scope::bank, Command::RD, Command::RDA, 9, 1}};
  const TimingRules rules(c);
  State s;
  rules.apply(Command::RD, 5, 100, s.e, s.bus);
  CHECK(s.rd(5) == 109);  // RDA waits like RD
  CHECK(s.rd(4) == 104);
  CHECK(s.rd(3) == 102);
  CHECK(s.rd(8) == 103);
  CHECK(s.rd(15) == 103);
}

TEST_CASE("a rule that a wider one implies changes nothing") {
  ChannelConfig c = config();
  c.rules = {{Scope::pseudo_channel, Command::RD, Command::RD, 4, 1},
             {Scope::bank_group, Command::RD, Command::RD, 4, 1}};
  const TimingRules rules(c);
  State s;
  rules.apply(Command::RD, 5, 100, s.e, s.bus);
  for (std::size_t b = 0; b < 16; ++b) CHECK(s.rd(b) == 104);
}

TEST_CASE("several rules of a pair and scope act as the longest") {
  ChannelConfig c = config();
  c.rules = {{Scope::bank, Command::ACT, Command::RD, 14, 1},
             {Scope::bank, Command::ACT, Command::RD, 16, 1},
             {Scope::channel, Command::ACT, Command::RD, 1, 1}};
  const TimingRules rules(c);
  State s;
  rules.apply(Command::ACT, 0, 10, s.e, s.bus);
  CHECK(s.rd(0) == 26);
  CHECK(s.rd(1) == 11);
}

TEST_CASE("the activation window counts ACTs of the pseudo-channel") {
  ChannelConfig c = config();
  c.rules = {{Scope::pseudo_channel, Command::ACT, Command::ACT, 40, 4}};
  const TimingRules rules(c);
  State s;
  const std::array<std::int32_t, 4> at = {10, 20, 21, 30};
  for (std::size_t i = 0; i < at.size(); ++i) {
    CHECK(s.e.own[gate_index(Command::ACT)] <= at[i]);
    rules.apply(Command::ACT, static_cast<int>(i), at[i], s.e, s.bus);
  }
  CHECK(s.e.own[gate_index(Command::ACT)] == 50);  // the fifth: 40 after the first
  rules.apply(Command::ACT, 4, 50, s.e, s.bus);
  CHECK(s.e.own[gate_index(Command::ACT)] == 60);
}

TEST_CASE("all-bank commands delay the whole pseudo-channel") {
  ChannelConfig c = config();
  c.rules = {{Scope::pseudo_channel, Command::PREab, Command::ACT, 14, 1}};
  const TimingRules rules(c);
  State s;
  rules.apply(Command::PREab, -1, 5, s.e, s.bus);
  CHECK(s.e.own[gate_index(Command::ACT)] == 19);
  CHECK(s.e.at(BankClass::act, 0) == kLongAgo);
}
