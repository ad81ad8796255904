// Steps of a network's cycle that more than one of its files takes.
#pragma once

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

COSIM_INLINE void FlitNetwork::arrive_at(std::uint32_t when, std::uint32_t input) {
  const std::uint32_t slot = when & arrivals_mask_;
  arrivals_due_[slot * arrivals_room_ + arrivals_count_[slot]++] = input;
}

COSIM_INLINE void FlitNetwork::join_va(std::uint32_t router, std::uint64_t bits, std::uint32_t when) {
  routers_[router].va[when & 1U] |= bits;
  va_active_[when & 1U][router >> 6U] |= bit64(router & 63U);
}

COSIM_INLINE void FlitNetwork::join_sa(std::uint32_t router, std::uint64_t bits, std::uint32_t when) {
  routers_[router].sa[when & 1U] |= bits;
  sa_active_[when & 1U][router >> 6U] |= bit64(router & 63U);
}

COSIM_INLINE void FlitNetwork::grant_vc(std::uint32_t router, std::uint32_t bit, std::uint32_t resource,
                                        std::uint32_t now) {
  const std::uint32_t input = (router << vc_shift_) + bit;
  InputVc& vc = inputs_[input];
  OutputVc& out = outputs_[(router << vc_shift_) + resource];
  out.owner = as_u8(bit);
  out.grant = as_u8(bit + 1);
  vc.accept = as_u8(resource + 1);
  vc.output_vc = as_u8(resource);
  ports_[(router << port_shift_) + vc.output].free_vcs &= ~(1U << vc_of_[resource]);
  if (now != since_[input]) {
    lost_vc_[(router << vc_shift_) + vc.output * num_vcs_ + lowest(vc.vcs)] += now - since_[input];
  }
  if (!queue_order_.empty()) {
    queue_order_[input].sa_cycle = -cycle_;
    queue_order_[input].sa = queue_order_[input].va;
  }
  if (sa_delay_ == 1) {
    join_sa(router, bit64(bit), now + 1);
  } else {
    wake_at(now + sa_delay_, kJoinSa, input);
  }
}

}  // namespace cosim::noc
