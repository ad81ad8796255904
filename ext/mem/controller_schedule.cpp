// Which command goes next, and when: choice among what is ready, bounds, the next event.
#include <algorithm>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

void Controller::forget() const {
  for (const PseudoChannel& p : pcs_) p.column.tick = p.row.tick = kLongAgo;
}

// When the first of the banks is ready for its column command.
inline FirstReady Controller::first_column_of(const PseudoChannel& p, BankClass what, Command command,
                                              Mask banks) const {
  const std::int32_t from = std::max(column_from_, gate(p, command));
  const std::int32_t edge = edge_[static_cast<std::size_t>(index(Command::RD))];
  if ((banks & (banks - 1)) != 0) return kernels_->first_ready(p.e.banks[index(what)].data(), banks, from, edge);
  return {std::max(from, p.e.at(what, static_cast<std::size_t>(lowest(banks)))) | edge, banks};
}

// Among activated requests the one that arrived first, then the one activated first; else the oldest row hit.
void Controller::find_column(const PseudoChannel& p, int pc) const {
  const bool write = queues_for(pc).write_mode != 0;
  const Mask hit = pending_.empty() ? hits(p, write ? Op::write : Op::read, refresh_blocked(p)) : 0;
  const Mask rd = p.return_slots != 0 ? p.active_rd | (write ? 0 : hit) : 0;
  const Mask wr = p.active_wr | (write ? hit : 0);
  FirstReady read;
  FirstReady written;
  if (rd != 0) read = first_column_of(p, BankClass::rd, Command::RD, rd);
  if (wr != 0) written = first_column_of(p, BankClass::wr, Command::WR, wr);
  Next& best = p.column;
  best.tick = std::min(read.tick, written.tick);
  best.bank = -1;
  if (read.tick > best.tick) read.banks = 0;
  if (written.tick > best.tick) written.banks = 0;
  const Mask active_rd = read.banks & p.active_rd;
  if (const Mask active = active_rd | (written.banks & p.active_wr); active != 0) {
    best.active = true;
    int b = lowest(active);
    for (Mask m = active & (active - 1); m != 0; m &= m - 1) {
      const auto x = static_cast<std::size_t>(lowest(m));
      const auto y = static_cast<std::size_t>(b);
      if (p.active_rank[x] < p.active_rank[y] ||
          (p.active_rank[x] == p.active_rank[y] && p.active_promotion[x] < p.active_promotion[y])) {
        b = lowest(m);
      }
    }
    best.bank = static_cast<std::int16_t>(b);
    best.key = p.active_rank[static_cast<std::size_t>(b)];
    best.promotion = p.active_promotion[static_cast<std::size_t>(b)];
    best.what = (active_rd & bit(b)) != 0 ? BankClass::rd : BankClass::wr;
    return;
  }
  Mask ready = write ? written.banks : read.banks;
  if (ready == 0) return;
  const PerBank<std::int32_t>& key = p.lists[write ? 1 : 0].hit_key;
  int b = lowest(ready);
  for (ready &= ready - 1; ready != 0; ready &= ready - 1) {
    if (key[static_cast<std::size_t>(lowest(ready))] < key[static_cast<std::size_t>(b)]) b = lowest(ready);
  }
  best.active = false;
  best.bank = static_cast<std::int16_t>(b);
  best.key = key[static_cast<std::size_t>(b)];
  best.what = write ? BankClass::wr : BankClass::rd;
}

// The oldest request of its bank that needs its row opened or another one closed.
void Controller::find_row(const PseudoChannel& p, int pc) const {
  Next& best = p.row;
  best.tick = kFar;
  best.bank = -1;
  if (!pending_.empty()) return;
  const Op op = queues_for(pc).write_mode != 0 ? Op::write : Op::read;
  const Mask blocked = refresh_blocked(p);
  RowQuery q;
  q.to_open = acts(p, op, blocked);
  q.to_close = pres(p, op, blocked);
  if ((q.to_open | q.to_close) == 0) return;
  q.act = p.e.banks[index(BankClass::act)].data();
  q.pre = p.e.banks[index(BankClass::pre)].data();
  q.key = p.lists[static_cast<std::size_t>(index(op))].head_key.data();
  q.act_from = std::max(row_from_, gate(p, Command::ACT));
  q.pre_from = std::max(row_from_, gate(p, Command::PREpb));
  q.act_edge = edge_[static_cast<std::size_t>(index(Command::ACT))];
  q.pre_edge = edge_[static_cast<std::size_t>(index(Command::PREpb))];
  if (!calm()) {  // no ACT that would delay a refresh
    const std::int32_t last = last_act(p);
    for (Mask m = q.to_open; m != 0; m &= m - 1) {
      const std::int32_t own = q.act[lowest(m)];
      if (align(std::max(own, q.act_from), Command::ACT) > last) q.to_open &= ~bit(lowest(m));
    }
  }
  const OldestRow found = kernels_->oldest_row(q);
  best.tick = found.tick;
  best.key = found.key;
  best.bank = static_cast<std::int16_t>(found.bank);
  if (found.bank >= 0) best.what = (q.to_open & bit(found.bank)) != 0 ? BankClass::act : BankClass::pre;
}

// A bank's requests or rows have changed: it may now be the one that goes next.
void Controller::offer_column(const PseudoChannel& p, int pc, int bank) const {
  Next& best = p.column;
  if (best.tick < column_from_) return;
  if (best.bank == bank) {
    best.tick = kLongAgo;
    return;
  }
  const auto b = static_cast<std::size_t>(bank);
  const Mask one = bit(bank);
  const bool write = queues_for(pc).write_mode != 0;
  const auto offer = [&](BankClass what, Command command, bool active, std::int32_t key, std::int32_t promotion) {
    Next x;
    x.tick = std::max({p.e.at(what, b), gate(p, command), column_from_}) |
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

void Controller::offer_row(const PseudoChannel& p, int pc, int bank) const {
  Next& best = p.row;
  if (best.tick < row_from_) return;
  if (best.bank == bank) {
    best.tick = kLongAgo;
    return;
  }
  const auto b = static_cast<std::size_t>(bank);
  const Mask one = bit(bank);
  const BankLists& l = p.lists[queues_for(pc).write_mode != 0 ? 1 : 0];
  const bool open = (p.open & one) != 0;
  if (((open ? l.miss & ~(p.active_rd | p.active_wr) : l.has) & one) == 0) return;
  const BankClass what = open ? BankClass::pre : BankClass::act;
  const Command command = open ? Command::PREpb : Command::ACT;
  const std::int32_t tick = align(std::max({p.e.at(what, b), gate(p, command), row_from_}), command);
  if (tick > best.tick) return;
  const std::int32_t key = l.head_key[b];
  if (tick == best.tick && (key > best.key || (key == best.key && best.bank < bank))) return;
  best.tick = tick;
  best.key = key;
  best.bank = static_cast<std::int16_t>(bank);
  best.what = what;
}

void Controller::bank_changed(const PseudoChannel& p, int pc, int bank) const {
  offer_column(p, pc, bank);
  offer_row(p, pc, bank);
}

// The other pseudo-channels share the command bus.
void Controller::recheck_others(Command c, int pc) const {
  if (!rules_.delays_the_bus(c)) return;
  for (std::uint32_t pcs = busy_ & ~(1U << pc); pcs != 0; pcs &= pcs - 1) {
    const PseudoChannel& p = pcs_[static_cast<std::size_t>(lowest(pcs))];
    recheck(p, p.column);
    recheck(p, p.row);
  }
}

// The pseudo-channel whose column command goes in the column slot of tick t, -1 when none does.
int Controller::first_column(std::int32_t t) const {
  int best = -1;
  for (std::uint32_t pcs = busy_; pcs != 0; pcs &= pcs - 1) {
    const int pc = lowest(pcs);
    const PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
    if (p.column.tick < t) find_column(p, pc);
    if (p.column.tick == t && (best < 0 || p.column.before(pcs_[static_cast<std::size_t>(best)].column))) best = pc;
  }
  return best;
}

int Controller::first_row(std::int32_t t) const {
  int best = -1;
  for (std::uint32_t pcs = busy_; pcs != 0; pcs &= pcs - 1) {
    const int pc = lowest(pcs);
    const PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
    if (p.row.tick < t) find_row(p, pc);
    if (p.row.tick == t && (best < 0 || p.row.key < pcs_[static_cast<std::size_t>(best)].row.key)) best = pc;
  }
  return best;
}

// Rows nobody asks for are closed after the policy's time.
bool Controller::issue_idle_close(std::int32_t t) {
  if (align(t, Command::PREpb) != t) return false;
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    const PseudoChannel& p = pcs_[pc];
    if (gate(p, Command::PREpb) > t) continue;
    const Mask idle = p.open & ~(p.active_rd | p.active_wr) & ~(p.lists[0].hit | p.lists[1].hit);
    for (Mask m = idle; m != 0; m &= m - 1) {
      const auto b = static_cast<std::size_t>(lowest(m));
      if (p.e.at(BankClass::pre, b) > t || p.used_at[b] + config_.page_timeout > t) continue;
      issue_pre(static_cast<int>(pc), static_cast<int>(b), t);
      return true;
    }
  }
  return false;
}

void Controller::issue_row(int pc, std::int32_t t) {
  const PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  const int bank = p.row.bank;
  const Op op = queues_for(pc).write_mode != 0 ? Op::write : Op::read;
  if (p.row.what == BankClass::act) {
    issue_act(pc, bank, op, t);
  } else {
    precharge_for(pc, bank, op, t);
  }
}

void Controller::column_slot(std::int32_t t) {
  int pc = first_column(t);
  if (unsettled_ != 0 && (pc < 0 || !pcs_[static_cast<std::size_t>(pc)].column.active)) {
    if (!pending_.empty()) return;
    settle_all();
    pc = first_column(t);
  }
  if (pc >= 0) issue_column(pc, t);
}

void Controller::row_slot(std::int32_t t) {
  if (config_.refresh != Refresh::none && (issue_refresh(t) || !pending_.empty())) return;
  settle_all();
  if (const int pc = first_row(t); pc >= 0) {
    issue_row(pc, t);
    return;
  }
  if (config_.page_policy != PagePolicy::open) issue_idle_close(t);
}

// One command bus: activated requests, then refresh, then the oldest ready command of any kind.
void Controller::one_slot(std::int32_t t) {
  int column = first_column(t);
  if (column >= 0 && pcs_[static_cast<std::size_t>(column)].column.active) {
    issue_column(column, t);
    return;
  }
  if (config_.refresh != Refresh::none && (issue_refresh(t) || !pending_.empty())) return;
  settle_all();
  column = first_column(t);
  const int row = first_row(t);
  const auto older = [&] {
    return pcs_[static_cast<std::size_t>(column)].column.key < pcs_[static_cast<std::size_t>(row)].row.key;
  };
  if (column >= 0 && (row < 0 || older())) {
    issue_column(column, t);
  } else if (row >= 0) {
    issue_row(row, t);
  } else if (config_.page_policy != PagePolicy::open) {
    issue_idle_close(t);
  }
}

// The next step of a pseudo-channel's own refresh.
std::int32_t Controller::next_refresh_step(const PseudoChannel& p, bool progress_only) const {
  const std::int32_t soon = now_ + 1;
  std::int32_t least = progress_only ? kFar : std::max(soon, p.refresh_at);
  const Mask blocked = refresh_blocked(p);
  // What a request waits for may itself be a refresh under way: that counts as progress while requests wait.
  const bool reads = (p.lists[0].has | p.active_rd) != 0 && p.return_slots != 0;
  const bool waiting = reads || (p.lists[1].has | p.active_wr) != 0;
  if (blocked == 0 || (progress_only && !waiting)) return least;
  const auto at = [&](Command c, std::int32_t own) {
    least = std::min(least, align(std::max({soon, own, gate(p, c)}), c));
  };
  const bool all = config_.refresh == Refresh::all_bank;
  if ((p.open & blocked) != 0) {
    const Mask active = (p.active_rd | p.active_wr) & blocked;
    if (active == 0 || (p.return_slots == 0 && (p.active_wr & blocked) == 0)) {
      const auto pre = [&] { return p.e.at(BankClass::pre, static_cast<std::size_t>(first_to_close(p, blocked))); };
      at(all ? Command::PREab : Command::PREpb, all ? kLongAgo : pre());
      if (active != 0) least = std::min(least, soon);
    }
  } else {
    at(all ? Command::REFab : Command::REFpb, all ? kLongAgo : refresh_ready(p));
  }
  return least;
}

std::int32_t Controller::next_idle_close(const PseudoChannel& p) const {
  std::int32_t least = kFar;
  const Mask idle = p.open & ~(p.active_rd | p.active_wr) & ~(p.lists[0].hit | p.lists[1].hit);
  for (Mask m = idle; m != 0; m &= m - 1) {
    const auto b = static_cast<std::size_t>(lowest(m));
    const std::int32_t own = std::max(p.e.at(BankClass::pre, b), p.used_at[b] + config_.page_timeout);
    least = std::min(least, align(std::max({now_ + 1, own, gate(p, Command::PREpb)}), Command::PREpb));
  }
  return least;
}

// The next step of the refresh that stops the channel.
std::int32_t Controller::next_pending_refresh() const {
  const PendingRefresh head = pending_.front();
  const PseudoChannel& p = pcs_[static_cast<std::size_t>(head.pc)];
  const Mask active = p.active_rd | p.active_wr;
  const auto at = [&](Command c, std::int32_t own) { return align(std::max({now_ + 1, own, gate(p, c)}), c); };
  if (head.bank < 0) {
    if (p.open == 0) return at(Command::REFab, kLongAgo);
    return active == 0 ? at(Command::PREab, kLongAgo) : kFar;
  }
  const auto b = static_cast<std::size_t>(head.bank);
  if ((p.open & bit(head.bank)) == 0) return at(Command::REFpb, p.e.at(BankClass::ref, b));
  return (active & bit(head.bank)) == 0 ? at(Command::PREpb, p.e.at(BankClass::pre, b)) : kFar;
}

// The next tick at which a command may be due; kFar when nothing waits.
std::int32_t Controller::next_tick(bool progress_only) const {
  std::int32_t least = kFar;
  for (std::uint32_t pcs = busy_; pcs != 0; pcs &= pcs - 1) {
    const int pc = lowest(pcs);
    const PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
    if (p.column.tick < column_from_) find_column(p, pc);
    if (p.row.tick < row_from_) find_row(p, pc);
    least = std::min({least, p.column.tick, p.row.tick});
  }
  if (unsettled_ != 0 && busy_ != 0 && pending_.empty()) least = std::min(least, now_ + 1);
  if (unattended_) return least;
  if (config_.page_policy == PagePolicy::open && calm()) {
    return progress_only ? least : std::min(least, std::max(now_ + 1, quiet_until_));
  }
  const bool closes = config_.page_policy != PagePolicy::open && !progress_only && pending_.empty();
  const bool refreshes = config_.refresh != Refresh::none && !config_.refresh_blocks_channel;
  for (const PseudoChannel& p : pcs_) {
    if (refreshes) least = std::min(least, next_refresh_step(p, progress_only));
    if (closes) least = std::min(least, next_idle_close(p));
  }
  if (config_.refresh != Refresh::none && config_.refresh_blocks_channel) {
    if (!progress_only) least = std::min(least, std::max(now_ + 1, refresh_at_));
    if (!pending_.empty() && (!progress_only || queued() > 0)) least = std::min(least, next_pending_refresh());
  }
  return least;
}

}  // namespace cosim::mem
