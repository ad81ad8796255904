#include "bindings/register.hpp"

namespace cosim::bindings {

void register_engine(pybind11::module_&) {}

}  // namespace cosim::bindings
