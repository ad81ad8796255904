// What a command does: timing, bank state, completions, counters.
#include <algorithm>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

void Controller::issue_column(const Choice& c, std::int32_t t) {
  PseudoChannel& p = pcs_[static_cast<std::size_t>(c.pc)];
  Queues& q = queues_for(c.pc);
  const auto b = static_cast<std::size_t>(c.bank);
  const Mask one = bit(c.bank);
  const auto op = static_cast<std::size_t>(index(c.op));
  BankCounters& stats = bank_counter(c.pc, c.bank);
  std::uint16_t n = 0;
  if (c.active) {
    n = p.active_node[b];
    p.active_node[b] = kNil;
    p.active_rd &= ~one;
    p.active_wr &= ~one;
  } else {
    n = p.lists[op].hit_node[b];
    unlink(p, n);
  }
  const bool leaves = !c.active || !config_.slot_freed_at_act;
  if (leaves) --q.count[op];
  // a phase is bounded while the other kind waits
  if ((q.write_mode != 0) == (c.op == Op::write) && q.count[1 - op] > 0) ++q.served;
  if (leaves) changed(q, t);
  Node& node = nodes_[n];
  if (node.row_result == RowResult::none) {
    node.row_result = RowResult::hit;
    ++stats.row_hits;
  }
  const bool last_of_row = ((p.lists[0].hit | p.lists[1].hit | p.active_rd | p.active_wr) & one) == 0;
  const bool auto_precharge = config_.page_policy == PagePolicy::closed && last_of_row;
  const Command command =
      c.op == Op::read ? (auto_precharge ? Command::RDA : Command::RD) : (auto_precharge ? Command::WRA : Command::WR);
  record(command, c.pc, c.bank, node.row, node.column, t);
  apply(command, c.pc, c.bank, t);
  p.used_at[b] = t;
  stats.bytes += config_.access_bytes;
  if (c.op == Op::read) {
    ++stats.rd;
    ++counters_.served_reads;
    if (p.return_slots != kFar) --p.return_slots;
    std::int64_t done = absolute(t) + config_.read_latency;
    if (config_.reads_return_in_order) done = last_read_done_ = std::max(done, last_read_done_);
    complete(node, absolute(t), done, node.row_result);
  } else {
    ++stats.wr;
    ++counters_.served_writes;
    complete(node, absolute(t), absolute(t) + config_.write_latency, node.row_result);
  }
  free_node(n);
  taken(p, c.op == Op::read ? BankClass::rd : BankClass::wr, c.bank);
  if (auto_precharge) {
    close_bank(p, c.bank, t);
  } else {
    lower_bounds(p, c.bank);
  }
  note_blocked(p, t);
  note_idle(c.pc);
}

// issue_column for a row hit of a read with no write waiting, no activated request and open pages.
void Controller::issue_hit(PseudoChannel& p, int bank, std::int32_t t) {
  const auto b = static_cast<std::size_t>(bank);
  Queues& q = queues_for(plan_.pc);
  BankCounters& stats = bank_counter(plan_.pc, bank);
  const std::uint16_t n = p.lists[0].hit_node[b];
  Node& node = nodes_[n];
  unlink(p, n);
  --q.count[0];
  changed(q, t);
  if (node.row_result == RowResult::none) {
    node.row_result = RowResult::hit;
    ++stats.row_hits;
  }
  record(Command::RD, plan_.pc, bank, node.row, node.column, t);
  rules_.apply(Command::RD, bank, t, p.e, bus_);
  p.used_at[b] = t;
  stats.bytes += config_.access_bytes;
  ++stats.rd;
  ++counters_.served_reads;
  if (p.return_slots != kFar) --p.return_slots;
  std::int64_t done = absolute(t) + config_.read_latency;
  if (config_.reads_return_in_order) done = last_read_done_ = std::max(done, last_read_done_);
  complete(node, absolute(t), done, node.row_result);
  free_node(n);
  taken(p, BankClass::rd, bank);
  lower_bounds(p, bank);
  if ((p.lists[0].miss & bit(bank)) != 0) {  // now its row may be closed, without a RD to PRE rule at once
    const std::int32_t own = std::max({t, p.e.at(BankClass::pre, b), gate(p, Command::PREpb)});
    plan_.hits_until = std::min(plan_.hits_until, align(own, Command::PREpb));
  }
  note_blocked(p, t);
  note_idle(plan_.pc);
}

void Controller::issue_act(const Choice& c, std::int32_t t) {
  PseudoChannel& p = pcs_[static_cast<std::size_t>(c.pc)];
  const auto b = static_cast<std::size_t>(c.bank);
  const auto op = static_cast<std::size_t>(index(c.op));
  const std::uint16_t n = p.lists[op].head[b];
  Node& node = nodes_[n];
  BankCounters& stats = bank_counter(c.pc, c.bank);
  if (node.row_result == RowResult::none) {
    node.row_result = RowResult::miss;
    ++stats.row_misses;
  }
  ++stats.act;
  record(Command::ACT, c.pc, c.bank, node.row, -1, t);
  apply(Command::ACT, c.pc, c.bank, t);
  if (p.open == 0) p.any_open_since = t;
  p.open |= bit(c.bank);
  p.open_row[b] = node.row;
  p.opened_at[b] = t;
  p.used_at[b] = t;
  unlink(p, n);
  p.active_node[b] = n;
  p.active_rank[b] = node.rank;
  if (promotions_ == kRenumberAt) renumber_promotions();
  p.active_promotion[b] = promotions_++;
  (node.op == Op::read ? p.active_rd : p.active_wr) |= bit(c.bank);
  for (const Op kind : {Op::read, Op::write}) {
    BankLists& l = p.lists[static_cast<std::size_t>(index(kind))];
    std::uint16_t h = l.head[b];
    while (h != kNil && nodes_[h].row != p.open_row[b]) h = nodes_[h].next;
    l.hit_node[b] = h;
    view(p, kind, c.bank);
  }
  taken(p, BankClass::act, c.bank);
  lower_bounds(p, c.bank);
  if (config_.slot_freed_at_act) {
    Queues& q = queues_for(c.pc);
    --q.count[op];
    changed(q, t);
  }
}

void Controller::close_bank(PseudoChannel& p, int bank, std::int32_t t) {
  const auto b = static_cast<std::size_t>(bank);
  const int pc = static_cast<int>(&p - pcs_.data());
  bank_counter(pc, bank).busy_ticks += t - p.opened_at[b] + config_.precharge_ticks;
  p.open &= ~bit(bank);
  p.open_row[b] = -1;
  if (p.open == 0) counters_.any_open_ticks += t - p.any_open_since;
  for (const Op kind : {Op::read, Op::write}) {
    p.lists[static_cast<std::size_t>(index(kind))].hit_node[b] = kNil;
    view(p, kind, bank);
  }
  lower_bounds(p, bank);
}

void Controller::issue_pre(int pc, int bank, std::int32_t t) {
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  record(Command::PREpb, pc, bank, p.open_row[static_cast<std::size_t>(bank)], -1, t);
  apply(Command::PREpb, pc, bank, t);
  ++bank_counter(pc, bank).pre;
  close_bank(p, bank, t);
}

void Controller::issue_pre_all(int pc, std::int32_t t) {
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  record(Command::PREab, pc, -1, -1, -1, t);
  apply(Command::PREab, pc, -1, t);
  ++counters_.precharges_all;
  for (Mask m = p.open; m != 0; m &= m - 1) close_bank(p, lowest(m), t);
}

// Closes a row for the oldest request of the bank that wants another one.
void Controller::precharge_for(const Choice& c, std::int32_t t) {
  const PseudoChannel& p = pcs_[static_cast<std::size_t>(c.pc)];
  Node& first = nodes_[p.lists[static_cast<std::size_t>(index(c.op))].head[static_cast<std::size_t>(c.bank)]];
  if (first.row_result == RowResult::none) {
    first.row_result = RowResult::conflict;
    ++bank_counter(c.pc, c.bank).row_conflicts;
  }
  taken(pcs_[static_cast<std::size_t>(c.pc)], BankClass::pre, c.bank);
  issue_pre(c.pc, c.bank, t);
}

// Activated reads that cannot get a return slot give their row up; they are activated again later.
void Controller::demote_active(PseudoChannel& p, Mask banks) {
  for (Mask m = banks; m != 0; m &= m - 1) {
    const int bank = lowest(m);
    const auto b = static_cast<std::size_t>(bank);
    const std::uint16_t n = p.active_node[b];
    p.active_node[b] = kNil;
    p.active_rd &= ~bit(bank);
    insert(p, n);
    lower_bounds(p, bank);
  }
}

}  // namespace cosim::mem
