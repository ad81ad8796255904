// Which command goes next, and when: choice among what is ready, bounds, the next event.
#include <algorithm>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

std::int32_t Controller::gate(const PseudoChannel& p, Command c) const {
  const auto i = static_cast<std::size_t>(index(c));
  return std::max(p.own[i], bus_[i]);
}

std::int32_t Controller::align(std::int32_t t, Command c) const {
  return config_.rising_edge_only[static_cast<std::size_t>(index(c))] != 0 ? t | 1 : t;
}

Controller::Mask Controller::hits(const PseudoChannel& p, Op op, Mask blocked) const {
  const BankLists& l = p.lists[static_cast<std::size_t>(index(op))];
  return l.hit & ~l.late & ~blocked;
}

Controller::Mask Controller::acts(const PseudoChannel& p, Op op, Mask blocked) const {
  return p.lists[static_cast<std::size_t>(index(op))].has & ~p.open & ~blocked;
}

Controller::Mask Controller::pres(const PseudoChannel& p, Op op, Mask blocked) const {
  return p.lists[static_cast<std::size_t>(index(op))].miss & ~(p.active_rd | p.active_wr) & ~blocked;
}

bool Controller::write_phase(std::size_t pc) const { return queues_[config_.shared_queues ? 0 : pc].write_mode != 0; }

// Among activated requests the one that arrived first, then the one activated first.
bool Controller::pick_active(std::int32_t t, Choice& best) {
  std::int64_t best_promotion = 0;
  bool found = false;
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    const PseudoChannel& p = pcs_[pc];
    if ((p.active_rd | p.active_wr) == 0) continue;
    for (const Op op : {Op::read, Op::write}) {
      const Mask m = op == Op::read ? p.active_rd : p.active_wr;
      if (m == 0) continue;
      const Command c = op == Op::read ? Command::RD : Command::WR;
      if (std::max(op == Op::read ? p.rd_bound : p.wr_bound, gate(p, c)) > t) continue;
      if (op == Op::read && p.return_slots == 0) continue;
      for (Mask ready = ready_banks(op == Op::read ? p.rd.data() : p.wr.data(), m, config_.banks(), t); ready != 0;
           ready &= ready - 1) {
        const auto b = static_cast<std::size_t>(lowest(ready));
        if (found &&
            (p.active_rank[b] > best.key || (p.active_rank[b] == best.key && p.active_promotion[b] > best_promotion))) {
          continue;
        }
        found = true;
        best = {static_cast<int>(pc), static_cast<int>(b), true, op, p.active_rank[b]};
        best_promotion = p.active_promotion[b];
      }
    }
  }
  return found;
}

bool Controller::pick_hit(std::int32_t t, Choice& best) {
  bool found = false;
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    const PseudoChannel& p = pcs_[pc];
    const Op op =
        queues_[static_cast<std::size_t>(queues_of(static_cast<int>(pc)))].write_mode != 0 ? Op::write : Op::read;
    const BankLists& l = p.lists[static_cast<std::size_t>(index(op))];
    if (l.hit == 0) continue;
    if (std::max(op == Op::read ? p.rd_bound : p.wr_bound, gate(p, op == Op::read ? Command::RD : Command::WR)) > t) {
      continue;
    }
    if (op == Op::read && p.return_slots == 0) continue;
    const Mask m = hits(p, op, refresh_blocked(p));
    for (Mask ready = ready_banks(op == Op::read ? p.rd.data() : p.wr.data(), m, config_.banks(), t); ready != 0;
         ready &= ready - 1) {
      const auto b = static_cast<std::size_t>(lowest(ready));
      if (found && l.hit_key[b] >= best.key) continue;
      found = true;
      best = {static_cast<int>(pc), static_cast<int>(b), false, op, l.hit_key[b]};
    }
  }
  return found;
}

bool Controller::pick_row(std::int32_t t, Choice& best, bool& is_act) {
  bool found = false;
  const bool act_edge = align(t, Command::ACT) == t;
  const bool pre_edge = align(t, Command::PREpb) == t;
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    const PseudoChannel& p = pcs_[pc];
    if (std::min(p.act_bound, p.pre_bound) > t) continue;
    const Op op =
        queues_[static_cast<std::size_t>(queues_of(static_cast<int>(pc)))].write_mode != 0 ? Op::write : Op::read;
    const BankLists& l = p.lists[static_cast<std::size_t>(index(op))];
    if (l.has == 0) continue;
    const bool act_now = act_edge && std::max(p.act_bound, gate(p, Command::ACT)) <= t && t <= last_act(p);
    const bool pre_now = pre_edge && std::max(p.pre_bound, gate(p, Command::PREpb)) <= t;
    if (!act_now && !pre_now) continue;
    const Mask blocked = refresh_blocked(p);
    Mask ready_act = 0;
    Mask ready = 0;
    if (act_now) ready_act = ready = ready_banks(p.act.data(), acts(p, op, blocked), config_.banks(), t);
    if (pre_now) ready |= ready_banks(p.pre.data(), pres(p, op, blocked), config_.banks(), t);
    for (; ready != 0; ready &= ready - 1) {
      const auto b = static_cast<std::size_t>(lowest(ready));
      if (found && l.head_key[b] >= best.key) continue;
      found = true;
      best = {static_cast<int>(pc), static_cast<int>(b), false, op, l.head_key[b]};
      is_act = (ready_act & bit(static_cast<int>(b))) != 0;
    }
  }
  return found;
}

// Rows nobody asks for are closed after the policy's time.
bool Controller::issue_idle_close(std::int32_t t) {
  if (config_.page_policy == PagePolicy::open || align(t, Command::PREpb) != t) return false;
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    const PseudoChannel& p = pcs_[pc];
    if (gate(p, Command::PREpb) > t) continue;
    const Mask idle = p.open & ~(p.active_rd | p.active_wr) & ~(p.lists[0].hit | p.lists[1].hit);
    for (Mask m = idle; m != 0; m &= m - 1) {
      const auto b = static_cast<std::size_t>(lowest(m));
      if (p.pre[b] > t || p.used_at[b] + config_.page_timeout > t) continue;
      issue_pre(static_cast<int>(pc), static_cast<int>(b), t);
      return true;
    }
  }
  return false;
}

void Controller::column_slot(std::int32_t t) {
  if (align(t, Command::RD) != t) return;
  Choice c;
  if (pick_active(t, c)) {
    issue_column(c, t);
    return;
  }
  if (!pending_.empty()) return;
  for (Queues& q : queues_) settle(q);
  if (pick_hit(t, c)) issue_column(c, t);
}

void Controller::row_slot(std::int32_t t) {
  if (issue_refresh(t)) return;
  if (!pending_.empty()) return;
  for (Queues& q : queues_) settle(q);
  Choice c;
  bool is_act = false;
  if (pick_row(t, c, is_act)) {
    if (is_act) {
      issue_act(c, t);
    } else {
      precharge_for(c, t);
    }
    return;
  }
  issue_idle_close(t);
}

// One command bus: activated requests, then refresh, then the oldest ready command of any kind.
void Controller::one_slot(std::int32_t t) {
  Choice hit;
  if (pick_active(t, hit)) {
    issue_column(hit, t);
    return;
  }
  if (issue_refresh(t)) return;
  if (!pending_.empty()) return;
  for (Queues& q : queues_) settle(q);
  Choice row;
  bool is_act = false;
  const bool have_hit = pick_hit(t, hit);
  const bool have_row = pick_row(t, row, is_act);
  if (have_hit && (!have_row || hit.key < row.key)) {
    issue_column(hit, t);
  } else if (have_row) {
    if (is_act) {
      issue_act(row, t);
    } else {
      precharge_for(row, t);
    }
  } else {
    issue_idle_close(t);
  }
}

// Bounds that have passed are made exact again.
void Controller::tighten_bounds(std::int32_t t) {
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    PseudoChannel& p = pcs_[pc];
    const Op op =
        queues_[static_cast<std::size_t>(queues_of(static_cast<int>(pc)))].write_mode != 0 ? Op::write : Op::read;
    const Mask blocked = refresh_blocked(p);
    if (p.rd_bound <= t) {
      p.rd_bound = earliest_of(p.rd.data(), p.active_rd | (op == Op::read ? hits(p, op, blocked) : 0));
    }
    if (p.wr_bound <= t) {
      p.wr_bound = earliest_of(p.wr.data(), p.active_wr | (op == Op::write ? hits(p, op, blocked) : 0));
    }
    if (p.act_bound <= t) p.act_bound = earliest_of(p.act.data(), acts(p, op, blocked));
    if (p.pre_bound <= t) p.pre_bound = earliest_of(p.pre.data(), pres(p, op, blocked));
  }
}

std::int32_t Controller::next_tick(bool progress_only) const {
  const std::int32_t soon = now_ + 1;
  std::int32_t least = kFar;
  const auto at = [&](Command c, const PseudoChannel& p, std::int32_t own) {
    least = std::min(least, align(std::max({soon, own, gate(p, c)}), c));
  };
  const bool stopped = !pending_.empty();
  const bool unattended = config_.refresh == Refresh::none && config_.page_policy == PagePolicy::open;
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    const PseudoChannel& p = pcs_[pc];
    if (p.idle() && unattended) continue;
    const Queues& q = queues_[config_.shared_queues ? 0 : pc];
    const bool write = q.settled != 0 ? q.write_mode != 0 : wanted_mode(q);
    const bool flips = write != (q.write_mode != 0);
    const Op op = write ? Op::write : Op::read;
    const Mask blocked = refresh_blocked(p);
    const Mask hit = stopped ? 0 : hits(p, op, blocked);
    const Mask rd = p.active_rd | (write ? 0 : hit);
    const Mask wr = p.active_wr | (write ? hit : 0);
    if (rd != 0 && p.return_slots != 0) at(Command::RD, p, flips ? soon : p.rd_bound);
    if (wr != 0) at(Command::WR, p, flips ? soon : p.wr_bound);
    if (!stopped && acts(p, op, blocked) != 0) {
      const std::int32_t own = std::max({soon, flips ? soon : p.act_bound, gate(p, Command::ACT)});
      const std::int32_t t = align(own, Command::ACT);
      if (t <= last_act(p)) least = std::min(least, t);  // else the refresh is the next event
    }
    if (!stopped && pres(p, op, blocked) != 0) at(Command::PREpb, p, flips ? soon : p.pre_bound);
    if (unattended) continue;

    // What a request waits for may itself be a refresh under way: that counts as progress while requests wait.
    const bool reads = (p.lists[0].has | p.active_rd) != 0 && p.return_slots != 0;
    const bool waiting = reads || (p.lists[1].has | p.active_wr) != 0;
    if (config_.refresh != Refresh::none && !config_.refresh_blocks_channel) {
      if (!progress_only) least = std::min(least, std::max(soon, p.refresh_at));
      if (blocked != 0 && (!progress_only || waiting)) {
        const bool all = config_.refresh == Refresh::all_bank;
        const Mask active = (p.active_rd | p.active_wr) & blocked;
        if ((p.open & blocked) != 0) {
          if (active == 0 || (p.return_slots == 0 && (p.active_wr & blocked) == 0)) {
            at(all ? Command::PREab : Command::PREpb, p,
               all ? kLongAgo : p.pre[static_cast<std::size_t>(p.refresh_bank)]);
            if (active != 0) least = std::min(least, soon);
          }
        } else {
          at(all ? Command::REFab : Command::REFpb, p,
             all ? kLongAgo : p.ref[static_cast<std::size_t>(p.refresh_bank)]);
        }
      }
    }
    if (config_.page_policy != PagePolicy::open && !progress_only && !stopped) {
      const Mask idle = p.open & ~(p.active_rd | p.active_wr) & ~(p.lists[0].hit | p.lists[1].hit);
      for (Mask m = idle; m != 0; m &= m - 1) {
        const auto b = static_cast<std::size_t>(lowest(m));
        at(Command::PREpb, p, std::max(p.pre[b], p.used_at[b] + config_.page_timeout));
      }
    }
  }
  if (config_.refresh_blocks_channel && config_.refresh != Refresh::none) {
    if (!progress_only) least = std::min(least, std::max(soon, refresh_at_));
    if (stopped && (!progress_only || queued() > 0)) {
      const PendingRefresh head = pending_.front();
      const PseudoChannel& p = pcs_[static_cast<std::size_t>(head.pc)];
      const Mask active = p.active_rd | p.active_wr;
      if (head.bank < 0) {
        if (p.open == 0) {
          at(Command::REFab, p, kLongAgo);
        } else if (active == 0) {
          at(Command::PREab, p, kLongAgo);
        }
      } else {
        const auto b = static_cast<std::size_t>(head.bank);
        if ((p.open & bit(head.bank)) == 0) {
          at(Command::REFpb, p, p.ref[b]);
        } else if ((active & bit(head.bank)) == 0) {
          at(Command::PREpb, p, p.pre[b]);
        }
      }
    }
  }
  return least;
}

}  // namespace cosim::mem
