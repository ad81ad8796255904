#include "endpoint/compute_node.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/canonical.hpp"

namespace cosim::endpoint {

using sim::Fs;
using sim::Message;
using sim::MessageKind;
using sim::TaskKind;

ComputeNode::ComputeNode(const ComputeNodeConfig& config, sim::TaskGraph& graph)
    : ClockedNode(config.clock), config_(config), graph_(graph), free_tiles_(config.buffer_tiles) {
  if (config.tile_bytes <= 0 || config.buffer_tiles <= 0) {
    throw std::invalid_argument("a compute node needs a buffer of at least one tile");
  }
}

Fs ComputeNode::next_event() const {
  Fs next = inbox_.next();
  if (running_ != 0 && stalled_ == 0) next = std::min(next, clock_.edge_fs(tile_end_));
  return next;
}

std::int64_t ComputeNode::tile_bytes_of(const Stream& s, std::int64_t tile) const {
  return std::min(config_.tile_bytes, s.bytes - tile * config_.tile_bytes);
}

ComputeNode::Stream* ComputeNode::stream_of(std::int64_t task) {
  for (Stream& s : streams_) {
    if (s.task == task) return &s;
  }
  return nullptr;
}

ComputeNode::Stream* ComputeNode::stream_by_uid(std::int64_t uid) {
  for (Stream& s : streams_) {
    if (s.uid == uid) return &s;
  }
  return nullptr;
}

void ComputeNode::announce(std::int64_t task, std::int64_t n) {
  const sim::Task& fetch = graph_.task(task);
  graph_.task(task).announced = 1;
  if (std::erase(early_revokes_, task) != 0) {
    graph_.task(task).start_fs = clock_.edge_fs(n);
    report_done(task, n);
    return;
  }
  if (fetch.kind == TaskKind::fetch && fetch.prefetch == 0 && fetch.key >= 0) {
    for (Stream& s : streams_) {
      if (s.key != fetch.key || s.prefetch == 0 || s.withdrawn != 0) continue;
      // The demand takes the prefetch over: what has arrived is used, what is granted keeps coming.
      graph_.task(task).used_bytes = s.arrived_bytes;
      graph_.task(task).start_fs = clock_.edge_fs(n);
      if (s.fetched == 0) {
        graph_.task(s.task).used_bytes = s.arrived_bytes;
        report_done(s.task, n);
      }
      s.task = task;
      s.prefetch = 0;
      if (s.fetched != 0) report_done(task, n);
      return;
    }
  }
  Stream s;
  s.task = task;
  s.uid = task;
  s.key = fetch.key;
  s.address = fetch.address;
  s.bytes = fetch.bytes;
  s.tiles = (fetch.bytes + config_.tile_bytes - 1) / config_.tile_bytes;
  s.memory = fetch.source;
  s.message_class = fetch.message_class;
  s.prefetch = fetch.prefetch;
  if (fetch.kind == TaskKind::stream) s.group = fetch.group;
  graph_.task(task).start_fs = clock_.edge_fs(n);
  streams_.push_back(s);
}

void ComputeNode::report_done(std::int64_t task, std::int64_t n) {
  Message m;
  m.kind = MessageKind::task_done;
  m.a = task;
  post(graph_.id(), m, clock_.edge_fs(n));
}

void ComputeNode::arrived(std::int64_t uid, std::int64_t bytes) {
  Stream* s = stream_by_uid(uid);
  if (s == nullptr) throw std::logic_error("bytes arrived for a stream that is not here");
  graph_.task(s->task).moved_bytes += bytes;
  if (s->withdrawn != 0) {
    s->dropped_bytes += bytes;
    wasted_bytes_ += bytes;
    return;
  }
  s->arrived_bytes += bytes;
}

void ComputeNode::withdraw(Stream& s, std::int64_t n) {
  // Tiles that have arrived are free at once; the rest when their bytes have come or been called off.
  const std::int64_t whole = s.arrived_tiles(config_.tile_bytes);
  free_tiles_ += whole - s.consumed;
  wasted_bytes_ += s.arrived_bytes;
  s.withdrawn = 1;
  s.consumed = whole;
  s.dropped_bytes = s.arrived_bytes;
  if (s.granted_bytes > s.arrived_bytes) {
    Message m;
    m.kind = MessageKind::cancel;
    m.a = s.uid;
    m.message_class = s.message_class;
    post(s.memory, m, clock_.edge_fs(n + config_.grant_latency_cycles));
    s.calling_off = 1;
  }
}

void ComputeNode::withdrawn_bytes(std::int64_t uid, std::int64_t bytes) {
  Stream* s = stream_by_uid(uid);
  if (s == nullptr || s->withdrawn == 0) throw std::logic_error("bytes were called off for a stream that goes on");
  s->dropped_bytes += bytes;
  s->calling_off = 0;
}

void ComputeNode::end_tile(std::int64_t n) {
  busy_cycles_ += job_.cycles_of(tile_);
  if (job_.stream_task >= 0) {
    Stream* s = stream_of(job_.stream_task);
    ++s->consumed;
    ++free_tiles_;
    retired();
  }
  ++tile_;
  if (tile_ < job_.tiles) {
    stalled_ = 1;  // start_work() sees whether the next tile is here
    stall_since_ = n;
    return;
  }
  occupied_cycles_ += n - running_since_;
  running_ = 0;
  report_done(job_.task, n);
}

void ComputeNode::start_work(std::int64_t n) {
  if (running_ == 0) {
    std::size_t chosen = jobs_.size();
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].stream_task >= 0) {
        const Stream* s = stream_of(jobs_[i].stream_task);
        if (s == nullptr || s->arrived_tiles(config_.tile_bytes) == 0) continue;
      }
      chosen = i;
      break;
    }
    if (chosen == jobs_.size()) return;
    const std::int64_t others = occupied(n) - jobs_[chosen].occupied_at_ready;
    job_ = jobs_[chosen];
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(chosen));
    if (job_.stream_task >= 0) job_.tiles = stream_of(job_.stream_task)->tiles;
    sim::Task& task = graph_.task(job_.task);
    task.start_fs = clock_.edge_fs(n);
    task.waited_fs = clock_.edge_fs(job_.ready_edge + others) - clock_.edge_fs(job_.ready_edge);
    running_ = 1;
    running_since_ = n;
    tile_ = 0;
    stalled_ = 1;
    stall_since_ = n;
  }
  if (stalled_ == 0) return;
  if (job_.stream_task >= 0 && stream_of(job_.stream_task)->arrived_tiles(config_.tile_bytes) <= tile_) return;
  stalled_ = 0;
  graph_.task(job_.task).stalled_fs += clock_.edge_fs(n) - clock_.edge_fs(stall_since_);
  tile_end_ = n + job_.cycles_of(tile_);
}

// Whether a stream to several nodes was announced before this one and wants room yet.
bool ComputeNode::waits_its_turn(const Stream& s) const {
  if (s.group < 0) return false;
  for (const Stream& earlier : streams_) {
    if (&earlier == &s) return false;
    if (earlier.group >= 0 && earlier.granted < earlier.tiles) return true;
  }
  return false;
}

bool ComputeNode::grant_to(Stream& s, std::int64_t n) {
  if (s.withdrawn != 0 || s.granted == s.tiles || free_tiles_ == 0 || waits_its_turn(s)) return false;
  Message m;
  m.kind = MessageKind::grant;
  m.message_class = s.message_class;
  m.flags = s.prefetch;
  m.a = s.uid;
  m.bytes = tile_bytes_of(s, s.granted);
  m.address = s.address + s.granted * config_.tile_bytes;
  m.c = s.group + 1;
  post(s.memory, m, clock_.edge_fs(n + config_.grant_latency_cycles));
  ++s.granted;
  s.granted_bytes += m.bytes;
  --free_tiles_;
  return true;
}

void ComputeNode::grant(std::int64_t n) {
  if (running_ != 0 && job_.stream_task >= 0) {
    Stream* s = stream_of(job_.stream_task);
    while (grant_to(*s, n)) {
    }
  }
  for (Stream& s : streams_) {
    if (s.prefetch != 0) continue;
    while (grant_to(s, n)) {
    }
  }
  // A demand that waits for room takes it back from the newest prefetch.
  const bool starved = std::any_of(streams_.begin(), streams_.end(), [](const Stream& s) {
    return s.prefetch == 0 && s.withdrawn == 0 && s.granted == 0 && s.tiles > 0;
  });
  if (starved && free_tiles_ == 0) {
    for (auto s = streams_.rbegin(); s != streams_.rend(); ++s) {
      if (s->prefetch == 0 || s->withdrawn != 0 || s->granted == 0) continue;
      withdraw(*s, n);
      break;
    }
    if (free_tiles_ > 0) {
      for (Stream& s : streams_) {
        if (s.prefetch == 0) {
          while (grant_to(s, n)) {
          }
        }
      }
    }
    return;
  }
  if (starved) return;
  for (Stream& s : streams_) {
    if (s.prefetch == 0) continue;
    while (grant_to(s, n)) {
    }
  }
}

void ComputeNode::evaluate(Fs t) {
  const std::int64_t n = clock_.edge_at_or_before(t);
  while (inbox_.due(t)) {
    const Message m = inbox_.pop();
    switch (m.kind) {
      case MessageKind::task_ready: {
        const sim::Task& task = graph_.task(m.a);
        if (task.kind == TaskKind::fetch || task.kind == TaskKind::stream) {
          announce(m.a, n);
        } else if (task.kind == TaskKind::revoke) {
          Stream* s = stream_by_uid(task.stream);
          if (s != nullptr && s->prefetch != 0 && s->withdrawn == 0) withdraw(*s, n);
          // A prefetch that has not been seen yet is called off when it is.
          if (s == nullptr && graph_.holds(task.stream) && graph_.task(task.stream).announced == 0) {
            early_revokes_.push_back(task.stream);
          }
          report_done(m.a, n);
        } else {
          Job job;
          job.task = m.a;
          job.cycles = task.cycles;
          job.tiles = 1;
          job.stream_task = task.stream;
          job.ready_edge = n;
          graph_.task(m.a).ready_fs = clock_.edge_fs(n);
          jobs_.push_back(job);
        }
        break;
      }
      case MessageKind::delivered:
        arrived(m.c, m.bytes);
        break;
      case MessageKind::cancelled:
        withdrawn_bytes(m.a, m.bytes);
        break;
      default:
        throw std::logic_error("a compute node cannot read this message");
    }
  }
  if (running_ != 0 && stalled_ == 0 && tile_end_ == n) end_tile(n);
  for (Job& job : jobs_) {
    if (job.ready_edge == n) job.occupied_at_ready = occupied(n);
  }
  start_work(n);
  grant(n);
  // Retire what is over: a fetch when its last byte is here, a stream when its last tile is used up.
  for (std::size_t i = 0; i < streams_.size();) {
    Stream& s = streams_[i];
    if (s.withdrawn == 0 && s.fetched == 0 && s.arrived_bytes == s.bytes) {
      s.fetched = 1;
      report_done(s.task, n);
    }
    const bool called_off = s.withdrawn != 0 && s.calling_off == 0 && s.dropped_bytes >= s.granted_bytes;
    if (called_off) {
      free_tiles_ += s.granted - s.consumed;
      if (s.fetched == 0) report_done(s.task, n);
    }
    const bool used_up = s.withdrawn == 0 && s.fetched != 0 && s.consumed == s.tiles;
    if (called_off || used_up) {
      streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (free_tiles_ > 0) grant(n);
}

void ComputeNode::visit(sim::Visitor& v) {
  using sim::Kind;
  visit_mail(v);
  v.vector(Kind::state, streams_);
  v.vector(Kind::stamp, jobs_);
  v.vector(Kind::state, early_revokes_);
  v.value(Kind::state, free_tiles_);
  v.value(Kind::state, running_);
  v.value(Kind::state, stalled_);
  v.value(Kind::stamp, job_);
  v.value(Kind::state, tile_);
  v.value(Kind::stamp, tile_end_);
  v.value(Kind::stamp, running_since_);
  v.value(Kind::stamp, stall_since_);
  v.value(Kind::counter, busy_cycles_);
  v.value(Kind::counter, occupied_cycles_);
  v.value(Kind::counter, wasted_bytes_);
}

void ComputeNode::regions(sim::Canonical& c) {
  for (const Stream& s : streams_) {
    c.region({s.memory, id(), s.uid, s.address, s.address + s.bytes, s.address + s.granted * config_.tile_bytes});
  }
}

// A stream's progress counts from the tile that is used up next; only its last tile knows where it ends.
void ComputeNode::canonical(sim::Canonical& c) {
  if (std::any_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.group >= 0; })) {
    c.refuse("a stream goes to several endpoints");
    return;
  }
  const sim::Present present = c.present(clock_);
  c.phase(clock_);
  if (!c.lacks(sim::Part::room)) c.same(free_tiles_);
  c.same(running_);
  c.same(stalled_);
  c.same(streams_.size());
  for (Stream& s : streams_) {
    const std::int64_t used_up = s.consumed * config_.tile_bytes;
    c.same(s.task);
    c.same(s.uid);
    c.same(s.key);
    c.same(s.address);
    c.same(s.bytes);
    c.same(s.tiles);
    c.same(s.granted - s.consumed);
    c.same(s.granted_bytes - used_up);
    if (!c.lacks(sim::Part::progress)) c.same(s.arrived_bytes - used_up);
    c.same(s.dropped_bytes);
    c.same(s.memory);
    c.same(s.message_class);
    c.same(s.prefetch);
    c.same(s.withdrawn);
    c.same(s.fetched);
    c.same(s.calling_off);
    c.same(s.group);
    c.grows_below(s.granted, s.tiles);
    c.grows_below(s.granted_bytes, s.bytes);
    c.grows_below(s.arrived_bytes, s.bytes);
    c.grows_below(s.consumed, s.tiles);
    if (s.fetched == 0) c.grows(graph_.task(s.task).moved_bytes);
  }
  c.same(jobs_.size());
  for (Job& job : jobs_) {
    c.same(job.task);
    c.same(job.cycles);
    c.same(job.tiles);
    c.same(job.stream_task);
    c.same(job.ready_edge == present.now);
    c.stays(job.ready_edge);
    c.stays(job.occupied_at_ready);
  }
  c.same(early_revokes_.size());
  for (const std::int64_t task : early_revokes_) c.same(task);
  if (running_ != 0) {
    const std::int64_t longer = job_.longer_tiles();
    c.same(job_.task);
    c.same(job_.cycles);
    c.same(job_.tiles);
    c.same(job_.stream_task);
    c.same(tile_ < longer);
    const Stream* consumed = job_.stream_task < 0 ? nullptr : stream_of(job_.stream_task);
    c.same(tile_ - (consumed == nullptr ? 0 : consumed->consumed));
    c.grows_below(tile_, tile_ < longer ? longer : job_.tiles);
    c.stays(running_since_);
    if (stalled_ != 0) {
      c.held(stall_since_, present);
    } else {
      c.due(tile_end_, std::int64_t{-1}, present);
    }
    c.grows(graph_.task(job_.task).stalled_fs);
  }
  c.grows(busy_cycles_);
  c.grows(occupied_cycles_);
  c.grows(wasted_bytes_);
  canonical_mail(c);
}

std::string ComputeNode::waiting_for() const {
  std::string text;
  if (running_ != 0 && stalled_ != 0) {
    text += "\n  compute node " + std::to_string(id()) + " waits for tile " + std::to_string(tile_) + " of task " +
            std::to_string(job_.stream_task);
  }
  for (const Job& job : jobs_) {
    text += "\n  compute node " + std::to_string(id()) + ": job " + std::to_string(job.task) +
            " waits for the first tile of task " + std::to_string(job.stream_task);
  }
  for (const Stream& s : streams_) {
    text += "\n  compute node " + std::to_string(id()) + ": stream of task " + std::to_string(s.task) + " has " +
            std::to_string(s.arrived_bytes) + " of " + std::to_string(s.bytes) + " B, " + std::to_string(s.granted) +
            " of " + std::to_string(s.tiles) + " tiles granted, " + std::to_string(free_tiles_) + " tiles free";
  }
  return text;
}

}  // namespace cosim::endpoint
