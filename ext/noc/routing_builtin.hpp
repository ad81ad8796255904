// The built-in routing functions: who makes them and who calls them. The classes are final, so a call needs no table.
#pragma once

#include <cstdint>
#include <memory>

#include "noc/routing.hpp"

namespace cosim::noc {

// The function of spec.routing.kind, neither `table` nor `plugin`. Throws std::invalid_argument when it cannot serve
// this network.
[[nodiscard]] std::unique_ptr<RoutingFunction> make_builtin(const NetworkSpec& spec);

// function.route(), where `function` is of `kind`.
inline std::int32_t route_builtin(RoutingKind kind, RoutingFunction& function, RouteRequest& request,
                                  const RouterView& view, Candidate* candidates, std::uint32_t room) {
  switch (kind) {
    case RoutingKind::table:
    case RoutingKind::plugin:
      break;
  }
  return function.route(request, view, candidates, room);
}

}  // namespace cosim::noc
