#include "sim/task_graph.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace cosim::sim {

std::int32_t TaskGraph::add_group(std::vector<std::int32_t> nodes) {
  std::sort(nodes.begin(), nodes.end());
  const auto twice = std::adjacent_find(nodes.begin(), nodes.end());
  if (nodes.empty()) throw std::invalid_argument("a group needs at least one node");
  if (twice != nodes.end()) throw std::invalid_argument("a group names node " + std::to_string(*twice) + " twice");
  // those without one of their members stand between, and have no such groups of their own
  for (std::int32_t g = 0; g < groups(); g += 1 + static_cast<std::int32_t>(group(g).size())) {
    if (std::ranges::equal(group(g), nodes)) return g;
  }
  const std::int32_t number = groups();
  const auto add = [&](std::size_t without) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (i != without) group_nodes_.push_back(nodes[i]);
    }
    group_first_.push_back(static_cast<std::uint32_t>(group_nodes_.size()));
  };
  add(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) add(i);
  return number;
}

std::int64_t TaskGraph::submit(std::span<const Task> tasks, std::span<const std::int64_t> before,
                               std::span<const std::int64_t> after, Fs effective, Fs now) {
  if (effective < now) throw std::invalid_argument("tasks cannot take effect in the past");
  if (before.size() != after.size()) throw std::invalid_argument("dependencies need as many ends as starts");
  const auto count = static_cast<std::int64_t>(tasks.size());
  const std::int64_t base = first_ + static_cast<std::int64_t>(tasks_.size());
  for (std::size_t k = 0; k < before.size(); ++k) {
    const bool earlier = before[k] <= -2 && -2 - before[k] < base;
    if ((!earlier && (before[k] < 0 || before[k] >= count)) || after[k] < 0 || after[k] >= count) {
      throw std::invalid_argument("dependency " + std::to_string(k) + " names a task that does not exist");
    }
  }
  std::vector<std::int32_t> consumers(tasks.size());
  std::vector<std::vector<std::int32_t>> consuming(tasks.size());  // nodes, of streams
  for (const Task& t : tasks) {
    if (t.kind != TaskKind::compute || t.stream < 0) continue;
    const TaskKind kind = t.stream < count ? tasks[static_cast<std::size_t>(t.stream)].kind : TaskKind::compute;
    if (kind != TaskKind::fetch && kind != TaskKind::stream) {
      throw std::invalid_argument("a compute task consumes task " + std::to_string(t.stream) +
                                  " of its submission, which is no fetch and no stream");
    }
    ++consumers[static_cast<std::size_t>(t.stream)];
    if (kind == TaskKind::stream) consuming[static_cast<std::size_t>(t.stream)].push_back(t.destination);
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const bool is_stream = tasks[i].kind == TaskKind::stream;
    const bool has_group = tasks[i].kind == TaskKind::transfer && tasks[i].group >= 0;
    if (!is_stream && !has_group) continue;
    if (tasks[i].group < 0 || tasks[i].group >= groups() || group(tasks[i].group).empty()) {
      throw std::invalid_argument("task " + std::to_string(i) + " names group " + std::to_string(tasks[i].group) +
                                  ", which does not exist or has no node");
    }
    if (!is_stream) continue;
    std::sort(consuming[i].begin(), consuming[i].end());
    if (!std::ranges::equal(consuming[i], group(tasks[i].group))) {
      throw std::invalid_argument("stream " + std::to_string(i) + " is consumed by " + std::to_string(consumers[i]) +
                                  " compute tasks of its submission, expected one on each of the " +
                                  std::to_string(group(tasks[i].group).size()) + " nodes of its group");
    }
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].kind != TaskKind::fetch || tasks[i].prefetch != 0 || consumers[i] == 1) continue;
    throw std::invalid_argument("fetch " + std::to_string(i) + " is consumed by " + std::to_string(consumers[i]) +
                                " compute tasks of its submission, expected exactly one");
  }
  tasks_.insert(tasks_.end(), tasks.begin(), tasks.end());
  for (std::int64_t i = 0; i < count; ++i) {
    Task& added = task(base + i);
    added.waits = 1;
    added.finished = 0;
    added.first_successor = -1;
    if (added.kind == TaskKind::stream) added.members_left = static_cast<std::int32_t>(group(added.group).size());
    if (added.kind == TaskKind::compute && added.stream >= 0) added.stream += base;
  }
  for (std::size_t k = 0; k < before.size(); ++k) {
    const std::int64_t from = before[k] >= 0 ? base + before[k] : -2 - before[k];
    const std::int64_t to = base + after[k];
    if (from < first_ || task(from).finished != 0) continue;
    std::int32_t slot = free_edge_;
    if (slot >= 0) {
      free_edge_ = edges_[static_cast<std::size_t>(slot)].next;
    } else {
      slot = static_cast<std::int32_t>(edges_.size());
      edges_.push_back({});
    }
    edges_[static_cast<std::size_t>(slot)] = {to, task(from).first_successor, 0};
    task(from).first_successor = slot;
    ++task(to).waits;
  }
  unfinished_ += count;
  for (std::int64_t i = 0; i < count; ++i) {
    if (task(base + i).prefetch == 0) ++demanded_;
    Message m;
    m.kind = MessageKind::task_ready;
    m.a = base + i;
    m.visible = effective;
    m.from = id();
    m.sequence = static_cast<std::uint64_t>(base + i);
    receive(m);
  }
  return base;
}

void TaskGraph::set_network_of(std::int32_t endpoint, std::int32_t network) {
  const auto at = static_cast<std::size_t>(endpoint);
  if (network_of_.size() <= at) network_of_.resize(at + 1, -1);
  network_of_[at] = network;
}

void TaskGraph::ready(std::int64_t id, Fs t) {
  Task& now = task(id);
  if (--now.waits != 0) return;
  now.ready_fs = t;
  now.start_fs = t;
  Message m;
  m.kind = MessageKind::task_ready;
  m.a = id;
  switch (now.kind) {
    case TaskKind::transfer: {
      const auto source = static_cast<std::size_t>(now.source);
      const bool own = source < network_of_.size() && network_of_[source] >= 0;
      m.kind = MessageKind::send;
      m.message_class = now.message_class;
      m.a = now.source;
      m.b = now.group >= 0 ? kGroup - now.group : now.destination;
      m.c = id;
      m.bytes = now.bytes;
      m.flags = kDeliverToGraph;
      post(own ? network_of_[source] : network_, m, t);
      break;
    }
    case TaskKind::fetch:
    case TaskKind::compute:
    case TaskKind::copy:
    case TaskKind::revoke:
      post(now.destination, m, t);
      break;
    case TaskKind::stream:
      for (const std::int32_t member : group(now.group)) post(member, m, t);
      break;
    case TaskKind::delay: {
      m.kind = MessageKind::task_done;
      m.visible = t + now.cycles;
      m.from = this->id();
      m.sequence = static_cast<std::uint64_t>(id);
      receive(m);
      break;
    }
    case TaskKind::decision:
      decisions_.push_back({id, now.key, t});
      finish(id, t);
      break;
  }
}

void TaskGraph::finish(std::int64_t id, Fs t) {
  Task& done = task(id);
  if (done.finished != 0) throw std::logic_error("task " + std::to_string(id) + " finished twice");
  done.finished = 1;
  done.end_fs = t;
  --unfinished_;
  if (done.prefetch == 0) --demanded_;
  finished_.push_back(id);
  std::int32_t edge = done.first_successor;
  done.first_successor = -1;
  // Successors in the order in which they were added, whatever the order of the list.
  std::vector<std::int64_t> successors;
  while (edge >= 0) {
    Edge& e = edges_[static_cast<std::size_t>(edge)];
    successors.push_back(e.successor);
    const std::int32_t next = e.next;
    e.next = free_edge_;
    free_edge_ = edge;
    edge = next;
  }
  std::reverse(successors.begin(), successors.end());
  for (const std::int64_t s : successors) ready(s, t);
}

void TaskGraph::evaluate(Fs t) {
  while (inbox_.due(t)) {
    const Message m = inbox_.pop();
    if (m.kind == MessageKind::task_ready) {
      ready(m.a, m.visible);
    } else if (m.kind == MessageKind::livelock) {
      livelocked_ = m.from;
    } else if (m.kind == MessageKind::task_done && task(m.a).kind == TaskKind::stream && --task(m.a).members_left > 0) {
      continue;  // other members wait for their bytes
    } else {     // task_done, or the delivery of a transfer
      finish(m.kind == MessageKind::task_done ? m.a : m.c, m.visible);
    }
  }
}

std::vector<TaskGraph::Record> TaskGraph::take_records() {
  std::sort(finished_.begin(), finished_.end());
  std::vector<Record> records;
  records.reserve(finished_.size());
  for (const std::int64_t id : finished_) records.push_back({id, task(id)});
  for (const std::int64_t id : finished_) task(id).finished = 2;
  finished_.clear();
  compact();
  return records;
}

void TaskGraph::compact() {
  std::size_t dead = 0;
  while (dead < tasks_.size() && tasks_[dead].finished == 2) ++dead;
  if (dead * 2 < tasks_.size() || dead == 0) return;
  tasks_.erase(tasks_.begin(), tasks_.begin() + static_cast<std::ptrdiff_t>(dead));
  first_ += static_cast<std::int64_t>(dead);
}

void TaskGraph::visit(Visitor& v) {
  visit_mail(v);
  v.value(Kind::state, livelocked_);
  v.value(Kind::state, first_);
  v.vector(Kind::stamp, tasks_);
  v.vector(Kind::state, edges_);
  v.vector(Kind::state, group_nodes_);
  v.vector(Kind::state, group_first_);
  v.value(Kind::state, free_edge_);
  v.value(Kind::state, unfinished_);
  v.value(Kind::state, demanded_);
  v.vector(Kind::state, finished_);
  v.vector(Kind::stamp, decisions_);
}

std::string TaskGraph::waiting_for() const {
  std::string text;
  int shown = 0;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Task& waiting = tasks_[i];
    if (waiting.finished != 0 || waiting.prefetch != 0) continue;
    if (++shown > 8) return text + "\n  ... and more tasks";
    static constexpr const char* kNames[] = {"transfer", "fetch", "compute", "delay",
                                             "decision", "copy",  "revoke",  "stream"};
    text += "\n  task " + std::to_string(first_ + static_cast<std::int64_t>(i)) + " (" +
            kNames[static_cast<std::size_t>(waiting.kind)] + ", node " + std::to_string(waiting.source) + " -> " +
            std::to_string(waiting.destination) + ") " +
            (waiting.waits > 0 ? "waits for " + std::to_string(waiting.waits) + " tasks"
                               : std::string("has started and does not end"));
  }
  return text;
}

}  // namespace cosim::sim
