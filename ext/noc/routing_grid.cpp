#include "noc/routing_grid.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "noc/bits.hpp"
#include "noc/spec.hpp"

namespace cosim::noc {

namespace {

constexpr std::uint32_t kAllVcs = ~0U;

std::int32_t one(Candidate* candidates, std::uint32_t port, std::uint32_t vcs) {
  candidates[0] = {vcs, as_u8(port), 0, 0};
  return 1;
}

void need_plane(const Grid& grid, const char* name) {
  if (grid.dimensions() != 2) throw std::invalid_argument(std::string(name) + " routes meshes of two dimensions");
}

std::vector<std::uint32_t> class_masks(const NetworkSpec& spec) {
  std::vector<std::uint32_t> masks;
  for (const ClassSpec& c : spec.classes) masks.push_back(c.vc_mask);
  if (masks.empty()) masks.push_back(spec.num_vcs >= 32 ? kAllVcs : (1U << as_u32(spec.num_vcs)) - 1);
  return masks;
}

// The VCs of every message class in two parts.
std::vector<RouteWays::Halves> halved_vcs(const NetworkSpec& spec, bool overlap) {
  std::vector<RouteWays::Halves> classes;
  for (const std::uint32_t mask : class_masks(spec)) {
    const std::int32_t count = std::popcount(mask);
    if (count < 2) {
      throw std::invalid_argument("dateline routing needs at least 2 VCs of every message class, got " +
                                  std::to_string(count));
    }
    RouteWays::Halves halves;
    std::int32_t position = 0;
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1, ++position) {
      const std::uint32_t bit = rest & (~rest + 1);
      const bool in_low = position < count - count / 2;
      if (in_low) halves.lower |= bit;
      if (overlap ? position >= count / 2 : !in_low) halves.upper |= bit;
    }
    classes.push_back(halves);
  }
  return classes;
}

RouteWays ring_ways(const NetworkSpec& spec, bool booksim) {
  const Grid grid(spec);
  const std::size_t routers = as_size(spec.routers);
  const std::size_t terminals = spec.terminals.size();
  RouteWays ways(routers, terminals, 2 * grid.dimensions(), halved_vcs(spec, booksim));
  for (std::uint32_t router = 0; router < routers; ++router) {
    for (std::uint32_t d = 0; d < grid.dimensions() && !booksim; ++d) {
      if (grid.at(router, d) + 1 == grid.size(d)) ways.close(router, 2 * d);
      if (grid.at(router, d) == 0) ways.close(router, 2 * d + 1);
    }
    for (std::uint32_t dest = 0; dest < terminals; ++dest) {
      const std::uint32_t goal = grid.router_of(dest);
      const std::uint32_t d = grid.first_difference(router, goal);
      if (d == grid.dimensions()) {
        ways.eject(router, dest, grid.port_of(dest));
        continue;
      }
      const std::int32_t k = grid.size(d);
      const std::int32_t ahead = (grid.at(goal, d) - grid.at(router, d) + k) % k;
      std::vector<std::uint8_t> ports;
      if (2 * ahead >= k) ports.push_back(as_u8(2 * d + 1));
      if (2 * ahead <= k) ports.push_back(as_u8(2 * d));
      ways.lead(router, dest, ports, booksim && grid.at(router, d) > grid.at(goal, d));
    }
  }
  return ways;
}

}  // namespace

Grid::Grid(const NetworkSpec& spec) : shape_(spec.routing.shape) {
  std::int64_t routers = 1;
  for (const std::int32_t k : shape_) routers *= k;
  if (shape_.empty() || routers != spec.routers) {
    throw std::invalid_argument("this routing needs the coordinates of a mesh or torus");
  }
  for (std::int32_t r = 0; r < spec.routers; ++r) {
    std::int32_t rest = r;
    for (const std::int32_t k : shape_) {
      place_.push_back(rest % k);
      rest /= k;
    }
  }
  for (const TerminalSpec& terminal : spec.terminals) {
    router_of_.push_back(as_u32(terminal.router));
    port_of_.push_back(as_u8(as_u32(terminal.port)));
  }
}

std::uint32_t Grid::first_difference(std::uint32_t a, std::uint32_t b) const {
  std::uint32_t d = 0;
  while (d < dimensions() && at(a, d) == at(b, d)) ++d;
  return d;
}

RouteWays dateline_ways(const NetworkSpec& spec) { return ring_ways(spec, false); }
RouteWays booksim_dateline_ways(const NetworkSpec& spec) { return ring_ways(spec, true); }

OddEvenRouting::OddEvenRouting(const NetworkSpec& spec) : grid_(spec) { need_plane(grid_, "odd_even"); }

std::int32_t OddEvenRouting::route(RouteRequest& request, const RouterView& /*view*/, Candidate* candidates,
                                   std::uint32_t /*room*/) {
  const std::uint32_t goal = grid_.router_of(request.dest);
  const std::int32_t column = grid_.at(request.router, 0);
  const std::int32_t to_column = grid_.at(goal, 0);
  const std::int32_t east = to_column - column;
  const std::int32_t north = grid_.at(goal, 1) - grid_.at(request.router, 1);
  if (east == 0 && north == 0) return one(candidates, grid_.port_of(request.dest), kAllVcs);
  const std::uint32_t vertical = north > 0 ? 2 : 3;
  if (east == 0) return one(candidates, vertical, kAllVcs);
  std::int32_t count = 0;
  const auto offer = [&](std::uint32_t port) { candidates[count++] = {kAllVcs, as_u8(port), 0, 0}; };
  if (east > 0) {
    const bool may_turn = column % 2 == 1 || column == grid_.at(grid_.router_of(request.source), 0);
    if (north == 0) return one(candidates, 0, kAllVcs);
    if (may_turn) offer(vertical);
    if (to_column % 2 == 1 || east != 1) offer(0);
  } else {
    offer(1);
    if (north != 0 && column % 2 == 0) offer(vertical);
  }
  return count;
}

WestFirstRouting::WestFirstRouting(const NetworkSpec& spec) : grid_(spec) { need_plane(grid_, "west_first"); }

std::int32_t WestFirstRouting::route(RouteRequest& request, const RouterView& /*view*/, Candidate* candidates,
                                     std::uint32_t /*room*/) {
  const std::uint32_t goal = grid_.router_of(request.dest);
  const std::int32_t east = grid_.at(goal, 0) - grid_.at(request.router, 0);
  const std::int32_t north = grid_.at(goal, 1) - grid_.at(request.router, 1);
  if (east < 0) return one(candidates, 1, kAllVcs);
  if (east == 0 && north == 0) return one(candidates, grid_.port_of(request.dest), kAllVcs);
  std::int32_t count = 0;
  if (east > 0) candidates[count++] = {kAllVcs, 0, 0, 0};
  if (north != 0) candidates[count++] = {kAllVcs, as_u8(north > 0 ? 2U : 3U), 0, 0};
  return count;
}

MinAdaptiveRouting::MinAdaptiveRouting(const NetworkSpec& spec)
    : grid_(spec), ports_(as_u32(spec.ports)), compatible_(spec.compat_booksim2) {
  for (const std::uint32_t mask : class_masks(spec)) {
    if (std::popcount(mask) < 2) {
      throw std::invalid_argument(
          "min_adaptive needs at least 2 VCs of every message class, one of them for the escape, got 1");
    }
  }
  depth_.resize(as_size(spec.routers) * as_size(spec.ports), 0);
  for (const LinkSpec& link : spec.links) {
    depth_[as_size(link.from_router) * ports_ + as_size(link.from_port)] = as_u32(link.buffer_flits);
  }
}

// The VCs of `vcs` that hold no other packet back: empty, or with room for all of this one.
std::uint32_t MinAdaptiveRouting::takers(const RouteRequest& request, const RouterView& view, std::uint32_t port,
                                         std::uint32_t vcs) const {
  if (compatible_) return vcs;
  const std::uint32_t enough = std::min(request.size_flits, depth_[request.router * std::size_t{ports_} + port]);
  std::uint32_t taken = 0;
  for (std::uint32_t rest = vcs & view.free_vcs(port); rest != 0; rest &= rest - 1) {
    const std::uint32_t vc = lowest(rest);
    if (view.free_slots(port, vc) >= enough) taken |= 1U << vc;
  }
  return taken;
}

std::int32_t MinAdaptiveRouting::route(RouteRequest& request, const RouterView& view, Candidate* candidates,
                                       std::uint32_t /*room*/) {
  const std::uint32_t goal = grid_.router_of(request.dest);
  const std::uint32_t d = grid_.first_difference(request.router, goal);
  if (d == grid_.dimensions()) return one(candidates, grid_.port_of(request.dest), kAllVcs);
  const auto towards = [&](std::uint32_t dimension) {
    return 2 * dimension + (grid_.at(goal, dimension) < grid_.at(request.router, dimension) ? 1U : 0U);
  };
  const std::uint32_t escape = request.class_vcs & (~request.class_vcs + 1);
  candidates[0] = {escape, as_u8(towards(d)), 1, 0};
  if (!request.from_terminal && (escape >> request.in_vc & 1U) != 0) return 1;
  std::int32_t count = 1;
  for (std::uint32_t each = d; each < grid_.dimensions(); ++each) {
    if (grid_.at(goal, each) == grid_.at(request.router, each)) continue;
    const std::uint32_t vcs = takers(request, view, towards(each), request.class_vcs & ~escape);
    if (vcs != 0) candidates[count++] = {vcs, as_u8(towards(each)), 0, 0};
    if (compatible_) break;
  }
  return count;
}

}  // namespace cosim::noc
