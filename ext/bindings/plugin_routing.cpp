#include "noc/plugin_routing.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/held.hpp"
#include "bindings/register.hpp"
#include "noc/plugin_arbiter.hpp"
#include "noc/router_models.hpp"

namespace cosim::bindings {

namespace py = pybind11;

namespace {

void register_plugin_routers(py::module_& m) {
  py::class_<noc::PluginArbiterFactory, std::shared_ptr<noc::PluginArbiterFactory>>(
      m, "ArbiterPlugin", "An arbiter plug-in: the address of its table of functions and its parameters.")
      .def(py::init([](std::uintptr_t table, std::string params, py::object library) {
             noc::ArbiterPlugin plugin;
             plugin.table = reinterpret_cast<const cosim_arbiter_v1*>(table);
             plugin.library = std::make_shared<const Held>(std::move(library));
             plugin.params = std::move(params);
             return std::make_shared<noc::PluginArbiterFactory>(std::move(plugin));
           }),
           py::arg("table"), py::arg("params"), py::arg("library"),
           "`table` must stay valid as long as `library` lives.")
      .def_property_readonly("name", &noc::PluginArbiterFactory::name);
  py::class_<noc::RouterModelPlugin, std::shared_ptr<noc::RouterModelPlugin>>(
      m, "RouterModelPlugin", "A router model: the address of its table of functions and its parameters.")
      .def(py::init([](std::uintptr_t table, std::string params, std::string topology, std::vector<std::uint32_t> dims,
                       py::object library) {
             auto plugin = std::make_shared<noc::RouterModelPlugin>();
             plugin->table = reinterpret_cast<const cosim_router_model_v1*>(table);
             plugin->library = std::make_shared<const Held>(std::move(library));
             plugin->params = std::move(params);
             plugin->topology = std::move(topology);
             plugin->dims = std::move(dims);
             return plugin;
           }),
           py::arg("table"), py::arg("params"), py::arg("topology"), py::arg("dims"), py::arg("library"),
           "`table` must stay valid as long as `library` lives.")
      .def_property_readonly("name", [](const noc::RouterModelPlugin& plugin) { return plugin.table->name; });
}

}  // namespace

void register_plugin_routing(py::module_& m) {
  register_plugin_routers(m);
  py::class_<noc::PluginCost>(m, "PluginCost", "What a routing plug-in cost in a run.")
      .def_readonly("heads", &noc::PluginCost::heads, "heads routed")
      .def_readonly("calls", &noc::PluginCost::calls, "of which took a call; the others were answered from a table");
  py::class_<noc::PluginRoutingFactory, std::shared_ptr<noc::PluginRoutingFactory>>(
      m, "RoutingPlugin", "A routing plug-in: the address of its table of functions and its parameters.")
      .def(py::init([](std::uintptr_t table, std::string params, std::string topology, std::vector<std::uint32_t> dims,
                       std::uint32_t flit_bytes, py::object library) {
             noc::RouterPlugin plugin;
             plugin.table = reinterpret_cast<const cosim_router_v1*>(table);
             plugin.library = std::make_shared<const Held>(std::move(library));
             plugin.params = std::move(params);
             plugin.topology = std::move(topology);
             plugin.dims = std::move(dims);
             plugin.flit_bytes = flit_bytes;
             return std::make_shared<noc::PluginRoutingFactory>(std::move(plugin));
           }),
           py::arg("table"), py::arg("params"), py::arg("topology"), py::arg("dims"), py::arg("flit_bytes"),
           py::arg("library"), "`table` must stay valid as long as `library` lives.")
      .def_property_readonly("name", &noc::PluginRoutingFactory::name);
}

}  // namespace cosim::bindings
