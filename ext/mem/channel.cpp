#include "mem/channel.hpp"

#include <algorithm>
#include <array>

#include "mem/controller.hpp"
#include "mem/sram.hpp"

namespace cosim::mem {

namespace {

constexpr auto kChannelSums = std::array{&ChannelCounters::asked,
                                         &ChannelCounters::served_reads,
                                         &ChannelCounters::served_writes,
                                         &ChannelCounters::forwarded,
                                         &ChannelCounters::coalesced,
                                         &ChannelCounters::cancelled,
                                         &ChannelCounters::refreshes_all,
                                         &ChannelCounters::refreshes_bank,
                                         &ChannelCounters::precharges_all,
                                         &ChannelCounters::any_open_ticks,
                                         &ChannelCounters::blocked_by_return_ticks};
static_assert(sizeof(ChannelCounters) == (kChannelSums.size() + 1) * sizeof(std::int64_t));  // and most_postponed

constexpr auto kBankSums = std::array{&BankCounters::bytes,     &BankCounters::act,        &BankCounters::pre,
                                      &BankCounters::rd,        &BankCounters::wr,         &BankCounters::ref,
                                      &BankCounters::row_hits,  &BankCounters::row_misses, &BankCounters::row_conflicts,
                                      &BankCounters::busy_ticks};
static_assert(sizeof(BankCounters) == kBankSums.size() * sizeof(std::int64_t));

void add_times(Statistics& to, const Statistics& other, std::int64_t times) {
  for (const auto sum : kChannelSums) to.channel.*sum += times * other.channel.*sum;
  for (std::size_t b = 0; b < to.banks.size(); ++b) {
    for (const auto sum : kBankSums) to.banks[b].*sum += times * other.banks[b].*sum;
  }
  for (std::size_t pc = 0; pc < to.refreshes.size(); ++pc) to.refreshes[pc] += times * other.refreshes[pc];
}

}  // namespace

std::int64_t Channel::advance_through(std::int64_t limit, bool stops) {
  std::int64_t next = 0;
  for (int left = kEventsAtOnce; left > 0; --left) {
    next = next_event();
    if (next > limit || next == kNeverTick) return kNeverTick;
    advance(next);
    if (stops && (!completions.empty() || config().slot_freed_at_act)) break;
  }
  return next;
}

std::int64_t Channel::serve(std::span<Offers> offers, std::int64_t tick) {
  std::int64_t arrival = tick;
  std::size_t done = 0;
  for (int left = kEventsAtOnce; left > 0; --left) {
    // a queue gets room when a request leaves it: with a completion, or at its ACT
    if (tick == arrival || completions.size() != done || config().slot_freed_at_act) {
      arrival = kNeverTick;
      done = completions.size();
      bool all = true;
      for (Offers& o : offers) {
        while (!o.all_taken() && o.arrive[o.taken] <= tick && try_accept(o.requests[o.taken], tick)) {
          o.accepted[o.taken++] = tick;
        }
        if (o.used_up()) return tick;
        all = all && o.all_taken();
        if (!o.all_taken() && o.arrive[o.taken] > tick) arrival = std::min(arrival, o.arrive[o.taken]);
      }
      if (all) return tick;
    }
    const std::int64_t next = next_event();
    if (next == kNeverTick && arrival == kNeverTick) return tick;
    if (next <= arrival) advance(next);
    tick = std::min(next, arrival);
  }
  return tick;
}

void Statistics::add(const Statistics& more) {
  add_times(*this, more, 1);
  channel.most_postponed = std::max(channel.most_postponed, more.channel.most_postponed);
}

void Statistics::add(const Statistics& more, std::int64_t times, std::size_t banks_each, const BankTurn& turn) {
  banks.resize(more.banks.size());
  for (const auto sum : kChannelSums) channel.*sum += times * more.channel.*sum;
  channel.most_postponed = std::max(channel.most_postponed, more.channel.most_postponed);
  for (std::size_t first = 0; first < banks.size(); first += banks_each) {
    for (std::size_t name = 0; name < banks_each; ++name) {
      BankCounters& to = banks[first + turn.real[name]];
      const BankCounters& from = more.banks[first + name];
      for (const auto sum : kBankSums) to.*sum += times * from.*sum;
    }
  }
  for (std::size_t pc = 0; pc < refreshes.size(); ++pc) refreshes[pc] += times * more.refreshes[pc];
}

void Statistics::subtract(const Statistics& less) { add_times(*this, less, -1); }

Statistics Channel::statistics(std::int64_t tick) const {
  Statistics s;
  s.channel = counters();
  s.channel.any_open_ticks = any_open_ticks(tick);
  for (int pc = 0; pc < config().pseudo_channels; ++pc) {
    s.refreshes[static_cast<std::size_t>(pc)] = refreshes(pc);
    for (int b = 0; b < config().banks(); ++b) s.banks.push_back(bank_counters(pc, b, tick));
  }
  return s;
}

std::unique_ptr<Channel> make_channel(const ChannelConfig& config) {
  if (config.plugin != nullptr) return config.plugin->create(config);
  if (config.kind == MemoryKind::sram) return std::make_unique<Sram>(config);
  return std::make_unique<Controller>(config);
}

}  // namespace cosim::mem
