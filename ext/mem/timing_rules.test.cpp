#include "mem/timing_rules.hpp"

#include <doctest/doctest.h>

#include <random>

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

TEST_CASE("the vectors of this machine book the same delays as the portable code") {
  std::mt19937_64 draw(11);
  const auto below = [&](std::uint64_t n) { return static_cast<int>(draw() % n); };
  for (int round = 0; round < 60; ++round) {
    ChannelConfig c;
    c.stack_ids = 1 << below(3);
    c.bank_groups = 1 << below(3);
    c.banks_per_group = 1 << below(round % 4 == 0 ? 5 : 3);
    if (c.banks() > kMaxBanks) continue;
    c.refresh = Refresh::per_bank;
    for (int i = 0; i < 40; ++i) {
      const auto scope = static_cast<Scope>(below(kScopes));
      c.rules.push_back(
          {scope, static_cast<Command>(below(kCommands)), static_cast<Command>(below(kCommands)), below(90), 1});
    }
    const TimingRules vectors(c);
    TimingRules portable(c);
    portable.use_portable();
    State x;
    State y;
    for (int t = 0; t < 200; ++t) {
      const auto command = static_cast<Command>(below(kCommands));
      const bool all = command == Command::PREab || command == Command::REFab;
      const int bank = all ? -1 : below(static_cast<std::uint64_t>(c.banks()));
      vectors.apply(command, bank, 3 * t, x.e, x.bus);
      portable.apply(command, bank, 3 * t, y.e, y.bus);
    }
    CHECK(x.e.own == y.e.own);
    CHECK(x.bus == y.bus);
    for (std::size_t k = 0; k < kBankClasses; ++k) {
      for (std::size_t b = 0; b < static_cast<std::size_t>(c.banks()); ++b) {
        CHECK(std::max(x.e.banks[k][b], 0) == std::max(y.e.banks[k][b], 0));
      }
    }
  }
}

TEST_CASE("column commands of one kind booked late delay the same") {
  std::mt19937_64 draw(5);
  const auto below = [&](std::uint64_t n) { return static_cast<int>(draw() % n); };
  int seen = 0;
  for (int round = 0; round < 200; ++round) {
    ChannelConfig c;
    c.stack_ids = 1 << below(3);
    c.bank_groups = 1 << below(3);
    c.banks_per_group = 1 << below(3);
    c.refresh = Refresh::per_bank;
    for (int i = 0; i < 12; ++i) {
      const auto scope = static_cast<Scope>(below(kScopes));
      c.rules.push_back(
          {scope, static_cast<Command>(below(kCommands)), static_cast<Command>(below(kCommands)), below(90), 1});
    }
    const TimingRules rules(c);
    const Op op = below(2) == 0 ? Op::read : Op::write;
    const Command command = op == Op::read ? Command::RD : Command::WR;
    const Repeat& r = rules.repeat(op);
    if (!r.possible) continue;
    ++seen;
    State at_once;
    State late;
    const std::size_t own = index(op == Op::read ? BankClass::rd : BankClass::wr);
    const std::uint64_t stack = rules.stack_of(below(static_cast<std::uint64_t>(c.banks())));
    std::array<std::int32_t, kMaxBanks> last{};
    std::int32_t t = 0;
    std::int32_t from = kLongAgo;
    int bank = 0;
    for (int i = 0; i < 30; ++i) {
      do bank = below(static_cast<std::uint64_t>(c.banks()));
      while ((stack & bit(bank)) == 0);
      t += 1 + below(20);
      last[static_cast<std::size_t>(bank)] = t;
      rules.apply(command, bank, t, at_once.e, at_once.bus);
      rules.apply_again(r, static_cast<std::size_t>(bank), t, late.e.banks[own].data());
      from = std::max(from, t + r.again);
      for (std::size_t b = 0; b < static_cast<std::size_t>(c.banks()); ++b) {
        if ((stack & bit(static_cast<int>(b))) == 0) continue;
        const std::size_t gate = gate_index(command);
        const std::int32_t whole = std::max({at_once.e.banks[own][b], at_once.e.own[gate], at_once.bus[gate]});
        CHECK(std::max({whole, t}) == std::max({late.e.banks[own][b], from, t}));
      }
    }
    for (std::size_t b = 0; b < static_cast<std::size_t>(c.banks()); ++b) {
      if (last[b] == 0) continue;
      if (last[b] == t) {
        rules.apply(command, static_cast<int>(b), t, late.e, late.bus);
      } else {
        rules.apply_near(command, static_cast<int>(b), last[b], late.e);
      }
    }
    CHECK(at_once.e.own == late.e.own);
    CHECK(at_once.bus == late.bus);
    for (std::size_t k = 0; k < kBankClasses; ++k) {
      for (std::size_t b = 0; b < static_cast<std::size_t>(c.banks()); ++b) {
        CHECK(std::max(at_once.e.banks[k][b], 0) == std::max(late.e.banks[k][b], 0));
      }
    }
  }
  CHECK(seen > 60);
}
