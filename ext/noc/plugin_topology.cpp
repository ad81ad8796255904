#include "noc/plugin_topology.hpp"

#include <utility>

#include "noc/bits.hpp"

namespace cosim::noc {

PluginTopology::PluginTopology(const NetworkSpec& network, std::string kind, std::vector<std::uint32_t> dims,
                               std::uint32_t flit_bytes)
    : kind_(std::move(kind)), dims_(std::move(dims)) {
  const std::size_t ports = as_size(network.ports);
  const std::size_t outputs = as_size(network.routers) * ports;
  neighbor_.assign(outputs, COSIM_NO_LINK);
  neighbor_port_.assign(outputs, 0);
  link_latency_.assign(outputs, 0);
  link_flit_bytes_.assign(outputs, 0);
  link_clock_hz_.assign(outputs, 0);
  link_level_.assign(outputs, 0);
  ejects_.assign(outputs, COSIM_NO_LINK);
  for (const LinkSpec& link : network.links) {
    const std::size_t at = as_size(link.from_router) * ports + as_size(link.from_port);
    neighbor_[at] = as_u32(link.to_router);
    neighbor_port_[at] = as_u32(link.to_port);
    link_latency_[at] = as_u32(link.latency);
    link_flit_bytes_[at] = flit_bytes;
  }
  for (const TerminalSpec& terminal : network.terminals) {
    const std::uint32_t at = as_u32(terminal.router) * as_u32(network.ports) + as_u32(terminal.port);
    ejects_[at] = static_cast<std::uint32_t>(ejection_.size());
    ejection_.push_back(at);
  }
  const std::uint64_t all = (std::uint64_t{1} << as_u32(network.num_vcs)) - 1;
  for (const ClassSpec& each : network.classes) class_vcs_.push_back(each.vc_mask);
  if (class_vcs_.empty()) class_vcs_.push_back(all);

  table_.struct_size = sizeof(table_);
  table_.n_nodes = as_u32(network.routers);
  table_.n_endpoints = static_cast<std::uint32_t>(network.terminals.size());
  table_.max_ports = as_u32(network.ports);
  table_.n_vcs = as_u32(network.num_vcs);
  table_.n_classes = static_cast<std::uint32_t>(class_vcs_.size());
  table_.n_links = static_cast<std::uint32_t>(network.links.size());
  table_.n_dims = static_cast<std::uint32_t>(dims_.size());
  table_.flit_bytes = flit_bytes;
  table_.kind = kind_.c_str();
  table_.dims = dims_.empty() ? nullptr : dims_.data();
  table_.neighbor = neighbor_.data();
  table_.neighbor_port = neighbor_port_.data();
  table_.ejection = ejection_.data();
  table_.class_vcs = class_vcs_.data();
  table_.link_latency = link_latency_.data();
  table_.link_flit_bytes = link_flit_bytes_.data();
  table_.link_clock_hz = link_clock_hz_.data();
  table_.link_level = link_level_.data();
}

}  // namespace cosim::noc
