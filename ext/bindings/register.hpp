#pragma once

#include <pybind11/pybind11.h>

namespace cosim::bindings {

void register_sim(pybind11::module_& m);
void register_noc(pybind11::module_& m);
void register_mem(pybind11::module_& m);
void register_plugin_routing(pybind11::module_& m);
void register_plugin_memory(pybind11::module_& m);
void register_engine(pybind11::module_& m);

}  // namespace cosim::bindings
