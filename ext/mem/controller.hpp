// One memory channel at command level: banks, timing constraints, queues, scheduler, refresh.
//
// Ticks are command slots: CK, or half CK where the standard issues commands on both edges. Pseudo-channels share the
// row and the column command bus; data bus, banks and windows are their own.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "mem/channel.hpp"
#include "sim/faults.hpp"

namespace cosim::mem {

class Controller final : public Channel {
 public:
  explicit Controller(const ChannelConfig& config);  // std::invalid_argument lists every problem

  [[nodiscard]] bool can_accept(Op op, int pc) const override;
  void accept(const Request& request, std::int64_t tick) override;
  bool try_accept(const Request& request, std::int64_t tick) override;

  [[nodiscard]] std::int64_t next_event() const override;
  [[nodiscard]] std::int64_t next_progress() const override;
  void advance(std::int64_t tick) override;

  void set_return_slots(int pc, int slots) override;
  void release_slot(int pc, std::int64_t tick) override;
  std::int64_t cancel(std::uint64_t first_tag, std::uint64_t last_tag, std::int64_t tick) override;

  [[nodiscard]] std::int64_t queued() const override;
  [[nodiscard]] int queued(Op op, int pc) const;
  [[nodiscard]] const ChannelConfig& config() const override { return config_; }
  [[nodiscard]] const ChannelCounters& counters() const override { return counters_; }
  [[nodiscard]] BankCounters bank_counters(int pc, int bank, std::int64_t tick) const override;
  [[nodiscard]] std::int64_t any_open_ticks(std::int64_t tick) const override;
  [[nodiscard]] std::int64_t refreshes(int pc) const override { return refreshes_[static_cast<std::size_t>(pc)]; }
  [[nodiscard]] std::vector<IssuedCommand> recent_commands() const override;

  [[nodiscard]] std::string verify_conservation() const override;
  [[nodiscard]] std::string describe_wait() const override;

  void normalise(std::int64_t tick) override;
  void visit(sim::Visitor& v) override;

 private:
  static constexpr std::uint16_t kNil = 0xFFFF;
  static constexpr std::int32_t kLongAgo = std::numeric_limits<std::int32_t>::min() / 2;
  static constexpr std::int32_t kRebaseAt = 1 << 30;  // ticks from the base
  static constexpr std::int32_t kFar = std::numeric_limits<std::int32_t>::max();

  using Mask = std::uint64_t;
  template <class T>
  using PerBank = std::array<T, kMaxBanks>;

  struct Node {
    std::int64_t key = 0;   // age: smaller is older
    std::int64_t rank = 0;  // equal for requests that count as equally old
    std::uint64_t tag = 0;
    std::int32_t row = 0;
    std::int32_t column = 0;
    std::uint16_t next = kNil;
    std::uint16_t prev = kNil;
    std::uint8_t bank = 0;
    std::uint8_t pc = 0;
    Op op = Op::read;
    RowResult row_result = RowResult::none;
    std::uint8_t message_class = 0;
    std::array<std::uint8_t, 3> unused{};
  };

  // The queued (not activated) requests of one kind of one pseudo-channel: a FIFO per bank and what the scheduler asks.
  struct BankLists {
    Mask has = 0;   // banks with a request
    Mask hit = 0;   // banks whose open row is wanted
    Mask miss = 0;  // banks whose oldest request wants another row than the open one (and nothing holds the PRE back)
    Mask late = 0;  // banks of `hit` whose hits have overtaken that oldest request often enough
    PerBank<std::uint16_t> head{};
    PerBank<std::uint16_t> tail{};
    PerBank<std::uint16_t> hit_node{};
    PerBank<std::int64_t> head_key{};
    PerBank<std::int64_t> hit_key{};
  };

  struct PseudoChannel {
    // earliest ticks, bank, bank-group and stack rules folded in
    alignas(16) PerBank<std::int32_t> act{};
    alignas(16) PerBank<std::int32_t> pre{};
    alignas(16) PerBank<std::int32_t> rd{};
    alignas(16) PerBank<std::int32_t> wr{};
    alignas(16) PerBank<std::int32_t> ref{};

    [[nodiscard]] bool idle() const { return (lists[0].has | lists[1].has | active_rd | active_wr) == 0; }
    std::array<std::int32_t, kCommands> own{};  // rules of the whole pseudo-channel
    std::array<std::int32_t, kMaxWindow> act_ring{};
    std::int32_t act_ring_at = 0;
    std::int32_t return_slots = 0;  // free ones; kFar: no limit

    Mask open = 0;
    Mask active_rd = 0;  // activated for a read that has not got its RD
    Mask active_wr = 0;
    PerBank<std::int32_t> open_row{};
    PerBank<std::int32_t> opened_at{};
    PerBank<std::int32_t> used_at{};
    PerBank<std::uint16_t> active_node{};
    PerBank<std::int64_t> active_rank{};
    PerBank<std::int64_t> active_promotion{};
    std::array<BankLists, 2> lists{};  // by Op

    // at or before the earliest tick of every bank that may get this command
    std::int32_t rd_bound = kLongAgo;
    std::int32_t wr_bound = kLongAgo;
    std::int32_t act_bound = kLongAgo;
    std::int32_t pre_bound = kLongAgo;

    // refresh of this pseudo-channel (not used when refresh blocks the channel)
    std::int32_t refresh_at = 0;
    std::int32_t refresh_owed = 0;
    std::int32_t refresh_bank = 0;

    std::uint16_t forward_head = kNil;  // forwarded reads that wait for a return slot
    std::uint16_t forward_tail = kNil;
    std::int32_t any_open_since = 0;
    std::int32_t blocked_since = kLongAgo;
  };

  struct Queues {  // one per pseudo-channel, or one for all
    std::array<std::int32_t, 2> count{};
    std::int32_t write_mode = 0;  // 0 read, 1 write, 2 write because writes have waited too long
    std::int32_t served = 0;      // requests served in this phase while the other kind waited
    std::int32_t settled = 0;     // the mode is what the counts say
    std::int32_t changed_at = 0;  // boundary of the last change of a count
  };

  struct PendingRefresh {
    std::int32_t pc = 0;
    std::int32_t bank = -1;  // -1: all banks
  };

  // What one command delays: in `own` or on the bus by command, else in the array of earliest ticks per bank.
  struct Effect {
    std::int32_t to = 0;
    std::int32_t value = 0;
    PerBank<std::int32_t> PseudoChannel::* banks = nullptr;
  };
  struct Effects {
    std::array<std::vector<Effect>, kScopes> by_scope;
  };

  struct Choice {
    int pc = -1;
    int bank = -1;
    bool active = false;
    Op op = Op::read;
    std::int64_t key = 0;
  };

  // -- requests
  bool take(const Request& request, std::int64_t tick, bool only_without_slot);
  void insert(PseudoChannel& p, std::uint16_t n);
  void unlink(PseudoChannel& p, std::uint16_t n);
  void view(PseudoChannel& p, Op op, int bank);  // recompute what the scheduler sees of one bank's list
  std::uint16_t new_node();
  void free_node(std::uint16_t n);
  [[nodiscard]] int queues_of(int pc) const { return config_.shared_queues ? 0 : pc; }
  void settle_before(Queues& q, std::int32_t boundary);
  void settle(Queues& q);
  [[nodiscard]] bool wanted_mode(const Queues& q) const;
  void complete(const Node& node, std::int64_t issue, std::int64_t done, RowResult result);

  // -- scheduling
  [[nodiscard]] Mask refresh_blocked(const PseudoChannel& p) const;
  [[nodiscard]] bool refresh_wanted(const PseudoChannel& p) const;
  [[nodiscard]] std::int32_t last_act(const PseudoChannel& p) const;
  [[nodiscard]] Mask hits(const PseudoChannel& p, Op op, Mask blocked) const;
  [[nodiscard]] Mask acts(const PseudoChannel& p, Op op, Mask blocked) const;
  [[nodiscard]] Mask pres(const PseudoChannel& p, Op op, Mask blocked) const;
  [[nodiscard]] bool write_phase(std::size_t pc) const;
  bool pick_active(std::int32_t t, Choice& best);
  bool pick_hit(std::int32_t t, Choice& best);
  bool pick_row(std::int32_t t, Choice& best, bool& is_act);
  bool issue_refresh(std::int32_t t);
  bool issue_idle_close(std::int32_t t);
  void column_slot(std::int32_t t);
  void row_slot(std::int32_t t);
  void one_slot(std::int32_t t);
  void push_refreshes(std::int32_t t);
  void tighten_bounds(std::int32_t t);

  void issue_column(const Choice& c, std::int32_t t);
  void issue_act(const Choice& c, std::int32_t t);
  void issue_pre(int pc, int bank, std::int32_t t);
  void issue_pre_all(int pc, std::int32_t t);
  void issue_ref(int pc, int bank, std::int32_t t);
  void close_bank(PseudoChannel& p, int bank, std::int32_t t);
  void apply(Command c, int pc, int bank, std::int32_t t);
  void record(Command c, int pc, int bank, std::int32_t row, std::int32_t column, std::int32_t t);
  void demote_active(PseudoChannel& p, Mask banks);
  void note_blocked(PseudoChannel& p, std::int32_t t);

  [[nodiscard]] std::int32_t gate(const PseudoChannel& p, Command c) const;
  [[nodiscard]] std::int32_t align(std::int32_t t, Command c) const;
  void precharge_for(const Choice& c, std::int32_t t);
  [[nodiscard]] std::int32_t next_tick(bool progress_only) const;
  void rebase(std::int64_t tick);
  [[nodiscard]] std::int32_t relative(std::int64_t tick) const { return static_cast<std::int32_t>(tick - base_); }
  [[nodiscard]] std::int64_t absolute(std::int32_t t) const { return base_ + t; }
  [[nodiscard]] BankCounters& bank_counter(int pc, int bank) {
    return bank_counters_[static_cast<std::size_t>(pc * config_.banks() + bank)];
  }

  ChannelConfig config_;
  sim::Fault fault_;
  std::array<Effects, kCommands> effects_;
  std::int32_t act_window_ = 0;        // ACTs ...
  std::int32_t act_window_ticks_ = 0;  // ... within these ticks
  std::int32_t act_to_refresh_ = 0;
  Mask all_banks_ = 0;

  std::int64_t base_ = 0;
  std::int32_t now_ = 0;  // the last tick advanced to or accepted at
  std::array<std::int32_t, kCommands> bus_{};
  std::vector<PseudoChannel> pcs_;
  std::vector<Queues> queues_;
  std::vector<Node> nodes_;
  std::uint16_t free_ = kNil;
  std::int64_t next_key_ = 0;
  std::int64_t tick_rank_ = 0;  // key of the first request of the present boundary
  std::int32_t tick_rank_at_ = kLongAgo;
  std::int64_t promotions_ = 0;
  std::int64_t last_read_done_ = std::numeric_limits<std::int64_t>::min() / 2;
  std::vector<PendingRefresh> pending_;
  std::int32_t refresh_at_ = 0;      // when refresh blocks the channel: the next push
  std::int32_t refresh_cursor_ = 0;  // and the bank it takes

  ChannelCounters counters_;
  std::vector<BankCounters> bank_counters_;
  std::array<std::int64_t, kMaxPseudoChannels> refreshes_{};
  std::vector<IssuedCommand> recent_;
  std::int64_t recorded_ = 0;
};

}  // namespace cosim::mem
