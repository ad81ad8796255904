// Row hits one after the other, as long as the queue is full and nothing else may come between them: what they delay is
// booked when the run of hits is over, the oldest is known without looking at every bank.
#include <algorithm>
#include <array>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

// The hits of one pseudo-channel. Its banks stay the same as long as the run lasts.
struct Controller::HitRun {
  static constexpr unsigned kMost = 16;  // banks

  PseudoChannel* p = nullptr;
  BankLists* l = nullptr;
  Queues* q = nullptr;
  Offers* o = nullptr;
  BankCounters* stats = nullptr;
  std::int32_t* earliest = nullptr;
  const Repeat* rule = nullptr;
  int pc = 0;
  std::int32_t edge = 0;
  std::int32_t from = 0;  // no command may go before
  std::int32_t tick = 0;  // of the oldest hit
  int bank = 0;
  int asked = 0;            // the bank of the request taken last
  std::int32_t stop = 0;    // from here on something else may go
  std::int32_t active = 0;  // from here on an activated request may
  bool known = false;       // what `bank` and `tick` say holds
  std::int32_t last = kLongAgo;
  Mask touched = 0;
  // banks by the age of their hit, the oldest first
  unsigned first = 0;
  unsigned behind = 0;
  std::array<std::int64_t, 2 * kMost> order;

  [[nodiscard]] std::int64_t& at(unsigned i) { return order[i & (2 * kMost - 1)]; }
  void add(int of, std::int32_t key) {
    const std::int64_t x = std::int64_t{key} * 256 + of;
    unsigned i = behind++;
    for (; i != first && at(i - 1) > x; --i) at(i) = at(i - 1);
    at(i) = x;
  }
  // Finds the next one; false where the oldest hit is not one of the first that may go.
  [[nodiscard]] bool choose() {
    known = true;
    bank = static_cast<int>(at(first) & 255);
    tick = std::max(from, earliest[bank]) | edge;
    if (tick == (from | edge)) return true;
    for (unsigned i = first + 1; i != behind && known; ++i) {
      known = (std::max(from, earliest[at(i) & 255]) | edge) >= tick;
    }
    return known;
  }
  // The other pseudo-channel has used the command bus; likewise.
  [[nodiscard]] bool wait_until(std::int32_t t) {
    from = std::max(from, t);
    return tick >= from || choose();
  }
  // Goes before the next one of the other pseudo-channel.
  [[nodiscard]] bool before(HitRun& x) { return tick != x.tick ? tick < x.tick : at(first) >> 8 < x.at(x.first) >> 8; }
};

// Whether a pseudo-channel's next column command, a row hit, begins a run.
bool Controller::begin_hits(HitRun& r, int pc, std::span<Offers> offers) {
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  const Op op = p.column.what == BankClass::rd ? Op::read : Op::write;
  const Command command = op == Op::read ? Command::RD : Command::WR;
  Queues& q = queues_[static_cast<std::size_t>(pc)];
  BankLists& l = p.lists[static_cast<std::size_t>(index(op))];
  if (q.count[static_cast<std::size_t>(1 - index(op))] != 0 || has_room(q, op)) return false;
  r.rule = &rules_.repeat(op);
  const Mask hits = l.hit & ~l.late;
  if (!r.rule->possible || (hits & ~rules_.stack_of(p.column.bank)) != 0) return false;
  r.o = nullptr;
  for (Offers& o : offers) {
    if (waits(o, op) && o.requests[o.taken].pc == pc) r.o = &o;
  }
  if (r.o == nullptr) return false;
  r.p = &p;
  r.l = &l;
  r.q = &q;
  r.pc = pc;
  r.stats = &bank_counter(pc, 0);
  r.earliest = p.e.banks[index(p.column.what)].data();
  r.edge = edge_[static_cast<std::size_t>(index(Command::RD))];
  r.from = std::max(column_from_, gate(p, command));
  r.active = kFar;
  for (Mask m = p.active_rd | p.active_wr; m != 0; m &= m - 1) {
    const int b = lowest(m);
    r.active = std::min(r.active, std::max(r.from, r.earliest[b]) | r.edge);
  }
  r.stop = std::min(p.row.tick, r.active);
  for (Mask m = hits; m != 0; m &= m - 1) {
    if (r.behind == HitRun::kMost) return false;
    r.add(lowest(m), l.hit_key[static_cast<std::size_t>(lowest(m))]);
  }
  return r.choose() && r.bank == p.column.bank;
}

// Books what was left out; what goes next is often known.
void Controller::end_hits(HitRun& r, Op op) {
  const Command command = op == Op::read ? Command::RD : Command::WR;
  PseudoChannel& p = *r.p;
  for (Mask m = r.touched; m != 0; m &= m - 1) {
    const int b = lowest(m);
    const std::int32_t t = p.used_at[static_cast<std::size_t>(b)];
    if (t == r.last) {
      rules_.apply(command, b, t, p.e, bus_);
    } else {
      rules_.apply_near(command, b, t, p.e);
    }
  }
  p.column.tick = kLongAgo;
  if (!r.known || r.active <= r.tick) return;
  p.column.tick = r.tick;
  p.column.key = static_cast<std::int32_t>(r.at(r.first) >> 8);
  p.column.bank = static_cast<std::int16_t>(r.bank);
  p.column.what = op == Op::read ? BankClass::rd : BankClass::wr;
  p.column.active = false;
}

template <Op kOp>
[[gnu::always_inline]] inline Controller::AfterHit Controller::issue_hit(HitRun& r) {
  constexpr auto kIndex = static_cast<std::size_t>(index(kOp));
  constexpr Command kCommand = kOp == Op::read ? Command::RD : Command::WR;
  PseudoChannel& p = *r.p;
  BankLists& l = *r.l;
  const std::int32_t t = r.tick;
  const int bank = r.bank;
  const auto b = static_cast<std::size_t>(bank);
  if (!hit_follows(p, l, bank)) return AfterHit::not_issued;
  const std::uint16_t n = l.hit_node[b];
  Node& node = nodes_[n];
  const std::uint16_t following = node.next;
  Node& next = nodes_[following];
  l.head[b] = l.hit_node[b] = following;
  l.head_key[b] = l.hit_key[b] = next.key;
  next.prev = kNil;
  ++r.first;
  r.add(bank, next.key);

  BankCounters& stats = r.stats[b];
  if (node.row_result == RowResult::none) {
    node.row_result = RowResult::hit;
    ++stats.row_hits;
  }
  record(kCommand, r.pc, bank, node.row, node.column, t);
  r.known = false;
  p.used_at[b] = r.last = t;
  r.touched |= bit(bank);
  stats.bytes += config_.access_bytes;
  if constexpr (kOp == Op::read) {
    ++stats.rd;
    ++counters_.served_reads;
    complete(node, absolute(t), absolute(t) + config_.read_latency, node.row_result);
  } else {
    ++stats.wr;
    ++counters_.served_writes;
    complete(node, absolute(t), absolute(t) + config_.write_latency, node.row_result);
  }
  rules_.apply_again(*r.rule, b, t, r.earliest);
  r.from = std::max(r.from, t + r.rule->again);
  now_ = t;

  // the next request takes the place of this one
  Offers& o = *r.o;
  const Request& request = o.requests[o.taken];
  if (request.priority != 0 || next_key_ == kRenumberAt) {
    free_node(n);
    --r.q->count[kIndex];
    return AfterHit::has_room;
  }
  ++counters_.asked;
  r.asked = bank_of(request);
  fill(node, request, r.asked);
  node.key = node.rank = next_key_++;
  o.accepted[o.taken++] = absolute(t);
  if (insert(p, n)) return AfterHit::asked;
  if (!waits(o, kOp)) return AfterHit::has_room;
  return r.choose() ? AfterHit::goes_on : AfterHit::is_over;
}

// Row hits up to the tick before `stop`, of one pseudo-channel or of two that take turns. Whether there were any.
template <Op kOp>
bool Controller::run_of_hits(HitRun& a, HitRun* b, std::int32_t stop) {
  AfterHit after = AfterHit::goes_on;
  HitRun* x = &a;
  while (true) {
    if (b != nullptr) x = b->before(a) ? b : &a;
    if (x->tick >= stop) break;
    after = issue_hit<kOp>(*x);
    if (after != AfterHit::goes_on) break;
    if (b != nullptr && !(x == b ? a : *b).wait_until(now_ + std::max(1, a.rule->bus_again))) break;
  }
  if (a.touched == 0 && (b == nullptr || b->touched == 0)) return false;
  end_hits(a, kOp);
  if (b != nullptr) end_hits(*b, kOp);
  column_from_ = row_from_ = now_ + 1;
  for (std::uint32_t pcs = busy_; pcs != 0; pcs &= pcs - 1) {
    const PseudoChannel& p = pcs_[static_cast<std::size_t>(lowest(pcs))];
    recheck(p, p.column);
    recheck(p, p.row);
  }
  if (after == AfterHit::asked) bank_asked(*x->p, x->asked, kOp);
  return true;
}

// The next column command, a row hit, and those behind it, as long as they may go before anything else: the last of
// them has gone now. Requests have been taken but in the last tick. False when there is no such run.
[[gnu::noinline]] bool Controller::serve_hits(int pc, std::span<Offers> offers, std::int32_t limit) {
  HitRun first;
  HitRun second;
  if (!begin_hits(first, pc, offers)) return false;
  HitRun* other = nullptr;
  std::int32_t stop = std::min(first.stop, limit + 1);
  if (!one_is_busy()) {
    const PseudoChannel& p = pcs_[static_cast<std::size_t>(1 - pc)];
    if (p.column.what == first.p->column.what && hits_follow(p) && begin_hits(second, 1 - pc, offers)) {
      other = &second;
      stop = std::min(stop, second.stop);
    } else {
      stop = std::min({stop, p.column.tick, p.row.tick});
    }
  }
  return first.p->column.what == BankClass::rd ? run_of_hits<Op::read>(first, other, stop)
                                               : run_of_hits<Op::write>(first, other, stop);
}

}  // namespace cosim::mem
