// One memory channel at command level: banks, timing constraints, queues, scheduler, refresh.
//
// Ticks are command slots: CK, or half CK where the standard issues commands on both edges. Pseudo-channels share the
// row and the column command bus; data bus, banks and windows are their own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mem/bank_kernels.hpp"
#include "mem/bank_scan.hpp"
#include "mem/channel.hpp"
#include "mem/timing_rules.hpp"
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
  std::int64_t serve(std::span<Offers> offers, std::int64_t tick) override;

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
  void walk(sim::Canonical& c, const sim::Present& present, RequestNames& names) override;

  [[nodiscard]] bool canonical(const Origin& from, bool with_refresh, std::vector<std::int32_t>& out) const override;
  [[nodiscard]] bool banks_are_alike() const override {
    return config_.refresh != Refresh::per_bank && config_.page_policy != PagePolicy::timeout;
  }
  void refresh_form(std::int64_t tick, std::vector<std::int32_t>& out) const override;
  void jump_refresh(std::int64_t tick, std::span<const std::int32_t> form) override;
  void jump(std::int64_t left, std::span<const std::int32_t> form, const Origin& to, const Statistics& gained) override;
  [[nodiscard]] Statistics statistics(std::int64_t tick) const override;
  void follow(const Channel& leader, const Statistics& gained, std::int64_t since, std::int64_t tick) override;
  [[nodiscard]] std::int64_t next_refresh() const override;
  void remember(std::span<const IssuedCommand> issued, std::int64_t before) override;
  [[nodiscard]] std::int64_t issued() const override { return recorded_; }
  void last_commands(std::int64_t count, std::vector<IssuedCommand>& out) const override;
  std::int64_t restart_most_postponed(std::int64_t from) override {
    return std::exchange(counters_.most_postponed, from);
  }

 private:
  static constexpr std::uint16_t kNil = 0xFFFF;
  static constexpr std::int32_t kRebaseAt = 1 << 30;    // ticks from the base
  static constexpr std::int32_t kRenumberAt = 1 << 30;  // requests since keys were last made small

  using Mask = std::uint64_t;

  struct Node {
    std::int32_t row = 0;  // row, column and tag as a Request has them
    std::int32_t column = 0;
    std::uint64_t tag = 0;
    std::int32_t key = 0;   // age: smaller is older
    std::int32_t rank = 0;  // equal for requests that count as equally old
    std::uint16_t next = kNil;
    std::uint16_t prev = kNil;
    std::uint8_t bank = 0;
    std::uint8_t pc = 0;
    Op op = Op::read;
    RowResult row_result = RowResult::none;
    std::uint8_t message_class = 0;
    std::array<std::uint8_t, 7> unused{};
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
    alignas(64) PerBank<std::int32_t> head_key{};
    PerBank<std::int32_t> hit_key{};
  };

  // The command for a request that goes next on one command bus if nothing changes: the first tick in which one may
  // go, and of those that may go then the one the scheduler takes.
  struct Next {
    std::int32_t tick = kLongAgo;  // kFar: none; before the next slot of its bus: to be looked for
    std::int32_t key = 0;          // of an activated request its rank
    std::int32_t promotion = 0;    // of an activated request
    std::int16_t bank = -1;
    BankClass what = BankClass::act;
    bool active = false;

    [[nodiscard]] bool before(const Next& x) const {  // of two in one tick
      if (active != x.active) return active;
      if (key != x.key) return key < x.key;
      return active && promotion < x.promotion;
    }
  };

  struct PseudoChannel {
    EarliestTicks e;
    mutable Next column;  // RD or WR
    mutable Next row;     // ACT or PRE

    [[nodiscard]] bool idle() const { return (lists[0].has | lists[1].has | active_rd | active_wr) == 0; }
    std::int32_t return_slots = 0;  // free ones; kFar: no limit
    std::int32_t queues = 0;        // its place in queues_
    Op wanted = Op::read;           // by the mode of its queues

    Mask open = 0;
    Mask active_rd = 0;  // activated for a read that has not got its RD
    Mask active_wr = 0;
    PerBank<std::int32_t> open_row{};
    PerBank<std::int32_t> opened_at{};
    PerBank<std::int32_t> used_at{};
    PerBank<std::uint16_t> active_node{};
    PerBank<std::int32_t> active_rank{};
    PerBank<std::int32_t> active_promotion{};
    std::array<BankLists, 2> lists{};  // by Op

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

  // -- requests
  template <bool Plain = false>
  bool take(const Request& r, std::int32_t t, bool only_without_slot);
  void take_buffered(PseudoChannel& p, Queues& q, const Request& r, int bank, std::int32_t t);
  void fill(Node& node, const Request& r, int bank);
  template <bool Plain = false>
  std::uint16_t enter(Queues& q, const Request& r, int bank, std::int32_t t);
  // What has arrived by boundary t and finds room; false when one is used up or all are taken. The next arrival is that
  // of a request which is not held back.
  template <bool Plain = false>
  bool take_arrived(std::span<Offers> offers, std::int32_t t, std::int64_t& arrival);
  void give_slot(int pc, std::int64_t tick);
  [[nodiscard]] bool in_write_queue(const PseudoChannel& p, const Request& r, int bank) const;
  bool insert(PseudoChannel& p, std::uint16_t n);  // whether the scheduler sees anything new
  void unlink(PseudoChannel& p, std::uint16_t n);
  void append_forwarded(PseudoChannel& p, std::uint16_t n);
  void view(PseudoChannel& p, Op op, int bank);  // recompute what the scheduler sees of one bank's list
  std::uint16_t new_node();
  void free_node(std::uint16_t n);
  [[nodiscard]] int queues_of(int pc) const { return config_.shared_queues ? 0 : pc; }
  [[nodiscard]] Queues& queues_for(int pc) { return queues_[static_cast<std::size_t>(queues_of(pc))]; }
  [[nodiscard]] const Queues& queues_for(int pc) const { return queues_[static_cast<std::size_t>(queues_of(pc))]; }
  template <bool Plain = false>
  void changed(Queues& q, std::int32_t boundary);  // a count or the served requests have
  [[nodiscard]] bool has_room(const Queues& q, Op op) const {
    return q.count[static_cast<std::size_t>(index(op))] < (op == Op::read ? config_.read_queue : config_.write_queue);
  }
  void settle_before(Queues& q, std::int32_t boundary);
  void settle_all();
  void change_mode(Queues& q);
  void note_modes() {  // after a change of one
    for (PseudoChannel& p : pcs_) {
      p.wanted = queues_[static_cast<std::size_t>(p.queues)].write_mode != 0 ? Op::write : Op::read;
    }
  }
  [[nodiscard]] bool wanted_mode(const Queues& q) const;
  void complete(const Node& node, std::int64_t issue, std::int64_t done, RowResult result);
  void renumber_keys();
  void renumber_promotions();

  // -- scheduling
  [[nodiscard]] Mask refresh_target(const PseudoChannel& p) const;
  [[nodiscard]] std::int32_t refresh_ready(const PseudoChannel& p) const;
  [[nodiscard]] Mask refresh_blocked(const PseudoChannel& p) const;
  [[nodiscard]] bool refresh_wanted(const PseudoChannel& p) const;
  [[nodiscard]] std::int32_t last_act(const PseudoChannel& p) const;
  void find_column(const PseudoChannel& p) const;
  void look_for_column(const PseudoChannel& p) const;
  void find_active(const PseudoChannel& p, Mask banks, BankClass what, Command command, Next& best) const;
  void find_hit(const PseudoChannel& p, Mask banks, bool write, Next& best) const;
  void find_row(const PseudoChannel& p) const;
  void find_next(const PseudoChannel& p) const;
  void offer_column(const PseudoChannel& p, int bank) const;
  void offer_row(const PseudoChannel& p, int bank) const;
  void offer_active(const PseudoChannel& p, int bank, Op kind) const;
  void bank_asked(const PseudoChannel& p, int bank, Op op) const;
  void recheck(const PseudoChannel& p, Next& next) const;
  void recheck_others(Command c, int pc) const;
  void forget() const;
  [[nodiscard]] int first_column(std::int32_t t) const;
  [[nodiscard]] int first_row(std::int32_t t) const;
  [[nodiscard]] int first_to_close(const PseudoChannel& p, Mask target) const;
  bool issue_refresh(std::int32_t t);
  bool issue_idle_close(std::int32_t t);
  // Until a refresh falls due nothing but requests, and their write mode is settled.
  [[nodiscard]] bool quiet() const { return unsettled_ == 0 && config_.page_policy == PagePolicy::open; }
  // None of the compatibility switches, rows stay open, any number of reads may return.
  [[nodiscard]] bool plain() const {
    return !(config_.slot_freed_at_act || config_.ties_by_arrival_tick || config_.refresh_blocks_channel ||
             config_.reads_return_in_order || config_.coalesce_writes || config_.shared_queues) &&
           config_.page_policy == PagePolicy::open &&
           std::all_of(pcs_.begin(), pcs_.end(), [](const PseudoChannel& p) { return p.return_slots == kFar; });
  }
  [[nodiscard]] bool one_is_busy() const { return (busy_ & (busy_ - 1)) == 0; }
  template <bool Plain>
  void issue_quietly(PseudoChannel& p, int pc, std::int32_t t);
  // False when there is nothing more to take. Plain: as `plain` has it, known when compiled.
  template <bool Plain>
  bool serve_one(std::span<Offers> offers, std::int64_t& arrival);
  template <bool Plain>
  bool serve_two(std::span<Offers> offers, std::int64_t& arrival);
  // Whether the hit of a bank is its oldest request and the next one is a hit too; no row command is to go to the bank.
  [[nodiscard]] bool hit_follows(const PseudoChannel& p, const BankLists& l, int bank) const {
    const auto b = static_cast<std::size_t>(bank);
    const std::uint16_t n = l.hit_node[b];
    if (l.head[b] != n || p.row.bank == bank) return false;
    const std::uint16_t following = nodes_[n].next;
    return following != kNil && nodes_[following].row == p.open_row[b];
  }
  [[nodiscard]] bool hits_follow(const PseudoChannel& p) const {
    return !p.column.active && p.column.tick < p.row.tick &&
           hit_follows(p, p.lists[p.column.what == BankClass::rd ? 0 : 1], p.column.bank);
  }
  // Whether a request of this kind has arrived and is the next to be taken.
  [[nodiscard]] bool waits(const Offers& o, Op op) const {
    return !o.all_taken() && o.arrive[o.taken] <= absolute(now_) && o.requests[o.taken].op == op;
  }
  // What comes behind a row hit of a run.
  enum class AfterHit : std::uint8_t { goes_on, not_issued, is_over, has_room, asked };
  struct HitRun;  // controller_hits.cpp
  bool begin_hits(HitRun& r, int pc, std::span<Offers> offers);
  void end_hits(HitRun& r, Op op);
  template <Op kOp>
  AfterHit issue_hit(HitRun& r);
  template <Op kOp>
  bool run_of_hits(HitRun& a, HitRun* b, std::int32_t stop);
  bool serve_hits(int pc, std::span<Offers> offers, std::int32_t limit);
  void column_slot(std::int32_t t);
  void row_slot(std::int32_t t);
  void one_slot(std::int32_t t);
  void push_refreshes(std::int32_t t);

  template <bool Plain = false>
  void issue_column(PseudoChannel& p, int pc, std::int32_t t);
  void issue_row(PseudoChannel& p, int pc, std::int32_t t);
  void issue_act(PseudoChannel& p, int pc, int bank, Op op, std::int32_t t);
  void issue_pre(PseudoChannel& p, int pc, int bank, std::int32_t t);
  void issue_pre_all(int pc, std::int32_t t);
  void issue_ref(int pc, int bank, std::int32_t t);
  void close_bank(PseudoChannel& p, int pc, int bank, std::int32_t t);
  void record(Command c, int pc, int bank, std::int32_t row, std::int32_t column, std::int32_t t);
  void demote_active(PseudoChannel& p, Mask banks);
  void note_blocked(PseudoChannel& p, std::int32_t t) {
    if (p.return_slots == 0 || p.blocked_since != kLongAgo) book_blocked(p, t);
  }
  void book_blocked(PseudoChannel& p, std::int32_t t);
  [[nodiscard]] int bank_of(const Request& r) const {
    return (r.stack_id * config_.bank_groups + r.bg) * config_.banks_per_group + r.bank;
  }
  void note_idle(int pc) {
    if (pcs_[static_cast<std::size_t>(pc)].idle()) busy_ &= ~(1U << pc);
  }

  [[nodiscard]] std::int32_t gate(const PseudoChannel& p, Command c) const {
    return std::max(p.e.own[gate_index(c)], bus_[gate_index(c)]);
  }
  [[nodiscard]] std::int32_t align(std::int32_t t, Command c) const {
    return t | edge_[static_cast<std::size_t>(index(c))];
  }
  // 1 where some command goes by the clock's edge: the parity of a tick.
  [[nodiscard]] std::int32_t any_edge() const { return *std::max_element(edge_.begin(), edge_.end()); }
  void precharge_for(PseudoChannel& p, int pc, int bank, Op op, std::int32_t t);
  // No refresh is owed or under way.
  [[nodiscard]] bool calm() const { return quiet_until_ != kLongAgo; }
  void note_refreshes();  // after a change of what is owed
  [[nodiscard]] std::int32_t next_tick(bool progress_only) const;
  [[nodiscard]] std::int32_t next_idle_close(const PseudoChannel& p) const;
  [[nodiscard]] std::int32_t next_refresh_step(const PseudoChannel& p, bool progress_only) const;
  [[nodiscard]] std::int32_t next_pending_refresh() const;
  // Everything up to boundary t is over.
  void reach(std::int32_t t) {
    now_ = std::max(now_, t);
    column_from_ = row_from_ = std::max(row_from_, t + 1);
  }
  void rebase(std::int64_t tick);
  struct Walk;  // controller_walk.cpp
  [[nodiscard]] std::int32_t relative(std::int64_t tick) const { return static_cast<std::int32_t>(tick - base_); }
  [[nodiscard]] std::int64_t absolute(std::int32_t t) const { return base_ + t; }
  [[nodiscard]] BankCounters& bank_counter(int pc, int bank) {
    return bank_counters_[static_cast<std::size_t>(pc * banks_ + bank)];
  }

  ChannelConfig config_;
  sim::Fault fault_;
  TimingRules rules_;
  const BankKernels* kernels_;
  int banks_ = 0;
  Mask all_banks_ = 0;
  std::array<std::int32_t, kCommands> edge_{};  // 1: only at odd ticks
  bool unattended_ = false;                     // without a request nothing ever happens: no refresh, no row is closed

  std::int64_t base_ = 0;
  std::int32_t now_ = 0;          // the last tick advanced to or accepted at
  std::int32_t column_from_ = 1;  // the first tick whose column slot is still to come ...
  std::int32_t row_from_ = 1;     // ... and row slot
  alignas(32) Gates bus_{};
  std::int32_t quiet_until_ = kFar;  // the next refresh falls due; kLongAgo: one is owed or under way
  std::uint32_t busy_ = 0;           // pseudo-channels with a request
  std::uint32_t unsettled_ = 1;      // whether a queue pair may not be settled
  std::vector<PseudoChannel> pcs_;
  std::vector<Queues> queues_;
  std::vector<Node> nodes_;
  std::uint16_t free_ = kNil;
  std::int32_t next_key_ = 0;
  std::int32_t tick_rank_ = 0;  // key of the first request of the present boundary
  std::int32_t tick_rank_at_ = kLongAgo;
  std::int32_t promotions_ = 0;
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

inline bool Controller::can_accept(Op op, int pc) const { return has_room(queues_for(pc), op); }

// ---- what may be issued ----

// Banks that the next refresh takes.
inline Controller::Mask Controller::refresh_target(const PseudoChannel& p) const {
  if (config_.refresh == Refresh::all_bank) return all_banks_;
  Mask target = bit(p.refresh_bank);
  for (int i = 1; i < config_.refresh_set; ++i) {
    target |= bit(p.refresh_bank + i * (config_.banks() / config_.refresh_set));
  }
  return target;
}

// The earliest tick of the next per-bank refresh, the gates of its pseudo-channel apart.
inline std::int32_t Controller::refresh_ready(const PseudoChannel& p) const {
  std::int32_t latest = kLongAgo;
  for (Mask m = refresh_target(p); m != 0; m &= m - 1) {
    latest = std::max(latest, p.e.at(BankClass::ref, static_cast<std::size_t>(lowest(m))));
  }
  return latest;
}

inline bool Controller::refresh_wanted(const PseudoChannel& p) const {
  if (p.refresh_owed == 0) return false;
  if (p.refresh_owed > config_.postponed_refreshes) return true;
  const Mask asked = p.lists[0].has | p.lists[1].has | p.active_rd | p.active_wr;
  return (asked & refresh_target(p)) == 0;
}

// Banks that requests may not touch because a refresh is being prepared for them.
inline Controller::Mask Controller::refresh_blocked(const PseudoChannel& p) const {
  if (!refresh_wanted(p)) return 0;
  return refresh_target(p);
}

// The last tick at which an ACT does not delay a per-bank refresh whose bank is closed and waits.
inline std::int32_t Controller::last_act(const PseudoChannel& p) const {
  if (config_.refresh != Refresh::per_bank || !refresh_wanted(p) || (p.open & refresh_target(p)) != 0) return kFar;
  return refresh_ready(p) - rules_.act_to_refresh();
}

// The command of a choice.
inline constexpr std::array kCommandOf = {Command::ACT, Command::PREpb, Command::RD, Command::WR};  // by BankClass

// A command has delayed others. What was to go next still is if it was not itself delayed.
inline void Controller::recheck(const PseudoChannel& p, Next& next) const {
  if (next.bank < 0) return;
  const std::int32_t own = p.e.at(next.what, static_cast<std::size_t>(next.bank));
  if (std::max(own, gate(p, kCommandOf[index(next.what)])) > next.tick) next.tick = kLongAgo;
}

// The other pseudo-channels share the command bus.
inline void Controller::recheck_others(Command c, int pc) const {
  if (!rules_.delays_the_bus(c)) return;
  for (std::uint32_t pcs = busy_ & ~(1U << pc); pcs != 0; pcs &= pcs - 1) {
    const PseudoChannel& p = pcs_[static_cast<std::size_t>(lowest(pcs))];
    for (Next* next : {&p.column, &p.row}) {
      if (next->bank >= 0 && bus_[gate_index(kCommandOf[index(next->what)])] > next->tick) next->tick = kLongAgo;
    }
  }
}

// A bank's requests or rows have changed: it may now be the one that goes next.
inline void Controller::offer_column(const PseudoChannel& p, int bank) const {
  Next& best = p.column;
  if (best.tick < column_from_) return;
  if (best.bank == bank) {
    best.tick = kLongAgo;
    return;
  }
  const auto b = static_cast<std::size_t>(bank);
  const Mask one = bit(bank);
  const bool write = p.wanted == Op::write;
  const auto offer = [&](BankClass what, Command command, bool active, std::int32_t key, std::int32_t promotion) {
    Next x;
    x.tick = std::max(p.e.at(what, b), std::max(gate(p, command), column_from_)) |
             edge_[static_cast<std::size_t>(index(Command::RD))];
    if (x.tick > best.tick) return;
    x.key = key;
    x.promotion = promotion;
    x.bank = static_cast<std::int16_t>(bank);
    x.what = what;
    x.active = active;
    if (x.tick == best.tick && !x.before(best) && (best.before(x) || best.bank < x.bank)) return;
    best = x;
  };
  if (p.return_slots != 0 && (p.active_rd & one) != 0) {
    offer(BankClass::rd, Command::RD, true, p.active_rank[b], p.active_promotion[b]);
  } else if ((p.active_wr & one) != 0) {
    offer(BankClass::wr, Command::WR, true, p.active_rank[b], p.active_promotion[b]);
  }
  const BankLists& l = p.lists[write ? 1 : 0];
  if ((l.hit & ~l.late & one) == 0) return;
  if (write) {
    offer(BankClass::wr, Command::WR, false, l.hit_key[b], 0);
  } else if (p.return_slots != 0) {
    offer(BankClass::rd, Command::RD, false, l.hit_key[b], 0);
  }
}

inline void Controller::offer_row(const PseudoChannel& p, int bank) const {
  Next& best = p.row;
  if (best.tick < row_from_) return;
  if (best.bank == bank) {
    best.tick = kLongAgo;
    return;
  }
  const auto b = static_cast<std::size_t>(bank);
  const Mask one = bit(bank);
  const BankLists& l = p.lists[static_cast<std::size_t>(index(p.wanted))];
  const bool open = (p.open & one) != 0;
  if (((open ? l.miss & ~(p.active_rd | p.active_wr) : l.has) & one) == 0) return;
  const BankClass what = open ? BankClass::pre : BankClass::act;
  const Command command = open ? Command::PREpb : Command::ACT;
  const std::int32_t tick = align(std::max(p.e.at(what, b), std::max(gate(p, command), row_from_)), command);
  if (tick > best.tick) return;
  const std::int32_t key = l.head_key[b];
  if (tick == best.tick && (key > best.key || (key == best.key && best.bank < bank))) return;
  best.tick = tick;
  best.key = key;
  best.bank = static_cast<std::int16_t>(bank);
  best.what = what;
}

// A row was opened for a request; hits of the bank wait for it.
inline void Controller::offer_active(const PseudoChannel& p, int bank, Op kind) const {
  Next& best = p.column;
  if (best.tick < column_from_ || (kind == Op::read && p.return_slots == 0)) return;
  const auto b = static_cast<std::size_t>(bank);
  const BankClass what = kind == Op::read ? BankClass::rd : BankClass::wr;
  const Command command = kind == Op::read ? Command::RD : Command::WR;
  const std::int32_t tick = align(std::max(p.e.at(what, b), std::max(gate(p, command), column_from_)), Command::RD);
  if (tick > best.tick) return;
  const std::int32_t rank = p.active_rank[b];
  if (tick == best.tick && best.active && best.key <= rank) return;  // promoted last
  best.tick = tick;
  best.key = rank;
  best.promotion = p.active_promotion[b];
  best.bank = static_cast<std::int16_t>(bank);
  best.what = what;
  best.active = true;
}

// A request was added to the bank's list.
inline void Controller::bank_asked(const PseudoChannel& p, int bank, Op op) const {
  if ((p.lists[static_cast<std::size_t>(index(op))].hit & bit(bank)) != 0) offer_column(p, bank);
  offer_row(p, bank);
}

inline bool Controller::wanted_mode(const Queues& q) const {
  const int reads = q.count[0];
  const int writes = q.count[1];
  if ((writes | q.write_mode) == 0 && reads != 0) return false;
  if (config_.slot_freed_at_act) {  // as ramulator2.1 has it: an empty read queue alone is enough
    if (q.write_mode == 0) return writes >= config_.write_high || reads == 0;
    return !(writes <= config_.write_low && reads != 0);
  }
  if (writes == 0) return false;
  if (q.write_mode == 0) {
    return writes >= config_.write_high || reads == 0 || (config_.age_cap > 0 && q.served >= config_.age_cap);
  }
  if (reads == 0) return true;
  if (config_.age_cap > 0 && q.served >= config_.write_queue) return false;
  return q.write_mode == 2 || writes > config_.write_low;
}

// Looking at counts that ask for the mode there is changes nothing: then the mode is settled at once.
template <bool Plain>
inline void Controller::changed(Queues& q, std::int32_t boundary) {
  if (Plain && (q.count[1] | q.write_mode) == 0) {
    q.settled = 1;
    return;
  }
  q.settled = wanted_mode(q) == (q.write_mode != 0) ? 1 : 0;
  q.changed_at = boundary;
  if (q.settled == 0) unsettled_ = 1;
}

inline void Controller::settle_all() {
  if (unsettled_ == 0) return;
  for (Queues& q : queues_) {
    if (q.settled == 0) change_mode(q);
  }
  unsettled_ = 0;
}

// The mode is looked at in every tick; a tick without a command or a request is caught up here.
inline void Controller::settle_before(Queues& q, std::int32_t boundary) {
  if (q.settled == 0 && q.changed_at < boundary && pending_.empty()) change_mode(q);
}

inline std::uint16_t Controller::new_node() {
  const std::uint16_t n = free_;
  free_ = nodes_[n].next;
  return n;
}

inline void Controller::free_node(std::uint16_t n) {
  nodes_[n].next = free_;
  free_ = n;
}

inline void Controller::complete(const Node& node, std::int64_t issue, std::int64_t done, RowResult result) {
  completions.push_back({node.tag, issue, done, node.pc, node.op, result, node.message_class, {}});
}

inline void Controller::record(Command c, int pc, int bank, std::int32_t row, std::int32_t column, std::int32_t t) {
  IssuedCommand& i = recent_[static_cast<std::size_t>(recorded_++ & (kRecent - 1))];
  i = {absolute(t), row, column, c, static_cast<std::uint8_t>(pc), static_cast<std::int16_t>(bank), {}};
  if (config_.log_commands) commands.push_back(i);
}

// Recomputes what the scheduler sees of one bank's list.
inline void Controller::view(PseudoChannel& p, Op op, int bank) {
  BankLists& l = p.lists[static_cast<std::size_t>(index(op))];
  const auto b = static_cast<std::size_t>(bank);
  const Mask one = bit(bank);
  const std::uint16_t head = l.head[b];
  Mask hits = 0;
  Mask misses = 0;
  Mask lates = 0;
  if (head != kNil) {
    const Node& first = nodes_[head];
    l.head_key[b] = first.key;
    if ((p.open & one) != 0) {
      const std::uint16_t hit = l.hit_node[b];
      misses = one;
      if (hit != kNil) {
        const Node& h = nodes_[hit];
        hits = one;
        l.hit_key[b] = h.key;
        if (hit == head || h.rank <= first.rank) {  // nothing older wants another row
          misses = 0;
        } else if (config_.age_cap > 0 && h.key - first.key > config_.age_cap) {
          lates = one;
        }
      }
    }
  }
  l.has = head != kNil ? l.has | one : l.has & ~one;
  l.hit = (l.hit & ~one) | hits;
  l.miss = (l.miss & ~one) | misses;
  l.late = (l.late & ~one) | lates;
}

inline bool Controller::insert(PseudoChannel& p, std::uint16_t n) {
  Node& node = nodes_[n];
  BankLists& l = p.lists[static_cast<std::size_t>(index(node.op))];
  const std::size_t b = node.bank;
  std::uint16_t after = l.tail[b];
  while (after != kNil && nodes_[after].key > node.key) after = nodes_[after].prev;
  node.prev = after;
  node.next = after == kNil ? l.head[b] : nodes_[after].next;
  if (after == kNil) {
    l.head[b] = n;
  } else {
    nodes_[after].next = n;
  }
  if (node.next == kNil) {
    l.tail[b] = n;
  } else {
    nodes_[node.next].prev = n;
  }
  bool seen = after == kNil;
  if (p.open_row[b] == node.row && (l.hit_node[b] == kNil || nodes_[l.hit_node[b]].key > node.key)) {
    l.hit_node[b] = n;
    seen = true;
  }
  if (!seen) return false;  // neither the oldest nor the oldest hit
  view(p, node.op, node.bank);
  return true;
}

inline void Controller::unlink(PseudoChannel& p, std::uint16_t n) {
  const Node& node = nodes_[n];
  BankLists& l = p.lists[static_cast<std::size_t>(index(node.op))];
  const std::size_t b = node.bank;
  if (l.hit_node[b] == n) {
    std::uint16_t h = node.next;
    if (l.head[b] == n && h != kNil && nodes_[h].row == p.open_row[b]) {  // the next one of the same row
      l.head[b] = l.hit_node[b] = h;
      l.head_key[b] = l.hit_key[b] = nodes_[h].key;
      nodes_[h].prev = kNil;
      return;
    }
    while (h != kNil && nodes_[h].row != p.open_row[b]) h = nodes_[h].next;
    l.hit_node[b] = h;
  }
  if (node.prev == kNil) {
    l.head[b] = node.next;
  } else {
    nodes_[node.prev].next = node.next;
  }
  if (node.next == kNil) {
    l.tail[b] = node.prev;
  } else {
    nodes_[node.next].prev = node.prev;
  }
  view(p, node.op, node.bank);
}

// ---- requests come in ----

inline void Controller::fill(Node& node, const Request& r, int bank) {
  node.row = r.row;
  node.column = r.column;
  node.tag = r.tag;
  node.next = node.prev = kNil;
  node.bank = static_cast<std::uint8_t>(bank);
  node.pc = r.pc;
  node.op = r.op;
  node.row_result = RowResult::none;
  node.message_class = r.message_class;
}

// A queue entry for a request, not yet in the list of its bank.
template <bool Plain>
inline std::uint16_t Controller::enter(Queues& q, const Request& r, int bank, std::int32_t t) {
  if (next_key_ == kRenumberAt) renumber_keys();
  const std::uint16_t n = new_node();
  Node& node = nodes_[n];
  fill(node, r, bank);
  node.key = next_key_++;
  if (r.priority != 0) node.key -= r.priority * static_cast<std::int32_t>(std::max<std::int64_t>(config_.age_cap, 1));
  node.rank = node.key;
  if (!Plain && config_.ties_by_arrival_tick) {
    if (tick_rank_at_ != t) {
      tick_rank_at_ = t;
      tick_rank_ = node.key;
    }
    node.rank = tick_rank_;
  }
  ++q.count[static_cast<std::size_t>(index(r.op))];
  changed<Plain>(q, t);
  return n;
}

// At boundary t. With `only_without_slot` the request is taken only if it needs no queue entry.
template <bool Plain>
inline bool Controller::take(const Request& r, std::int32_t t, bool only_without_slot) {
  PseudoChannel& p = pcs_[r.pc];
  Queues& q = queues_[static_cast<std::size_t>(Plain ? r.pc : p.queues)];
  const int bank = bank_of(r);
  const bool buffered = ((p.lists[1].has | p.active_wr) & bit(bank)) != 0 &&
                        (r.op == Op::read || (!Plain && config_.coalesce_writes)) && in_write_queue(p, r, bank);
  // a forwarded read may itself have to wait for a return slot, in the queue that is full
  if (!Plain && only_without_slot && (!buffered || (r.op == Op::read && p.return_slots == 0))) return false;
  settle_before(q, t);
  ++counters_.asked;
  if constexpr (sim::kFaultsCompiled) {
    if (fault_ == sim::Fault::lose_request && counters_.asked % 97 == 0) return true;
  }
  if (buffered) {
    take_buffered(p, q, r, bank, t);
    return true;
  }
  const std::uint16_t n = enter<Plain>(q, r, bank, t);
  busy_ |= 1U << r.pc;
  if (!calm()) {
    insert(p, n);
    forget();
  } else if (insert(p, n)) {
    bank_asked(p, bank, r.op);
  }
  if (!Plain) note_blocked(p, t);
  return true;
}

template <bool Plain>
inline bool Controller::take_arrived(std::span<Offers> offers, std::int32_t t, std::int64_t& arrival) {
  const std::int64_t tick = absolute(t);
  arrival = kNeverTick;
  bool left = false;
  for (Offers& o : offers) {
    for (;; ++o.taken) {
      if (o.all_taken()) {
        if (o.more) return false;
        break;
      }
      left = true;
      if (o.arrive[o.taken] > tick) {
        arrival = std::min(arrival, o.arrive[o.taken]);
        break;
      }
      const Request& r = o.requests[o.taken];
      const bool full = Plain ? !has_room(queues_[r.pc], r.op) : !can_accept(r.op, r.pc);
      if ((full && (Plain || !config_.slot_freed_at_act)) || !take<Plain>(r, t, full)) break;
      o.accepted[o.taken] = tick;
    }
  }
  return left;
}

}  // namespace cosim::mem
