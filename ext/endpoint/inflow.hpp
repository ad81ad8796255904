// Copies that stream into a memory endpoint: who may send how much, and what has been written.
//
// The receiving memory grants chunks while its write buffer has room; bytes that arrive are written in address order.
// A copy without a source is an erasure: the memory makes the bytes itself when it would grant them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/message.hpp"
#include "sim/task_graph.hpp"

namespace cosim::endpoint {

struct Inflow {
  std::int64_t task = -1;
  std::int64_t address = 0;     // at the source
  std::int64_t to_address = 0;  // here
  std::int64_t bytes = 0;
  std::int64_t granted = 0;
  std::int64_t arrived = 0;
  std::int64_t asked = 0;  // handed to the banks
  std::int64_t written = 0;
  std::int32_t source = -1;  // -1: none, an erasure
  std::uint8_t message_class = 0;
  std::uint8_t reserved[3] = {};
};

class Inflows {
 public:
  Inflows() = default;
  explicit Inflows(std::int64_t buffer_bytes) : room_(buffer_bytes), buffer_(buffer_bytes) {}

  void begin(std::int64_t task, const sim::Task& copy) {
    Inflow in;
    in.task = task;
    in.address = copy.address;
    in.to_address = copy.to_address;
    in.bytes = copy.bytes;
    in.source = copy.source;
    in.message_class = copy.message_class;
    flows_.push_back(in);
  }

  // Calls post(inflow, grant message) for every chunk that fits, oldest copy first.
  template <class Post>
  void grant(std::int64_t chunk_bytes, Post post) {
    for (Inflow& in : flows_) {
      while (in.granted < in.bytes) {
        const std::int64_t size = std::min(chunk_bytes, in.bytes - in.granted);
        if (size > room_) return;
        sim::Message m;
        m.kind = sim::MessageKind::grant;
        m.message_class = in.message_class;
        m.flags = 1;  // like a prefetch, it gives way to demands
        m.a = in.task;
        m.bytes = size;
        m.address = in.address + in.granted;
        in.granted += size;
        room_ -= size;
        post(in, m);
      }
    }
  }

  [[nodiscard]] Inflow* find(std::int64_t task) {
    for (Inflow& in : flows_) {
      if (in.task == task) return &in;
    }
    return nullptr;
  }

  // Books written bytes; true when the copy is complete and has been removed.
  bool wrote(Inflow& in, std::int64_t bytes) {
    in.written += bytes;
    room_ += bytes;
    if (in.written < in.bytes) return false;
    flows_.erase(flows_.begin() + (&in - flows_.data()));
    return true;
  }

  [[nodiscard]] std::vector<Inflow>& flows() { return flows_; }
  [[nodiscard]] bool empty() const { return flows_.empty(); }
  [[nodiscard]] std::int64_t buffer_bytes() const { return buffer_; }

  void regions(sim::Canonical& c, std::int32_t reader) const;
  void canonical(sim::Canonical& c, sim::TaskGraph& graph);
  void visit(sim::Visitor& v) {
    v.vector(sim::Kind::state, flows_);
    v.value(sim::Kind::state, room_);
  }

 private:
  std::vector<Inflow> flows_;
  std::int64_t room_ = 0;
  std::int64_t buffer_ = 0;
};

}  // namespace cosim::endpoint
