// Routing functions of meshes and tori (build_grid): ports 2d and 2d+1 lead to +1 and -1 in dimension d.
#pragma once

#include <cstdint>
#include <vector>

#include "noc/route_ways.hpp"
#include "noc/routing.hpp"

namespace cosim::noc {

// Coordinates of routers and places of terminals.
class Grid {
 public:
  // Throws std::invalid_argument when the network has no coordinates.
  explicit Grid(const NetworkSpec& spec);

  [[nodiscard]] std::uint32_t dimensions() const { return static_cast<std::uint32_t>(shape_.size()); }
  [[nodiscard]] std::int32_t size(std::uint32_t d) const { return shape_[d]; }
  [[nodiscard]] std::int32_t at(std::uint32_t router, std::uint32_t d) const {
    return place_[router * shape_.size() + d];
  }
  [[nodiscard]] std::uint32_t router_of(std::uint32_t terminal) const { return router_of_[terminal]; }
  [[nodiscard]] std::uint8_t port_of(std::uint32_t terminal) const { return port_of_[terminal]; }
  // The first dimension in which two routers differ; dimensions() when they are one.
  [[nodiscard]] std::uint32_t first_difference(std::uint32_t a, std::uint32_t b) const;

 private:
  std::vector<std::int32_t> shape_;
  std::vector<std::int32_t> place_;
  std::vector<std::uint32_t> router_of_;
  std::vector<std::uint8_t> port_of_;
};

// Dimension order on a torus, the shorter way round, at equal ways either by chance. A packet starts each ring on the
// lower half of its class's VCs and takes the upper one from the link that closes the ring on (Dally and Seitz, 1987);
// of an odd number the lower half is larger. Throws std::invalid_argument when a class has one VC only.
[[nodiscard]] RouteWays dateline_ways(const NetworkSpec& spec);

// BookSim2's dim_order_torus: as dateline, but the half of a ring is chosen when it is entered and kept: the upper one
// when the coordinate is above the destination's, in both directions. The halves of an odd number share the middle VC.
[[nodiscard]] RouteWays booksim_dateline_ways(const NetworkSpec& spec);

// Odd-even turns on a 2D mesh, minimal (Chiu, IEEE TPDS 2000, figure 6): no turn from east to north or south in even
// columns, none from north or south to west in odd ones.
class OddEvenRouting final : public RoutingFunction {
 public:
  explicit OddEvenRouting(const NetworkSpec& spec);
  [[nodiscard]] RoutingTraits traits() const override { return {false, true, true}; }
  std::int32_t route(RouteRequest& request, const RouterView& view, Candidate* candidates, std::uint32_t room) override;

 private:
  Grid grid_;
};

// West first on a 2D mesh, minimal (Glass and Ni, ISCA 1992): all hops to -1 in dimension 0 come first, the rest is
// adaptive.
class WestFirstRouting final : public RoutingFunction {
 public:
  explicit WestFirstRouting(const NetworkSpec& spec);
  [[nodiscard]] RoutingTraits traits() const override { return {false, true, true}; }
  std::int32_t route(RouteRequest& request, const RouterView& view, Candidate* candidates, std::uint32_t room) override;

 private:
  Grid grid_;
};

// Minimal adaptive on a mesh. The first VC of a class is the escape: dimension order, and a packet on it stays on it;
// every productive port may be taken on the others, which go first. An adaptive VC is offered only when the packet fits
// its free slots or it is empty, so that no packet waits in one for another: what Duato's proof (IEEE TPDS 1993) needs.
// In compatible mode as BookSim2's min_adapt: adaptive VCs whose buffer is full too, and of the productive ports the
// first alone, because its set of outputs keeps one of equal priority (outputset.hpp, operator<).
class MinAdaptiveRouting final : public RoutingFunction {
 public:
  explicit MinAdaptiveRouting(const NetworkSpec& spec);
  [[nodiscard]] RoutingTraits traits() const override { return {!compatible_, true, true}; }
  std::int32_t route(RouteRequest& request, const RouterView& view, Candidate* candidates, std::uint32_t room) override;

 private:
  [[nodiscard]] std::uint32_t takers(const RouteRequest& request, const RouterView& view, std::uint32_t port,
                                     std::uint32_t vcs) const;
  Grid grid_;
  std::vector<std::uint32_t> depth_;  // flits per VC behind an output, [router * ports + port]
  std::uint32_t ports_ = 0;
  bool compatible_ = false;
};

}  // namespace cosim::noc
