// The engine: advances all components to the next decision, and never calls back.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/faults.hpp"
#include "sim/form.hpp"
#include "sim/journal.hpp"
#include "sim/layout.hpp"
#include "sim/node.hpp"
#include "sim/task_graph.hpp"

namespace cosim::sim {

// Work is left and nothing can move: what waits for what.
class DeadlockError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Flits move and none arrives for longer than the network's limit: packets go round in circles.
class LivelockError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Stop : std::uint8_t {
  decision,  // a decision task was reached: see decision()
  idle,      // nothing that anybody waits for is left
  budget,    // the step budget is used up: call run() again
};

class Skipping;

class Engine final : public Mailroom, private Walked {
 public:
  Engine();
  ~Engine() override;

  // Takes ownership; returns the node's id. The task graph is node 0.
  std::int32_t add(std::unique_ptr<Node> node);
  [[nodiscard]] TaskGraph& graph() { return *graph_; }
  [[nodiscard]] Node& node(std::int32_t id) { return *nodes_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }

  // Advances until the next decision, until idle, or for at most `budget` instants. With `drain`, idle means that
  // prefetches nobody waits for are over too.
  // Throws DeadlockError when demanded work is left and no component has a next progress event, LivelockError when a
  // network reports that flits move and none arrives.
  Stop run(std::int64_t budget, bool drain = false);
  [[nodiscard]] const Decision& decision() const { return decision_; }
  [[nodiscard]] Fs now() const { return now_; }
  [[nodiscard]] std::int64_t instants() const { return instants_; }

  // Lets networks and memories note what they do from now on, at most `limit` entries; 0 ends it.
  void keep_journal(std::int64_t limit);
  [[nodiscard]] const Journal* journal() const { return journal_.get(); }

  // With skipping, the default, a system that repeats itself is moved on by whole periods: the same results for less
  // work. instants() counts those skipped as well.
  void set_skipping(bool on) { skipping_on_ = on; }
  [[nodiscard]] bool skipping() const { return skipping_on_; }
  [[nodiscard]] const SkipReport& skip_report() const;
  // The canonical form of what is there now, with all that grows: equal for two systems in the same state, wherever
  // they keep it.
  [[nodiscard]] Form form();

  // Whether what is there now has this form, as skipping asks it.
  [[nodiscard]] bool has_form(const Form& form);

  // Channels of a memory that do the same are stepped once for all, by default: the same results for less work.
  void set_lockstep(bool on);

  // A mutant for tests: from now on all forms, those of skipping as well, lack this. Results may be wrong.
  void leave_out(Part part);

  // Calls every component at every edge of its clock, and those without a clock at each of these instants, instead of
  // when they ask for it: the same results, by a run that trusts no component's next event. instants() counts those
  // that somebody asked for.
  void set_every_edge(bool on);

  // The order in which components are called at one instant, as a permutation of their ids: results do not depend
  // on it, and a test shows so.
  void set_order(std::vector<std::int32_t> order);

  [[nodiscard]] std::vector<std::uint8_t> save();
  // What save() is made of: its own items, then those of every node; of each its node, -1 for its own.
  struct SavedItem {
    std::int32_t node = -1;
    Item item;
  };
  [[nodiscard]] std::vector<SavedItem> layout();
  // Throws std::runtime_error when the bytes are not of this system.
  void load(std::span<const std::uint8_t> data);

  void deliver(std::int32_t to, const Message& m) override;
  void retired(std::int32_t from) override;

 private:
  void walk(Canonical& c) override;
  void skip();
  void leave_lockstep();
  [[noreturn]] void deadlock() const;
  [[noreturn]] void livelock() const;
  void visit(Visitor& v);
  void visit_own(Visitor& v);
  [[nodiscard]] bool progresses();
  [[nodiscard]] bool at_edge(std::int32_t i, Fs t) const;
  void refresh(std::size_t i) { next_[i] = nodes_[i]->next_event(); }

  Fault fault_;
  std::vector<std::unique_ptr<Node>> nodes_;
  TaskGraph* graph_;
  std::vector<Fs> next_;
  std::vector<std::int32_t> order_;
  std::vector<std::int32_t> active_;
  std::size_t busy_ = 0;  // a node that had work to bring forward when last asked
  Decision decision_;
  Fs now_ = 0;
  std::int64_t instants_ = 0;
  std::unique_ptr<Journal> journal_;

  bool every_edge_ = false;
  Part lacking_ = Part::nothing;
  bool skipping_on_ = true;
  std::unique_ptr<Skipping> skipping_;
  std::int32_t pace_ = -1;  // the node whose tiles say when to look for a period
  bool at_tile_ = false;    // it has just retired one
};

}  // namespace cosim::sim
