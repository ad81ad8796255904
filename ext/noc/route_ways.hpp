// Where heads may go when that depends on nothing but the head itself: one port, or one by chance of several that are
// as good, and on rings the VCs of the half that the packet is in. Built once, looked up inside a network's cycle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "noc/routing.hpp"

namespace cosim::noc {

class RouteWays {
 public:
  struct Way {
    std::uint32_t port = 0;
    std::uint32_t vcs = 0;
  };
  // The VCs of a class on the two parts of a ring.
  struct Halves {
    std::uint32_t lower = 0;
    std::uint32_t upper = 0;
  };

  // Without rings: every way may use all VCs.
  RouteWays(std::size_t routers, std::size_t terminals)
      : terminals_(terminals), entries_(routers * terminals, kEjects | kPort), sets_(1) {}
  // With rings on the ports below `ring_ports`, a pair 2d, 2d + 1 for each: a packet enters a ring by one of its ports
  // and goes on straight. `halves` has an item per message class.
  RouteWays(std::size_t routers, std::size_t terminals, std::uint32_t ring_ports, std::vector<Halves> halves)
      : RouteWays(routers, terminals) {
    ring_ports_ = ring_ports;
    halves_ = std::move(halves);
    closes_.resize(routers);
  }

  void eject(std::size_t router, std::size_t dest, std::uint32_t port) { entry(router, dest) = kEjects | port; }
  // Packets at `router` for `dest` take one of `ports`, in whose order the draws are; on a ring they start in its upper
  // half when `upper`. Throws std::invalid_argument when there are too many different choices.
  void lead(std::size_t router, std::size_t dest, const std::vector<std::uint8_t>& ports, bool upper = false);
  // From this port on a packet is in the upper half of its ring.
  void close(std::size_t router, std::uint32_t port) { closes_[router] |= std::uint64_t{1} << port; }

  // `state` is the packet's, 0 at its source; `draw(n)` is uniform in [0, n).
  template <class Draw>
  [[nodiscard]] Way take(std::uint32_t router, std::uint32_t in_port, std::uint32_t dest, std::uint32_t message_class,
                         std::uint32_t& state, Draw draw) const {
    const std::uint32_t entry = entries_[router * terminals_ + dest];
    std::uint32_t port = entry & kPort;
    if ((entry & kEjects) != 0) return {port, ~0U};
    if (in_port < ring_ports_ && (in_port ^ port) < 2) {
      port = in_port ^ 1U;
    } else {
      const std::uint32_t set = entry >> kSetShift & kSet;
      if (set != 0) port = ports_[sets_[set].first + draw(sets_[set].count)];
      if (ring_ports_ == 0) return {port, ~0U};
      state = entry >> kUpperShift;
    }
    state |= static_cast<std::uint32_t>(closes_[router] >> port) & 1U;
    const Halves& halves = halves_[message_class];
    return {port, state != 0 ? halves.upper : halves.lower};
  }

  // To be read soon.
  [[nodiscard]] const void* place(std::uint32_t router, std::uint32_t dest) const {
    return &entries_[router * terminals_ + dest];
  }
  [[nodiscard]] std::size_t core_bytes() const;

 private:
  // An entry: the port, or the first of several; the set of several, 0 for one; bits.
  static constexpr std::uint32_t kPort = 255;
  static constexpr std::uint32_t kSetShift = 8;
  static constexpr std::uint32_t kSet = (1U << 22U) - 1;
  static constexpr std::uint32_t kEjects = 1U << 30U;
  static constexpr std::uint32_t kUpperShift = 31;
  struct Set {  // of ports_
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  [[nodiscard]] std::uint32_t& entry(std::size_t router, std::size_t dest) {
    return entries_[router * terminals_ + dest];
  }
  [[nodiscard]] std::uint32_t set_of(const std::vector<std::uint8_t>& ports);

  std::size_t terminals_ = 0;
  std::uint32_t ring_ports_ = 0;
  std::vector<std::uint32_t> entries_;  // [router * terminals + destination]
  std::vector<Set> sets_;
  std::vector<std::uint8_t> ports_;
  std::vector<Halves> halves_;
  std::vector<std::uint64_t> closes_;             // per router: ports that close a ring
  std::map<std::string, std::uint32_t> numbers_;  // of the sets, by their ports
};

// RouteWays as a routing function: for those who ask head by head.
class ObliviousRouting final : public RoutingFunction {
 public:
  explicit ObliviousRouting(RouteWays ways) : ways_(std::move(ways)) {}
  [[nodiscard]] RoutingTraits traits() const override { return {false, false, true}; }
  std::int32_t route(RouteRequest& request, const RouterView& /*view*/, Candidate* candidates,
                     std::uint32_t /*room*/) override {
    const RouteWays::Way way = ways_.take(request.router, request.in_port, request.dest, request.message_class,
                                          request.state, [&](std::uint32_t n) { return request.draws->below(n); });
    candidates[0] = {way.vcs, static_cast<std::uint8_t>(way.port), 0, 0};
    return 1;
  }

 private:
  RouteWays ways_;
};

}  // namespace cosim::noc
