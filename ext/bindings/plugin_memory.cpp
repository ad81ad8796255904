#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "bindings/held.hpp"
#include "bindings/register.hpp"
#include "mem/channel_config.hpp"
#include "mem/plugin_channel.hpp"

namespace cosim::bindings {

namespace py = pybind11;

void register_plugin_memory(py::module_& m) {
  py::register_exception<mem::MemoryPluginError>(m, "MemoryPluginError", PyExc_RuntimeError);
  py::class_<mem::MemoryPlugin, std::shared_ptr<mem::MemoryPlugin>>(
      m, "MemoryPlugin",
      "A memory plug-in: the address of its table of functions, its parameters, and what it is to be.")
      .def(
          py::init([](std::uintptr_t table, std::string params, std::string preset, std::uint64_t peak_bytes_per_second,
                      std::uint64_t tick_fs_num, std::uint64_t tick_fs_den, py::object library) {
            auto plugin = std::make_shared<mem::MemoryPlugin>();
            plugin->table = reinterpret_cast<const cosim_memory_v1*>(table);
            plugin->params = std::move(params);
            plugin->preset = std::move(preset);
            plugin->peak_bytes_per_second = peak_bytes_per_second;
            plugin->tick_fs_num = tick_fs_num;
            plugin->tick_fs_den = tick_fs_den;
            plugin->library = std::make_shared<const Held>(std::move(library));
            return plugin;
          }),
          py::arg("table"), py::arg("params"), py::arg("preset"), py::arg("peak_bytes_per_second"),
          py::arg("tick_fs_num"), py::arg("tick_fs_den"), py::arg("library"),
          "`table` must stay valid as long as `library` lives.")
      .def(
          "serve",
          [](const std::shared_ptr<mem::MemoryPlugin>& plugin, mem::ChannelConfig& config) { config.plugin = plugin; },
          py::arg("config"), "Channels of this configuration are made by the plug-in.");
}

}  // namespace cosim::bindings
