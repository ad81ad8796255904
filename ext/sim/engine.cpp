#include "sim/engine.hpp"

#include <algorithm>
#include <utility>

#include "sim/skipping.hpp"

namespace cosim::sim {

Engine::Engine() : fault_(fault_from_environment()), skipping_(std::make_unique<Skipping>()) {
  auto graph = std::make_unique<TaskGraph>();
  graph_ = graph.get();
  add(std::move(graph));
  if (fault_ == Fault::forget_arbiter) leave_out(Part::arbiter);
  if (fault_ == Fault::forget_timing) leave_out(Part::timing);
  if (fault_ == Fault::forget_progress) leave_out(Part::progress);
}

Engine::~Engine() = default;

const SkipReport& Engine::skip_report() const { return skipping_->report(); }

std::int32_t Engine::add(std::unique_ptr<Node> node) {
  const auto id = static_cast<std::int32_t>(nodes_.size());
  node->attach(*this, id);
  next_.push_back(node->next_event());  // a memory's refreshes come without a message
  nodes_.push_back(std::move(node));
  order_.push_back(id);
  return id;
}

void Engine::keep_journal(std::int64_t limit) {
  journal_ = limit > 0 ? std::make_unique<Journal>(limit) : nullptr;
  for (const auto& node : nodes_) node->keep_journal(journal_.get());
}

void Engine::set_order(std::vector<std::int32_t> order) {
  std::vector<std::int32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<std::int32_t>(i)) throw std::invalid_argument("the order must name every node once");
  }
  if (sorted.size() != nodes_.size()) throw std::invalid_argument("the order must name every node once");
  order_ = std::move(order);
}

void Engine::deliver(std::int32_t to, const Message& m) {
  Node& receiver = *nodes_[static_cast<std::size_t>(to)];
  Message stamped = m;
  // A message may carry a later instant than now (its sender knows when the value is there), never an earlier one.
  stamped.visible = receiver.visible_at(m.visible);
  if (fault_ == Fault::unordered_commit && to != 0 && m.visible == now_) stamped.visible = now_;
  receiver.receive(stamped);
  next_[static_cast<std::size_t>(to)] = std::min(next_[static_cast<std::size_t>(to)], stamped.visible);
}

Stop Engine::run(std::int64_t budget, bool drain) {
  refresh(0);
  for (;;) {
    std::vector<Decision>& decisions = graph_->decisions();
    if (!decisions.empty()) {
      decision_ = decisions.front();
      decisions.erase(decisions.begin());
      return Stop::decision;
    }
    if (graph_->livelocked() >= 0) livelock();
    if ((drain ? graph_->unfinished() : graph_->demanded()) == 0) return Stop::idle;
    if (budget-- <= 0) return Stop::budget;

    const Fs due = *std::min_element(next_.begin(), next_.end());
    if (due == kNever) deadlock();
    Fs t = due;
    if (every_edge_) {
      for (const auto& node : nodes_) t = std::min(t, node->next_edge(now_));
    }
    active_.clear();
    for (const std::int32_t i : order_) {
      if (next_[static_cast<std::size_t>(i)] == t || (every_edge_ && at_edge(i, t))) active_.push_back(i);
    }
    if (!progresses()) deadlock();
    const bool graph_acts = next_[0] == t;
    now_ = t;
    if (t == due) ++instants_;
    if (fault_ == Fault::unordered_commit) {
      for (const std::int32_t i : active_) {
        nodes_[static_cast<std::size_t>(i)]->evaluate(t);
        nodes_[static_cast<std::size_t>(i)]->commit(t);
      }
    } else {
      for (const std::int32_t i : active_) nodes_[static_cast<std::size_t>(i)]->evaluate(t);
      for (const std::int32_t i : active_) next_[static_cast<std::size_t>(i)] = kNever;
      for (const std::int32_t i : active_) nodes_[static_cast<std::size_t>(i)]->commit(t);
    }
    for (const std::int32_t i : active_) refresh(static_cast<std::size_t>(i));
    if (graph_acts) {
      skipping_->interrupt();
      pace_ = -1;
    } else if (at_tile_ && skipping_on_ && skipping_->looking()) {
      skip();
    }
    at_tile_ = false;
  }
}

// Whether anything but refresh and the like is ever due. Who was busy last mostly still is; networks come last and know
// at once, a memory's answer takes more work.
bool Engine::progresses() {
  if (nodes_[busy_]->next_progress() != kNever) return true;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    if (nodes_[i]->next_progress() == kNever) continue;
    busy_ = i;
    return true;
  }
  return false;
}

// Whether a node that is called at every edge has one now.
bool Engine::at_edge(std::int32_t i, Fs t) const {
  if (t == now_) return false;  // once an instant; the task graph may follow in the same one
  const Fs edge = nodes_[static_cast<std::size_t>(i)]->next_edge(t - 1);
  return edge == t || edge == kNever;
}

void Engine::leave_out(Part part) {
  lacking_ = part;
  skipping_->leave_out(part);
}

void Engine::set_every_edge(bool on) {
  every_edge_ = on;
  for (const auto& node : nodes_) node->set_every_edge(on);
}

void Engine::retired(std::int32_t from) {
  if (pace_ < 0) pace_ = from;
  at_tile_ = at_tile_ || from == pace_;
}

// The task graph takes no part: between its instants no task begins or ends.
void Engine::skip() {
  const std::int64_t before = instants_;
  const Fs skipped = skipping_->look(*this, now_, next_[0], instants_);
  now_ += skipped;
  skipping_->note_instants(instants_ - before);
}

void Engine::walk(Canonical& c) {
  if (journal_ != nullptr) {
    c.refuse("a journal of all packets and bursts is kept");
    return;
  }
  for (std::size_t i = 1; i < next_.size(); ++i) c.time(next_[i]);
  c.grows(instants_);
  for (const auto& node : nodes_) node->regions(c);
  for (const auto& node : nodes_) {
    if (c.differs()) return;
    node->canonical(c);
  }
  for (const auto& node : nodes_) node->named_slots(c);
}

void Engine::set_lockstep(bool on) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i]->set_lockstep(on);
    refresh(i);
  }
}

// Forms and saved states are those of the parts one by one.
void Engine::leave_lockstep() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i]->leave_lockstep();
}

Form Engine::form() {
  leave_lockstep();
  Form form;
  Canonical c;
  c.leave_out(lacking_);
  c.take(now_, form);
  walk(c);
  if (c.refused() != nullptr) throw std::runtime_error(c.refused());
  return form;
}

bool Engine::has_form(const Form& form) {
  leave_lockstep();
  Canonical c;
  c.leave_out(lacking_);
  c.compare(now_, form, nullptr);
  walk(c);
  return c.equal();
}

void Engine::deadlock() const {
  std::string text = "deadlock at " + std::to_string(now_) + " fs: " + std::to_string(graph_->unfinished()) +
                     " tasks are left and nothing can move";
  for (const auto& node : nodes_) text += node->waiting_for();
  throw DeadlockError(text);
}

void Engine::livelock() const {
  throw LivelockError("livelock at " + std::to_string(now_) + " fs: flits move and none arrives" +
                      nodes_[static_cast<std::size_t>(graph_->livelocked())]->waiting_for());
}

void Engine::visit_own(Visitor& v) {
  v.value(Kind::stamp, now_);
  v.value(Kind::counter, instants_);
  v.value(Kind::stamp, decision_);
}

void Engine::visit(Visitor& v) {
  visit_own(v);
  for (const auto& node : nodes_) {
    if (fault_ == Fault::skip_state && node->id() == 1) continue;
    node->visit(v);
  }
}

std::vector<std::uint8_t> Engine::save() {
  Saver saver;
  std::uint64_t count = nodes_.size();
  saver.value(Kind::state, count);
  visit(saver);
  return saver.take();
}

std::vector<Engine::SavedItem> Engine::layout() {
  std::vector<SavedItem> found = {{-1, {Kind::state, sizeof(std::uint64_t), sizeof(std::uint64_t)}}};
  const auto add = [&](std::int32_t node, Lister& lister) {
    for (const Item& item : lister.take()) found.push_back({node, item});
  };
  Lister own;
  visit_own(own);
  add(-1, own);
  for (const auto& node : nodes_) {
    Lister lister;
    node->visit(lister);
    add(node->id(), lister);
  }
  return found;
}

void Engine::load(std::span<const std::uint8_t> data) {
  Loader loader(data);
  std::uint64_t count = 0;
  loader.value(Kind::state, count);
  if (count != nodes_.size()) throw std::runtime_error("saved state is of a system with another number of nodes");
  visit(loader);
  if (!loader.finished()) throw std::runtime_error("saved state is longer than this system's state");
  for (std::size_t i = 0; i < nodes_.size(); ++i) refresh(i);
  skipping_->interrupt();
  pace_ = -1;
}

}  // namespace cosim::sim
