#include "noc/routing_builtin.hpp"

#include "noc/spec.hpp"

namespace cosim::noc {

std::unique_ptr<RoutingFunction> make_builtin(const NetworkSpec& spec) {
  switch (spec.routing.kind) {
    case RoutingKind::table:
    case RoutingKind::plugin:
      break;
  }
  throw std::invalid_argument("no built-in routing function of this kind");
}

}  // namespace cosim::noc
