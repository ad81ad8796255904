#include "endpoint/rate_memory.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/canonical.hpp"

namespace cosim::endpoint {

using sim::Fs;
using sim::Message;
using sim::MessageKind;

RateMemory::RateMemory(const RateMemoryConfig& config, sim::TaskGraph& graph)
    : ClockedNode(config.clock), config_(config), inflows_(2 * config.copy_chunk_bytes), graph_(graph) {
  if (config.bytes_per_second <= 0 || config.latency_fs < 0 || config.copy_chunk_bytes <= 0) {
    throw std::invalid_argument("a memory's rate and copy chunk must be positive, its latency not negative");
  }
}

Fs RateMemory::next_event() const { return std::min(inbox_.next(), busy_ != 0 ? done_ : sim::kNever); }

// Books a grant for a tile that goes to several nodes; true when it was the last.
bool RateMemory::all_granted(const Message& m) {
  auto at = std::find_if(waiting_.begin(), waiting_.end(),
                         [&](const Waiting& w) { return w.stream == m.a && w.address == m.address; });
  if (at == waiting_.end()) at = waiting_.insert(at, {m.a, m.address, 0, 0});
  if (++at->granted < static_cast<std::int32_t>(graph_.group(static_cast<std::int32_t>(m.c - 1)).size())) return false;
  waiting_.erase(at);
  return true;
}

void RateMemory::serve(Fs t) {
  std::vector<Grant>& queue = demands_.empty() ? prefetches_ : demands_;
  if (queue.empty()) return;
  current_ = queue.front();
  queue.erase(queue.begin());
  busy_ = 1;
  const Fs span = sim::transfer_fs(current_.bytes, config_.bytes_per_second);
  done_ = t + span;
  busy_fs_ += span;
  if (journal_ != nullptr && journal_->room()) {
    journal_->banks.push_back({t, done_, current_.stream, id(), -1, -1, -1, -1, 1, current_.write});
  }
}

void RateMemory::evaluate(Fs t) {
  while (inbox_.due(t)) {
    const Message m = inbox_.pop();
    if (m.kind == MessageKind::grant) {
      if (m.c != 0 && !all_granted(m)) continue;
      const auto group = static_cast<std::int32_t>(m.c - 1);
      (m.flags != 0 ? prefetches_ : demands_)
          .push_back({m.a, m.bytes, group < 0 ? m.from : -1, m.message_class, m.flags, 0, 0, group, 0});
    } else if (m.kind == MessageKind::cancel) {
      std::int64_t bytes = 0;
      const auto called_off = [&](const Grant& g) {
        if (g.stream != m.a || g.write != 0) return false;
        bytes += g.bytes;
        return true;
      };
      std::erase_if(demands_, called_off);
      std::erase_if(prefetches_, called_off);
      cancelled_bytes_ += bytes;
      Message reply;
      reply.kind = MessageKind::cancelled;
      reply.a = m.a;
      reply.bytes = bytes;
      post(m.from, reply, t);
    } else if (m.kind == MessageKind::task_ready) {
      inflows_.begin(m.a, graph_.task(m.a));
      graph_.task(m.a).start_fs = t;
    } else if (m.kind == MessageKind::delivered) {
      inflows_.find(m.c)->arrived += m.bytes;
      inflows_.find(m.c)->asked += m.bytes;
      graph_.task(m.c).moved_bytes += m.bytes;
      prefetches_.push_back({m.c, m.bytes, -1, m.message_class, 1, 1, 0, -1, 0});
    } else if (m.kind != MessageKind::sent) {
      throw std::logic_error("a memory node cannot read this message");
    }
  }
  if (busy_ != 0 && done_ <= t && current_.write != 0) {
    written_bytes_ += current_.bytes;
    busy_ = 0;
    Inflow* in = inflows_.find(current_.stream);
    if (inflows_.wrote(*in, current_.bytes)) {
      Message m;
      m.kind = MessageKind::task_done;
      m.a = current_.stream;
      post(graph_.id(), m, t + config_.latency_fs);
    }
  }
  if (busy_ != 0 && done_ <= t) {
    read_bytes_ += current_.bytes;
    Message m;
    m.kind = MessageKind::send;
    m.message_class = current_.message_class;
    m.a = id();
    m.b = current_.reader;
    m.c = current_.stream;
    m.bytes = current_.bytes;
    busy_ = 0;
    if (current_.group < 0) {
      const bool is_near = current_.reader == config_.near_reader;
      post(is_near ? config_.near_path : config_.network, m, t + config_.latency_fs);
    } else {
      const auto members = graph_.group(current_.group);
      const auto near = std::find(members.begin(), members.end(), config_.near_reader);
      m.b = sim::kGroup - current_.group;
      if (near != members.end()) {
        m.b = config_.near_reader;
        post(config_.near_path, m, t + config_.latency_fs);
        m.b = sim::kGroup - (current_.group + 1 + static_cast<std::int32_t>(near - members.begin()));
      }
      if (near == members.end() || members.size() > 1) post(config_.network, m, t + config_.latency_fs);
    }
  }
  if (busy_ == 0) serve(t);
  if (inflows_.empty()) return;
  inflows_.grant(config_.copy_chunk_bytes, [&](Inflow& in, const Message& m) {
    if (in.source >= 0) {
      post(in.source, m, t + config_.grant_latency_fs);
      return;
    }
    in.arrived += m.bytes;
    in.asked += m.bytes;
    graph_.task(in.task).moved_bytes += m.bytes;
    prefetches_.push_back({in.task, m.bytes, -1, in.message_class, 1, 1, 0, -1, 0});
  });
  if (busy_ == 0) serve(t);
}

void RateMemory::visit(sim::Visitor& v) {
  using sim::Kind;
  visit_mail(v);
  v.vector(Kind::state, demands_);
  v.vector(Kind::state, prefetches_);
  v.vector(Kind::state, waiting_);
  v.value(Kind::state, busy_);
  v.value(Kind::state, current_);
  v.value(Kind::stamp, done_);
  v.value(Kind::counter, read_bytes_);
  v.value(Kind::counter, cancelled_bytes_);
  v.value(Kind::counter, written_bytes_);
  v.value(Kind::counter, busy_fs_);
  inflows_.visit(v);
}

void RateMemory::canonical(sim::Canonical& c) {
  const auto shared = [](const Grant& g) { return g.group >= 0; };
  if (!waiting_.empty() || (busy_ != 0 && shared(current_)) || std::any_of(demands_.begin(), demands_.end(), shared) ||
      std::any_of(prefetches_.begin(), prefetches_.end(), shared)) {
    c.refuse("a stream goes to several endpoints");
    return;
  }
  const auto show = [&](const Grant& g) {
    c.same(g.stream);
    c.same(g.bytes);
    c.same(g.reader);
    c.same(g.message_class);
    c.same(g.prefetch);
    c.same(g.write);
    c.same(g.group);
  };
  c.phase(clock_);
  c.same(busy_);
  if (busy_ != 0) {
    show(current_);
    if (c.lacks(sim::Part::rate)) {
      c.move(done_, c.shift_fs());
    } else {
      c.time(done_);
    }
  }
  for (auto* queue : {&demands_, &prefetches_}) {
    c.same(queue->size());
    for (const Grant& g : *queue) show(g);
  }
  c.grows(read_bytes_);
  c.grows(cancelled_bytes_);
  c.grows(written_bytes_);
  c.grows(busy_fs_);
  inflows_.canonical(c, graph_);
  canonical_mail(c, [](sim::Canonical& all, Message& m) {
    all.same(m.a);
    all.same(m.b);
    all.same(m.c);
    if (m.kind == MessageKind::grant) {
      all.grows(m.address);  // of no weight here
    } else {
      all.same(m.address);
    }
  });
}

std::string RateMemory::waiting_for() const {
  if (busy_ == 0 && demands_.empty() && prefetches_.empty() && inflows_.empty()) return {};
  return "\n  memory node " + std::to_string(id()) + " has " + std::to_string(demands_.size() + prefetches_.size()) +
         " granted tiles to read";
}

}  // namespace cosim::endpoint
