#include "bindings/register.hpp"

namespace cosim::bindings {

void register_mem(pybind11::module_&) {}

}  // namespace cosim::bindings
