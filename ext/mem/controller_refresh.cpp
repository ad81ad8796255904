// Refresh: when it is owed, which banks it keeps requests from, its commands.
#include <algorithm>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

void Controller::issue_ref(int pc, int bank, std::int32_t t) {
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  const Command c = bank < 0 ? Command::REFab : Command::REFpb;
  record(c, pc, bank, -1, -1, t);
  const Mask target = bank < 0 ? 0 : config_.refresh_set == 1 ? bit(bank) : refresh_target(p);
  if (bank < 0) rules_.apply(c, bank, t, p.e, bus_);
  for (Mask m = target; m != 0; m &= m - 1) rules_.apply(c, lowest(m), t, p.e, bus_);
  ++refreshes_[static_cast<std::size_t>(pc)];
  if (bank < 0) {
    ++counters_.refreshes_all;
    for (int b = 0; b < config_.banks(); ++b) {
      ++bank_counter(pc, b).ref;
      bank_counter(pc, b).busy_ticks += config_.refresh_all_ticks;
    }
  } else {
    ++counters_.refreshes_bank;
    for (Mask m = target; m != 0; m &= m - 1) {
      ++bank_counter(pc, lowest(m)).ref;
      bank_counter(pc, lowest(m)).busy_ticks += config_.refresh_bank_ticks;
    }
  }
  forget();
}

void Controller::push_refreshes(std::int32_t t) {
  const std::int32_t step = sim::kFaultsCompiled && fault_ == sim::Fault::late_refresh ? 3 * config_.refresh_interval
                                                                                       : config_.refresh_interval;
  if (t < quiet_until_) return;
  if (config_.refresh_blocks_channel) {
    if (t != refresh_at_) return;
    refresh_at_ += step;
    const auto channels = static_cast<std::int32_t>(pcs_.size());
    if (config_.refresh == Refresh::all_bank) {
      for (std::int32_t pc = 0; pc < channels; ++pc) pending_.push_back({pc, -1});
    } else if (config_.refresh_pairs_pseudo_channels) {
      for (std::int32_t pc = 0; pc < channels; ++pc) pending_.push_back({pc, refresh_cursor_});
      refresh_cursor_ = (refresh_cursor_ + 1) % config_.banks();
    } else {
      pending_.push_back({refresh_cursor_ / config_.banks(), refresh_cursor_ % config_.banks()});
      refresh_cursor_ = (refresh_cursor_ + 1) % (channels * config_.banks());
    }
    note_refreshes();
    return;
  }
  for (PseudoChannel& p : pcs_) {
    while (p.refresh_at <= t) {
      ++p.refresh_owed;
      p.refresh_at += step;
      counters_.most_postponed = std::max<std::int64_t>(counters_.most_postponed, p.refresh_owed - 1);
    }
  }
  note_refreshes();
}

void Controller::note_refreshes() {
  quiet_until_ = kFar;
  if (config_.refresh == Refresh::none) return;
  if (config_.refresh_blocks_channel) {
    quiet_until_ = pending_.empty() ? refresh_at_ : kLongAgo;
    return;
  }
  for (const PseudoChannel& p : pcs_) {
    quiet_until_ = std::min(quiet_until_, p.refresh_owed > 0 ? kLongAgo : p.refresh_at);
  }
}

// Of the open banks of a set the one that may be precharged first.
int Controller::first_to_close(const PseudoChannel& p, Mask target) const {
  int best = -1;
  for (Mask m = p.open & target; m != 0; m &= m - 1) {
    const int b = lowest(m);
    const auto pre = [&](int bank) { return p.e.at(BankClass::pre, static_cast<std::size_t>(bank)); };
    if (best < 0 || pre(b) < pre(best)) best = b;
  }
  return best;
}

bool Controller::issue_refresh(std::int32_t t) {
  const auto due = [&](Command c, const PseudoChannel& p, std::int32_t own) {
    return align(t, c) == t && std::max(own, gate(p, c)) <= t;
  };
  if (config_.refresh_blocks_channel) {
    if (pending_.empty()) return false;
    const PendingRefresh head = pending_.front();
    PseudoChannel& p = pcs_[static_cast<std::size_t>(head.pc)];
    const Mask active = p.active_rd | p.active_wr;
    if (head.bank < 0) {
      if (p.open != 0) {
        if (active != 0 || !due(Command::PREab, p, kLongAgo)) return false;
        issue_pre_all(head.pc, t);
        return true;
      }
      if (!due(Command::REFab, p, kLongAgo)) return false;
    } else {
      const auto b = static_cast<std::size_t>(head.bank);
      if ((p.open & bit(head.bank)) != 0) {
        if ((active & bit(head.bank)) != 0 || !due(Command::PREpb, p, p.e.at(BankClass::pre, b))) return false;
        issue_pre(p, head.pc, head.bank, t);
        return true;
      }
      if (!due(Command::REFpb, p, p.e.at(BankClass::ref, b))) return false;
    }
    issue_ref(head.pc, head.bank, t);
    pending_.erase(pending_.begin());
    note_refreshes();
    for (Queues& q : queues_) changed(q, t);
    return true;
  }
  for (std::size_t i = 0; i < pcs_.size(); ++i) {
    PseudoChannel& p = pcs_[i];
    if (!refresh_wanted(p)) continue;
    const int pc = static_cast<int>(i);
    const bool all = config_.refresh == Refresh::all_bank;
    const Mask target = refresh_target(p);
    if ((p.open & target) != 0) {
      const Mask waiting = (p.active_rd | p.active_wr) & target;
      if (waiting != 0) {
        if (p.return_slots != 0 || (p.active_wr & target) != 0) continue;
        demote_active(p, waiting);
      }
      if (all) {
        if (!due(Command::PREab, p, kLongAgo)) continue;
        issue_pre_all(pc, t);
      } else {
        const int bank = first_to_close(p, target);
        if (!due(Command::PREpb, p, p.e.at(BankClass::pre, static_cast<std::size_t>(bank)))) continue;
        issue_pre(p, pc, bank, t);
      }
      return true;
    }
    if (all) {
      if (!due(Command::REFab, p, kLongAgo)) continue;
      issue_ref(pc, -1, t);
    } else {
      if (!due(Command::REFpb, p, refresh_ready(p))) continue;
      issue_ref(pc, p.refresh_bank, t);
      p.refresh_bank = (p.refresh_bank + 1) % (config_.banks() / config_.refresh_set);
    }
    --p.refresh_owed;
    note_refreshes();
    return true;
  }
  return false;
}

}  // namespace cosim::mem
