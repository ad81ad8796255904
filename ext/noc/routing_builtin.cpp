#include "noc/routing_builtin.hpp"

#include "noc/routing_nca.hpp"
#include "noc/spec.hpp"

namespace cosim::noc {

RouteWays make_ways(const NetworkSpec& spec) {
  switch (spec.routing.kind) {
    case RoutingKind::dateline:
      return dateline_ways(spec);
    case RoutingKind::dateline_booksim:
      return booksim_dateline_ways(spec);
    default:
      return nca_ways(spec);
  }
}

std::unique_ptr<RoutingFunction> make_builtin(const NetworkSpec& spec) {
  switch (spec.routing.kind) {
    case RoutingKind::dateline:
    case RoutingKind::dateline_booksim:
    case RoutingKind::nca:
      return std::make_unique<ObliviousRouting>(make_ways(spec));
    case RoutingKind::odd_even:
      return std::make_unique<OddEvenRouting>(spec);
    case RoutingKind::west_first:
      return std::make_unique<WestFirstRouting>(spec);
    case RoutingKind::min_adaptive:
      return std::make_unique<MinAdaptiveRouting>(spec);
    case RoutingKind::table:
    case RoutingKind::plugin:
      break;
  }
  throw std::invalid_argument("no built-in routing function of this kind");
}

}  // namespace cosim::noc
