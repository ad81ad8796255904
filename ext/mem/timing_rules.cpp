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
    : avx2_(has_avx2()),
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
    stack_of_[static_cast<std::size_t>(b)] = static_cast<std::uint8_t>(b / stack_);
  }
  for (const Rule& r : config.rules) {
    if (r.window != 1) {
      act_window_ = r.window;
      act_window_ticks_ = r.value;
      continue;
    }
    if (r.value == 0) continue;
    if (config.refresh == Refresh::none && class_of(waits_like(r.to)) == BankClass::ref) continue;
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
  for (Effects& d : effects_) compile(d);
  repeats_ = {repeat_of(Command::RD), repeat_of(Command::WR)};
}

Repeat TimingRules::repeat_of(Command c) const {
  const Effects& d = effects_[static_cast<std::size_t>(index(c))];
  Repeat r;
  r.possible = true;
  for (const Delays* wide : {&d.bank_group, &d.stack_id, &d.other_stack_id}) {
    if (wide->of(BankClass::act) != kLongAgo || wide->of(BankClass::pre) != kLongAgo) r.possible = false;
  }
  const std::size_t gate = gate_index(c);
  const BankClass own = class_of(c);
  r.again = std::max({d.own[gate], d.bus[gate], d.stack_id.of(own)});
  r.group = d.bank_group.of(own);
  r.bank = d.bank.of(own);
  r.bus_again = d.bus[gate];
  return r;
}

std::uint64_t TimingRules::stack_of(int bank) const {
  const std::uint64_t first = stack_ == kMaxBanks ? ~std::uint64_t{0} : (std::uint64_t{1} << stack_) - 1;
  return first << first_of_stack_[static_cast<std::size_t>(bank)];
}

void TimingRules::apply_near(Command c, int bank, std::int32_t t, EarliestTicks& e) const {
  const Effects& d = effects_[static_cast<std::size_t>(index(c))];
  const std::size_t place = static_cast<std::size_t>(bank) % kBlock;
  std::int32_t* const near = e.banks[0].data() + static_cast<std::size_t>(bank) - place;
  for (std::size_t k = 0; k < d.near_count; ++k) raise_by(near + d.near_at[k], d.near[place][k].data(), kBlock, t);
  if (static_cast<int>(kBlock) % group_ == 0) return;
  for (const Delay& x : d.bank_group)
    raise_all(&e.at(x.to, first_of_group_[static_cast<std::size_t>(bank)]), group_, t + x.value);
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
  }
}

// From rules by scope to what is added to a block of banks.
void TimingRules::compile(Effects& d) const {
  const bool small_groups = static_cast<int>(kBlock) % group_ == 0;
  d.any_far = d.stack_id.count + d.other_stack_id.count > 0 || (!small_groups && d.bank_group.count > 0);
  for (std::size_t c = 0; c < kBankClasses; ++c) {
    const auto to = static_cast<BankClass>(c);
    const std::int32_t bank = d.bank.of(to);
    const std::int32_t group = small_groups ? d.bank_group.of(to) : kLongAgo;
    if (bank == kLongAgo && group == kLongAgo) continue;
    d.near_at[d.near_count] = static_cast<std::uint32_t>(c * kMaxBanks);
    for (std::size_t place = 0; place < kBlock; ++place) {
      Block& block = d.near[place][d.near_count];
      block.fill(kLongAgo);
      const std::size_t first = place - place % static_cast<std::size_t>(group_);
      for (int i = 0; small_groups && i < group_; ++i) block[first + static_cast<std::size_t>(i)] = group;
      block[place] = std::max(block[place], bank);
    }
    ++d.near_count;
  }
  d.any_wide = d.any_far && (stack_ % static_cast<int>(kBlock) != 0 || (!small_groups && d.bank_group.count > 0));
  for (int b = 0; d.any_far && !d.any_wide && b < banks_; b += static_cast<int>(kBlock)) {
    for (int from = 0; from < banks_; from += stack_) {
      const bool same = b / stack_ == from / stack_;
      for (const Delay& x : same ? d.stack_id : d.other_stack_id) {
        const auto at = static_cast<std::uint32_t>(index(x.to) * kMaxBanks) + static_cast<std::uint32_t>(b);
        d.far[static_cast<std::size_t>(from / stack_)].push_back({at, x.value});
      }
    }
  }
  const auto wide = [&](Command to) {
    const BankClass c = class_of(to);
    const std::size_t gate = gate_index(to);
    return std::max({d.own[gate], d.bus[gate], d.bank_group.of(c), d.stack_id.of(c), d.other_stack_id.of(c)}) !=
           kLongAgo;
  };
  d.any_row = wide(Command::ACT) || wide(Command::PREpb);
  d.any_column = wide(Command::RD) || wide(Command::WR);
}

void TimingRules::delay_portable(const Effects& d, int bank, std::int32_t t, EarliestTicks& e, Gates& bus) const {
  raise_by(e.own.data(), d.own.data(), kGates, t);
  if (d.any_bus) raise_by(bus.data(), d.bus.data(), kGates, t);
  if (bank < 0) return;
  const std::size_t place = static_cast<std::size_t>(bank) % kBlock;
  const std::size_t block = static_cast<std::size_t>(bank) - place;
  std::int32_t* const near = e.banks[0].data() + block;
  for (std::size_t k = 0; k < d.near_count; ++k) raise_by(near + d.near_at[k], d.near[place][k].data(), kBlock, t);
  if (d.any_far) delay_far(d, static_cast<std::size_t>(bank), t, e);
}

// Rules of stack ids and of bank groups larger than a block.
void TimingRules::delay_far(const Effects& d, std::size_t bank, std::int32_t t, EarliestTicks& e) const {
  if (static_cast<int>(kBlock) % group_ != 0) {
    for (const Delay& x : d.bank_group) raise_all(&e.at(x.to, first_of_group_[bank]), group_, t + x.value);
  }
  const int stack = first_of_stack_[bank];
  for (const Delay& x : d.stack_id) raise_all(&e.at(x.to, static_cast<std::size_t>(stack)), stack_, t + x.value);
  for (const Delay& x : d.other_stack_id) {
    std::int32_t* const first = &e.at(x.to, 0);
    raise_all(first, stack, t + x.value);
    raise_all(first + stack + stack_, banks_ - stack - stack_, t + x.value);
  }
}

#ifdef COSIM_TARGET

namespace {

COSIM_TARGET inline void raise_block(std::int32_t* at, const std::int32_t* delay, __m256i now) {
  auto* const p = reinterpret_cast<__m256i*>(at);
  const __m256i after = _mm256_add_epi32(now, *reinterpret_cast<const __m256i*>(delay));
  *p = _mm256_max_epi32(*p, after);
}

}  // namespace

COSIM_TARGET void TimingRules::delay_avx2(const Effects& d, int bank, std::int32_t t, EarliestTicks& e,
                                          Gates& bus) const {
  const __m256i now = _mm256_set1_epi32(t);
  raise_block(e.own.data(), d.own.data(), now);
  if (d.any_bus) raise_block(bus.data(), d.bus.data(), now);
  if (bank < 0) return;
  const std::size_t place = static_cast<std::size_t>(bank) % kBlock;
  const std::size_t block = static_cast<std::size_t>(bank) - place;
  std::int32_t* const near = e.banks[0].data() + block;
  const Block* delay = d.near[place].data();
  const std::uint32_t* at = d.near_at.data();
  for (const std::uint32_t* const end = at + d.near_count; at != end; ++at, ++delay) {
    raise_block(near + *at, delay->data(), now);
  }
  if (!d.any_far) return;
  if (d.any_wide) {
    delay_far(d, static_cast<std::size_t>(bank), t, e);
    return;
  }
  for (const BlockDelay& x : d.far[stack_of_[static_cast<std::size_t>(bank)]]) {
    auto* const p = reinterpret_cast<__m256i*>(e.banks[0].data() + x.at);
    *p = _mm256_max_epi32(*p, _mm256_set1_epi32(t + x.value));
  }
}

#else

void TimingRules::delay_avx2(const Effects& d, int bank, std::int32_t t, EarliestTicks& e, Gates& bus) const {
  delay_portable(d, bank, t, e, bus);
}

#endif

}  // namespace cosim::mem
