// Flits over links that flip bits: they arrive when a transmission succeeds, maybe beyond the reach of the event wheel.
#include <algorithm>
#include <functional>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "noc/flit_network_inline.hpp"

namespace cosim::noc {

void FlitNetwork::send_with_retry(std::uint32_t r, std::uint32_t p, std::uint32_t sent, std::uint32_t down,
                                  std::uint32_t word) {
  const std::int64_t time = port(r, p).link_time;
  const std::int64_t leaves = base_ + sent;
  const std::int64_t there = retry_->send(std::size_t{r} * as_u32(spec_.ports) + p, leaves, time);
  if ((word & kTail) != 0) retry_of_[word & kPacketMask] += there - leaves - time;
  if (there - cycle_ <= arrivals_mask_) {
    arrive_at(static_cast<std::uint32_t>(there - base_), down);
    return;
  }
  late_arrivals_.push_back({there, down, 0});
  std::push_heap(late_arrivals_.begin(), late_arrivals_.end(), std::greater<>());
}

// What has come into the wheel's reach.
void FlitNetwork::take_late_arrivals() {
  while (!late_arrivals_.empty() && late_arrivals_.front().cycle - cycle_ <= arrivals_mask_) {
    const LateArrival late = late_arrivals_.front();
    std::pop_heap(late_arrivals_.begin(), late_arrivals_.end(), std::greater<>());
    late_arrivals_.pop_back();
    arrive_at(static_cast<std::uint32_t>(late.cycle - base_), late.input_vc);
  }
}

}  // namespace cosim::noc
