// A controller as a part of a system's canonical form: earliest ticks ahead of now, ages relative to the next request,
// lists in order.
#include <algorithm>

#include "mem/bank_scan.hpp"
#include "mem/controller.hpp"
#include "sim/canonical.hpp"

namespace cosim::mem {

struct Controller::Walk {
  Controller& m;
  sim::Canonical& c;
  const sim::Present& present;
  RequestNames& names;
  std::int32_t t = m.relative(present.now);

  // A tick from which on something may happen: the past is all one.
  void earliest(std::int32_t at, std::int32_t margin = 0) {
    if (c.lacks(sim::Part::timing)) return;
    c.same(at == kFar ? std::int64_t{kFar} : std::max<std::int64_t>(std::int64_t{at} - t + margin, 0));
  }

  // An instant that may stay where it is while the base moves on.
  void held(std::int32_t& at) {
    std::int64_t tick = m.absolute(at);
    c.held(tick, present);
    put(at, tick);
  }
  void due(std::int32_t& at) {
    c.same(at == kFar);
    if (at == kFar) return;
    std::int64_t tick = m.absolute(at);
    c.due(tick, kNeverTick, present);
    put(at, tick);
  }
  void put(std::int32_t& at, std::int64_t tick) const {
    if (present.shift == 0) return;
    at = static_cast<std::int32_t>(std::max<std::int64_t>(tick - present.shift - m.base_, kLongAgo));
  }

  // What goes next; what is to be looked for is all one.
  void next(const Next& n) {
    const bool known = n.tick > t;
    c.same(known);
    if (!known) return;
    earliest(n.tick);
    c.same(n.bank);
    if (n.bank < 0) return;
    c.same(n.what);
    c.same(n.active);
    c.same(n.key - m.next_key_);
    if (n.active) c.same(n.promotion - m.promotions_);
  }

  void request(std::uint16_t slot) {
    if (!c.name(0, sim::Space::requests, slot, m.nodes_.size())) {  // each waits in one place
      c.differ();
      return;
    }
    Node& n = m.nodes_[slot];
    if (!c.lacks(sim::Part::queue)) {
      c.same(n.key - m.next_key_);
      c.same(n.rank - m.next_key_);
    }
    names.row(c, n.row);
    c.same(n.column);
    c.same(n.pc);
    c.same(std::int64_t{n.bank} << 16U | std::int64_t{index(n.op)} << 8U | static_cast<std::int64_t>(n.row_result));
    c.same(n.message_class);
    names.tag(c, n.op, n.tag);
  }

  void name(std::uint16_t slot) { c.name(0, sim::Space::requests, slot, m.nodes_.size()); }
  void list(std::uint16_t first) {
    std::uint16_t before = kNil;
    for (std::uint16_t n = first; n != kNil && !c.differs(); n = m.nodes_[n].next) {
      request(n);
      if (c.differs()) return;
      c.same(m.nodes_[n].prev == before);
      before = n;
    }
    c.same(-1);
  }

  void pseudo_channel(PseudoChannel& p, std::size_t pc) {
    for (Mask mask : {p.open, p.active_rd, p.active_wr}) c.same(mask);
    c.same(p.return_slots);
    c.same(p.wanted);
    for (BankLists& l : p.lists) {
      for (const Mask mask : {l.has, l.hit, l.miss, l.late}) c.same(mask);
    }
    const auto banks = static_cast<std::size_t>(m.banks_);
    for (PerBank<std::int32_t>& e : p.e.banks) {
      // of the open banks of a refresh set the one that could be closed first is closed first, however long ago
      const Mask ordered = m.config_.refresh_set > 1 && &e == &p.e.banks[index(BankClass::pre)] ? p.open : 0;
      for (std::size_t b = 0; b < banks; ++b) {
        earliest(e[b], (ordered & bit(static_cast<int>(b))) != 0 ? kRebaseAt : 0);
      }
    }
    for (const std::int32_t at : p.e.own) earliest(at);
    c.same(p.e.act_ring_at >= 0 && p.e.act_ring_at < m.rules_.act_window());
    for (std::int32_t i = 0; i < m.rules_.act_window(); ++i) {
      const std::int32_t at = p.e.act_ring[static_cast<std::size_t>((p.e.act_ring_at + i) % m.rules_.act_window())];
      earliest(at, m.rules_.act_window_ticks());
    }
    next(p.column);
    next(p.row);
    if (c.differs()) return;
    for (std::size_t b = 0; b < banks; ++b) {
      const Mask one = bit(static_cast<int>(b));
      if ((p.open & one) != 0) {
        if (!c.lacks(sim::Part::row)) names.row(c, p.open_row[b]);
        held(p.opened_at[b]);
        if (m.config_.page_policy != PagePolicy::open) earliest(p.used_at[b], m.config_.page_timeout);
      }
      if (((p.active_rd | p.active_wr) & one) != 0) {
        c.same(p.active_rank[b] - m.next_key_);
        c.same(p.active_promotion[b] - m.promotions_);
        request(p.active_node[b]);
      }
      for (BankLists& l : p.lists) {
        c.same(std::uint32_t{p.active_node[b] == kNil} << 3U | std::uint32_t{l.head[b] == kNil} << 2U |
               std::uint32_t{l.tail[b] == kNil} << 1U | std::uint32_t{l.hit_node[b] == kNil});
        if ((l.has & one) == 0) continue;
        list(l.head[b]);
        name(l.tail[b]);
        c.same(l.head_key[b] - m.next_key_);
        if ((l.hit & one) == 0) continue;
        name(l.hit_node[b]);
        c.same(l.hit_key[b] - m.next_key_);
      }
      if (c.differs()) return;
      BankCounters& counts = m.bank_counter(static_cast<int>(pc), static_cast<int>(b));
      for (std::int64_t* count : {&counts.bytes, &counts.act, &counts.pre, &counts.rd, &counts.wr, &counts.ref,
                                  &counts.row_hits, &counts.row_misses, &counts.row_conflicts, &counts.busy_ticks}) {
        c.grows(*count);
      }
    }
    list(p.forward_head);
    if (p.forward_head != kNil) name(p.forward_tail);
    c.same(p.refresh_owed);
    c.same(p.refresh_bank);
    const bool own = m.config_.refresh != Refresh::none && !m.config_.refresh_blocks_channel;
    if (own && !c.lacks(sim::Part::refresh)) due(p.refresh_at);
    if (p.open != 0) held(p.any_open_since);
    c.same(p.blocked_since != kLongAgo);
    if (p.blocked_since != kLongAgo) held(p.blocked_since);
    c.grows(m.refreshes_[pc]);
  }

  void all() {
    c.same(t & m.any_edge());
    c.same((present.now - m.base_) >> 31);  // the base is near
    earliest(m.now_);
    const std::int32_t quiet_until = m.quiet_until_;
    m.note_refreshes();
    if (!c.lacks(sim::Part::refresh)) c.same(quiet_until == m.quiet_until_);
    c.same(m.completions.size());
    c.same(m.commands.size());
    c.same(m.busy_);
    c.same(m.unsettled_);
    earliest(m.column_from_);
    earliest(m.row_from_);
    for (const Queues& q : m.queues_) {
      c.same(q.count[0]);
      c.same(q.count[1]);
      c.same(q.write_mode);
      c.same(q.served);
      c.same(q.settled);
      if (q.settled == 0) earliest(q.changed_at, 1);
    }
    for (const std::int32_t at : m.bus_) earliest(at);
    for (std::size_t pc = 0; pc < m.pcs_.size() && !c.differs(); ++pc) pseudo_channel(m.pcs_[pc], pc);
    c.same(m.tick_rank_at_ == t ? m.tick_rank_ - m.next_key_ : 1);
    if (m.config_.reads_return_in_order) {
      c.same(std::max<std::int64_t>(m.last_read_done_ - m.absolute(t), 0));
    }
    c.same(m.pending_.size());
    for (const PendingRefresh& pending : m.pending_) {
      c.same(pending.pc);
      c.same(pending.bank);
    }
    if (m.config_.refresh != Refresh::none && m.config_.refresh_blocks_channel) {
      due(m.refresh_at_);
      c.same(m.refresh_cursor_);
    }
    ChannelCounters& n = m.counters_;
    for (std::int64_t* count :
         {&n.asked, &n.served_reads, &n.served_writes, &n.forwarded, &n.coalesced, &n.cancelled, &n.refreshes_all,
          &n.refreshes_bank, &n.precharges_all, &n.any_open_ticks, &n.blocked_by_return_ticks}) {
      c.grows(*count);
    }
    c.free_slots(0, sim::Space::requests, m.free_, kNil, m.nodes_.size(),
                 [this](std::size_t slot) { return m.nodes_[slot].next; });
    c.same(n.most_postponed);  // not a sum: it must have come to rest
  }
};

// recent_, the last commands, tells what bounds a run and is not part of it: after a jump it lacks those skipped.
void Controller::walk(sim::Canonical& c, const sim::Present& present, RequestNames& names) {
  c.start(sim::Space::requests);
  Walk{*this, c, present, names}.all();
  // everything is relative to the base
  c.move(base_, present.shift);
  c.move(last_read_done_, present.shift);
  if (present.shift != 0) note_refreshes();
}

}  // namespace cosim::mem
