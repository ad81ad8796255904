// What a command does: timing, bank state, completions, counters.
#include <algorithm>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

// Of activated requests the one that arrived first, then the one activated first.
[[gnu::always_inline]] inline void Controller::find_active(const PseudoChannel& p, Mask banks, BankClass what,
                                                           Command command, Next& best) const {
  const std::int32_t from = std::max(column_from_, gate(p, command));
  const std::int32_t edge = edge_[static_cast<std::size_t>(index(Command::RD))];
  std::int32_t first = best.tick;
  int chosen = -1;
  do {
    const int bank = lowest(banks);
    const auto b = static_cast<std::size_t>(bank);
    const std::int32_t tick = std::max(from, p.e.at(what, b)) | edge;
    banks &= banks - 1;
    if (tick > first) continue;
    if (tick == first) {
      const std::int32_t rank = chosen < 0 ? best.key : p.active_rank[static_cast<std::size_t>(chosen)];
      const std::int32_t promotion = chosen < 0 ? best.promotion : p.active_promotion[static_cast<std::size_t>(chosen)];
      if (p.active_rank[b] > rank || (p.active_rank[b] == rank && p.active_promotion[b] > promotion)) continue;
    }
    first = tick;
    chosen = bank;
  } while (banks != 0);
  if (chosen < 0) return;
  best.tick = first;
  best.key = p.active_rank[static_cast<std::size_t>(chosen)];
  best.promotion = p.active_promotion[static_cast<std::size_t>(chosen)];
  best.bank = static_cast<std::int16_t>(chosen);
  best.what = what;
  best.active = true;
}

// The oldest row hit, where it may go before what there is.
[[gnu::always_inline]] inline void Controller::find_hit(const PseudoChannel& p, Mask banks, bool write,
                                                        Next& best) const {
  const BankClass what = write ? BankClass::wr : BankClass::rd;
  const std::int32_t from = std::max(column_from_, gate(p, write ? Command::WR : Command::RD));
  const std::int32_t edge = edge_[static_cast<std::size_t>(index(Command::RD))];
  const std::int32_t* const earliest = p.e.banks[index(what)].data();
  const std::int32_t* const key = p.lists[write ? 1 : 0].hit_key.data();
  OldestReady found;
  if (more_than_four(banks)) {
    found = kernels_->oldest_column(earliest, key, banks, from, edge);
  } else {
    int oldest = lowest(banks);
    for (Mask m = banks & (banks - 1); m != 0; m &= m - 1) oldest = key[lowest(m)] < key[oldest] ? lowest(m) : oldest;
    if (earliest[oldest] <= from) {  // none goes before it
      found = {from | edge, key[oldest], oldest};
    } else {
      for (; banks != 0; banks &= banks - 1) {
        const int b = lowest(banks);
        const std::int32_t tick = std::max(from, earliest[b]) | edge;
        if (tick > found.tick || (tick == found.tick && key[b] >= found.key)) continue;
        found = {tick, key[b], b};
      }
    }
  }
  if (found.tick >= best.tick) return;
  best.tick = found.tick;
  best.key = found.key;
  best.bank = static_cast<std::int16_t>(found.bank);
  best.what = what;
  best.active = false;
}

// Activated requests go before row hits.
[[gnu::always_inline]] inline void Controller::look_for_column(const PseudoChannel& p) const {
  Next& best = p.column;
  best.tick = kFar;
  best.bank = -1;
  const bool write = p.wanted == Op::write;
  const BankLists& l = p.lists[write ? 1 : 0];
  Mask hits = l.hit & ~l.late;
  if ((hits | p.active_rd | p.active_wr) == 0) return;
  if (!calm()) hits = pending_.empty() ? hits & ~refresh_blocked(p) : 0;
  if (p.active_rd != 0 && p.return_slots != 0) find_active(p, p.active_rd, BankClass::rd, Command::RD, best);
  if (p.active_wr != 0) find_active(p, p.active_wr, BankClass::wr, Command::WR, best);
  if (hits != 0 && (write || p.return_slots != 0)) find_hit(p, hits, write, best);
}

[[gnu::noinline]] void Controller::find_column(const PseudoChannel& p) const { look_for_column(p); }

// The oldest request of its bank that needs its row opened or another one closed.
[[gnu::noinline]] void Controller::find_row(const PseudoChannel& p) const {
  Next& best = p.row;
  best.tick = kFar;
  best.bank = -1;
  const BankLists& l = p.lists[static_cast<std::size_t>(index(p.wanted))];
  Mask to_open = l.has & ~p.open;
  Mask to_close = l.miss & ~(p.active_rd | p.active_wr);
  if ((to_open | to_close) == 0) return;
  if (!calm()) {
    if (!pending_.empty()) return;
    const Mask blocked = refresh_blocked(p);
    to_open &= ~blocked;
    to_close &= ~blocked;
    const std::int32_t last = last_act(p);  // no ACT that would delay a refresh
    for (Mask m = to_open; m != 0; m &= m - 1) {
      const std::int32_t own = p.e.at(BankClass::act, static_cast<std::size_t>(lowest(m)));
      if (align(std::max({own, row_from_, gate(p, Command::ACT)}), Command::ACT) > last) to_open &= ~bit(lowest(m));
    }
  }
  const Mask banks = to_open | to_close;
  if (banks == 0) return;
  const std::int32_t act_from = std::max(row_from_, gate(p, Command::ACT));
  const std::int32_t pre_from = std::max(row_from_, gate(p, Command::PREpb));
  OldestReady found;
  if (more_than_four(banks)) {
    RowQuery q;
    q.act = p.e.banks[index(BankClass::act)].data();
    q.pre = p.e.banks[index(BankClass::pre)].data();
    q.key = l.head_key.data();
    q.to_open = to_open;
    q.to_close = to_close;
    q.act_from = act_from;
    q.pre_from = pre_from;
    q.act_edge = edge_[static_cast<std::size_t>(index(Command::ACT))];
    q.pre_edge = edge_[static_cast<std::size_t>(index(Command::PREpb))];
    found = kernels_->oldest_row(q);
  } else {
    for (Mask m = banks; m != 0; m &= m - 1) {
      const int bank = lowest(m);
      const auto b = static_cast<std::size_t>(bank);
      const std::int32_t tick = (to_open & bit(bank)) != 0
                                    ? align(std::max(act_from, p.e.at(BankClass::act, b)), Command::ACT)
                                    : align(std::max(pre_from, p.e.at(BankClass::pre, b)), Command::PREpb);
      if (tick > found.tick || (tick == found.tick && l.head_key[b] >= found.key)) continue;
      found = {tick, l.head_key[b], bank};
    }
  }
  best.tick = found.tick;
  best.key = found.key;
  best.bank = static_cast<std::int16_t>(found.bank);
  best.what = (to_open & bit(found.bank)) != 0 ? BankClass::act : BankClass::pre;
}

// Whichever is not known.
[[gnu::noinline]] void Controller::find_next(const PseudoChannel& p) const {
  if (p.column.tick < column_from_) look_for_column(p);
  if (p.row.tick < row_from_) find_row(p);
}

template <bool Plain>
void Controller::issue_column(PseudoChannel& p, int pc, std::int32_t t) {
  Queues& q = queues_[static_cast<std::size_t>(Plain ? pc : p.queues)];
  const Next next = p.column;
  p.column.tick = kLongAgo;
  const auto b = static_cast<std::size_t>(next.bank);
  const Mask one = bit(next.bank);
  const Op kind = next.what == BankClass::rd ? Op::read : Op::write;
  const auto op = static_cast<std::size_t>(index(kind));
  BankCounters& stats = bank_counter(pc, next.bank);
  std::uint16_t n = 0;
  if (next.active) {
    n = p.active_node[b];
    p.active_node[b] = kNil;
    p.active_rd &= ~one;
    p.active_wr &= ~one;
  } else {
    n = p.lists[op].hit_node[b];
    unlink(p, n);
  }
  const bool leaves = Plain || !next.active || !config_.slot_freed_at_act;
  if (leaves) --q.count[op];
  // a phase is bounded while the other kind waits
  if ((q.write_mode != 0) == (kind == Op::write) && q.count[1 - op] > 0) ++q.served;
  if (leaves) changed<Plain>(q, t);
  Node& node = nodes_[n];
  if (node.row_result == RowResult::none) {
    node.row_result = RowResult::hit;
    ++stats.row_hits;
  }
  const bool auto_precharge = !Plain && config_.page_policy == PagePolicy::closed &&
                              ((p.lists[0].hit | p.lists[1].hit | p.active_rd | p.active_wr) & one) == 0;
  const Command command =
      kind == Op::read ? (auto_precharge ? Command::RDA : Command::RD) : (auto_precharge ? Command::WRA : Command::WR);
  record(command, pc, next.bank, node.row, node.column, t);
  rules_.apply(command, next.bank, t, p.e, bus_);
  p.used_at[b] = t;
  stats.bytes += config_.access_bytes;
  if (kind == Op::read) {
    ++stats.rd;
    ++counters_.served_reads;
    if (!Plain && p.return_slots != kFar) --p.return_slots;
    std::int64_t done = absolute(t) + config_.read_latency;
    if (!Plain && config_.reads_return_in_order) done = last_read_done_ = std::max(done, last_read_done_);
    complete(node, absolute(t), done, node.row_result);
  } else {
    ++stats.wr;
    ++counters_.served_writes;
    complete(node, absolute(t), absolute(t) + config_.write_latency, node.row_result);
  }
  free_node(n);
  if (auto_precharge) {
    close_bank(p, pc, next.bank, t);
  } else {
    offer_row(p, next.bank);
  }
  if (rules_.delays_rows(command)) recheck(p, p.row);
  recheck_others(command, pc);
  if (!Plain) {
    const Mask writes = p.active_wr | (p.wanted == Op::write ? p.lists[1].hit : 0);
    if (p.return_slots == 0 && writes == 0) {  // nothing more before a slot is given back
      p.column.tick = kFar;
      p.column.bank = -1;
    }
    note_blocked(p, t);
  }
  note_idle(pc);
}
template void Controller::issue_column<false>(PseudoChannel& p, int pc, std::int32_t t);

void Controller::issue_act(PseudoChannel& p, int pc, int bank, Op kind, std::int32_t t) {
  p.row.tick = kLongAgo;
  const auto b = static_cast<std::size_t>(bank);
  const auto op = static_cast<std::size_t>(index(kind));
  const std::uint16_t n = p.lists[op].head[b];
  Node& node = nodes_[n];
  BankCounters& stats = bank_counter(pc, bank);
  if (node.row_result == RowResult::none) {
    node.row_result = RowResult::miss;
    ++stats.row_misses;
  }
  ++stats.act;
  record(Command::ACT, pc, bank, node.row, -1, t);
  rules_.apply(Command::ACT, bank, t, p.e, bus_);
  if (p.open == 0) p.any_open_since = t;
  p.open |= bit(bank);
  p.open_row[b] = node.row;
  p.opened_at[b] = t;
  p.used_at[b] = t;
  BankLists& own = p.lists[op];
  own.head[b] = node.next;
  if (node.next != kNil) {
    nodes_[node.next].prev = kNil;
  } else {
    own.tail[b] = kNil;
    own.has &= ~bit(bank);
  }
  p.active_node[b] = n;
  p.active_rank[b] = node.rank;
  if (promotions_ == kRenumberAt) renumber_promotions();
  p.active_promotion[b] = promotions_++;
  (node.op == Op::read ? p.active_rd : p.active_wr) |= bit(bank);
  const Mask others = (p.lists[0].has | p.lists[1].has) & bit(bank);
  for (std::size_t listed = 0; others != 0 && listed < 2; ++listed) {
    BankLists& l = p.lists[listed];
    if ((l.has & bit(bank)) == 0) continue;
    std::uint16_t h = l.head[b];
    while (h != kNil && nodes_[h].row != p.open_row[b]) h = nodes_[h].next;
    l.hit_node[b] = h;
    view(p, static_cast<Op>(listed), bank);
  }
  offer_active(p, bank, kind);
  if (rules_.delays_columns(Command::ACT)) recheck(p, p.column);
  recheck_others(Command::ACT, pc);
  if (config_.slot_freed_at_act) {
    Queues& q = queues_[static_cast<std::size_t>(p.queues)];
    --q.count[op];
    changed(q, t);
  }
}

void Controller::close_bank(PseudoChannel& p, int pc, int bank, std::int32_t t) {
  const auto b = static_cast<std::size_t>(bank);
  bank_counter(pc, bank).busy_ticks += t - p.opened_at[b] + config_.precharge_ticks;
  p.open &= ~bit(bank);
  p.open_row[b] = -1;
  if (p.open == 0) counters_.any_open_ticks += t - p.any_open_since;
  for (BankLists& l : p.lists) {
    l.hit_node[b] = kNil;
    l.hit &= ~bit(bank);
    l.miss &= ~bit(bank);
    l.late &= ~bit(bank);
  }
  if (p.column.bank == bank) p.column.tick = kLongAgo;
  offer_row(p, bank);
}

void Controller::issue_pre(PseudoChannel& p, int pc, int bank, std::int32_t t) {
  record(Command::PREpb, pc, bank, p.open_row[static_cast<std::size_t>(bank)], -1, t);
  rules_.apply(Command::PREpb, bank, t, p.e, bus_);
  ++bank_counter(pc, bank).pre;
  close_bank(p, pc, bank, t);
  if (rules_.delays_columns(Command::PREpb)) recheck(p, p.column);
  if (rules_.delays_rows(Command::PREpb)) recheck(p, p.row);
  recheck_others(Command::PREpb, pc);
}

void Controller::issue_pre_all(int pc, std::int32_t t) {
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  record(Command::PREab, pc, -1, -1, -1, t);
  rules_.apply(Command::PREab, -1, t, p.e, bus_);
  ++counters_.precharges_all;
  for (Mask m = p.open; m != 0; m &= m - 1) close_bank(p, pc, lowest(m), t);
  forget();
}

// Closes a row for the oldest request of the bank that wants another one.
void Controller::precharge_for(PseudoChannel& p, int pc, int bank, Op op, std::int32_t t) {
  p.row.tick = kLongAgo;
  Node& first = nodes_[p.lists[static_cast<std::size_t>(index(op))].head[static_cast<std::size_t>(bank)]];
  if (first.row_result == RowResult::none) {
    first.row_result = RowResult::conflict;
    ++bank_counter(pc, bank).row_conflicts;
  }
  issue_pre(p, pc, bank, t);
}

void Controller::issue_row(PseudoChannel& p, int pc, std::int32_t t) {
  const int bank = p.row.bank;
  if (p.row.what == BankClass::act) {
    issue_act(p, pc, bank, p.wanted, t);
  } else {
    precharge_for(p, pc, bank, p.wanted, t);
  }
}

// One pseudo-channel, nothing but requests; what goes next is known.
template <bool Plain>
void Controller::issue_quietly(PseudoChannel& p, int pc, std::int32_t t) {
  if (config_.shared_command_bus) {
    const bool row = p.row.tick == t;
    if (p.column.tick == t && (p.column.active || !row || p.column.key < p.row.key)) {
      issue_column<Plain>(p, pc, t);
    } else if (row) {
      issue_row(p, pc, t);
    }
    return;
  }
  if (p.column.tick == t) {
    issue_column<Plain>(p, pc, t);
    column_from_ = t + 1;
    if (busy_ == 0) return;
    settle_all();
    if (p.row.tick < t) find_row(p);
  }
  if (p.row.tick == t) issue_row(p, pc, t);
}
template void Controller::issue_quietly<false>(PseudoChannel& p, int pc, std::int32_t t);

// Event by event as long as it is quiet and one pseudo-channel is busy.
template <bool Plain>
[[gnu::flatten]] bool Controller::serve_one(std::span<Offers> offers, std::int64_t& arrival) {
  const int pc = lowest(busy_);
  const std::uint32_t others = ~(1U << pc);
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  const std::int32_t until = std::min(quiet_until_ - 1, kRebaseAt);
  const auto next_limit = [&] { return static_cast<std::int32_t>(std::min<std::int64_t>(arrival - base_, until)); };
  std::int32_t limit = next_limit();
  do {
    if (p.column.tick < column_from_) look_for_column(p);
    if (p.row.tick < row_from_) find_row(p);
    std::int32_t t = std::min(p.column.tick, p.row.tick);
    if (t > limit) {
      if (limit == until) break;
      t = limit;
      reach(t);
    } else if (Plain && hits_follow(p) && serve_hits(pc, offers, limit)) {
      t = now_;
    } else {
      const bool frees = p.column.tick == t || (!Plain && config_.slot_freed_at_act);
      now_ = column_from_ = row_from_ = t;
      issue_quietly<Plain>(p, pc, t);
      column_from_ = row_from_ = t + 1;
      if (!frees) continue;
    }
    if (!take_arrived<Plain>(offers, t, arrival)) return false;
    limit = next_limit();
  } while ((busy_ & others) == 0 && (Plain ? unsettled_ == 0 : quiet()));
  return true;
}
template bool Controller::serve_one<false>(std::span<Offers> offers, std::int64_t& arrival);
template bool Controller::serve_one<true>(std::span<Offers> offers, std::int64_t& arrival);

// Likewise with two pseudo-channels on the two command buses.
template <bool Plain>
[[gnu::flatten]] bool Controller::serve_two(std::span<Offers> offers, std::int64_t& arrival) {
  PseudoChannel& a = pcs_[0];
  PseudoChannel& b = pcs_[1];
  const std::int32_t until = std::min(quiet_until_ - 1, kRebaseAt);
  const auto next_limit = [&] { return static_cast<std::int32_t>(std::min<std::int64_t>(arrival - base_, until)); };
  std::int32_t limit = next_limit();
  do {
    if (a.column.tick < column_from_) find_column(a);
    if (b.column.tick < column_from_) find_column(b);
    if (a.row.tick < row_from_) find_row(a);
    if (b.row.tick < row_from_) find_row(b);
    const std::int32_t column = std::min(a.column.tick, b.column.tick);
    const std::int32_t row = std::min(a.row.tick, b.row.tick);
    const int first = a.column.tick == column && (b.column.tick != column || !b.column.before(a.column)) ? 0 : 1;
    PseudoChannel& p = first == 0 ? a : b;
    std::int32_t t = std::min(column, row);
    if (t > limit) {
      if (limit == until) break;
      t = limit;
      reach(t);
    } else if (Plain && column < row && hits_follow(p) && serve_hits(first, offers, limit)) {
      t = now_;
    } else {
      now_ = column_from_ = row_from_ = t;
      if (column == t) {
        issue_column<Plain>(p, first, t);
        column_from_ = t + 1;
        settle_all();
        if (a.row.tick < t) find_row(a);
        if (b.row.tick < t) find_row(b);
      }
      if (a.row.tick == t || b.row.tick == t) {
        const int pc = a.row.tick == t && (b.row.tick != t || b.row.key >= a.row.key) ? 0 : 1;
        issue_row(pcs_[static_cast<std::size_t>(pc)], pc, t);
      }
      column_from_ = row_from_ = t + 1;
      if (column != t && (Plain || !config_.slot_freed_at_act)) continue;
    }
    if (!take_arrived<Plain>(offers, t, arrival)) return false;
    limit = next_limit();
  } while (!one_is_busy() && (Plain ? unsettled_ == 0 : quiet()));
  return true;
}
template bool Controller::serve_two<false>(std::span<Offers> offers, std::int64_t& arrival);
template bool Controller::serve_two<true>(std::span<Offers> offers, std::int64_t& arrival);

// Activated reads that cannot get a return slot give their row up; they are activated again later.
void Controller::demote_active(PseudoChannel& p, Mask banks) {
  for (Mask m = banks; m != 0; m &= m - 1) {
    const int bank = lowest(m);
    const auto b = static_cast<std::size_t>(bank);
    const std::uint16_t n = p.active_node[b];
    p.active_node[b] = kNil;
    p.active_rd &= ~bit(bank);
    insert(p, n);
  }
}

}  // namespace cosim::mem
