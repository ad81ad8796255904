// The one seam between the engine and whatever advances in time: network, memory node, compute node.
#pragma once

#include "sim/time.hpp"
#include "sim/visit.hpp"

namespace cosim::sim {

class Canonical;

// At one instant the engine calls evaluate(t) on every component whose next event is t, then commit(t) on each.
// evaluate reads what was visible before t and may change only the component's own state; commit hands time-stamped
// messages to others, visible strictly after t. So the order of the calls never matters.
class Component {
 public:
  Component() = default;
  Component(const Component&) = delete;
  Component& operator=(const Component&) = delete;
  virtual ~Component() = default;

  // The next instant at which this component has something to do; kNever when it waits for a message.
  [[nodiscard]] virtual Fs next_event() const = 0;
  // The next instant that can bring work forward (refresh and policy ticks do not); for exact deadlock detection.
  [[nodiscard]] virtual Fs next_progress() const { return next_event(); }
  virtual void evaluate(Fs t) = 0;
  virtual void commit(Fs t) = 0;
  // Shows every item of state; snapshot, save, load and compare all go through it.
  virtual void visit(Visitor& v) = 0;

  // Walks the canonical form (canonical.hpp): all state that decides the future. Regions of streams are shown first,
  // slots that others refer to last.
  virtual void regions(Canonical&) {}
  virtual void canonical(Canonical& c) = 0;
  virtual void named_slots(Canonical&) {}
};

}  // namespace cosim::sim
