// Time-stamped messages: all that passes between components.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/time.hpp"
#include "sim/visit.hpp"

namespace cosim::sim {

enum class MessageKind : std::uint8_t {
  task_ready,  // task graph -> executing node: a = task
  task_done,   // node -> task graph: a = task
  send,        // endpoint -> network: a = source node, b = destination node, or group as kGroup - b, bytes, c = tag for
               // `delivered`; with kReplyWhenSent, address = tag for `sent`
  sent,        // network -> endpoint: c = tag; the last byte has left the source
  delivered,   // network -> endpoint: bytes, c = tag
  grant,       // compute node -> memory node: a = stream, address, bytes: room for that many bytes; c = 1 + group of a
               // stream that goes to several nodes
  cancel,      // compute node -> memory node: a = stream: read no more of it
  cancelled,   // memory node -> compute node: a = stream, bytes that will not come
  open,        // network -> gateway -> next network, a message comes this way: a = the sender's record of it, b =
         // destination node, c = tag, bytes, address = most payload bytes of a packet; with kAskForAll, its packets
         // ask for room
  ask,     // network -> gateway: a = its record of the message, b = its record of the packet, bytes: room for it
  room,    // gateway -> network: a = record of the message, b = the gateway's record of the packet, c = the
           // network's or -1, bytes: the packet may come
  flits,   // network -> gateway: a = record of the packet, b = its start (fs), c = its head's arrival (fs), bytes of
           // payload that are there
  packet,  // gateway -> network: a = record of the message, b = of the packet, bytes; c and address = b and c of flits
  supply,  // gateway -> network: b = record of the packet, bytes = further flits that may leave
  livelock,  // network -> task graph: flits move and none arrives
};

// Flags of `send`.
inline constexpr std::uint8_t kDeliverToGraph = 1;  // `delivered` goes to the task graph: the tag is a task
inline constexpr std::uint8_t kReplyWhenSent = 2;
inline constexpr std::uint8_t kAskForAll = 4;
// The b of a `send` to group g of the task graph is kGroup - g: every node of it gets `delivered`, packet by packet.
inline constexpr std::int64_t kGroup = -2;

// The meaning of a..c depends on the kind. `visible` is an edge of the receiver's clock.
struct Message {
  Fs visible = 0;
  std::uint64_t sequence = 0;  // of its sender: with `from`, makes the order of equal times a property of the system
  std::int32_t from = -1;
  MessageKind kind = MessageKind::task_ready;
  std::uint8_t message_class = 0;
  std::uint8_t flags = 0;
  std::uint8_t reserved = 0;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
  std::int64_t bytes = 0;
  std::int64_t address = 0;
};

// Messages waiting to become visible, in the order (visible, from, sequence).
class Inbox {
 public:
  [[nodiscard]] Fs next() const { return heap_.empty() ? kNever : heap_.front().visible; }
  [[nodiscard]] bool due(Fs t) const { return !heap_.empty() && heap_.front().visible <= t; }
  void push(const Message& m) {
    heap_.push_back(m);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Message pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Message m = heap_.back();
    heap_.pop_back();
    return m;
  }
  void visit(Visitor& v) { v.vector(Kind::stamp, heap_); }
  // Calls show(message) in the order in which they will be popped; `show` may move them in time.
  template <class Show>
  void in_order(Show show) {
    // an array in order is a heap
    std::sort(heap_.begin(), heap_.end(), [](const Message& x, const Message& y) { return later(y, x); });
    for (Message& m : heap_) show(m);
    std::sort(heap_.begin(), heap_.end(), [](const Message& x, const Message& y) { return later(y, x); });
  }

 private:
  static bool later(const Message& x, const Message& y) {
    if (x.visible != y.visible) return x.visible > y.visible;
    if (x.from != y.from) return x.from > y.from;
    return x.sequence > y.sequence;
  }
  std::vector<Message> heap_;
};

}  // namespace cosim::sim
