#include "bindings/register.hpp"

namespace cosim::bindings {

void register_noc(pybind11::module_&) {}

}  // namespace cosim::bindings
