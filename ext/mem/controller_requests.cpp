// Requests come in and leave: queue entries, lists per bank, the write mode, return slots, cancelling.
#include <algorithm>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"

namespace cosim::mem {

void Controller::accept(const Request& request, std::int64_t tick) {
  if (tick - base_ > kRebaseAt) rebase(tick);
  reach(relative(tick));
  take(request, relative(tick), false);
}

bool Controller::try_accept(const Request& request, std::int64_t tick) {
  const bool full = !can_accept(request.op, request.pc);
  if (full && !config_.slot_freed_at_act) return false;
  if (tick - base_ > kRebaseAt) rebase(tick);
  reach(relative(tick));
  return take(request, relative(tick), full);
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

// A request whose data a queued write holds: done at once, or when there is a return slot.
void Controller::take_buffered(PseudoChannel& p, Queues& q, const Request& r, int bank, std::int32_t t) {
  const std::int64_t tick = absolute(t);
  if (r.op == Op::write) {
    ++counters_.coalesced;
    Node node;
    fill(node, r, bank);
    complete(node, tick, tick, RowResult::coalesced);
    return;
  }
  if (p.return_slots > 0) {
    ++counters_.forwarded;
    forget();
    if (p.return_slots != kFar) --p.return_slots;
    std::int64_t done = tick + 1;
    if (config_.reads_return_in_order) done = last_read_done_ = std::max(done, last_read_done_);
    Node node;
    fill(node, r, bank);
    complete(node, tick + 1, done, RowResult::forwarded);
  } else {
    const std::uint16_t n = enter(q, r, bank, t);
    forget();
    nodes_[n].row_result = RowResult::forwarded;
    append_forwarded(p, n);
  }
  note_blocked(p, t);
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
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  if (p.return_slots == 0 || tick - base_ > kRebaseAt) {
    give_slot(pc, tick);
    return;
  }
  reach(relative(tick));
  ++p.return_slots;  // nothing waits for one
}

[[gnu::noinline]] void Controller::give_slot(int pc, std::int64_t tick) {
  if (tick - base_ > kRebaseAt) rebase(tick);
  PseudoChannel& p = pcs_[static_cast<std::size_t>(pc)];
  const std::int32_t t = relative(tick);
  reach(t);
  if (p.return_slots != 0) {
    ++p.return_slots;
    return;
  }
  p.column.tick = kLongAgo;
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
