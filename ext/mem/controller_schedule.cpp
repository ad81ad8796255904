// Which command goes next, and when: choice among what is ready, bounds, the next event.
#include <algorithm>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

inline bool Controller::due(const PseudoChannel& p, BankClass c, Command command, std::int32_t t) const {
  return std::max(p.bound[index(c)], gate(p, command)) <= t;
}

inline bool Controller::column_due(std::int32_t t) const {
  for (std::uint32_t pcs = busy_; pcs != 0; pcs &= pcs - 1) {
    const PseudoChannel& p = pcs_[static_cast<std::size_t>(lowest(pcs))];
    if (due(p, BankClass::rd, Command::RD, t) || due(p, BankClass::wr, Command::WR, t)) return true;
  }
  return false;
}

// Finds the banks of one class that are ready; when there is none the bound becomes exact.
inline void Controller::look(PseudoChannel& p, BankClass c, Mask candidates, std::int32_t t) {
  const BankScan found = scan(p.e.banks[index(c)].data(), candidates, t);
  p.ready[index(c)] = found.ready;
  p.later[index(c)] = found.later;
  // a refresh that stops the channel hides candidates
  if (found.ready == 0 && pending_.empty()) p.bound[index(c)] = found.later;
}

// One of the banks found ready has got its command; if it was the only one, the others bound the next.
void Controller::taken(PseudoChannel& p, BankClass c, int bank) {
  if (p.ready[index(c)] == bit(bank) && pending_.empty()) p.bound[index(c)] = p.later[index(c)];
}

inline void Controller::look_for_columns(PseudoChannel& p, bool write, std::int32_t t) {
  const Mask hit = pending_.empty() ? hits(p, write ? Op::write : Op::read, refresh_blocked(p)) : 0;
  const Mask rd = p.active_rd | (write ? 0 : hit);
  const Mask wr = p.active_wr | (write ? hit : 0);
  p.looked_write = write;
  p.ready[index(BankClass::rd)] = p.ready[index(BankClass::wr)] = 0;
  if (pending_.empty()) {  // a class nobody asks for need not be looked at again
    if (rd == 0) p.bound[index(BankClass::rd)] = kFar;
    if (wr == 0) p.bound[index(BankClass::wr)] = kFar;
  }
  if (rd != 0 && p.return_slots != 0 && due(p, BankClass::rd, Command::RD, t)) look(p, BankClass::rd, rd, t);
  if (wr != 0 && due(p, BankClass::wr, Command::WR, t)) look(p, BankClass::wr, wr, t);
}

// Among activated requests the one that arrived first, then the one activated first.
bool Controller::pick_active(std::int32_t t, Choice& best) {
  std::int32_t best_promotion = 0;
  bool found = false;
  for (std::uint32_t pcs = busy_; pcs != 0; pcs &= pcs - 1) {
    const int pc = lowest(pcs);
    PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
    look_for_columns(p, queues_for(pc).write_mode != 0, t);
    const Mask rd = p.ready[index(BankClass::rd)] & p.active_rd;
    for (Mask ready = rd | (p.ready[index(BankClass::wr)] & p.active_wr); ready != 0; ready &= ready - 1) {
      const auto b = static_cast<std::size_t>(lowest(ready));
      if (found &&
          (p.active_rank[b] > best.key || (p.active_rank[b] == best.key && p.active_promotion[b] > best_promotion))) {
        continue;
      }
      found = true;
      const Op op = (rd & bit(static_cast<int>(b))) != 0 ? Op::read : Op::write;
      best = {pc, static_cast<int>(b), true, op, p.active_rank[b]};
      best_promotion = p.active_promotion[b];
    }
  }
  return found;
}

// The oldest ready row hit; pick_active has looked in this tick.
bool Controller::pick_hit(std::int32_t t, Choice& best) {
  bool found = false;
  for (std::uint32_t pcs = busy_; pcs != 0; pcs &= pcs - 1) {
    const int pc = lowest(pcs);
    PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
    const bool write = queues_for(pc).write_mode != 0;
    if (write != p.looked_write) look_for_columns(p, write, t);
    const BankLists& l = p.lists[write ? 1 : 0];
    for (Mask ready = p.ready[index(write ? BankClass::wr : BankClass::rd)] & l.hit; ready != 0; ready &= ready - 1) {
      const auto b = static_cast<std::size_t>(lowest(ready));
      if (found && l.hit_key[b] >= best.key) continue;
      found = true;
      best = {pc, static_cast<int>(b), false, write ? Op::write : Op::read, l.hit_key[b]};
    }
  }
  return found;
}

bool Controller::pick_row(std::int32_t t, Choice& best, bool& is_act) {
  bool found = false;
  for (std::uint32_t pcs = busy_; pcs != 0; pcs &= pcs - 1) {
    const int pc = lowest(pcs);
    PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
    if (std::min(p.bound[index(BankClass::act)], p.bound[index(BankClass::pre)]) > t) continue;
    const bool act_now = due(p, BankClass::act, Command::ACT, t) && align(t, Command::ACT) == t && t <= last_act(p);
    const bool pre_now = due(p, BankClass::pre, Command::PREpb, t) && align(t, Command::PREpb) == t;
    if (!act_now && !pre_now) continue;
    const Op op = queues_for(pc).write_mode != 0 ? Op::write : Op::read;
    const BankLists& l = p.lists[static_cast<std::size_t>(index(op))];
    const Mask blocked = refresh_blocked(p);
    p.ready[index(BankClass::act)] = p.ready[index(BankClass::pre)] = 0;
    if (act_now) look(p, BankClass::act, acts(p, op, blocked), t);
    if (pre_now) look(p, BankClass::pre, pres(p, op, blocked), t);
    const Mask ready_act = p.ready[index(BankClass::act)];
    for (Mask ready = ready_act | p.ready[index(BankClass::pre)]; ready != 0; ready &= ready - 1) {
      const auto b = static_cast<std::size_t>(lowest(ready));
      if (found && l.head_key[b] >= best.key) continue;
      found = true;
      best = {pc, static_cast<int>(b), false, op, l.head_key[b]};
      is_act = (ready_act & bit(static_cast<int>(b))) != 0;
    }
  }
  return found;
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

void Controller::issue_row(const Choice& c, bool is_act, std::int32_t t) {
  if (is_act) {
    issue_act(c, t);
  } else {
    precharge_for(c, t);
  }
}

void Controller::column_slot(std::int32_t t) {
  if (align(t, Command::RD) != t) return;
  if (unsettled_ == 0 && !column_due(t)) return;
  Choice c;
  if (pick_active(t, c)) {
    issue_column(c, t);
    return;
  }
  if (!pending_.empty()) return;
  settle_all();
  if (pick_hit(t, c)) issue_column(c, t);
}

void Controller::row_slot(std::int32_t t) {
  if (config_.refresh != Refresh::none && (issue_refresh(t) || !pending_.empty())) return;
  settle_all();
  Choice c;
  bool is_act = false;
  if (pick_row(t, c, is_act)) {
    issue_row(c, is_act, t);
    return;
  }
  if (config_.page_policy != PagePolicy::open) issue_idle_close(t);
}

// One command bus: activated requests, then refresh, then the oldest ready command of any kind.
void Controller::one_slot(std::int32_t t) {
  Choice hit;
  if (pick_active(t, hit)) {
    issue_column(hit, t);
    return;
  }
  if (config_.refresh != Refresh::none && (issue_refresh(t) || !pending_.empty())) return;
  settle_all();
  Choice row;
  bool is_act = false;
  const bool have_hit = pick_hit(t, hit);
  const bool have_row = pick_row(t, row, is_act);
  if (have_hit && (!have_row || hit.key < row.key)) {
    issue_column(hit, t);
  } else if (have_row) {
    issue_row(row, is_act, t);
  } else if (config_.page_policy != PagePolicy::open) {
    issue_idle_close(t);
  }
}

// The next tick at which a command for a request may be due; kFar when none waits.
inline std::int32_t Controller::next_request_tick(const PseudoChannel& p, int pc, bool columns) const {
  const Queues& q = queues_for(pc);
  const bool flips = q.settled == 0 && wanted_mode(q) != (q.write_mode != 0);
  const bool write = (q.write_mode != 0) != flips;
  const bool stopped = !pending_.empty();
  const Mask blocked = refresh_blocked(p);
  const BankLists& l = p.lists[write ? 1 : 0];
  const Mask active = p.active_rd | p.active_wr;
  const Mask free = stopped ? 0 : ~blocked;  // banks that queued requests may use
  const Mask hit = l.hit & ~l.late & free;
  std::int32_t least = kFar;
  const auto bound = [&](BankClass c) { return flips ? kLongAgo : p.bound[index(c)]; };
  const auto at = [&](Command c, std::int32_t own) { least = std::min(least, align(std::max(own, now_ + 1), c)); };
  if (columns && (p.active_rd | (write ? 0 : hit)) != 0 && p.return_slots != 0) {
    at(Command::RD, std::max(bound(BankClass::rd), gate(p, Command::RD)));
  }
  if (columns && (p.active_wr | (write ? hit : 0)) != 0) {
    at(Command::WR, std::max(bound(BankClass::wr), gate(p, Command::WR)));
  }
  if ((l.miss & ~active & free) != 0) at(Command::PREpb, std::max(bound(BankClass::pre), gate(p, Command::PREpb)));
  if ((l.has & ~p.open & free) != 0) {
    const std::int32_t own = std::max({now_ + 1, bound(BankClass::act), gate(p, Command::ACT)});
    const std::int32_t t = align(own, Command::ACT);
    if (t <= last_act(p)) least = std::min(least, t);  // else the refresh is the next event
  }
  return least;
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

// Finds the next event, and how long nothing but row hits of reads can be issued.
void Controller::make_plan() const {
  plan_.next = next_tick(Ahead::everything);
  plan_.known = 1;
  plan_.hits_until = kLongAgo;
  if ((busy_ & (busy_ - 1)) != 0 || busy_ == 0 || unsettled_ != 0) return;
  const int pc = lowest(busy_);
  const PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  const bool plain = p.lists[0].hit != 0 && (p.active_rd | p.active_wr | p.lists[1].has) == 0 && p.refresh_owed == 0 &&
                     queues_for(pc).write_mode == 0 && queues_for(pc).count[1] == 0 && pending_.empty() &&
                     config_.page_policy == PagePolicy::open;
  if (!plain) return;
  plan_.pc = pc;
  plan_.hits_until = next_tick(Ahead::no_columns);
}

// The oldest ready row hit of a read, in a tick in which nothing else can be issued.
void Controller::advance_hit(std::int32_t t) {
  now_ = t;
  PseudoChannel& p = pcs_[static_cast<std::size_t>(plan_.pc)];
  const BankLists& l = p.lists[0];
  if (align(t, Command::RD) == t && p.return_slots != 0 && due(p, BankClass::rd, Command::RD, t)) {
    look(p, BankClass::rd, l.hit & ~l.late, t);
    Mask ready = p.ready[index(BankClass::rd)];
    if (ready != 0) {
      int bank = lowest(ready);
      for (ready &= ready - 1; ready != 0; ready &= ready - 1) {
        const int other = lowest(ready);
        if (l.hit_key[static_cast<std::size_t>(other)] < l.hit_key[static_cast<std::size_t>(bank)]) bank = other;
      }
      issue_hit(p, bank, t);
    }
  }
  if (plan_.hits_until <= t || unsettled_ != 0) {  // the row slot may close the row or change the mode
    if (!config_.shared_command_bus) row_slot(t);
    forget_plan();
    return;
  }
  plan_.known = 1;
  plan_.next = plan_.hits_until;
  if ((l.hit & ~l.late) != 0 && p.return_slots != 0) {
    const std::int32_t own = std::max({t + 1, p.bound[index(BankClass::rd)], gate(p, Command::RD)});
    plan_.next = std::min(plan_.next, align(own, Command::RD));
  }
}

std::int32_t Controller::next_tick(Ahead what) const {
  const bool progress_only = what == Ahead::progress;
  std::int32_t least = kFar;
  for (std::uint32_t pcs = busy_; pcs != 0; pcs &= pcs - 1) {
    const int pc = lowest(pcs);
    least = std::min(least, next_request_tick(pcs_[static_cast<std::size_t>(pc)], pc, what != Ahead::no_columns));
  }
  if (unattended_) return least;
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
