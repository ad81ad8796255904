// The extension module: registration only, one translation unit per area.
#include "bindings/register.hpp"

PYBIND11_MODULE(_core, m, pybind11::mod_gil_not_used()) {
  m.doc() = "C++ core of cosim: network, memory and engine; used through the Python package.";
  m.attr("__version__") = COSIM_VERSION;
  cosim::bindings::register_sim(m);
  cosim::bindings::register_plugin_routing(m);
  cosim::bindings::register_noc(m);
  cosim::bindings::register_mem(m);
  cosim::bindings::register_plugin_memory(m);
  cosim::bindings::register_engine(m);
}
