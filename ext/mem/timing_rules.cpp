#include "mem/timing_rules.hpp"

#include "mem/bank_kernels.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define COSIM_TARGET __attribute__((target("avx2")))
#endif

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
    : avx2_(has_avx2() && config.banks_per_group % 4 == 0),
      banks_(config.banks()),
      group_(config.banks_per_group),
      stack_(config.banks_per_group * config.bank_groups) {
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

// The ring holds the last act_window_ ACTs; the oldest bounds the next but window - 1.
inline void TimingRules::note_act(std::int32_t t, EarliestTicks& e) const {
  e.act_ring[static_cast<std::size_t>(e.act_ring_at)] = t;
  e.act_ring_at = e.act_ring_at + 1 == act_window_ ? 0 : e.act_ring_at + 1;
  std::int32_t& next_act = e.own[gate_index(Command::ACT)];
  next_act = std::max(next_act, e.act_ring[static_cast<std::size_t>(e.act_ring_at)] + act_window_ticks_);
}

void TimingRules::apply_portable(Command c, int bank, std::int32_t t, EarliestTicks& e, Gates& bus) const {
  const Effects& d = effects_[static_cast<std::size_t>(index(c))];
  raise_by(e.own.data(), d.own.data(), kGates, t);
  if (d.any_bus) raise_by(bus.data(), d.bus.data(), kGates, t);
  if (c == Command::ACT && act_window_ != 0) note_act(t, e);
  if (bank < 0) return;
  const auto b = static_cast<std::size_t>(bank);
  for (const Delay& x : d.bank) {
    std::int32_t& at = e.at(x.to, b);
    at = std::max(at, t + x.value);
  }
  const std::size_t group = first_of_group_[b];
  for (const Delay& x : d.bank_group) raise_all(&e.at(x.to, group), group_, t + x.value);
  if (!d.any_stack) return;
  const int stack = first_of_stack_[b];
  for (const Delay& x : d.stack_id) raise_all(&e.at(x.to, static_cast<std::size_t>(stack)), stack_, t + x.value);
  for (const Delay& x : d.other_stack_id) {
    raise_all(&e.at(x.to, 0), stack, t + x.value);
    raise_all(&e.at(x.to, 0) + stack + stack_, banks_ - stack - stack_, t + x.value);
  }
}

#ifdef COSIM_TARGET

namespace {

COSIM_TARGET inline void raise_gates(Gates& at, const Gates& delay, __m256i now) {
  auto* const p = reinterpret_cast<__m256i*>(at.data());
  const __m256i after = _mm256_add_epi32(now, *reinterpret_cast<const __m256i*>(delay.data()));
  *p = _mm256_max_epi32(*p, after);
}

// at[i] = max(at[i], value); `count` is a multiple of four.
COSIM_TARGET inline void raise_banks(std::int32_t* at, int count, std::int32_t value) {
  const __m128i v = _mm_set1_epi32(value);
  for (std::int32_t* const end = at + count; at != end; at += 4) {
    auto* const p = reinterpret_cast<__m128i*>(at);
    _mm_store_si128(p, _mm_max_epi32(_mm_load_si128(p), v));
  }
}

}  // namespace

COSIM_TARGET void TimingRules::apply_avx2(Command c, int bank, std::int32_t t, EarliestTicks& e, Gates& bus) const {
  const Effects& d = effects_[static_cast<std::size_t>(index(c))];
  const __m256i now = _mm256_set1_epi32(t);
  raise_gates(e.own, d.own, now);
  if (d.any_bus) raise_gates(bus, d.bus, now);
  if (c == Command::ACT && act_window_ != 0) note_act(t, e);
  if (bank < 0) return;
  const auto b = static_cast<std::size_t>(bank);
  for (const Delay& x : d.bank) {
    std::int32_t& at = e.at(x.to, b);
    at = std::max(at, t + x.value);
  }
  const std::size_t group = first_of_group_[b];
  for (const Delay& x : d.bank_group) raise_banks(&e.at(x.to, group), group_, t + x.value);
  if (!d.any_stack) return;
  const int stack = first_of_stack_[b];
  for (const Delay& x : d.stack_id) raise_banks(&e.at(x.to, static_cast<std::size_t>(stack)), stack_, t + x.value);
  for (const Delay& x : d.other_stack_id) {
    std::int32_t* const first = &e.at(x.to, 0);
    raise_banks(first, stack, t + x.value);
    raise_banks(first + stack + stack_, banks_ - stack - stack_, t + x.value);
  }
}

#else

void TimingRules::apply_avx2(Command c, int bank, std::int32_t t, EarliestTicks& e, Gates& bus) const {
  apply_portable(c, bank, t, e, bus);
}

#endif

}  // namespace cosim::mem
