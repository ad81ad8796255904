// Routing by the nearest common ancestor, for graphs whose routers have levels.
#pragma once

#include <cstdint>
#include <vector>

#include "noc/routing.hpp"

namespace cosim::noc {

// Down as soon as a way of downward links alone leads to the destination, else up; by chance among ports that are as
// good. In compatible mode on a fat tree this is BookSim2's nca. No turn from down to up, hence no cycle of waits.
class NcaRouting final : public RoutingFunction {
 public:
  // Throws std::invalid_argument when routers have no level or a terminal cannot be reached.
  explicit NcaRouting(const NetworkSpec& spec);
  [[nodiscard]] RoutingTraits traits() const override { return {false, false, true}; }
  std::int32_t route(RouteRequest& request, const RouterView& view, Candidate* candidates, std::uint32_t room) override;

 private:
  std::size_t terminals_ = 0;
  std::vector<std::uint32_t> first_;  // into ports_, [router * terminals + destination], and the end
  std::vector<std::uint8_t> ports_;
};

}  // namespace cosim::noc
