// Reductions inside a network: legs that end at units, and the packets that carry sums.
#include <stdexcept>
#include <utility>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "noc/flit_network_inline.hpp"

namespace cosim::noc {

void FlitNetwork::build_reductions(const NetworkSpec& spec) {
  reductions_ = std::make_unique<Reductions>(spec);
  forks_.resize(input_vcs());  // the cycle of networks whose packets fork
}

std::int32_t FlitNetwork::begin_reduction(std::int32_t dest, const std::vector<std::int32_t>& sources,
                                          std::int32_t size_flits, std::int32_t message_class) {
  if (message_class < 0 || as_size(message_class) >= spec_.classes.size() ||
      !spec_.classes[as_size(message_class)].reduction) {
    throw std::invalid_argument("message class " + std::to_string(message_class) + " is no reduction class");
  }
  if (size_flits < 1 || size_flits > kMostHeldFlits + 1) {
    throw std::invalid_argument("packets of a reduction have 1 to " + std::to_string(kMostHeldFlits + 1) +
                                " flits, got " + std::to_string(size_flits));
  }
  const std::uint32_t tree = reductions_->trees().tree(dest, sources);
  return static_cast<std::int32_t>(reductions_->begin(tree, size_flits, message_class));
}

// A flit of a leg is read by the unit or the destination at its end.
void FlitNetwork::read_leg(std::uint32_t slot, std::int64_t read, bool tail) {
  Packet& packet = packets_[slot];
  const Reductions::Tail known{packet.create, packet.inject, packet.flit_sum, packet.path, packet.tag};
  const Reductions::Progress progress = reductions_->read(slot, read, tail ? &known : nullptr);
  if (progress.more) {
    wake_at(static_cast<std::uint32_t>(read - base_ + spec_.reduction.combine_delay), kSum, progress.sum);
  }
  if (progress.end) reductions_->finish(slot, read, arrivals_);
  if (tail) packet.next = std::exchange(free_packet_, slot);
}

// One more flit of a sum may leave its unit.
void FlitNetwork::advance_sum(std::uint32_t sum) {
  const Reductions::Ready ready = reductions_->ready(sum, cycle_);
  if (!ready.first) {
    supply(reductions_->slot_of(sum), 1);
    return;
  }
  const std::uint32_t slot = new_slot();
  Packet& packet = packets_[slot];
  packet = {};
  packet.create = cycle_;
  packet.source = static_cast<std::int32_t>(nodes_ + ready.source_unit);
  packet.dest = ready.dest;
  packet.size = ready.size;
  packet.next = kNoPacket;
  packet.route_state = ready.unit == Reductions::kNoUnit ? 0 : kLeg | ready.unit;
  packet.message_class = as_u8(as_u32(ready.message_class));
  packet.held = static_cast<std::uint16_t>(ready.size - 1);
  reductions_->put(sum, slot);
  enqueue(slot);
  activate(nodes_ + ready.source_unit);
}

}  // namespace cosim::noc
