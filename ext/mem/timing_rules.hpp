// The timing rules of a channel, compiled to what one command delays, and the earliest ticks that follow from them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "mem/bank_scan.hpp"
#include "mem/channel_config.hpp"
#include "mem/command.hpp"

namespace cosim::mem {

inline constexpr std::int32_t kLongAgo = std::numeric_limits<std::int32_t>::min() / 2;
inline constexpr std::int32_t kFar = std::numeric_limits<std::int32_t>::max();

template <class T>
using PerBank = std::array<T, kMaxBanks>;

// Commands whose earliest tick is kept bank by bank. Those before `ref` are asked for by requests.
enum class BankClass : std::uint8_t { act, pre, rd, wr, ref };
inline constexpr std::size_t kBankClasses = 5;
inline constexpr std::size_t kAskedClasses = 4;
[[nodiscard]] constexpr std::size_t index(BankClass c) { return static_cast<std::size_t>(c); }

// RDA and WRA wait exactly like RD and WR.
[[nodiscard]] constexpr Command waits_like(Command c) {
  return c == Command::RDA ? Command::RD : c == Command::WRA ? Command::WR : c;
}

// Place of a command in Gates: RDA and WRA have none of their own.
[[nodiscard]] constexpr std::size_t gate_index(Command c) {
  const auto i = static_cast<std::size_t>(index(waits_like(c)));
  return i < static_cast<std::size_t>(index(Command::RDA)) ? i : i - 2;
}
inline constexpr std::size_t kGates = 8;
static_assert(kCommands - 2 <= static_cast<int>(kGates) && kGates % 4 == 0);
using Gates = std::array<std::int32_t, kGates>;  // by command: the earliest tick of a pseudo-channel or the command bus

// Earliest ticks of one pseudo-channel.
struct EarliestTicks {
  // bank, bank-group and stack rules folded in
  alignas(64) std::array<PerBank<std::int32_t>, kBankClasses> banks{};
  alignas(32) Gates own{};  // rules of the whole pseudo-channel
  std::array<std::int32_t, kMaxWindow> act_ring{};
  std::int32_t act_ring_at = 0;

  [[nodiscard]] std::int32_t& at(BankClass c, std::size_t bank) { return banks[index(c)][bank]; }
  [[nodiscard]] std::int32_t at(BankClass c, std::size_t bank) const { return banks[index(c)][bank]; }
};

// What a column command delays while nothing but its like comes behind it, all of them to banks of one stack id. The
// rest of what they delay may then be booked late, with the last one of each bank.
struct Repeat {
  bool possible = false;
  std::int32_t again = kLongAgo;  // its like, in any bank
  std::int32_t group = kLongAgo;  // in its bank group
  std::int32_t bank = kLongAgo;
  std::int32_t bus_again = kLongAgo;  // of the other pseudo-channel
};

class TimingRules {
 public:
  explicit TimingRules(const ChannelConfig& config);

  // Books what command `c` at tick `t` delays; bank -1: all banks.
  void apply(Command c, int bank, std::int32_t t, EarliestTicks& e, Gates& bus) const {
    const Effects& d = effects_[static_cast<std::size_t>(index(c))];
    avx2_ ? delay_avx2(d, bank, t, e, bus) : delay_portable(d, bank, t, e, bus);
    if (c == Command::ACT && act_window_ != 0) note_act(t, e);
  }
  [[nodiscard]] const Repeat& repeat(Op op) const { return repeats_[static_cast<std::size_t>(index(op))]; }
  // Books what another one at `t` delays of its like in its bank group and bank.
  void apply_again(const Repeat& r, std::size_t bank, std::int32_t t, std::int32_t* earliest) const {
    if (r.group != kLongAgo) raise_all(earliest + first_of_group_[bank], group_, t + r.group);
    if (r.bank != kLongAgo) earliest[bank] = std::max(earliest[bank], t + r.bank);
  }
  // What `apply` books of one bank and its bank group, where a later one books the rest.
  void apply_near(Command c, int bank, std::int32_t t, EarliestTicks& e) const;
  [[nodiscard]] std::uint64_t stack_of(int bank) const;  // the banks of its stack id
  // For tests: without the vectors of this machine.
  void use_portable() { avx2_ = false; }

  // Whether the command delays commands of the other pseudo-channels.
  [[nodiscard]] bool delays_the_bus(Command c) const { return effects_[static_cast<std::size_t>(index(c))].any_bus; }
  // Whether it delays a command that its pseudo-channel has for another bank: ACT or PRE, RD or WR.
  [[nodiscard]] bool delays_rows(Command c) const { return effects_[static_cast<std::size_t>(index(c))].any_row; }
  [[nodiscard]] bool delays_columns(Command c) const { return effects_[static_cast<std::size_t>(index(c))].any_column; }
  [[nodiscard]] std::int32_t act_window() const { return act_window_; }  // ACTs; 0: no window
  [[nodiscard]] std::int32_t act_window_ticks() const { return act_window_ticks_; }
  // Distance of a per-bank refresh from an ACT of any bank of its pseudo-channel.
  [[nodiscard]] std::int32_t act_to_refresh() const { return act_to_refresh_; }

 private:
  struct Delay {
    BankClass to = BankClass::act;
    std::int32_t value = 0;
  };
  struct BlockDelay {      // of a whole block
    std::uint32_t at = 0;  // of its ticks in EarliestTicks::banks
    std::int32_t value = 0;
  };
  // At most one per class: several rules of one pair and scope act as the longest.
  struct Delays {
    std::array<Delay, kBankClasses> list{};
    int count = 0;
    [[nodiscard]] const Delay* begin() const { return list.data(); }
    [[nodiscard]] const Delay* end() const { return list.data() + count; }
    [[nodiscard]] std::int32_t of(BankClass to) const;
    void add(BankClass to, std::int32_t value);
    void erase(BankClass to);
  };
  static constexpr std::size_t kBlock = 8;  // banks looked at together
  using Block = std::array<std::int32_t, kBlock>;
  struct Effects {  // of one command; kLongAgo where it delays nothing
    alignas(32) Gates own{};
    alignas(32) Gates bus{};
    // in the block of its bank, by the place of the bank there: bank rules, and bank-group rules of small groups
    alignas(32) std::array<std::array<Block, kBankClasses>, kBlock> near{};
    std::array<std::uint32_t, kBankClasses> near_at{};  // of the class's ticks in EarliestTicks::banks
    std::uint32_t near_count = 0;
    bool any_bus = false;
    bool any_far = false;   // rules of stack ids and of larger groups
    bool any_wide = false;  // of larger groups, or of stack ids that are no whole blocks; else as `far` has them
    std::array<std::vector<BlockDelay>, kMaxBanks / kBlock> far;  // by the stack id of its bank
    bool any_row = false;
    bool any_column = false;
    Delays bank;
    Delays bank_group;
    Delays stack_id;
    Delays other_stack_id;
  };
  void prune();
  void compile(Effects& d) const;
  [[nodiscard]] Repeat repeat_of(Command c) const;
  void delay_portable(const Effects& d, int bank, std::int32_t t, EarliestTicks& e, Gates& bus) const;
  void delay_avx2(const Effects& d, int bank, std::int32_t t, EarliestTicks& e, Gates& bus) const;
  void delay_far(const Effects& d, std::size_t bank, std::int32_t t, EarliestTicks& e) const;
  void note_act(std::int32_t t, EarliestTicks& e) const;

  std::array<Effects, kCommands> effects_;
  std::array<Repeat, 2> repeats_{};    // by Op
  std::int32_t act_window_ = 0;        // ACTs ...
  std::int32_t act_window_ticks_ = 0;  // ... within these ticks
  std::int32_t act_to_refresh_ = 0;
  bool avx2_;
  int banks_;
  int group_;                               // banks
  int stack_;                               // banks
  PerBank<std::uint8_t> first_of_group_{};  // by bank
  PerBank<std::uint8_t> first_of_stack_{};
  PerBank<std::uint8_t> stack_of_{};
};

// The ring holds the last act_window_ ACTs; the oldest bounds the next but window - 1.
inline void TimingRules::note_act(std::int32_t t, EarliestTicks& e) const {
  e.act_ring[static_cast<std::size_t>(e.act_ring_at)] = t;
  e.act_ring_at = e.act_ring_at + 1 == act_window_ ? 0 : e.act_ring_at + 1;
  std::int32_t& next_act = e.own[gate_index(Command::ACT)];
  next_act = std::max(next_act, e.act_ring[static_cast<std::size_t>(e.act_ring_at)] + act_window_ticks_);
}

}  // namespace cosim::mem
