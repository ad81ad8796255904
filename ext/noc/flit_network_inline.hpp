// Steps of a network's cycle that more than one of its files takes.
#pragma once

#include <stdexcept>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"

#define COSIM_INLINE __attribute__((always_inline)) inline

namespace cosim::noc {

COSIM_INLINE std::uint32_t FlitNetwork::advance(std::uint32_t slot) const {
  const std::uint32_t next = slot + 1;
  return (next & ring_mask_) != 0 ? next : slot - ring_mask_;
}

COSIM_INLINE void FlitNetwork::wake_at(std::uint32_t when, Wake kind, std::uint32_t index) {
  wakes_due_[when & wakes_mask_].push_back(static_cast<std::uint32_t>(kind) << 29U | index);
}

COSIM_INLINE void FlitNetwork::arrive_at(std::uint32_t when, std::uint32_t id) {
  arrivals_due_[arrivals_end_[when & arrivals_mask_]++] = id;
}

COSIM_INLINE void FlitNetwork::join_va(std::uint32_t id, std::uint32_t when) {
  const std::uint32_t r = router_of(id);
  with_router(r, [&](auto& record) { put(record.masks.va[when & 1U], bit_of(id)); });
  va_active(when)[r >> 6U] |= bit64(r & 63U);
}

COSIM_INLINE void FlitNetwork::join_sa(std::uint32_t id, std::uint32_t when) {
  const std::uint32_t r = router_of(id);
  with_router(r, [&](auto& record) { put(record.masks.sa[when & 1U], bit_of(id)); });
  sa_active(when)[r >> 6U] |= bit64(r & 63U);
}

COSIM_INLINE void FlitNetwork::join_va(std::uint32_t r, VcSet bits, std::uint32_t when) {
  with_router(r, [&](auto& record) { record.masks.va[when & 1U] |= static_cast<SetOf<decltype(record)>>(bits); });
  va_active(when)[r >> 6U] |= bit64(r & 63U);
}

COSIM_INLINE void FlitNetwork::join_sa(std::uint32_t r, VcSet bits, std::uint32_t when) {
  with_router(r, [&](auto& record) { record.masks.sa[when & 1U] |= static_cast<SetOf<decltype(record)>>(bits); });
  sa_active(when)[r >> 6U] |= bit64(r & 63U);
}

COSIM_INLINE void FlitNetwork::activate(std::uint32_t terminal) {
  sources_active()[terminal >> 6U] |= bit64(terminal & 63U);
}

COSIM_INLINE std::uint32_t FlitNetwork::new_slot() {
  const std::uint32_t slot = free_packet_;
  if (slot != kNoPacket) {
    free_packet_ = packets_[slot].next;
    if (free_packet_ != kNoPacket) __builtin_prefetch(&packets_[free_packet_], 1);
    return slot;
  }
  if (packets_.size() >= kPacketMask) throw std::length_error("more than 536870911 packets alive");
  packets_.emplace_back();
  return static_cast<std::uint32_t>(packets_.size() - 1);
}

// The packet in `slot` is the last of its source and class; the source is not woken for it.
COSIM_INLINE void FlitNetwork::enqueue(std::uint32_t slot) {
  const Packet& packet = packets_[slot];
  SourceQueue& queue = queues_[as_u32(packet.source) * num_classes_ + packet.message_class];
  ++queued_packets_;
  if (queue.first == kNoPacket) {
    queue.first = slot;
  } else {
    packets_[queue.last].next = slot;
  }
  queue.last = slot;
}

// The winner of a VC is put in front of BookSim2's switch allocation queue, a body flit behind its end.
COSIM_INLINE void FlitNetwork::order_grant(std::uint32_t id) {
  if (queue_order_.empty()) return;
  QueueOrder& order = queue_order_[dense(id)];
  order.sa_cycle = -cycle_;
  order.sa = order.va;
}

COSIM_INLINE void FlitNetwork::order_body(std::uint32_t id) {
  if (queue_order_.empty()) return;
  QueueOrder& order = queue_order_[dense(id)];
  order.sa_cycle = cycle_;
  order.sa = id;
}

}  // namespace cosim::noc
