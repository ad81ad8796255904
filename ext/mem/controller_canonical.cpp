// The canonical form: what decides the future, whatever the time, the rows and the names of the requests are.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

namespace {

void put64(std::vector<std::int32_t>& out, std::uint64_t value) {
  out.push_back(static_cast<std::int32_t>(value));
  out.push_back(static_cast<std::int32_t>(value >> 32));
}

class Words {
 public:
  explicit Words(std::span<const std::int32_t> words) : at_(words.data()) {}
  std::int32_t next() { return *at_++; }
  std::uint64_t next64() {
    const auto low = static_cast<std::uint32_t>(*at_++);
    const auto high = static_cast<std::uint32_t>(*at_++);
    return std::uint64_t{high} << 32 | low;
  }
  [[nodiscard]] std::size_t read(std::span<const std::int32_t> words) const {
    return static_cast<std::size_t>(at_ - words.data());
  }

 private:
  const std::int32_t* at_;
};

constexpr BankTurn kAsTheyAre = BankTurn::unturned();

std::uint64_t renamed(std::uint64_t banks, const std::array<std::uint8_t, kMaxBanks>& to) {
  std::uint64_t out = 0;
  for (; banks != 0; banks &= banks - 1) out |= bit(to[static_cast<std::size_t>(lowest(banks))]);
  return out;
}

}  // namespace

std::int64_t Controller::next_refresh() const {
  if (config_.refresh == Refresh::none) return kNeverTick;
  if (config_.refresh_blocks_channel) return pending_.empty() ? absolute(refresh_at_) : absolute(now_);
  std::int32_t first = kFar;
  for (const PseudoChannel& p : pcs_) first = std::min(first, p.refresh_owed > 0 ? now_ : p.refresh_at);
  return absolute(first);
}

Statistics Controller::statistics(std::int64_t tick) const {
  Statistics s;
  s.channel = counters_;
  s.channel.any_open_ticks = any_open_ticks(tick);
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    const PseudoChannel& p = pcs_[pc];
    if (p.blocked_since != kLongAgo) s.channel.blocked_by_return_ticks += tick - absolute(p.blocked_since);
    s.refreshes[pc] = refreshes_[pc];
    for (int b = 0; b < banks_; ++b) s.banks.push_back(bank_counters(static_cast<int>(pc), b, tick));
  }
  return s;
}

// An earliest tick at or before the origin is as good as the origin: whatever comes is issued later.
bool Controller::canonical(const Origin& from, bool with_refresh, std::vector<std::int32_t>& out) const {
  const std::int32_t t = relative(from.tick);
  const BankTurn& turn = from.turn != nullptr ? *from.turn : kAsTheyAre;
  const auto after = [t](std::int32_t at, std::int32_t reach = 0) {  // the two may lie further apart than 2^31
    return static_cast<std::int32_t>(std::max(std::int64_t{at} - t, -std::int64_t{reach}));
  };
  out.push_back(static_cast<std::int32_t>(from.tick & 1));  // the clock edge
  for (const std::int32_t at : bus_) out.push_back(after(at));
  const auto put_node = [&](const Node& n) {
    put64(out, n.tag - from.tag);
    out.push_back(n.key - next_key_);
    out.push_back(n.rank - next_key_);
    out.push_back(n.row - from.row - turn.row[n.bank]);
    out.push_back(n.column);
    out.push_back(turn.name[n.bank] | n.pc << 8 | index(n.op) << 16 | static_cast<std::int32_t>(n.row_result) << 24);
    out.push_back(n.message_class);
  };
  const auto put_list = [&](std::uint16_t head) {
    const std::size_t count = out.size();
    out.push_back(0);
    for (std::uint16_t n = head; n != kNil; n = nodes_[n].next) {
      put_node(nodes_[n]);
      ++out[count];
    }
  };
  struct Active {
    std::int32_t promotion;
    std::uint16_t node;
  };
  std::array<Active, kMaxPseudoChannels * kMaxBanks> active;
  std::size_t actives = 0;
  const auto banks = static_cast<std::size_t>(banks_);
  for (const PseudoChannel& p : pcs_) {
    for (const std::int32_t at : p.e.own) out.push_back(after(at));
    for (std::int32_t i = 0; i < rules_.act_window(); ++i) {
      const std::int32_t at = p.e.act_ring[static_cast<std::size_t>((p.e.act_ring_at + i) % rules_.act_window())];
      out.push_back(after(at, rules_.act_window_ticks()));
    }
    for (const PerBank<std::int32_t>& e : p.e.banks) {
      // of the open banks of a refresh set the one that could be closed first is closed first, however long ago
      const Mask ordered = config_.refresh_set > 1 && &e == &p.e.banks[index(BankClass::pre)] ? p.open : 0;
      for (std::size_t name = 0; name < banks; ++name) {
        const std::size_t b = turn.real[name];
        out.push_back(after(e[b], (ordered & bit(static_cast<int>(b))) != 0 ? kRebaseAt : 0));
      }
    }
    out.push_back(p.return_slots);
    const Mask open = renamed(p.open, turn.name);
    put64(out, open);
    for (Mask m = open; m != 0; m &= m - 1) {
      const std::size_t b = turn.real[static_cast<std::size_t>(lowest(m))];
      out.push_back(p.open_row[b] - from.row - turn.row[b]);
      if (config_.page_policy != PagePolicy::open) out.push_back(after(p.used_at[b], config_.page_timeout));
    }
    for (Mask m = p.active_rd | p.active_wr; m != 0; m &= m - 1) {
      const auto b = static_cast<std::size_t>(lowest(m));
      active[actives++] = {p.active_promotion[b], p.active_node[b]};
    }
    for (const BankLists& l : p.lists) {
      const Mask has = renamed(l.has, turn.name);
      put64(out, has);
      for (Mask m = has; m != 0; m &= m - 1) put_list(l.head[turn.real[static_cast<std::size_t>(lowest(m))]]);
    }
    put_list(p.forward_head);
  }
  std::sort(active.begin(), active.begin() + static_cast<std::ptrdiff_t>(actives),
            [](const Active& x, const Active& y) { return x.promotion < y.promotion; });
  out.push_back(static_cast<std::int32_t>(actives));
  for (std::size_t i = 0; i < actives; ++i) put_node(nodes_[active[i].node]);
  for (const Queues& q : queues_) {
    out.insert(out.end(), q.count.begin(), q.count.end());
    out.push_back(q.write_mode);
    out.push_back(q.served);
    out.push_back(q.settled);
    out.push_back(q.settled != 0 ? 0 : after(q.changed_at, 1));
  }
  const bool ties = config_.ties_by_arrival_tick && tick_rank_at_ == t;
  out.push_back(ties ? tick_rank_ - next_key_ : kFar);
  const std::int64_t last_done = config_.reads_return_in_order ? last_read_done_ - from.tick : 0;
  out.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(last_done, 0)));
  out.push_back(with_refresh ? 1 : 0);
  if (with_refresh) refresh_form(from.tick, out);
  return true;
}

void Controller::refresh_form(std::int64_t tick, std::vector<std::int32_t>& out) const {
  if (config_.refresh == Refresh::none) return;
  const auto after = [&](std::int32_t at) { return static_cast<std::int32_t>(absolute(at) - tick); };
  if (config_.refresh_blocks_channel) {
    out.push_back(after(refresh_at_));
    out.push_back(refresh_cursor_);
    out.push_back(static_cast<std::int32_t>(pending_.size()));
    for (const PendingRefresh& r : pending_) {
      out.push_back(r.pc);
      out.push_back(r.bank);
    }
    return;
  }
  for (const PseudoChannel& p : pcs_) {
    out.push_back(after(p.refresh_at));
    out.push_back(p.refresh_owed);
    out.push_back(p.refresh_bank);
  }
}

void Controller::jump_refresh(std::int64_t tick, std::span<const std::int32_t> form) {
  if (config_.refresh == Refresh::none) return;
  if (tick - base_ > kRebaseAt) rebase(tick);
  const std::int32_t t = relative(tick);
  Words in(form);
  if (config_.refresh_blocks_channel) {
    refresh_at_ = in.next() + t;
    refresh_cursor_ = in.next();
    pending_.clear();
    for (std::int32_t left_over = in.next(); left_over > 0; --left_over) {
      const std::int32_t pc = in.next();
      pending_.push_back({pc, in.next()});
    }
    return;
  }
  for (PseudoChannel& p : pcs_) {
    p.refresh_at = in.next() + t;
    p.refresh_owed = in.next();
    p.refresh_bank = in.next();
  }
}

void Controller::remember(std::span<const IssuedCommand> issued, std::int64_t before) {
  const std::size_t last = std::min<std::size_t>(issued.size(), kRecent);
  recorded_ += before + static_cast<std::int64_t>(issued.size() - last);
  for (const IssuedCommand& i : issued.last(last)) recent_[static_cast<std::size_t>(recorded_++) % kRecent] = i;
}

void Controller::normalise(std::int64_t tick) {
  std::vector<std::int32_t> form;
  const Origin here{tick, 0, 0};
  if (!canonical(here, true, form)) return;
  Statistics none;
  none.banks.resize(bank_counters_.size());
  next_key_ = 0;
  jump(tick, form, here, none);
}

void Controller::jump(std::int64_t left, std::span<const std::int32_t> form, const Origin& to,
                      const Statistics& gained) {
  // what is open or blocked is booked up to here, and from the end of the jump on
  rebase(to.tick);
  const BankTurn& turn = to.turn != nullptr ? *to.turn : kAsTheyAre;
  Statistics now = statistics(left);
  now.add(gained);
  counters_ = now.channel;
  bank_counters_ = std::move(now.banks);
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) refreshes_[pc] = now.refreshes[pc];
  const std::int32_t t = now_ = relative(to.tick);
  column_from_ = row_from_ = t + 1;
  free_ = kNil;
  for (std::size_t n = nodes_.size(); n-- > 0;) {
    nodes_[n] = Node{};
    free_node(static_cast<std::uint16_t>(n));
  }

  Words in(form);
  in.next();
  for (std::int32_t& at : bus_) at = in.next() + t;
  if (next_key_ > kRenumberAt / 2) next_key_ = 0;
  const auto get_node = [&] {
    const std::uint16_t n = new_node();
    Node& node = nodes_[n];
    node = Node{};
    node.tag = in.next64() + to.tag;
    node.key = in.next() + next_key_;
    node.rank = in.next() + next_key_;
    node.row = in.next() + to.row;
    node.column = in.next();
    const std::int32_t packed = in.next();
    node.bank = turn.real[static_cast<std::size_t>(packed & 255)];
    node.row += turn.row[node.bank];
    node.pc = static_cast<std::uint8_t>(packed >> 8 & 255);
    node.op = static_cast<Op>(packed >> 16 & 255);
    node.row_result = static_cast<RowResult>(packed >> 24);
    node.message_class = static_cast<std::uint8_t>(in.next());
    return n;
  };
  promotions_ = 0;
  for (PseudoChannel& p : pcs_) {
    for (std::int32_t& at : p.e.own) at = in.next() + t;
    for (std::int32_t i = 0; i < rules_.act_window(); ++i) p.e.act_ring[static_cast<std::size_t>(i)] = in.next() + t;
    p.e.act_ring_at = 0;
    for (PerBank<std::int32_t>& e : p.e.banks) {
      for (std::size_t name = 0; name < static_cast<std::size_t>(banks_); ++name) e[turn.real[name]] = in.next() + t;
    }
    p.return_slots = in.next();
    const Mask open = in.next64();
    p.open = renamed(open, turn.real);
    p.open_row.fill(-1);
    p.opened_at.fill(t);
    p.used_at.fill(t);
    p.any_open_since = t;
    for (Mask m = open; m != 0; m &= m - 1) {
      const std::size_t b = turn.real[static_cast<std::size_t>(lowest(m))];
      p.open_row[b] = in.next() + to.row + turn.row[b];
      if (config_.page_policy != PagePolicy::open) p.used_at[b] = in.next() + t;
    }
    p.active_rd = p.active_wr = 0;
    p.active_node.fill(kNil);
    p.active_rank.fill(0);
    p.active_promotion.fill(0);
    for (const Op op : {Op::read, Op::write}) {
      BankLists& l = p.lists[static_cast<std::size_t>(index(op))];
      l.head.fill(kNil);
      l.tail.fill(kNil);
      l.hit_node.fill(kNil);
      l.head_key.fill(0);
      l.hit_key.fill(0);
      l.has = l.hit = l.miss = l.late = 0;
      for (Mask m = in.next64(); m != 0; m &= m - 1) {
        for (std::int32_t left_over = in.next(); left_over > 0; --left_over) insert(p, get_node());
      }
    }
    p.forward_head = p.forward_tail = kNil;
    for (std::int32_t left_over = in.next(); left_over > 0; --left_over) append_forwarded(p, get_node());
  }
  for (std::int32_t left_over = in.next(); left_over > 0; --left_over) {
    const std::uint16_t n = get_node();
    const Node& node = nodes_[n];
    PseudoChannel& p = pcs_[node.pc];
    const std::size_t b = node.bank;
    p.active_node[b] = n;
    p.active_rank[b] = node.rank;
    p.active_promotion[b] = promotions_++;
    (node.op == Op::read ? p.active_rd : p.active_wr) |= bit(node.bank);
  }
  unsettled_ = 0;
  for (Queues& q : queues_) {
    for (std::int32_t& count : q.count) count = in.next();
    q.write_mode = in.next();
    q.served = in.next();
    q.settled = in.next();
    q.changed_at = in.next() + t;
    if (q.settled == 0) unsettled_ = 1;
  }
  note_modes();
  const std::int32_t rank = in.next();
  tick_rank_at_ = rank == kFar ? kLongAgo : t;
  tick_rank_ = rank == kFar ? 0 : rank + next_key_;
  last_read_done_ = in.next() + to.tick;
  if (in.next() != 0) jump_refresh(to.tick, form.subspan(in.read(form)));
  if (config_.refresh == Refresh::none || !config_.refresh_blocks_channel) refresh_at_ = t;  // not used
  busy_ = 0;
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    PseudoChannel& p = pcs_[pc];
    if (config_.refresh == Refresh::none || config_.refresh_blocks_channel) p.refresh_at = t;  // not used
    if (!p.idle()) busy_ |= 1U << pc;
    p.blocked_since = kLongAgo;
    book_blocked(p, t);
  }
  note_refreshes();
  forget();
}

// What is open or blocked is booked when it ends: of all that was counted, what the leader has not booked yet is left.
// Recent commands become the leader's.
void Controller::follow(const Channel& leader, const Statistics& gained, std::int64_t since, std::int64_t tick) {
  const auto& other = dynamic_cast<const Controller&>(leader);
  Statistics total = statistics(since);
  total.add(gained);
  Statistics unbooked = other.statistics(tick);
  Statistics booked = unbooked;
  booked.channel = other.counters_;
  booked.banks = other.bank_counters_;
  unbooked.subtract(booked);
  total.subtract(unbooked);
  *this = other;
  counters_ = total.channel;
  bank_counters_ = std::move(total.banks);
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) refreshes_[pc] = total.refreshes[pc];
}

}  // namespace cosim::mem
