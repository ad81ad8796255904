// The canonical form of a system: equal forms, equal futures.
//
// A walk over all state that names every item by what it means for the future. An item is
// - `same`: equal in states with equal futures;
// - a time: equal relative to now, so it moves with it; or the same instant before and after a period: then nothing
//   that the system does in it asks for that time, and it stays (what was before, or an event after the end of the
//   jump);
// - `grows`: of no weight for the future (a statistic, the progress of a stream) as long as it stays below its limit;
//   over a period it grows by a fixed amount, so it grows k times as much over k periods.
// Numbers of slots are replaced by names in the order of first sight, so that two states which differ only in where
// things are kept have one form. What is free is not shown.
//
// One walk serves three passes: take a form, compare with one (with that of a known period also find how many periods
// fit below all limits), and jump over that many. Two equal forms at t and t + P prove that the system repeats what it
// did between them, as long as nothing comes from outside and no limit is met.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/form.hpp"
#include "sim/time.hpp"

namespace cosim::sim {

// How often a system repeats itself, and by how much its items grow.
struct Period {
  Fs length = 0;
  std::vector<std::int64_t> growth;
};

// Who keeps slots that others refer to.
enum class Space : std::uint8_t { packets, messages, ready, units, tiles, requests, transfers, waiting };
inline constexpr std::size_t kSpaces = 8;

// What a stream reads: all addresses of one stream are relative to `next`, the first byte that is not granted yet.
struct Region {
  std::int32_t memory = -1;  // node
  std::int32_t reader = -1;  // node
  std::int64_t stream = -1;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t next = 0;
};

// The present in the units of somebody's time.
struct Present {
  std::int64_t now = 0;
  std::int64_t elapsed = 0;  // of compare: since the form was taken
  std::int64_t period = 0;   // of compare with the form of a known period
  std::int64_t shift = 0;    // of jump: what is skipped
};

class Canonical {
 public:
  enum class Pass : std::uint8_t { take, compare, jump };

  // -- passes, by whoever walks
  void take(Fs now, Form& into) {
    begin(Pass::take, now);
    into_ = &into;
    into.now = now;
    into.same.clear();
    into.grows.clear();
  }
  // With the period that a known form is the beginning of, nullptr where none is known.
  void compare(Fs now, const Form& with, const Period* known) {
    begin(Pass::compare, now);
    with_ = &with;
    period_ = known;
    most_ = std::numeric_limits<std::int64_t>::max();
  }
  void jump(Fs now, const Period& period, std::int64_t times) {
    begin(Pass::jump, now);
    period_ = &period;
    times_ = times;
    shift_ = period.length * times;
  }
  // Of compare: the forms are equal, ends included.
  [[nodiscard]] bool equal() const { return !differs_ && at_ == with_->same.size() && grow_at_ == with_->grows.size(); }
  // Of compare with the form of a known period, once it is equal: periods that fit.
  [[nodiscard]] std::int64_t most() const { return most_; }
  // Items that were shown: what the walk cost.
  [[nodiscard]] std::int64_t shown() const {
    return static_cast<std::int64_t>(pass_ == Pass::take ? into_->same.size() + into_->grows.size() : at_ + grow_at_);
  }
  // Why there is no form; nullptr when there is one.
  [[nodiscard]] const char* refused() const { return refused_; }
  // Nothing more needs to be shown.
  [[nodiscard]] bool differs() const { return differs_; }

  // -- items, by whoever is walked
  template <class T>
  void same(T item) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    const auto value = static_cast<std::int64_t>(item);
    if (pass_ == Pass::take) {
      into_->same.push_back(value);
    } else if (pass_ == Pass::compare) {
      if (at_ >= with_->same.size() || with_->same[at_] != value) differs_ = true;
      ++at_;
    }
  }
  template <class T>
  void grows(T& item) {
    grows_below(item, std::numeric_limits<std::int64_t>::max());
  }
  // With a limit that the item may never reach.
  template <class T>
  void grows_below(T& item, std::int64_t limit) {
    const auto value = static_cast<std::int64_t>(item);
    switch (pass_) {
      case Pass::take:
        into_->grows.push_back(value);
        break;
      case Pass::compare: {
        const std::int64_t step = growth_at(grow_at_++);
        if (step > 0 && limit != std::numeric_limits<std::int64_t>::max()) {
          most_ = std::min(most_, value >= limit ? 0 : (limit - 1 - value) / step);
        }
        break;
      }
      case Pass::jump:
        item = static_cast<T>(value + period_->growth[grow_at_++] * times_);
        break;
    }
  }
  // An instant that is over and may not move: equal in states that are compared, whatever the time.
  template <class T>
  void stays(T& item) {
    if (pass_ == Pass::compare &&
        (grow_at_ >= with_->grows.size() || with_->grows[grow_at_] != static_cast<std::int64_t>(item))) {
      differs_ = true;
    }
    grows(item);
  }
  template <class T>
  void grow(std::vector<T>& items) {
    same(items.size());
    for (T& item : items) grows(item);
  }
  // Equal relative to `base`, which grows likewise.
  template <class T>
  void relative(T& item, std::int64_t base) {
    same(static_cast<std::int64_t>(item) - base);
    grows(item);
  }
  // An instant still to come, or kNever.
  void time(Fs& at) { due(at, kNever, {now_, now_ - (with_ != nullptr ? with_->now : 0), length(), shift_}); }
  // An instant that is over: it moves on, or it stays.
  template <class T>
  void held(T& at, const Present& present) {
    const auto value = static_cast<std::int64_t>(at);
    if (pass_ != Pass::compare) {
      grows(at);
      return;
    }
    const std::size_t item = grow_at_++;
    if (item >= with_->grows.size()) {
      differs_ = true;
      return;
    }
    const std::int64_t moved = value - with_->grows[item];
    const bool stays = period_ != nullptr ? period_->growth[item] == 0 : moved == 0;
    if (!stays && moved != present.elapsed) differs_ = true;
  }
  // An instant still to come, or `never`: it moves on, or it stays and must not be reached.
  template <class T>
  void due(T& at, T never, const Present& present) {
    same(at == never);
    if (at == never) return;
    if (pass_ == Pass::compare && period_ != nullptr && growth_at(grow_at_) == 0) {
      const std::int64_t ahead = static_cast<std::int64_t>(at) - present.now;
      most_ = std::min(most_, ahead <= 0 || present.period <= 0 ? 0 : (ahead - 1) / present.period);
    }
    held(at, present);
  }
  // Moves on in any case.
  template <class T>
  void stamp(T& at, const Present& present) {
    same(static_cast<std::int64_t>(at) - present.now);
    move(at, present.shift);
  }
  // Moves something whose relative value has been shown, or is of no weight.
  template <class T>
  void move(T& at, std::int64_t shift) {
    if (pass_ == Pass::jump) at = static_cast<T>(at + static_cast<T>(shift));
  }
  // Where in a clock's cycle the present is: then a period is a whole number of cycles.
  void phase(const Clock& clock) {
    if (!lacks(Part::phase))
      same(static_cast<std::int64_t>(static_cast<__int128>(now_) * clock.numerator() % clock.denominator()));
  }
  [[nodiscard]] Present present(const Clock& clock) const {
    Present p;
    p.now = clock.edge_at_or_before(now_);
    if (pass_ == Pass::compare) {
      p.elapsed = p.now - clock.edge_at_or_before(with_->now);
      if (period_ != nullptr) p.period = clock.edge_at_or_before(now_ + period_->length) - p.now;
    }
    if (pass_ == Pass::jump) p.shift = clock.edge_at_or_before(now_ + shift_) - p.now;
    return p;
  }
  [[nodiscard]] Fs now() const { return now_; }
  [[nodiscard]] Fs shift_fs() const { return shift_; }
  // The most periods that keep the time before `end`.
  void ends_before(Fs end) {
    if (pass_ == Pass::compare && period_ != nullptr)
      most_ = std::min(most_, end <= now_ ? 0 : (end - 1 - now_) / period_->length);
  }

  // The name of a slot of a space of `size` slots of a node, shown; true at first sight. A slot that does not exist
  // makes forms differ.
  bool name(std::int32_t node, Space space, std::int64_t slot, std::size_t size) {
    if (slot < 0 || static_cast<std::size_t>(slot) >= size) {
      differs_ = true;
      return false;
    }
    Names& names = names_of(node, space);
    const auto at = static_cast<std::size_t>(slot);
    if (names.seen.size() <= at) {
      names.seen.resize(at + 1, 0);
      names.number.resize(at + 1, 0);
    }
    const bool first = names.seen[at] != walk_;
    if (first) {
      names.seen[at] = walk_;
      names.number[at] = static_cast<std::int32_t>(names.order.size());
      names.order.push_back(static_cast<std::int32_t>(slot));
    }
    same(names.number[at]);
    return first;
  }
  // The name of a memory node's unit, wherever its tag is met; named_slots() of that node shows what it is.
  void unit(std::int32_t node, std::int64_t slot) { name(node, Space::units, slot, kMostUnits); }
  // The slots named so far, in the order of their names.
  [[nodiscard]] const std::vector<std::int32_t>& named(std::int32_t node, Space space) {
    return names_of(node, space).order;
  }

  // The slots of a space that are free, once all others have names: only how many there are counts. A list that does
  // not end, or has a slot in it that is in use, makes forms differ.
  template <class Next>
  void free_slots(std::int32_t node, Space space, std::int64_t first, std::int64_t end, std::size_t size, Next next) {
    if (differs_) return;
    const Names& names = names_of(node, space);
    std::int64_t at = first;
    std::size_t count = 0;
    for (; at != end && count <= size; at = next(static_cast<std::size_t>(at))) {
      const auto slot = static_cast<std::size_t>(at);
      if (at < 0 || slot >= size || (slot < names.seen.size() && names.seen[slot] == walk_)) {
        differs_ = true;
        return;
      }
      ++count;
    }
    if (count > size) differs_ = true;
    same(count);
  }

  // Forgets the names of a space of node 0, for owners that are walked one after the other.
  void start(Space space) {
    Names& names = names_of(0, space);
    names.order.clear();
    names.seen.clear();
  }

  void region(const Region& region) { regions_.push_back(region); }
  [[nodiscard]] const std::vector<Region>& regions() const { return regions_; }
  // Region::next of a stream, 0 when it is not known any more.
  [[nodiscard]] std::int64_t next_of(std::int32_t memory, std::int32_t reader, std::int64_t stream) const {
    for (const Region& r : regions_) {
      if (r.memory == memory && r.reader == reader && r.stream == stream) return r.next;
    }
    return 0;
  }

  // There is no canonical form, for a reason that ends "skipping needs ...".
  void refuse(const char* why) {
    if (refused_ == nullptr) refused_ = why;
    differs_ = true;
  }
  void differ() { differs_ = true; }
  // Leaves a part out, for tests of tests.
  void leave_out(Part part) { lacking_ = part; }
  [[nodiscard]] bool lacks(Part part) const { return lacking_ == part; }

 private:
  struct Names {
    std::uint64_t walk = 0;
    std::vector<std::uint64_t> seen;  // by slot: walk in which it was named
    std::vector<std::int32_t> number;
    std::vector<std::int32_t> order;
  };

  [[nodiscard]] Fs length() const { return pass_ == Pass::compare && period_ != nullptr ? period_->length : 0; }
  // By how much an item grows in the known period; 0 where none is known, or the item is of another form.
  [[nodiscard]] std::int64_t growth_at(std::size_t item) const {
    return period_ != nullptr && item < period_->growth.size() ? period_->growth[item] : 0;
  }
  void begin(Pass pass, Fs now) {
    pass_ = pass;
    with_ = nullptr;
    period_ = nullptr;
    now_ = now;
    differs_ = false;
    refused_ = nullptr;
    at_ = grow_at_ = 0;
    times_ = 0;
    shift_ = 0;
    ++walk_;
    regions_.clear();
  }
  Names& names_of(std::int32_t node, Space space) {
    const std::size_t at = static_cast<std::size_t>(node) * kSpaces + static_cast<std::size_t>(space);
    if (names_.size() <= at) names_.resize(at + 1);
    Names& names = names_[at];
    if (names.walk != walk_) {
      names.walk = walk_;
      names.order.clear();
    }
    return names;
  }

  static constexpr std::size_t kMostUnits = std::size_t{1} << 20U;

  Part lacking_ = Part::nothing;
  Pass pass_ = Pass::take;
  Fs now_ = 0;
  Form* into_ = nullptr;
  const Form* with_ = nullptr;
  const Period* period_ = nullptr;
  std::int64_t times_ = 0;
  Fs shift_ = 0;
  std::int64_t most_ = 0;
  std::size_t at_ = 0;
  std::size_t grow_at_ = 0;
  bool differs_ = false;
  const char* refused_ = nullptr;
  std::uint64_t walk_ = 0;
  std::vector<Names> names_;
  std::vector<Region> regions_;
};

}  // namespace cosim::sim
