#include "noc/routing_builtin.hpp"

#include "noc/spec.hpp"

namespace cosim::noc {

std::unique_ptr<RoutingFunction> make_builtin(const NetworkSpec& spec) {
  switch (spec.routing.kind) {
    case RoutingKind::dateline:
      return std::make_unique<DatelineRouting>(spec);
    case RoutingKind::dateline_booksim:
      return std::make_unique<BooksimDatelineRouting>(spec);
    case RoutingKind::nca:
      return std::make_unique<NcaRouting>(spec);
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
