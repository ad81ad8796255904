// Which command goes next, and when: choice among what is ready, bounds, the next event.
#include <algorithm>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

void Controller::forget() const {
  for (const PseudoChannel& p : pcs_) p.column.tick = p.row.tick = kLongAgo;
}

// The pseudo-channel whose column command goes in the column slot of tick t, -1 when none does.
int Controller::first_column(std::int32_t t) const {
  int best = -1;
  for (std::uint32_t pcs = busy_; pcs != 0; pcs &= pcs - 1) {
    const int pc = lowest(pcs);
    const PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
    if (p.column.tick < t) find_column(p);
    if (p.column.tick == t && (best < 0 || p.column.before(pcs_[static_cast<std::size_t>(best)].column))) best = pc;
  }
  return best;
}

int Controller::first_row(std::int32_t t) const {
  int best = -1;
  for (std::uint32_t pcs = busy_; pcs != 0; pcs &= pcs - 1) {
    const int pc = lowest(pcs);
    const PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
    if (p.row.tick < t) find_row(p);
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
      issue_pre(pcs_[pc], static_cast<int>(pc), static_cast<int>(b), t);
      return true;
    }
  }
  return false;
}

void Controller::column_slot(std::int32_t t) {
  int pc = first_column(t);
  if (unsettled_ != 0 && (pc < 0 || !pcs_[static_cast<std::size_t>(pc)].column.active)) {
    if (!pending_.empty()) return;
    settle_all();
    pc = first_column(t);
  }
  if (pc >= 0) issue_column(pcs_[static_cast<std::size_t>(pc)], pc, t);
}

void Controller::row_slot(std::int32_t t) {
  if (config_.refresh != Refresh::none && (issue_refresh(t) || !pending_.empty())) return;
  settle_all();
  if (const int pc = first_row(t); pc >= 0) {
    issue_row(pcs_[static_cast<std::size_t>(pc)], pc, t);
    return;
  }
  if (config_.page_policy != PagePolicy::open) issue_idle_close(t);
}

// One command bus: activated requests, then refresh, then the oldest ready command of any kind.
void Controller::one_slot(std::int32_t t) {
  int column = first_column(t);
  if (column >= 0 && pcs_[static_cast<std::size_t>(column)].column.active) {
    issue_column(pcs_[static_cast<std::size_t>(column)], column, t);
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
    issue_column(pcs_[static_cast<std::size_t>(column)], column, t);
  } else if (row >= 0) {
    issue_row(pcs_[static_cast<std::size_t>(row)], row, t);
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
    if (p.column.tick < column_from_) find_column(p);
    if (p.row.tick < row_from_) find_row(p);
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
