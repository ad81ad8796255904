// Requests come in and leave: queue entries, lists per bank, the write mode, return slots, cancelling.
#include <algorithm>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

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

}  // namespace cosim::mem
