// Time bases, renumbering and visit().
#include <algorithm>
#include <vector>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

void Controller::rebase(std::int64_t tick) {
  const std::int64_t base = tick & ~std::int64_t{1};  // parity is the clock edge
  const std::int64_t shift = base - base_;
  forget();
  const auto move = [shift](std::int32_t& at) {
    if (at == kFar || at == kLongAgo) return;
    at = static_cast<std::int32_t>(std::max<std::int64_t>(at - shift, kLongAgo));
  };
  // what has lasted for longer than a base reaches back goes on from its edge; the time before is booked
  const auto move_start = [shift](std::int32_t& at, std::int64_t& booked) {
    const std::int64_t earliest = std::int64_t{kLongAgo} + 1;  // kLongAgo itself may stand for none
    const std::int64_t moved = at - shift;
    at = static_cast<std::int32_t>(std::max(moved, earliest));
    booked += at - moved;
  };
  for (std::int32_t& at : bus_) move(at);
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    PseudoChannel& p = pcs_[pc];
    for (std::size_t b = 0; b < kMaxBanks; ++b) {
      if ((p.open & bit(static_cast<int>(b))) == 0) {
        move(p.opened_at[b]);
      } else {
        move_start(p.opened_at[b], bank_counter(static_cast<int>(pc), static_cast<int>(b)).busy_ticks);
      }
    }
    if (p.open == 0) {
      move(p.any_open_since);
    } else {
      move_start(p.any_open_since, counters_.any_open_ticks);
    }
    if (p.blocked_since != kLongAgo) move_start(p.blocked_since, counters_.blocked_by_return_ticks);
    for (PerBank<std::int32_t>& e : p.e.banks) {
      for (std::int32_t& at : e) move(at);
    }
    for (std::int32_t& at : p.used_at) move(at);
    for (std::int32_t& at : p.e.own) move(at);
    for (std::int32_t& at : p.e.act_ring) move(at);
    move(p.refresh_at);
  }
  for (Queues& q : queues_) move(q.changed_at);
  move(refresh_at_);
  move(tick_rank_at_);
  for (std::int32_t* at : {&now_, &column_from_, &row_from_}) move(*at);
  base_ = base;
  note_refreshes();
}

// Keys are ages: what counts is their order and, up to the age cap, their distance. Both survive.
void Controller::renumber_keys() {
  const std::int32_t shift = next_key_ - (1 << 28);
  std::vector<std::int32_t> old = {tick_rank_};
  const auto each = [this](auto&& f) {
    for (PseudoChannel& p : pcs_) {
      for (BankLists& l : p.lists) {
        for (std::size_t b = 0; b < kMaxBanks; ++b) {
          for (std::uint16_t n = l.head[b]; n != kNil; n = nodes_[n].next) f(nodes_[n]);
        }
      }
      for (std::uint16_t n = p.forward_head; n != kNil; n = nodes_[n].next) f(nodes_[n]);
      for (const std::uint16_t n : p.active_node) {
        if (n != kNil) f(nodes_[n]);
      }
    }
  };
  each([&](const Node& n) {
    old.push_back(n.key);
    old.push_back(n.rank);
  });
  std::sort(old.begin(), old.end());
  old.erase(std::unique(old.begin(), old.end()), old.end());
  std::vector<std::int32_t> young;
  std::int64_t least = kLongAgo;  // requests that have waited for a whole renumbering keep their order only
  for (const std::int32_t key : old) {
    least = std::max(least + 1, std::int64_t{key} - shift);
    young.push_back(static_cast<std::int32_t>(least));
  }
  const auto to = [&](std::int32_t key) {
    return young[static_cast<std::size_t>(std::lower_bound(old.begin(), old.end(), key) - old.begin())];
  };
  each([&](Node& n) {
    n.key = to(n.key);
    n.rank = to(n.rank);
  });
  for (PseudoChannel& p : pcs_) {
    for (std::size_t b = 0; b < kMaxBanks; ++b) {
      if (p.active_node[b] != kNil) p.active_rank[b] = nodes_[p.active_node[b]].rank;
      for (BankLists& l : p.lists) {
        if (l.head[b] != kNil) l.head_key[b] = nodes_[l.head[b]].key;
        if (l.hit_node[b] != kNil) l.hit_key[b] = nodes_[l.hit_node[b]].key;
      }
    }
  }
  tick_rank_ = to(tick_rank_);
  next_key_ -= shift;
}

void Controller::renumber_promotions() {
  std::vector<std::int32_t*> all;
  for (PseudoChannel& p : pcs_) {
    for (std::size_t b = 0; b < kMaxBanks; ++b) {
      if (p.active_node[b] != kNil) all.push_back(&p.active_promotion[b]);
    }
  }
  std::sort(all.begin(), all.end(), [](const std::int32_t* x, const std::int32_t* y) { return *x < *y; });
  promotions_ = 0;
  for (std::int32_t* promotion : all) *promotion = promotions_++;
}

void Controller::visit(sim::Visitor& v) {
  using sim::Kind;
  v.value(Kind::stamp, base_);
  for (std::int32_t* at : {&now_, &column_from_, &row_from_}) v.value(Kind::state, *at);
  v.array(Kind::state, bus_.data(), bus_.size());
  for (PseudoChannel& p : pcs_) {
    for (PerBank<std::int32_t>& e : p.e.banks) v.array(Kind::state, e.data(), e.size());
    v.array(Kind::state, p.e.own.data(), p.e.own.size());
    v.array(Kind::state, p.e.act_ring.data(), p.e.act_ring.size());
    v.value(Kind::state, p.e.act_ring_at);
    v.value(Kind::state, p.column);
    v.value(Kind::state, p.row);
    v.value(Kind::state, p.return_slots);
    v.value(Kind::state, p.wanted);
    v.value(Kind::state, p.open);
    v.value(Kind::state, p.active_rd);
    v.value(Kind::state, p.active_wr);
    v.array(Kind::state, p.open_row.data(), p.open_row.size());
    v.array(Kind::state, p.opened_at.data(), p.opened_at.size());
    v.array(Kind::state, p.used_at.data(), p.used_at.size());
    v.array(Kind::state, p.active_node.data(), p.active_node.size());
    v.array(Kind::state, p.active_rank.data(), p.active_rank.size());
    v.array(Kind::state, p.active_promotion.data(), p.active_promotion.size());
    for (BankLists& l : p.lists) {
      v.value(Kind::state, l.has);
      v.value(Kind::state, l.hit);
      v.value(Kind::state, l.miss);
      v.value(Kind::state, l.late);
      v.array(Kind::state, l.head.data(), l.head.size());
      v.array(Kind::state, l.tail.data(), l.tail.size());
      v.array(Kind::state, l.hit_node.data(), l.hit_node.size());
      v.array(Kind::state, l.head_key.data(), l.head_key.size());
      v.array(Kind::state, l.hit_key.data(), l.hit_key.size());
    }
    for (std::int32_t* at : {&p.refresh_at, &p.refresh_owed, &p.refresh_bank, &p.any_open_since, &p.blocked_since}) {
      v.value(Kind::state, *at);
    }
    v.value(Kind::state, p.forward_head);
    v.value(Kind::state, p.forward_tail);
  }
  v.value(Kind::state, quiet_until_);
  v.value(Kind::state, busy_);
  v.value(Kind::state, unsettled_);
  v.vector(Kind::state, queues_);
  v.vector(Kind::state, nodes_);
  v.value(Kind::state, free_);
  v.value(Kind::state, next_key_);
  v.value(Kind::state, tick_rank_);
  v.value(Kind::state, tick_rank_at_);
  v.value(Kind::state, promotions_);
  v.value(Kind::stamp, last_read_done_);
  v.vector(Kind::state, pending_);
  v.value(Kind::state, refresh_at_);
  v.value(Kind::state, refresh_cursor_);
  v.value(Kind::counter, counters_);
  v.vector(Kind::counter, bank_counters_);
  v.array(Kind::counter, refreshes_.data(), refreshes_.size());
  v.vector(Kind::counter, recent_);
  v.value(Kind::counter, recorded_);
  v.vector(Kind::state, completions);
  v.vector(Kind::state, commands);
}

}  // namespace cosim::mem
