// A component that talks to others: an inbox of what it can see, an outbox that commit() sends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/component.hpp"
#include "sim/form.hpp"
#include "sim/journal.hpp"
#include "sim/message.hpp"

namespace cosim::sim {

class Node;

// Where commit() puts messages: the engine.
class Mailroom {
 public:
  virtual ~Mailroom() = default;
  virtual void deliver(std::int32_t to, const Message& m) = 0;
  // A stream of node `from` has used up a tile: a point that every period of it passes through.
  virtual void retired(std::int32_t from) = 0;
};

class Node : public Component {
 public:
  // Called once by the engine.
  void attach(Mailroom& mailroom, std::int32_t id) {
    mailroom_ = &mailroom;
    id_ = id;
  }
  [[nodiscard]] std::int32_t id() const { return id_; }

  // When a value committed at `committed` is seen here: the first edge strictly after it.
  [[nodiscard]] virtual Fs visible_at(Fs committed) const = 0;
  void receive(const Message& m) { inbox_.push(m); }
  // The first edge of its clock strictly after `t`; kNever: it has none.
  [[nodiscard]] virtual Fs next_edge(Fs) const { return kNever; }
  // Called at every edge, it does not trust its own next event.
  virtual void set_every_edge(bool on) { every_edge_ = on; }
  // Whether what does the same in several places is stepped once for all: the same results for less work.
  virtual void set_lockstep(bool) {}
  // Gives each of them its own state again, until they may join.
  virtual void leave_lockstep() {}

  void commit(Fs) override {
    for (const Posted& p : outbox_) mailroom_->deliver(p.to, p.message);
    outbox_.clear();
  }

  // Where it notes what it does from now on; nullptr: nowhere.
  virtual void keep_journal(Journal* journal) { journal_ = journal; }

  // What this node waits for, for a deadlock report; empty when it waits for nothing.
  [[nodiscard]] virtual std::string waiting_for() const = 0;

 protected:
  // To be sent at commit; the receiver sees it at its first edge strictly after `committed`.
  void post(std::int32_t to, Message m, Fs committed) {
    m.visible = committed;
    m.from = id_;
    m.sequence = sequence_++;
    outbox_.push_back({to, m});
  }
  void visit_mail(Visitor& v) {
    inbox_.visit(v);
    v.value(Kind::counter, sequence_);
  }

  // Shows what waits in the inbox; `show` adds a, b, c and address, whose meaning depends on the kind.
  template <class Walk, class Show>
  void canonical_mail(Walk& c, Show show) {
    c.grows(sequence_);
    inbox_.in_order([&](Message& m) {
      if (c.lacks(Part::inbox)) {
        c.move(m.visible, c.shift_fs());
      } else {
        c.time(m.visible);
      }
      c.grows(m.sequence);
      c.same(m.from);
      c.same(m.kind);
      c.same(m.message_class);
      c.same(m.flags);
      c.same(m.bytes);
      show(c, m);
    });
  }
  // The same, where an address is a plain number but for a send that asks for a reply: it names a unit of its sender.
  template <class Walk>
  void canonical_mail(Walk& c) {
    canonical_mail(c, [](Walk& all, Message& m) {
      all.same(m.a);
      all.same(m.b);
      all.same(m.c);
      if (m.kind == MessageKind::send && (m.flags & kReplyWhenSent) != 0) {
        all.unit(static_cast<std::int32_t>(m.a), m.address);
      } else {
        all.same(m.address);
      }
    });
  }
  void retired() { mailroom_->retired(id_); }

  Inbox inbox_;
  Journal* journal_ = nullptr;
  bool every_edge_ = false;

 private:
  struct Posted {
    std::int32_t to;
    Message message;
  };
  Mailroom* mailroom_ = nullptr;
  std::int32_t id_ = -1;
  std::uint64_t sequence_ = 0;
  std::vector<Posted> outbox_;  // empty between instants
};

// A node with a clock: what is committed at t is seen at its first edge strictly after t.
class ClockedNode : public Node {
 public:
  explicit ClockedNode(const Clock& clock) : clock_(clock) {}
  [[nodiscard]] Fs visible_at(Fs committed) const override { return next_edge(committed); }
  [[nodiscard]] Fs next_edge(Fs t) const override { return clock_.edge_fs(clock_.edge_after(t)); }

 protected:
  Clock clock_;
};

}  // namespace cosim::sim
