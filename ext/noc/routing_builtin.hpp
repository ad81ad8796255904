// The built-in routing functions: who makes them and who calls them. The classes are final, so a call needs no table.
#pragma once

#include <cstdint>
#include <memory>

#include "noc/routing.hpp"
#include "noc/routing_grid.hpp"
#include "noc/routing_nca.hpp"

namespace cosim::noc {

// The function of spec.routing.kind, neither `table` nor `plugin`. Throws std::invalid_argument when it cannot serve
// this network.
[[nodiscard]] std::unique_ptr<RoutingFunction> make_builtin(const NetworkSpec& spec);

// function.route(), where `function` is of `kind`.
inline std::int32_t route_builtin(RoutingKind kind, RoutingFunction& function, RouteRequest& request,
                                  const RouterView& view, Candidate* candidates, std::uint32_t room) {
  switch (kind) {
    case RoutingKind::dateline:
      return static_cast<DatelineRouting&>(function).route(request, view, candidates, room);
    case RoutingKind::dateline_booksim:
      return static_cast<BooksimDatelineRouting&>(function).route(request, view, candidates, room);
    case RoutingKind::nca:
      return static_cast<NcaRouting&>(function).route(request, view, candidates, room);
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
