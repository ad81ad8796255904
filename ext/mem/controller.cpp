#include "mem/controller.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cosim::mem {
namespace {

constexpr std::int32_t kRebaseAt = 1 << 30;

int lowest(std::uint64_t m) { return std::countr_zero(m); }
constexpr std::uint64_t bit(int b) { return std::uint64_t{1} << b; }

// Banks of `mask` whose earliest tick has come; `banks` of them exist, `earliest` is aligned and kMaxBanks long.
std::uint64_t ready_banks(const std::int32_t* earliest, std::uint64_t mask, int banks, std::int32_t t) {
  std::uint64_t ready = 0;
#if defined(__SSE2__)
  if ((mask & (mask - 1)) != 0) {
    const __m128i now = _mm_set1_epi32(t);
    for (int b = 0; b < banks; b += 4) {
      const __m128i at = _mm_load_si128(reinterpret_cast<const __m128i*>(earliest + b));
      const int later = _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpgt_epi32(at, now)));
      ready |= static_cast<std::uint64_t>(~later & 15) << b;
    }
    return ready & mask;
  }
#endif
  (void)banks;
  for (std::uint64_t m = mask; m != 0; m &= m - 1) {
    const int b = lowest(m);
    ready |= static_cast<std::uint64_t>(earliest[b] <= t) << b;
  }
  return ready;
}

std::int32_t earliest_of(const std::int32_t* earliest, std::uint64_t mask) {
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  for (std::uint64_t m = mask; m != 0; m &= m - 1) least = std::min(least, earliest[lowest(m)]);
  return least;
}

// at[i] = max(at[i], value) for `count` banks from an aligned start if count is a multiple of four.
void raise_all(std::int32_t* at, int count, std::int32_t value) {
#if defined(__SSE2__)
  if (count % 4 == 0) {
    const __m128i v = _mm_set1_epi32(value);
    for (int i = 0; i < count; i += 4) {
      auto* p = reinterpret_cast<__m128i*>(at + i);
      const __m128i old = _mm_load_si128(p);
      const __m128i keep = _mm_cmpgt_epi32(old, v);
      _mm_store_si128(p, _mm_or_si128(_mm_and_si128(keep, old), _mm_andnot_si128(keep, v)));
    }
    return;
  }
#endif
  for (int i = 0; i < count; ++i) at[i] = std::max(at[i], value);
}

}  // namespace

Controller::Controller(const ChannelConfig& config) : config_(config), fault_(sim::fault_from_environment()) {
  const std::string problems = config.problems();
  if (!problems.empty()) throw std::invalid_argument(problems);
  // RDA and WRA wait like RD and WR, and several rules of one pair and scope act as the longest
  const auto waits_like = [](Command c) {
    return c == Command::RDA ? Command::RD : c == Command::WRA ? Command::WR : c;
  };
  const auto banks_of = [](Command c) -> PerBank<std::int32_t> PseudoChannel::* {
    switch (c) {
      case Command::ACT:
        return &PseudoChannel::act;
      case Command::PREpb:
        return &PseudoChannel::pre;
      case Command::RD:
        return &PseudoChannel::rd;
      case Command::WR:
        return &PseudoChannel::wr;
      default:
        return &PseudoChannel::ref;
    }
  };
  for (const Rule& r : config.rules) {
    if (r.window != 1) {
      act_window_ = r.window;
      act_window_ticks_ = r.value;
      continue;
    }
    if (r.value == 0) continue;
    const Command to = waits_like(r.to);
    auto& list = effects_[static_cast<std::size_t>(index(r.from))].by_scope[static_cast<std::size_t>(r.scope)];
    const auto same = std::find_if(list.begin(), list.end(), [&](const Effect& e) { return e.to == index(to); });
    if (same == list.end()) {
      list.push_back({index(to), r.value, banks_of(to)});
    } else {
      same->value = std::max(same->value, r.value);
    }
  }
  for (const Effect& e : effects_[static_cast<std::size_t>(index(Command::ACT))]
                             .by_scope[static_cast<std::size_t>(Scope::pseudo_channel)]) {
    if (e.to == index(Command::REFpb)) act_to_refresh_ = e.value;
  }
  const int banks = config.banks();
  all_banks_ = banks == kMaxBanks ? ~Mask{0} : bit(banks) - 1;
  bus_.fill(kLongAgo);
  pcs_.resize(static_cast<std::size_t>(config.pseudo_channels));
  for (PseudoChannel& p : pcs_) {
    for (auto* e : {&p.act, &p.pre, &p.rd, &p.wr, &p.ref}) e->fill(kLongAgo);
    p.own.fill(kLongAgo);
    p.act_ring.fill(kLongAgo);
    p.return_slots = kFar;
    p.open_row.fill(-1);
    p.active_node.fill(kNil);
    for (BankLists& l : p.lists) {
      l.head.fill(kNil);
      l.tail.fill(kNil);
      l.hit_node.fill(kNil);
    }
    p.refresh_at = config.refresh_interval;
  }
  refresh_at_ = config.refresh_interval;
  queues_.resize(config.shared_queues ? 1 : pcs_.size());
  // an activated request may have left its queue: then every bank can hold one more
  const std::size_t extra = config.slot_freed_at_act ? pcs_.size() * static_cast<std::size_t>(banks) : 0;
  const std::size_t per_queue = static_cast<std::size_t>(config.read_queue + config.write_queue);
  nodes_.resize(queues_.size() * per_queue + extra);
  for (std::size_t n = nodes_.size(); n-- > 0;) {
    nodes_[n].next = free_;
    free_ = static_cast<std::uint16_t>(n);
  }
  bank_counters_.resize(pcs_.size() * static_cast<std::size_t>(banks));
  recent_.resize(kRecent);
}

// ---- requests ----

bool Controller::can_accept(Op op, int pc) const {
  const Queues& q = queues_[static_cast<std::size_t>(queues_of(pc))];
  const int room = op == Op::read ? config_.read_queue : config_.write_queue;
  return q.count[static_cast<std::size_t>(index(op))] < room;
}

void Controller::accept(const Request& request, std::int64_t tick) { take(request, tick, false); }

bool Controller::try_accept(const Request& request, std::int64_t tick) {
  const bool full = !can_accept(request.op, request.pc);
  if (full && !config_.slot_freed_at_act) return false;
  return take(request, tick, full);
}

std::uint16_t Controller::new_node() {
  const std::uint16_t n = free_;
  free_ = nodes_[n].next;
  return n;
}

void Controller::free_node(std::uint16_t n) {
  nodes_[n].next = free_;
  free_ = n;
}

// With `only_without_slot` the request is taken only if it needs no queue entry.
bool Controller::take(const Request& r, std::int64_t tick, bool only_without_slot) {
  if (tick - base_ > kRebaseAt) rebase(tick);
  const std::int32_t t = relative(tick);
  now_ = std::max(now_, t);
  PseudoChannel& p = pcs_[r.pc];
  Queues& q = queues_[static_cast<std::size_t>(queues_of(r.pc))];
  const int bank = (r.stack_id * config_.bank_groups + r.bg) * config_.banks_per_group + r.bank;
  const auto b = static_cast<std::size_t>(bank);

  // does a queued write hold this address?
  const bool asks_writes = r.op == Op::read || config_.coalesce_writes;
  bool buffered = false;
  if (asks_writes) {
    const BankLists& writes = p.lists[1];
    if ((writes.has & bit(bank)) != 0) {
      for (std::uint16_t n = writes.head[b]; n != kNil && !buffered; n = nodes_[n].next) {
        buffered = nodes_[n].row == r.row && nodes_[n].column == r.column;
      }
    }
    if (!buffered && !config_.slot_freed_at_act && (p.active_wr & bit(bank)) != 0) {
      const Node& a = nodes_[p.active_node[b]];
      buffered = a.row == r.row && a.column == r.column;
    }
  }
  if (only_without_slot) {
    // a forwarded read may itself have to wait for a return slot, in the queue that is full
    if (!buffered || (r.op == Op::read && p.return_slots == 0)) return false;
  }
  settle_before(q, t);
  ++counters_.asked;
  if constexpr (sim::kFaultsCompiled) {
    if (fault_ == sim::Fault::lose_request && counters_.asked % 97 == 0) return true;
  }
  Node node;
  node.tag = r.tag;
  node.pc = r.pc;
  node.op = r.op;
  node.row = r.row;
  node.column = r.column;
  node.bank = static_cast<std::uint8_t>(bank);
  node.message_class = r.message_class;
  if (buffered && r.op == Op::write) {
    ++counters_.coalesced;
    complete(node, tick, tick, RowResult::coalesced);
    return true;
  }
  if (buffered && p.return_slots > 0) {
    ++counters_.forwarded;
    if (p.return_slots != kFar) --p.return_slots;
    std::int64_t done = tick + 1;
    if (config_.reads_return_in_order) done = last_read_done_ = std::max(done, last_read_done_);
    complete(node, tick + 1, done, RowResult::forwarded);
    return true;
  }
  const std::uint16_t n = new_node();
  const std::int64_t boost = std::max<std::int64_t>(config_.age_cap, 1);
  node.key = next_key_++ - static_cast<std::int64_t>(r.priority) * boost;
  if (config_.ties_by_arrival_tick) {
    if (tick_rank_at_ != t) {
      tick_rank_at_ = t;
      tick_rank_ = node.key;
    }
    node.rank = tick_rank_;
  } else {
    node.rank = node.key;
  }
  nodes_[n] = node;
  ++q.count[static_cast<std::size_t>(index(r.op))];
  q.settled = 0;
  q.changed_at = t;
  if (buffered) {  // waits for a return slot
    nodes_[n].row_result = RowResult::forwarded;
    nodes_[n].prev = p.forward_tail;
    if (p.forward_tail == kNil) {
      p.forward_head = n;
    } else {
      nodes_[p.forward_tail].next = n;
    }
    p.forward_tail = n;
    note_blocked(p, t);
    return true;
  }
  insert(p, n);
  note_blocked(p, t);
  return true;
}

void Controller::insert(PseudoChannel& p, std::uint16_t n) {
  Node& node = nodes_[n];
  BankLists& l = p.lists[static_cast<std::size_t>(index(node.op))];
  const std::size_t b = node.bank;
  std::uint16_t after = l.tail[b];
  while (after != kNil && nodes_[after].key > node.key) after = nodes_[after].prev;
  node.prev = after;
  node.next = after == kNil ? l.head[b] : nodes_[after].next;
  if (after == kNil) {
    l.head[b] = n;
  } else {
    nodes_[after].next = n;
  }
  if (node.next == kNil) {
    l.tail[b] = n;
  } else {
    nodes_[node.next].prev = n;
  }
  if ((p.open & bit(node.bank)) != 0 && p.open_row[b] == node.row &&
      (l.hit_node[b] == kNil || nodes_[l.hit_node[b]].key > node.key)) {
    l.hit_node[b] = n;
  }
  view(p, node.op, node.bank);
}

void Controller::unlink(PseudoChannel& p, std::uint16_t n) {
  const Node& node = nodes_[n];
  BankLists& l = p.lists[static_cast<std::size_t>(index(node.op))];
  const std::size_t b = node.bank;
  if (l.hit_node[b] == n) {
    std::uint16_t h = node.next;
    while (h != kNil && nodes_[h].row != p.open_row[b]) h = nodes_[h].next;
    l.hit_node[b] = h;
  }
  if (node.prev == kNil) {
    l.head[b] = node.next;
  } else {
    nodes_[node.prev].next = node.next;
  }
  if (node.next == kNil) {
    l.tail[b] = node.prev;
  } else {
    nodes_[node.next].prev = node.prev;
  }
  view(p, node.op, node.bank);
}

void Controller::view(PseudoChannel& p, Op op, int bank) {
  BankLists& l = p.lists[static_cast<std::size_t>(index(op))];
  const auto b = static_cast<std::size_t>(bank);
  const Mask one = bit(bank);
  l.has &= ~one;
  l.hit &= ~one;
  l.miss &= ~one;
  l.late &= ~one;
  const std::uint16_t head = l.head[b];
  if (head == kNil) return;
  l.has |= one;
  const Node& first = nodes_[head];
  l.head_key[b] = first.key;
  if ((p.open & one) == 0) {
    p.act_bound = std::min(p.act_bound, p.act[b]);
    return;
  }
  const std::uint16_t hit = l.hit_node[b];
  if (hit != kNil) {
    const Node& h = nodes_[hit];
    l.hit |= one;
    l.hit_key[b] = h.key;
    if (op == Op::read) {
      p.rd_bound = std::min(p.rd_bound, p.rd[b]);
    } else {
      p.wr_bound = std::min(p.wr_bound, p.wr[b]);
    }
    if (hit == head || h.rank <= first.rank) return;  // nothing older wants another row
    if (config_.age_cap > 0 && h.key - first.key > config_.age_cap) l.late |= one;
  }
  l.miss |= one;
  p.pre_bound = std::min(p.pre_bound, p.pre[b]);
}

bool Controller::wanted_mode(const Queues& q) const {
  const int reads = q.count[0];
  const int writes = q.count[1];
  if (config_.slot_freed_at_act) {  // as ramulator2.1 has it: an empty read queue alone is enough
    if (q.write_mode == 0) return writes >= config_.write_high || reads == 0;
    return !(writes <= config_.write_low && reads != 0);
  }
  if (q.write_mode == 0) {
    if (writes == 0) return false;
    return writes >= config_.write_high || reads == 0 || (config_.age_cap > 0 && q.served >= config_.age_cap);
  }
  if (writes == 0) return false;
  if (reads == 0) return true;
  if (config_.age_cap > 0 && q.served >= config_.write_queue) return false;
  return q.write_mode == 2 || writes > config_.write_low;
}

void Controller::settle(Queues& q) {
  if (q.settled != 0) return;  // looking again at the same counts changes nothing
  q.settled = 1;
  const bool write = wanted_mode(q);
  if (write == (q.write_mode != 0)) return;
  const bool by_age = write && q.count[0] != 0 && q.count[1] < config_.write_high;
  q.write_mode = write ? (by_age ? 2 : 1) : 0;
  q.served = 0;
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    if (&queues_[static_cast<std::size_t>(queues_of(static_cast<int>(pc)))] != &q) continue;
    PseudoChannel& p = pcs_[pc];
    p.rd_bound = p.wr_bound = p.act_bound = p.pre_bound = kLongAgo;
  }
}

// The mode is looked at in every tick; a tick without a command or a request is caught up here.
void Controller::settle_before(Queues& q, std::int32_t boundary) {
  if (q.settled == 0 && q.changed_at < boundary && pending_.empty()) settle(q);
}

void Controller::complete(const Node& node, std::int64_t issue, std::int64_t done, RowResult result) {
  Completion c;
  c.tag = node.tag;
  c.issue_tick = issue;
  c.done_tick = done;
  c.pc = node.pc;
  c.op = node.op;
  c.row_result = result;
  c.message_class = node.message_class;
  completions.push_back(c);
}

void Controller::set_return_slots(int pc, int slots) { pcs_[static_cast<std::size_t>(pc)].return_slots = slots; }

void Controller::release_slot(int pc, std::int64_t tick) {
  if (tick - base_ > kRebaseAt) rebase(tick);
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  const std::int32_t t = relative(tick);
  now_ = std::max(now_, t);
  if (p.forward_head != kNil) {  // a forwarded read takes it at once
    const std::uint16_t n = p.forward_head;
    p.forward_head = nodes_[n].next;
    if (p.forward_head == kNil) {
      p.forward_tail = kNil;
    } else {
      nodes_[p.forward_head].prev = kNil;
    }
    Queues& q = queues_[static_cast<std::size_t>(queues_of(pc))];
    settle_before(q, t);
    --q.count[0];
    q.settled = 0;
    q.changed_at = t;
    ++counters_.forwarded;
    complete(nodes_[n], tick + 1, tick + 1, RowResult::forwarded);
    free_node(n);
  } else {
    ++p.return_slots;
  }
  note_blocked(p, t);
}

// Books the time in which reads wait for a return slot only.
void Controller::note_blocked(PseudoChannel& p, std::int32_t t) {
  const bool blocked = p.return_slots == 0 && (p.active_rd != 0 || p.lists[0].has != 0 || p.forward_head != kNil);
  if (blocked && p.blocked_since == kLongAgo) {
    p.blocked_since = t;
  } else if (!blocked && p.blocked_since != kLongAgo) {
    counters_.blocked_by_return_ticks += t - p.blocked_since;
    p.blocked_since = kLongAgo;
  }
}

std::int64_t Controller::cancel(std::uint64_t first_tag, std::uint64_t last_tag, std::int64_t tick) {
  if (tick - base_ > kRebaseAt) rebase(tick);
  const std::int32_t t = relative(tick);
  now_ = std::max(now_, t);
  std::int64_t taken_back = 0;
  const auto wanted = [&](const Node& n) { return n.tag >= first_tag && n.tag <= last_tag; };
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    PseudoChannel& p = pcs_[pc];
    Queues& q = queues_[static_cast<std::size_t>(queues_of(static_cast<int>(pc)))];
    std::array<std::int32_t, 2> left{};  // queue entries given back
    for (int bank = 0; bank < config_.banks(); ++bank) {
      const auto b = static_cast<std::size_t>(bank);
      for (std::size_t op = 0; op < 2; ++op) {
        for (std::uint16_t n = p.lists[op].head[b]; n != kNil;) {
          const std::uint16_t next = nodes_[n].next;
          if (wanted(nodes_[n])) {
            unlink(p, n);
            free_node(n);
            ++left[op];
            ++taken_back;
          }
          n = next;
        }
      }
      const Mask one = bit(bank);
      if (((p.active_rd | p.active_wr) & one) != 0 && wanted(nodes_[p.active_node[b]])) {
        const std::uint16_t n = p.active_node[b];
        if (!config_.slot_freed_at_act) ++left[static_cast<std::size_t>(index(nodes_[n].op))];
        p.active_rd &= ~one;
        p.active_wr &= ~one;
        p.active_node[b] = kNil;
        free_node(n);
        ++taken_back;
        p.pre_bound = kLongAgo;
      }
    }
    for (std::uint16_t n = p.forward_head; n != kNil;) {
      const std::uint16_t next = nodes_[n].next;
      if (wanted(nodes_[n])) {
        const std::uint16_t prev = nodes_[n].prev;
        (prev == kNil ? p.forward_head : nodes_[prev].next) = next;
        (next == kNil ? p.forward_tail : nodes_[next].prev) = prev;
        free_node(n);
        ++left[0];
        ++taken_back;
      }
      n = next;
    }
    if (left[0] + left[1] > 0) {
      settle_before(q, t);
      q.count[0] -= left[0];
      q.count[1] -= left[1];
      q.settled = 0;
      q.changed_at = t;
    }
    note_blocked(p, t);
  }
  counters_.cancelled += taken_back;
  return taken_back;
}

// ---- what may be issued ----

std::int32_t Controller::gate(const PseudoChannel& p, Command c) const {
  const auto i = static_cast<std::size_t>(index(c));
  return std::max(p.own[i], bus_[i]);
}

std::int32_t Controller::align(std::int32_t t, Command c) const {
  return config_.rising_edge_only[static_cast<std::size_t>(index(c))] != 0 ? t | 1 : t;
}

bool Controller::refresh_wanted(const PseudoChannel& p) const {
  if (p.refresh_owed == 0) return false;
  if (p.refresh_owed > config_.postponed_refreshes) return true;
  const Mask asked = p.lists[0].has | p.lists[1].has | p.active_rd | p.active_wr;
  return config_.refresh == Refresh::all_bank ? asked == 0 : (asked & bit(p.refresh_bank)) == 0;
}

// Banks that requests may not touch because a refresh is being prepared for them.
Controller::Mask Controller::refresh_blocked(const PseudoChannel& p) const {
  if (!refresh_wanted(p)) return 0;
  return config_.refresh == Refresh::all_bank ? all_banks_ : bit(p.refresh_bank);
}

// The last tick at which an ACT does not delay a per-bank refresh whose bank is closed and waits.
std::int32_t Controller::last_act(const PseudoChannel& p) const {
  if (config_.refresh != Refresh::per_bank || !refresh_wanted(p) || (p.open & bit(p.refresh_bank)) != 0) return kFar;
  return p.ref[static_cast<std::size_t>(p.refresh_bank)] - act_to_refresh_;
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

// ---- issuing ----

void Controller::record(Command c, int pc, int bank, std::int32_t row, std::int32_t column, std::int32_t t) {
  IssuedCommand i;
  i.tick = absolute(t);
  i.row = row;
  i.column = column;
  i.command = c;
  i.pc = static_cast<std::uint8_t>(pc);
  i.bank = static_cast<std::int16_t>(bank);
  recent_[static_cast<std::size_t>(recorded_) % kRecent] = i;
  ++recorded_;
  if (config_.log_commands) commands.push_back(i);
}

void Controller::apply(Command c, int pc, int bank, std::int32_t t) {
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  const auto& effects = effects_[static_cast<std::size_t>(index(c))].by_scope;
  const auto of = [&effects](Scope scope) -> const std::vector<Effect>& {
    return effects[static_cast<std::size_t>(scope)];
  };
  for (const Effect& e : of(Scope::channel)) {
    std::int32_t& at = bus_[static_cast<std::size_t>(e.to)];
    at = std::max(at, t + e.value);
  }
  for (const Effect& e : of(Scope::pseudo_channel)) {
    std::int32_t& at = p.own[static_cast<std::size_t>(e.to)];
    at = std::max(at, t + e.value);
  }
  if (c == Command::ACT && act_window_ != 0) {
    // the ring holds the last act_window_ ACTs; the oldest bounds the next but window - 1
    p.act_ring[static_cast<std::size_t>(p.act_ring_at)] = t;
    p.act_ring_at = p.act_ring_at + 1 == act_window_ ? 0 : p.act_ring_at + 1;
    std::int32_t& next_act = p.own[static_cast<std::size_t>(index(Command::ACT))];
    next_act = std::max(next_act, p.act_ring[static_cast<std::size_t>(p.act_ring_at)] + act_window_ticks_);
  }
  if (bank < 0) return;
  for (const Effect& e : of(Scope::bank)) {
    std::int32_t& at = (p.*e.banks)[static_cast<std::size_t>(bank)];
    at = std::max(at, t + e.value);
  }
  const int group = config_.banks_per_group;
  for (const Effect& e : of(Scope::bank_group)) {
    raise_all((p.*e.banks).data() + bank / group * group, group, t + e.value);
  }
  if (of(Scope::stack_id).empty() && of(Scope::other_stack_id).empty()) return;
  const int stack = group * config_.bank_groups;
  const int first = bank / stack * stack;
  for (const Effect& e : of(Scope::stack_id)) raise_all((p.*e.banks).data() + first, stack, t + e.value);
  for (const Effect& e : of(Scope::other_stack_id)) {
    for (int other = 0; other < config_.banks(); other += stack) {
      if (other != first) raise_all((p.*e.banks).data() + other, stack, t + e.value);
    }
  }
}

void Controller::issue_column(const Choice& c, std::int32_t t) {
  PseudoChannel& p = pcs_[static_cast<std::size_t>(c.pc)];
  Queues& q = queues_[static_cast<std::size_t>(queues_of(c.pc))];
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
    if ((p.lists[0].miss | p.lists[1].miss) & one) p.pre_bound = kLongAgo;
  } else {
    n = p.lists[op].hit_node[b];
    unlink(p, n);
  }
  if (!c.active || !config_.slot_freed_at_act) {
    --q.count[op];
    q.settled = 0;
    q.changed_at = t;
  }
  // a phase is bounded while the other kind waits
  if ((q.write_mode != 0) == (c.op == Op::write) && q.count[1 - op] > 0) ++q.served;
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
  if (auto_precharge) close_bank(p, c.bank, t);
  note_blocked(p, t);
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
  p.active_promotion[b] = promotions_++;
  if (node.op == Op::read) {
    p.active_rd |= bit(c.bank);
    p.rd_bound = std::min(p.rd_bound, p.rd[b]);
  } else {
    p.active_wr |= bit(c.bank);
    p.wr_bound = std::min(p.wr_bound, p.wr[b]);
  }
  for (const Op kind : {Op::read, Op::write}) {
    BankLists& l = p.lists[static_cast<std::size_t>(index(kind))];
    std::uint16_t h = l.head[b];
    while (h != kNil && nodes_[h].row != p.open_row[b]) h = nodes_[h].next;
    l.hit_node[b] = h;
    view(p, kind, c.bank);
  }
  if (config_.slot_freed_at_act) {
    Queues& q = queues_[static_cast<std::size_t>(queues_of(c.pc))];
    --q.count[op];
    q.settled = 0;
    q.changed_at = t;
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

void Controller::issue_ref(int pc, int bank, std::int32_t t) {
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  const Command c = bank < 0 ? Command::REFab : Command::REFpb;
  record(c, pc, bank, -1, -1, t);
  apply(c, pc, bank, t);
  ++refreshes_[static_cast<std::size_t>(pc)];
  if (bank < 0) {
    ++counters_.refreshes_all;
    for (int b = 0; b < config_.banks(); ++b) {
      ++bank_counter(pc, b).ref;
      bank_counter(pc, b).busy_ticks += config_.refresh_all_ticks;
    }
  } else {
    ++counters_.refreshes_bank;
    ++bank_counter(pc, bank).ref;
    bank_counter(pc, bank).busy_ticks += config_.refresh_bank_ticks;
  }
  p.rd_bound = p.wr_bound = p.act_bound = p.pre_bound = kLongAgo;
}

// Closes a row for the oldest request of the bank that wants another one.
void Controller::precharge_for(const Choice& c, std::int32_t t) {
  const PseudoChannel& p = pcs_[static_cast<std::size_t>(c.pc)];
  Node& first = nodes_[p.lists[static_cast<std::size_t>(index(c.op))].head[static_cast<std::size_t>(c.bank)]];
  if (first.row_result == RowResult::none) {
    first.row_result = RowResult::conflict;
    ++bank_counter(c.pc, c.bank).row_conflicts;
  }
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
  }
}

void Controller::push_refreshes(std::int32_t t) {
  const std::int32_t step = sim::kFaultsCompiled && fault_ == sim::Fault::late_refresh ? 3 * config_.refresh_interval
                                                                                       : config_.refresh_interval;
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
    return;
  }
  for (PseudoChannel& p : pcs_) {
    while (p.refresh_at <= t) {
      ++p.refresh_owed;
      p.refresh_at += step;
      counters_.most_postponed = std::max<std::int64_t>(counters_.most_postponed, p.refresh_owed - 1);
    }
  }
}

bool Controller::issue_refresh(std::int32_t t) {
  if (config_.refresh == Refresh::none) return false;
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
        if ((active & bit(head.bank)) != 0 || !due(Command::PREpb, p, p.pre[b])) return false;
        issue_pre(head.pc, head.bank, t);
        return true;
      }
      if (!due(Command::REFpb, p, p.ref[b])) return false;
    }
    issue_ref(head.pc, head.bank, t);
    pending_.erase(pending_.begin());
    for (Queues& q : queues_) {
      q.settled = 0;
      q.changed_at = t;
    }
    return true;
  }
  for (std::size_t i = 0; i < pcs_.size(); ++i) {
    PseudoChannel& p = pcs_[i];
    if (!refresh_wanted(p)) continue;
    const int pc = static_cast<int>(i);
    const bool all = config_.refresh == Refresh::all_bank;
    const Mask target = all ? all_banks_ : bit(p.refresh_bank);
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
        if (!due(Command::PREpb, p, p.pre[static_cast<std::size_t>(p.refresh_bank)])) continue;
        issue_pre(pc, p.refresh_bank, t);
      }
      return true;
    }
    if (all) {
      if (!due(Command::REFab, p, kLongAgo)) continue;
      issue_ref(pc, -1, t);
    } else {
      if (!due(Command::REFpb, p, p.ref[static_cast<std::size_t>(p.refresh_bank)])) continue;
      issue_ref(pc, p.refresh_bank, t);
      p.refresh_bank = (p.refresh_bank + 1) % config_.banks();
    }
    --p.refresh_owed;
    return true;
  }
  return false;
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

void Controller::advance(std::int64_t tick) {
  if (tick - base_ > kRebaseAt) rebase(tick);
  const std::int32_t t = relative(tick);
  for (Queues& q : queues_) settle_before(q, t - 1);
  now_ = t;
  if (config_.refresh != Refresh::none) push_refreshes(t);
  if (config_.shared_command_bus) {
    one_slot(t);
  } else {
    column_slot(t);
    row_slot(t);
  }
  // bounds that have passed are made exact again
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

std::int64_t Controller::next_event() const {
  const std::int32_t t = next_tick(false);
  return t == kFar ? kNeverTick : absolute(t);
}

std::int64_t Controller::next_progress() const {
  const std::int32_t t = next_tick(true);
  return t == kFar ? kNeverTick : absolute(t);
}

// ---- reporting ----

std::int64_t Controller::queued() const {
  std::int64_t n = 0;
  for (const Queues& q : queues_) n += q.count[0] + q.count[1];
  if (config_.slot_freed_at_act) {
    for (const PseudoChannel& p : pcs_) n += std::popcount(p.active_rd) + std::popcount(p.active_wr);
  }
  return n;
}

int Controller::queued(Op op, int pc) const {
  return queues_[static_cast<std::size_t>(queues_of(pc))].count[static_cast<std::size_t>(index(op))];
}

BankCounters Controller::bank_counters(int pc, int bank, std::int64_t tick) const {
  BankCounters c = bank_counters_[static_cast<std::size_t>(pc * config_.banks() + bank)];
  const PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  if ((p.open & bit(bank)) != 0) c.busy_ticks += tick - absolute(p.opened_at[static_cast<std::size_t>(bank)]);
  return c;
}

std::int64_t Controller::any_open_ticks(std::int64_t tick) const {
  std::int64_t total = counters_.any_open_ticks;
  for (const PseudoChannel& p : pcs_) {
    if (p.open != 0) total += tick - absolute(p.any_open_since);
  }
  return total;
}

std::vector<IssuedCommand> Controller::recent_commands() const {
  std::vector<IssuedCommand> out;
  const std::int64_t first = std::max<std::int64_t>(0, recorded_ - kRecent);
  for (std::int64_t i = first; i < recorded_; ++i) out.push_back(recent_[static_cast<std::size_t>(i % kRecent)]);
  return out;
}

std::string Controller::verify_conservation() const {
  std::string out;
  std::int64_t waiting = 0;
  std::vector<std::int64_t> found(queues_.size() * 2, 0);
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    const PseudoChannel& p = pcs_[pc];
    const auto q = static_cast<std::size_t>(queues_of(static_cast<int>(pc)));
    for (std::size_t op = 0; op < 2; ++op) {
      for (int b = 0; b < config_.banks(); ++b) {
        for (std::uint16_t n = p.lists[op].head[static_cast<std::size_t>(b)]; n != kNil; n = nodes_[n].next) {
          ++waiting;
          ++found[q * 2 + op];
        }
      }
    }
    for (std::uint16_t n = p.forward_head; n != kNil; n = nodes_[n].next) {
      ++waiting;
      ++found[q * 2];
    }
    waiting += std::popcount(p.active_rd) + std::popcount(p.active_wr);
    if (!config_.slot_freed_at_act) {
      found[q * 2] += std::popcount(p.active_rd);
      found[q * 2 + 1] += std::popcount(p.active_wr);
    }
  }
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    for (std::size_t op = 0; op < 2; ++op) {
      if (found[q * 2 + op] != queues_[q].count[op]) {
        out += std::string(op == 0 ? "read" : "write") + " queue " + std::to_string(q) + " counts " +
               std::to_string(queues_[q].count[op]) + " requests but holds " + std::to_string(found[q * 2 + op]) + "\n";
      }
    }
  }
  const std::int64_t accounted = counters_.served_reads + counters_.served_writes + counters_.forwarded +
                                 counters_.coalesced + counters_.cancelled + waiting;
  if (accounted != counters_.asked) {
    out += "asked " + std::to_string(counters_.asked) + " requests, but served " +
           std::to_string(counters_.served_reads + counters_.served_writes) + " + forwarded " +
           std::to_string(counters_.forwarded) + " + absorbed " + std::to_string(counters_.coalesced) +
           " + cancelled " + std::to_string(counters_.cancelled) + " + waiting " + std::to_string(waiting) + " = " +
           std::to_string(accounted) + "\n";
  }
  std::int64_t classified = 0;
  for (const BankCounters& c : bank_counters_) classified += c.row_hits + c.row_misses + c.row_conflicts;
  const std::int64_t served = counters_.served_reads + counters_.served_writes;
  if (classified < served || classified > served + waiting + counters_.cancelled) {
    out += "row hits + misses + conflicts are " + std::to_string(classified) + " for " + std::to_string(served) +
           " served requests\n";
  }
  return out;
}

std::string Controller::describe_wait() const {
  std::string out;
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    const PseudoChannel& p = pcs_[pc];
    const Queues& q = queues_[static_cast<std::size_t>(queues_of(static_cast<int>(pc)))];
    if (q.count[0] + q.count[1] == 0 && p.active_rd == 0 && p.active_wr == 0) continue;
    out += "pseudo-channel " + std::to_string(pc) + ": " + std::to_string(q.count[0]) + " reads and " +
           std::to_string(q.count[1]) + " writes queued, " + std::to_string(std::popcount(p.active_rd | p.active_wr)) +
           " banks activated for a request";
    if (p.return_slots == 0) out += ", reads wait for a free read-return slot";
    if (!pending_.empty()) out += ", a refresh is pending";
    if (refresh_wanted(p)) out += ", a refresh waits for its banks";
    out += "\n";
  }
  return out;
}

// ---- state ----

void Controller::rebase(std::int64_t tick) {
  const std::int64_t base = tick & ~std::int64_t{1};  // parity is the clock edge
  const std::int64_t shift = base - base_;
  const auto move = [shift](std::int32_t& at) {
    if (at == kFar || at == kLongAgo) return;
    at = static_cast<std::int32_t>(std::max<std::int64_t>(at - shift, kLongAgo));
  };
  for (std::int32_t& at : bus_) move(at);
  for (PseudoChannel& p : pcs_) {
    for (auto* e : {&p.act, &p.pre, &p.rd, &p.wr, &p.ref, &p.opened_at, &p.used_at}) {
      for (std::int32_t& at : *e) move(at);
    }
    for (std::int32_t& at : p.own) move(at);
    for (std::int32_t& at : p.act_ring) move(at);
    for (std::int32_t* at :
         {&p.rd_bound, &p.wr_bound, &p.act_bound, &p.pre_bound, &p.refresh_at, &p.any_open_since, &p.blocked_since}) {
      move(*at);
    }
  }
  for (Queues& q : queues_) move(q.changed_at);
  move(refresh_at_);
  move(tick_rank_at_);
  move(now_);
  base_ = base;
}

void Controller::normalise(std::int64_t tick) {
  rebase(tick);
  const std::int32_t t = relative(tick);
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    PseudoChannel& p = pcs_[pc];
    // book open time up to here, so that when a bank was opened no longer matters
    for (Mask m = p.open; m != 0; m &= m - 1) {
      const auto b = static_cast<std::size_t>(lowest(m));
      bank_counter(static_cast<int>(pc), static_cast<int>(b)).busy_ticks += t - p.opened_at[b];
      p.opened_at[b] = t;
    }
    if (p.open != 0) counters_.any_open_ticks += t - p.any_open_since;
    if (p.blocked_since != kLongAgo) {
      counters_.blocked_by_return_ticks += t - p.blocked_since;
      p.blocked_since = t;
    }
    p.any_open_since = t;
    for (std::size_t b = 0; b < kMaxBanks; ++b) {
      for (auto* e : {&p.act, &p.pre, &p.rd, &p.wr, &p.ref}) (*e)[b] = std::max((*e)[b], t);
      p.used_at[b] = std::max(p.used_at[b], t - config_.page_timeout);
      if ((p.open & bit(static_cast<int>(b))) == 0) p.opened_at[b] = p.used_at[b] = 0;
      if (((p.active_rd | p.active_wr) & bit(static_cast<int>(b))) == 0) {
        p.active_rank[b] = p.active_promotion[b] = 0;
      } else {
        p.active_rank[b] -= next_key_;
        p.active_promotion[b] -= promotions_;
      }
      for (BankLists& l : p.lists) {
        l.head_key[b] = (l.has & bit(static_cast<int>(b))) != 0 ? l.head_key[b] - next_key_ : 0;
        l.hit_key[b] = (l.hit & bit(static_cast<int>(b))) != 0 ? l.hit_key[b] - next_key_ : 0;
      }
    }
    for (std::int32_t& at : p.own) at = std::max(at, t);
    for (std::int32_t& at : p.act_ring) at = std::max(at, t - act_window_ticks_);
    for (std::int32_t* at : {&p.rd_bound, &p.wr_bound, &p.act_bound, &p.pre_bound}) *at = kLongAgo;
  }
  for (std::int32_t& at : bus_) at = std::max(at, t);
  for (Queues& q : queues_) settle_before(q, t);
  for (std::uint16_t n = free_; n != kNil;) {  // what a free node once held does not matter
    const std::uint16_t next = nodes_[n].next;
    nodes_[n] = Node{};
    nodes_[n].next = next;
    nodes_[n].key = nodes_[n].rank = next_key_;
    n = next;
  }
  for (Node& n : nodes_) {
    n.key -= next_key_;
    n.rank -= next_key_;
  }
  tick_rank_ -= next_key_;
  if (tick_rank_at_ != t) {
    tick_rank_ = 0;
    tick_rank_at_ = kLongAgo;
  }
  last_read_done_ = std::max(last_read_done_, tick);
  next_key_ = 0;
  promotions_ = 0;
}

void Controller::visit(sim::Visitor& v) {
  using sim::Kind;
  v.value(Kind::stamp, base_);
  v.value(Kind::state, now_);
  v.array(Kind::state, bus_.data(), bus_.size());
  for (PseudoChannel& p : pcs_) {
    for (auto* e : {&p.act, &p.pre, &p.rd, &p.wr, &p.ref}) v.array(Kind::state, e->data(), e->size());
    v.array(Kind::state, p.own.data(), p.own.size());
    v.array(Kind::state, p.act_ring.data(), p.act_ring.size());
    v.value(Kind::state, p.act_ring_at);
    v.value(Kind::state, p.return_slots);
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
    for (std::int32_t* at : {&p.rd_bound, &p.wr_bound, &p.act_bound, &p.pre_bound, &p.refresh_at, &p.refresh_owed,
                             &p.refresh_bank, &p.any_open_since, &p.blocked_since}) {
      v.value(Kind::state, *at);
    }
    v.value(Kind::state, p.forward_head);
    v.value(Kind::state, p.forward_tail);
  }
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
