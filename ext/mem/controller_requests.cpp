// Requests come in and leave: queue entries, lists per bank, the write mode, return slots, cancelling.
#include <algorithm>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

void Controller::accept(const Request& request, std::int64_t tick) { take(request, tick, false); }

bool Controller::try_accept(const Request& request, std::int64_t tick) {
  const bool full = !can_accept(request.op, request.pc);
  return (!full || config_.slot_freed_at_act) && take(request, tick, full);
}

// Whether a queued write holds the address of a request.
bool Controller::in_write_queue(const PseudoChannel& p, const Request& r, int bank) const {
  const auto b = static_cast<std::size_t>(bank);
  const BankLists& writes = p.lists[1];
  if ((writes.has & bit(bank)) != 0) {
    for (std::uint16_t n = writes.head[b]; n != kNil; n = nodes_[n].next) {
      if (nodes_[n].row == r.row && nodes_[n].column == r.column) return true;
    }
  }
  if (config_.slot_freed_at_act || (p.active_wr & bit(bank)) == 0) return false;
  const Node& a = nodes_[p.active_node[b]];
  return a.row == r.row && a.column == r.column;
}

// With `only_without_slot` the request is taken only if it needs no queue entry.
[[gnu::flatten]] bool Controller::take(const Request& r, std::int64_t tick, bool only_without_slot) {
  if (tick - base_ > kRebaseAt) rebase(tick);
  const std::int32_t t = relative(tick);
  reach(t);
  PseudoChannel& p = pcs_[r.pc];
  Queues& q = queues_[static_cast<std::size_t>(p.queues)];
  const int bank = (r.stack_id * config_.bank_groups + r.bg) * config_.banks_per_group + r.bank;
  const bool buffered = ((p.lists[1].has | p.active_wr) & bit(bank)) != 0 &&
                        (r.op == Op::read || config_.coalesce_writes) && in_write_queue(p, r, bank);
  if (only_without_slot) {
    // a forwarded read may itself have to wait for a return slot, in the queue that is full
    if (!buffered || (r.op == Op::read && p.return_slots == 0)) return false;
  }
  settle_before(q, t);
  ++counters_.asked;
  if constexpr (sim::kFaultsCompiled) {
    if (fault_ == sim::Fault::lose_request && counters_.asked % 97 == 0) return true;
  }
  const auto fill = [&](Node& node) {
    node.tag = r.tag;
    node.row = r.row;
    node.column = r.column;
    node.bank = static_cast<std::uint8_t>(bank);
    node.pc = r.pc;
    node.op = r.op;
    node.row_result = RowResult::none;
    node.message_class = r.message_class;
  };
  if (buffered && r.op == Op::write) {
    ++counters_.coalesced;
    Node node;
    fill(node);
    complete(node, tick, tick, RowResult::coalesced);
    return true;
  }
  if (buffered && p.return_slots > 0) {
    ++counters_.forwarded;
    forget();
    if (p.return_slots != kFar) --p.return_slots;
    std::int64_t done = tick + 1;
    if (config_.reads_return_in_order) done = last_read_done_ = std::max(done, last_read_done_);
    Node node;
    fill(node);
    complete(node, tick + 1, done, RowResult::forwarded);
    note_blocked(p, t);
    return true;
  }
  if (next_key_ == kRenumberAt) renumber_keys();
  const std::uint16_t n = new_node();
  Node& node = nodes_[n];
  fill(node);
  node.next = node.prev = kNil;
  const auto boost = static_cast<std::int32_t>(std::max<std::int64_t>(config_.age_cap, 1));
  node.key = next_key_++ - r.priority * boost;
  if (config_.ties_by_arrival_tick) {
    if (tick_rank_at_ != t) {
      tick_rank_at_ = t;
      tick_rank_ = node.key;
    }
    node.rank = tick_rank_;
  } else {
    node.rank = node.key;
  }
  ++q.count[static_cast<std::size_t>(index(r.op))];
  changed(q, t);
  if (buffered) {  // waits for a return slot
    forget();
    node.row_result = RowResult::forwarded;
    append_forwarded(p, n);
    note_blocked(p, t);
    return true;
  }
  busy_ |= 1U << r.pc;
  if (!calm()) {
    insert(p, n);
    forget();
  } else if (insert(p, n)) {
    bank_asked(p, bank, r.op);
  }
  note_blocked(p, t);
  return true;
}

void Controller::append_forwarded(PseudoChannel& p, std::uint16_t n) {
  nodes_[n].prev = p.forward_tail;
  if (p.forward_tail == kNil) {
    p.forward_head = n;
  } else {
    nodes_[p.forward_tail].next = n;
  }
  p.forward_tail = n;
}

void Controller::change_mode(Queues& q) {
  forget();
  q.settled = 1;
  const bool write = wanted_mode(q);
  if (write == (q.write_mode != 0)) return;
  const bool by_age = write && q.count[0] != 0 && q.count[1] < config_.write_high;
  q.write_mode = write ? (by_age ? 2 : 1) : 0;
  q.served = 0;
  note_modes();
}

void Controller::set_return_slots(int pc, int slots) {
  forget();
  pcs_[static_cast<std::size_t>(pc)].return_slots = slots;
}

void Controller::release_slot(int pc, std::int64_t tick) {
  if (tick - base_ > kRebaseAt) rebase(tick);
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  const std::int32_t t = relative(tick);
  reach(t);
  if (p.return_slots == 0) forget();
  if (p.forward_head != kNil) {  // a forwarded read takes it at once
    const std::uint16_t n = p.forward_head;
    p.forward_head = nodes_[n].next;
    if (p.forward_head == kNil) {
      p.forward_tail = kNil;
    } else {
      nodes_[p.forward_head].prev = kNil;
    }
    Queues& q = queues_for(pc);
    settle_before(q, t);
    --q.count[0];
    changed(q, t);
    ++counters_.forwarded;
    complete(nodes_[n], tick + 1, tick + 1, RowResult::forwarded);
    free_node(n);
  } else {
    ++p.return_slots;
  }
  note_blocked(p, t);
}

// Books the time in which reads wait for a return slot only.
void Controller::book_blocked(PseudoChannel& p, std::int32_t t) {
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
  reach(t);
  forget();
  std::int64_t taken_back = 0;
  const auto wanted = [&](const Node& n) { return n.tag >= first_tag && n.tag <= last_tag; };
  for (std::size_t pc = 0; pc < pcs_.size(); ++pc) {
    PseudoChannel& p = pcs_[pc];
    Queues& q = queues_for(static_cast<int>(pc));
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
      changed(q, t);
    }
    note_blocked(p, t);
    note_idle(static_cast<int>(pc));
  }
  counters_.cancelled += taken_back;
  return taken_back;
}

}  // namespace cosim::mem
