#include "mem/timing_rules.hpp"

namespace cosim::mem {
namespace {

BankClass class_of(Command c) {
  switch (c) {
    case Command::ACT:
      return BankClass::act;
    case Command::PREpb:
      return BankClass::pre;
    case Command::RD:
      return BankClass::rd;
    case Command::WR:
      return BankClass::wr;
    default:
      return BankClass::ref;
  }
}

}  // namespace

std::int32_t TimingRules::Delays::of(BankClass to) const {
  for (const Delay& x : *this) {
    if (x.to == to) return x.value;
  }
  return kLongAgo;
}

void TimingRules::Delays::add(BankClass to, std::int32_t value) {
  const auto same = std::find_if(list.begin(), list.begin() + count, [&](const Delay& x) { return x.to == to; });
  if (same == list.begin() + count) {
    list[static_cast<std::size_t>(count++)] = {to, value};
  } else {
    same->value = std::max(same->value, value);
  }
}

void TimingRules::Delays::erase(BankClass to) {
  const auto last = std::remove_if(list.begin(), list.begin() + count, [&](const Delay& x) { return x.to == to; });
  count = static_cast<int>(last - list.begin());
}

TimingRules::TimingRules(const ChannelConfig& config)
    : banks_(config.banks()), group_(config.banks_per_group), stack_(config.banks_per_group * config.bank_groups) {
  for (Effects& d : effects_) {
    d.own.fill(kLongAgo);
    d.bus.fill(kLongAgo);
  }
  for (int b = 0; b < banks_; ++b) {
    first_of_group_[static_cast<std::size_t>(b)] = static_cast<std::uint8_t>(b / group_ * group_);
    first_of_stack_[static_cast<std::size_t>(b)] = static_cast<std::uint8_t>(b / stack_ * stack_);
  }
  for (const Rule& r : config.rules) {
    if (r.window != 1) {
      act_window_ = r.window;
      act_window_ticks_ = r.value;
      continue;
    }
    if (r.value == 0) continue;
    Effects& d = effects_[static_cast<std::size_t>(index(r.from))];
    const Command to = waits_like(r.to);
    const std::size_t gate = gate_index(to);
    switch (r.scope) {
      case Scope::channel:
        d.bus[gate] = std::max(d.bus[gate], r.value);
        d.any_bus = true;
        break;
      case Scope::pseudo_channel:
        d.own[gate] = std::max(d.own[gate], r.value);
        break;
      case Scope::stack_id:
        d.stack_id.add(class_of(to), r.value);
        break;
      case Scope::other_stack_id:
        d.other_stack_id.add(class_of(to), r.value);
        break;
      case Scope::bank_group:
        d.bank_group.add(class_of(to), r.value);
        break;
      case Scope::bank:
        d.bank.add(class_of(to), r.value);
        break;
    }
  }
  act_to_refresh_ =
      std::max(0, effects_[static_cast<std::size_t>(index(Command::ACT))].own[gate_index(Command::REFpb)]);
  prune();
}

// A rule that a rule of a wider scope always implies costs time and changes nothing. Refresh is left alone: its
// earliest tick per bank is also read without the gates of the pseudo-channel.
void TimingRules::prune() {
  for (Effects& d : effects_) {
    for (const Command to : {Command::ACT, Command::PREpb, Command::RD, Command::WR}) {
      const BankClass c = class_of(to);
      const std::int32_t own = d.own[gate_index(to)];
      const std::int32_t stack = std::max(own, d.stack_id.of(c));
      const std::int32_t group = std::max(stack, d.bank_group.of(c));
      if (d.bank.of(c) <= group) d.bank.erase(c);
      if (d.bank_group.of(c) <= stack) d.bank_group.erase(c);
      if (d.stack_id.of(c) <= own) d.stack_id.erase(c);
      if (d.other_stack_id.of(c) <= own) d.other_stack_id.erase(c);
    }
    d.any_stack = d.stack_id.count + d.other_stack_id.count > 0;
  }
}

}  // namespace cosim::mem
