// Routes that change while a network runs, because links fail: from the cycle of a change on no packet leaves its
// source; those in the network go on by the old routes; when the last flit has left the last router, the new routes
// hold and the sources go on. So packets of two sets of routes never wait for each other, and a proof of freedom from
// deadlock for each set is one for the run (static reconfiguration, as Autonet's: Schroeder et al., IEEE JSAC 1991).
#include <algorithm>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "noc/flit_network_inline.hpp"

namespace cosim::noc {

void FlitNetwork::build_route_changes(const NetworkSpec& spec) {
  for (const RouteChange& change : spec.route_changes) changes_.push_back({change.at_cycle, change.routes});
  first_routes_ = spec.routes;
  spec_.route_changes.clear();
}

bool FlitNetwork::drained() const {
  return flits_in_flight() == 0 &&
         std::none_of(queues_.begin(), queues_.end(), [](const SourceQueue& queue) { return queue.left != 0; });
}

// When a change is due or can be made, kNoEvent: not without another event.
std::int64_t FlitNetwork::next_change() const {
  if (draining_ != 0) return drained() ? cycle_ + 1 : kNoEvent;
  // in an empty network it is made as soon as there is a packet
  return changes_made_.size() == changes_.size() || idle() ? kNoEvent : changes_[changes_made_.size()].at_cycle;
}

void FlitNetwork::step_route_change() {
  bool changed = false;
  while (changes_made_.size() < changes_.size()) {
    if (draining_ == 0) {
      if (changes_[changes_made_.size()].at_cycle > cycle_) break;
      draining_ = 1;
    }
    if (!drained()) return;
    changes_made_.push_back(cycle_);
    draining_ = 0;
    changed = true;
  }
  if (!changed) return;
  take_routes();
  for (std::uint32_t queue = 0; queue < queues_.size(); ++queue) {
    if (queues_[queue].first != kNoPacket) activate(queue / num_classes_);
  }
}

// The routes that the changes made so far leave.
void FlitNetwork::take_routes() {
  const RouteTable& routes = changes_made_.empty() ? first_routes_ : changes_[changes_made_.size() - 1].routes;
  std::copy(routes.entries.begin(), routes.entries.end(), routes_.begin());
  vc_sets_ = routes.vc_sets;
}

}  // namespace cosim::noc
