// The built-in routing functions: who makes them and who calls them. The classes are final, so a call needs no table.
#pragma once

#include <cstdint>
#include <memory>

#include "noc/route_ways.hpp"
#include "noc/routing.hpp"
#include "noc/routing_grid.hpp"

namespace cosim::noc {

// Whether a kind's routes are RouteWays: made without the network's own state.
[[nodiscard]] constexpr bool is_oblivious(RoutingKind kind) {
  return kind == RoutingKind::dateline || kind == RoutingKind::dateline_booksim || kind == RoutingKind::nca;
}

// Those of an oblivious spec.routing.kind. Throws std::invalid_argument when it cannot serve this network.
[[nodiscard]] RouteWays make_ways(const NetworkSpec& spec);

// The function of spec.routing.kind, neither `table` nor `plugin`. Throws std::invalid_argument when it cannot serve
// this network.
[[nodiscard]] std::unique_ptr<RoutingFunction> make_builtin(const NetworkSpec& spec);

// function.route(), where `function` is of `kind`.
inline std::int32_t route_builtin(RoutingKind kind, RoutingFunction& function, RouteRequest& request,
                                  const RouterView& view, Candidate* candidates, std::uint32_t room) {
  switch (kind) {
    case RoutingKind::dateline:
    case RoutingKind::dateline_booksim:
    case RoutingKind::nca:
      return static_cast<ObliviousRouting&>(function).route(request, view, candidates, room);
    case RoutingKind::odd_even:
      return static_cast<OddEvenRouting&>(function).route(request, view, candidates, room);
    case RoutingKind::west_first:
      return static_cast<WestFirstRouting&>(function).route(request, view, candidates, room);
    case RoutingKind::min_adaptive:
      return static_cast<MinAdaptiveRouting&>(function).route(request, view, candidates, room);
    case RoutingKind::table:
    case RoutingKind::plugin:
      break;
  }
  return function.route(request, view, candidates, room);
}

}  // namespace cosim::noc
