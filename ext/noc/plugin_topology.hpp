// A network's graph as the plug-in headers describe it (cosim_topology).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cosim/plugin/cosim_router.h"
#include "noc/spec.hpp"

namespace cosim::noc {

class PluginTopology {
 public:
  PluginTopology(const NetworkSpec& network, std::string kind, std::vector<std::uint32_t> dims,
                 std::uint32_t flit_bytes);
  // Plug-ins keep its address.
  PluginTopology(const PluginTopology&) = delete;
  PluginTopology& operator=(const PluginTopology&) = delete;

  [[nodiscard]] const cosim_topology& table() const { return table_; }
  [[nodiscard]] std::uint32_t max_ports() const { return table_.max_ports; }
  // By node * max_ports + port; COSIM_NO_LINK where there is none.
  [[nodiscard]] std::uint32_t neighbor(std::size_t output) const { return neighbor_[output]; }
  [[nodiscard]] std::uint32_t neighbor_port(std::size_t output) const { return neighbor_port_[output]; }
  [[nodiscard]] std::uint32_t link_latency(std::size_t output) const { return link_latency_[output]; }
  [[nodiscard]] std::uint32_t ejects(std::size_t output) const { return ejects_[output]; }  // endpoint
  [[nodiscard]] std::uint64_t class_vcs(std::uint32_t message_class) const { return class_vcs_[message_class]; }

 private:
  std::string kind_;
  std::vector<std::uint32_t> dims_;
  std::vector<std::uint32_t> neighbor_;
  std::vector<std::uint32_t> neighbor_port_;
  std::vector<std::uint32_t> ejection_;
  std::vector<std::uint64_t> class_vcs_;
  std::vector<std::uint32_t> link_latency_;
  std::vector<std::uint32_t> link_flit_bytes_;
  std::vector<std::uint64_t> link_clock_hz_;
  std::vector<std::uint32_t> link_level_;
  std::vector<std::uint32_t> ejects_;
  cosim_topology table_{};
};

}  // namespace cosim::noc
