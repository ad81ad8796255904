#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/register.hpp"
#include "noc/dependency.hpp"
#include "noc/flit_network.hpp"
#include "noc/multicast.hpp"
#include "noc/plugin_arbiter.hpp"
#include "noc/plugin_routing.hpp"
#include "noc/route_tables.hpp"
#include "noc/router_models.hpp"
#include "noc/spec.hpp"
#include "noc/topology.hpp"
#include "noc/traffic.hpp"

namespace cosim::bindings {

namespace py = pybind11;

namespace {

using Int64Array = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

// One int64 column per field, one row per item.
template <class Item, class Fields>
py::array_t<std::int64_t> table(const std::vector<Item>& items, std::size_t columns, Fields fields) {
  py::array_t<std::int64_t> out({items.size(), columns});
  auto* at = out.mutable_data();
  for (const Item& item : items) {
    for (const std::int64_t value : fields(item)) *at++ = value;
  }
  return out;
}

py::array_t<std::int64_t> counters_table(const std::vector<noc::OutputCounters>& counters) {
  return table(counters, 5, [](const noc::OutputCounters& c) {
    return std::array<std::int64_t, 5>{c.flits, c.no_credit, c.lost_switch, c.busy_vc, c.lost_vc};
  });
}

std::vector<noc::PacketIn> packets_from(const Int64Array& rows) {
  if (rows.ndim() != 2 || rows.shape(1) != 5) throw py::value_error("packets: an int64 array of shape (n, 5) expected");
  const auto at = rows.unchecked<2>();
  std::vector<noc::PacketIn> packets(static_cast<std::size_t>(rows.shape(0)));
  for (py::ssize_t i = 0; i < rows.shape(0); ++i) {
    packets[static_cast<std::size_t>(i)] = {at(i, 0),
                                            static_cast<std::int32_t>(at(i, 1)),
                                            static_cast<std::int32_t>(at(i, 2)),
                                            static_cast<std::int32_t>(at(i, 3)),
                                            static_cast<std::int32_t>(at(i, 4)),
                                            static_cast<std::uint64_t>(i)};
  }
  return packets;
}

std::array<std::int64_t, 11> columns_of(const noc::PacketRecord& r) {
  return {r.inject_cycle,
          r.eject_cycle,
          r.hops,
          r.terms.source_queueing_cycles,
          r.terms.router_cycles,
          r.terms.link_cycles,
          r.terms.serialisation_cycles,
          r.terms.contention_cycles,
          r.terms.session_wait_cycles,
          r.terms.retry_cycles,
          r.terms.reduction_wait_cycles};
}

py::array_t<std::int64_t> arrivals_table(const std::vector<noc::Arrival>& arrivals) {
  return table(arrivals, 6, [](const noc::Arrival& a) {
    return std::array<std::int64_t, 6>{
        static_cast<std::int64_t>(a.tag), a.cycle, a.create_cycle, a.inject_cycle, a.hops, a.flit_latency_sum_cycles};
  });
}

void register_spec(py::module_& m) {
  py::class_<noc::LinkSpec>(m, "LinkSpec", "One direction of a channel between two router ports.")
      .def(py::init([](std::int32_t from_router, std::int32_t from_port, std::int32_t to_router, std::int32_t to_port,
                       std::int32_t latency, std::int32_t buffer_flits) {
             return noc::LinkSpec{from_router, from_port, to_router, to_port, latency, buffer_flits};
           }),
           py::arg("from_router"), py::arg("from_port"), py::arg("to_router"), py::arg("to_port"), py::arg("latency"),
           py::arg("buffer_flits"))
      .def_readonly("from_router", &noc::LinkSpec::from_router)
      .def_readonly("from_port", &noc::LinkSpec::from_port)
      .def_readonly("to_router", &noc::LinkSpec::to_router)
      .def_readonly("to_port", &noc::LinkSpec::to_port)
      .def_readonly("latency", &noc::LinkSpec::latency)
      .def_readonly("buffer_flits", &noc::LinkSpec::buffer_flits);
  py::class_<noc::TerminalSpec>(m, "TerminalSpec", "A node: one injection and one ejection channel on a router port.")
      .def(py::init([](std::int32_t router, std::int32_t port) { return noc::TerminalSpec{router, port}; }),
           py::arg("router"), py::arg("port"))
      .def_readonly("router", &noc::TerminalSpec::router)
      .def_readonly("port", &noc::TerminalSpec::port);
  py::enum_<noc::RoutingKind>(m, "RoutingKind")
      .value("table", noc::RoutingKind::table)
      .value("plugin", noc::RoutingKind::plugin)
      .value("dateline", noc::RoutingKind::dateline)
      .value("dateline_booksim", noc::RoutingKind::dateline_booksim)
      .value("nca", noc::RoutingKind::nca)
      .value("odd_even", noc::RoutingKind::odd_even)
      .value("west_first", noc::RoutingKind::west_first)
      .value("min_adaptive", noc::RoutingKind::min_adaptive);
  py::enum_<noc::AllocatorKind>(m, "AllocatorKind")
      .value("islip", noc::AllocatorKind::islip)
      .value("separable_input_first", noc::AllocatorKind::separable_input_first)
      .value("separable_output_first", noc::AllocatorKind::separable_output_first)
      .value("plugin", noc::AllocatorKind::plugin);
  py::enum_<noc::ArbiterKind>(m, "ArbiterKind")
      .value("round_robin", noc::ArbiterKind::round_robin)
      .value("matrix", noc::ArbiterKind::matrix);
  py::enum_<noc::DeadlockProof>(m, "DeadlockProof")
      .value("none", noc::DeadlockProof::none)
      .value("acyclic", noc::DeadlockProof::acyclic)
      .value("escape", noc::DeadlockProof::escape);
  py::class_<noc::Channel>(m, "Channel", "A VC of a link.")
      .def_readonly("from_router", &noc::Channel::from_router)
      .def_readonly("from_port", &noc::Channel::from_port)
      .def_readonly("to_router", &noc::Channel::to_router)
      .def_readonly("vc", &noc::Channel::vc);
  py::class_<noc::DependencyReport>(m, "DependencyReport", "What the channel-dependency graph of a network says.")
      .def_readonly("proof", &noc::DependencyReport::proof)
      .def_readonly("channels", &noc::DependencyReport::channels)
      .def_readonly("dependencies", &noc::DependencyReport::dependencies)
      .def_readonly("cycle", &noc::DependencyReport::cycle)
      .def_readonly("problem", &noc::DependencyReport::problem);
  py::class_<noc::NetworkSpec>(m, "NetworkSpec", "Graph, routes and pipeline of a flit-level network.")
      .def(py::init<>())
      .def("__copy__", [](const noc::NetworkSpec& spec) { return noc::NetworkSpec(spec); })
      .def_readwrite("routers", &noc::NetworkSpec::routers)
      .def_readwrite("ports", &noc::NetworkSpec::ports)
      .def_readwrite("links", &noc::NetworkSpec::links)
      .def_readwrite("terminals", &noc::NetworkSpec::terminals)
      .def_readwrite("num_vcs", &noc::NetworkSpec::num_vcs)
      .def_readwrite("vc_buf_size", &noc::NetworkSpec::vc_buf_size)
      .def_readwrite("routing_delay", &noc::NetworkSpec::routing_delay)
      .def_readwrite("vc_alloc_delay", &noc::NetworkSpec::vc_alloc_delay)
      .def_readwrite("sw_alloc_delay", &noc::NetworkSpec::sw_alloc_delay)
      .def_readwrite("st_prepare_delay", &noc::NetworkSpec::st_prepare_delay)
      .def_readwrite("st_final_delay", &noc::NetworkSpec::st_final_delay)
      .def_readwrite("credit_delay", &noc::NetworkSpec::credit_delay)
      .def_readwrite("wait_for_tail_credit", &noc::NetworkSpec::wait_for_tail_credit)
      .def(
          "set_allocation",
          [](noc::NetworkSpec& spec, noc::AllocatorKind vc, noc::AllocatorKind sw, noc::ArbiterKind arbiter,
             std::int32_t iterations, bool age_priority, bool speculative) {
            spec.allocation = {vc, sw, arbiter, iterations, age_priority, speculative, nullptr, nullptr};
          },
          py::arg("vc"), py::arg("sw"), py::arg("arbiter"), py::arg("iterations"), py::arg("age_priority"),
          py::arg("speculative"), "How heads get output VCs and flits the switch.")
      .def(
          "set_arbiter_plugins",
          [](noc::NetworkSpec& spec, std::shared_ptr<noc::PluginArbiterFactory> vc,
             std::shared_ptr<noc::PluginArbiterFactory> sw) {
            spec.allocation.vc_plugin = std::move(vc);
            spec.allocation.sw_plugin = std::move(sw);
          },
          py::arg("vc"), py::arg("sw"), "The arbiters of stages whose allocator is of kind plugin, else None.")
      .def(
          "set_router_model",
          [](noc::NetworkSpec& spec, std::shared_ptr<noc::RouterModelPlugin> plugin) {
            spec.router_model = std::move(plugin);
          },
          py::arg("plugin"), "Routers are instances of this model.")
      .def_readwrite("compat_booksim2", &noc::NetworkSpec::compat_booksim2)
      .def(
          "add_class",
          [](noc::NetworkSpec& spec, std::uint32_t vc_mask, std::int32_t priority, bool multicast, bool session,
             bool reduction, bool static_vcs) {
            spec.classes.push_back({vc_mask, priority, multicast, session, reduction, static_vcs});
          },
          py::arg("vc_mask"), py::arg("priority"), py::arg("multicast") = false, py::arg("session") = false,
          py::arg("reduction") = false, py::arg("static_vcs") = false,
          "Adds a message class; a larger priority injects first, packets of a multicast one may have several nodes, "
          "those of a session one have a set of them and use no VC, those of a reduction one may be summed on their "
          "way, those of one with static VCs keep one for each source.")
      .def(
          "set_reduction",
          [](noc::NetworkSpec& spec, std::int32_t ports, std::int32_t combine_delay) {
            spec.ports += ports - spec.reduction.ports;
            spec.reduction = {ports, combine_delay};
          },
          py::arg("ports"), py::arg("combine_delay"),
          "Gives every router a reduction unit on ports of its own, behind the others.")
      .def(
          "set_retry",
          [](noc::NetworkSpec& spec, double bit_error_rate, std::int32_t flit_bits, std::int32_t crc_bits,
             std::int32_t nack_delay,
             std::uint64_t seed) { spec.retry = {bit_error_rate, flit_bits, crc_bits, nack_delay, seed}; },
          py::arg("bit_error_rate"), py::arg("flit_bits"), py::arg("crc_bits"), py::arg("nack_delay"), py::arg("seed"),
          "Links between routers that flip bits and send bad flits again.")
      .def(
          "set_sessions",
          [](noc::NetworkSpec& spec, std::int32_t setup_cycles, std::int32_t teardown_cycles,
             std::int32_t segment_delay, std::int64_t max_session_cycles, std::int32_t idle_cycles,
             std::int32_t max_waiting) {
            spec.sessions = {setup_cycles,       teardown_cycles, segment_delay,
                             max_session_cycles, idle_cycles,     max_waiting};
          },
          py::arg("setup_cycles"), py::arg("teardown_cycles"), py::arg("segment_delay"), py::arg("max_session_cycles"),
          py::arg("idle_cycles"), py::arg("max_waiting"), "What sessions cost and how long they may last.")
      .def(
          "set_routes",
          [](noc::NetworkSpec& spec, std::vector<std::uint16_t> entries, std::vector<std::uint32_t> vc_sets) {
            spec.routes = {std::move(entries), std::move(vc_sets)};
          },
          py::arg("entries"), py::arg("vc_sets"),
          "Routes by [router * terminals + destination]: output port, and index into vc_sets << 8.")
      .def(
          "add_route_change",
          [](noc::NetworkSpec& spec, std::int64_t at_cycle, const noc::NetworkSpec& after) {
            spec.route_changes.push_back({at_cycle, after.routes});
          },
          py::arg("at_cycle"), py::arg("after"),
          "From this cycle on sources wait until the network is empty, then the routes of `after` hold.")
      .def_property_readonly(
          "routes", [](const noc::NetworkSpec& spec) { return std::pair{spec.routes.entries, spec.routes.vc_sets}; },
          "Entries and vc_sets as set_routes takes them; empty where a function routes.")
      .def(
          "set_routing_plugin",
          [](noc::NetworkSpec& spec, std::shared_ptr<noc::PluginRoutingFactory> plugin) {
            spec.routing.kind = noc::RoutingKind::plugin;
            spec.routing.plugin = std::move(plugin);
          },
          py::arg("plugin"), "Heads are routed by this plug-in.")
      .def(
          "build_grid",
          [](noc::NetworkSpec& spec, const std::vector<std::int32_t>& shape, bool wraps, std::int32_t concentration,
             const std::vector<std::int32_t>& link_latency, std::int32_t link_buffer_flits) {
            if (link_latency.size() != shape.size()) throw py::value_error("one link latency per dimension expected");
            noc::build_grid(spec, shape, wraps, concentration, link_latency, link_buffer_flits);
          },
          py::arg("shape"), py::arg("wraps"), py::arg("concentration"), py::arg("link_latency"),
          py::arg("link_buffer_flits"), "Adds the routers, links and terminals of a mesh, or torus when it wraps.")
      .def(
          "build_fat_tree",
          [](noc::NetworkSpec& spec, std::int32_t k, std::int32_t n, std::int32_t latency, std::int32_t buffer_flits) {
            noc::build_fat_tree(spec, k, n, {latency, buffer_flits});
          },
          py::arg("k"), py::arg("n"), py::arg("latency"), py::arg("buffer_flits"), "Adds a k-ary n-tree.")
      .def(
          "build_pod_fat_tree",
          [](noc::NetworkSpec& spec, std::int32_t pods, std::int32_t leaves, std::int32_t terminals,
             std::int32_t aggregations, std::int32_t cores, std::int32_t leaf_links, std::int32_t core_links,
             std::int32_t leaf_latency, std::int32_t core_latency, std::int32_t buffer_flits) {
            noc::build_pod_fat_tree(spec, {pods,
                                           leaves,
                                           terminals,
                                           aggregations,
                                           cores,
                                           leaf_links,
                                           core_links,
                                           {leaf_latency, buffer_flits},
                                           {core_latency, buffer_flits}});
          },
          py::arg("pods"), py::arg("leaves"), py::arg("terminals"), py::arg("aggregations"), py::arg("cores"),
          py::arg("leaf_links"), py::arg("core_links"), py::arg("leaf_latency"), py::arg("core_latency"),
          py::arg("buffer_flits"), "Adds leaf, aggregation and core routers.")
      .def(
          "build_crossbar",
          [](noc::NetworkSpec& spec, std::int32_t terminals) { noc::build_crossbar(spec, terminals); },
          py::arg("terminals"), "Adds one router with all terminals.")
      .def(
          "build_fully_connected",
          [](noc::NetworkSpec& spec, std::int32_t routers, std::int32_t concentration, std::int32_t latency,
             std::int32_t buffer_flits) {
            noc::build_fully_connected(spec, routers, concentration, {latency, buffer_flits});
          },
          py::arg("routers"), py::arg("concentration"), py::arg("latency"), py::arg("buffer_flits"),
          "Adds routers with a link between any two.")
      .def(
          "route_dimension_order", [](noc::NetworkSpec& spec) { spec.routes = noc::dimension_order_routes(spec); },
          "Dimension-order routes of a mesh.")
      .def(
          "route_up_down",
          [](noc::NetworkSpec& spec, std::int32_t root) { spec.routes = noc::up_down_routes(spec, root); },
          py::arg("root"), "up*/down* routes of any graph; ValueError when a terminal cannot be reached.")
      .def(
          "route_layered_shortest", [](noc::NetworkSpec& spec) { spec.routes = noc::layered_shortest_routes(spec); },
          "Shortest ways in layers of VCs; ValueError when VCs are too few or a terminal cannot be reached.")
      .def(
          "set_routing_function",
          [](noc::NetworkSpec& spec, noc::RoutingKind kind, std::uint64_t seed) {
            spec.routing.kind = kind;
            spec.routing.seed = seed;
          },
          py::arg("kind"), py::arg("seed"), "A built-in routing function, and the seed of its draws.")
      .def_property_readonly("routing_kind", [](const noc::NetworkSpec& spec) { return spec.routing.kind; })
      .def(
          "check_dependencies",
          [](const noc::NetworkSpec& spec) {
            const py::gil_scoped_release unlocked;
            return noc::check_dependencies(spec);
          },
          "Proves that the routing cannot deadlock, or names a cycle of waits.")
      .def("problems", &noc::NetworkSpec::problems, "Every problem of this description, one sentence each.");
}

void register_multicast(py::module_& m) {
  py::class_<noc::MulticastTrees>(m, "MulticastTrees", "The trees that a network's route table gives multicasts.")
      .def(py::init<const noc::NetworkSpec&>(), py::arg("network"))
      .def(
          "room",
          [](noc::MulticastTrees& trees, std::int32_t source, const std::vector<std::int32_t>& dests) {
            return trees.groups()[trees.group(source, dests)].room;
          },
          py::arg("source"), py::arg("dests"),
          "Flits of the smallest VC on the tree; ValueError when the routes are no tree.");
}

void register_reductions(py::module_& m) {
  py::class_<noc::ReductionTrees>(m, "ReductionTrees", "Where the routes of several nodes to one node join.")
      .def(py::init<const noc::NetworkSpec&>(), py::arg("network"))
      .def(
          "joins",
          [](noc::ReductionTrees& trees, std::int32_t dest, const std::vector<std::int32_t>& sources) {
            const noc::ReductionTree tree = trees.at(trees.tree(dest, sources));
            std::vector<std::uint32_t> routers;
            for (std::uint32_t i = 0; i < tree.joins; ++i) routers.push_back(trees.join(tree.first_join + i).router);
            return routers;
          },
          py::arg("dest"), py::arg("sources"), "The routers whose units make a sum, upstream first.");
}

void register_sessions(py::module_& m) {
  py::class_<noc::SessionTrees>(m, "SessionTrees", "The links that sessions of a network take.")
      .def(py::init<const noc::NetworkSpec&>(), py::arg("network"))
      .def(
          "room",
          [](noc::SessionTrees& trees, std::int32_t source, const std::vector<std::int32_t>& dests) {
            return trees.room(trees.tree(source, dests));
          },
          py::arg("source"), py::arg("dests"), "Flits of the largest packet that a session of this tree sends in time.")
      .def(
          "links",
          [](noc::SessionTrees& trees, std::int32_t source, const std::vector<std::int32_t>& dests) {
            return trees.links_of(trees.tree(source, dests));
          },
          py::arg("source"), py::arg("dests"), "The links (router, port) of the tree, ascending.");
}

void register_network(py::module_& m) {
  m.attr("NO_EVENT") = noc::kNoEvent;
  py::class_<noc::FlitNetwork>(m, "FlitNetwork", "A flit-level network advanced cycle by cycle; see ext/noc.")
      .def(py::init<const noc::NetworkSpec&>(), py::arg("spec"))
      .def(
          "offer",
          [](noc::FlitNetwork& network, const Int64Array& rows, std::uint64_t first_tag) {
            for (noc::PacketIn packet : packets_from(rows)) {
              packet.tag += first_tag;
              network.offer(packet);
            }
          },
          py::arg("packets"), py::arg("first_tag") = 0,
          "Queues rows (create_cycle, source, dest, size_flits, message_class); their tags count from first_tag.")
      .def(
          "offer_reduction",
          [](noc::FlitNetwork& network, const Int64Array& rows, std::uint64_t first_tag) {
            std::vector<noc::PacketIn> packets = packets_from(rows);
            if (packets.empty()) throw py::value_error("a reduction has at least one row");
            std::vector<std::int32_t> sources;
            for (const noc::PacketIn& packet : packets) sources.push_back(packet.source);
            const noc::PacketIn& first = packets.front();
            const auto group = network.begin_reduction(first.dest, sources, first.size_flits, first.message_class);
            for (noc::PacketIn& packet : packets) {
              packet.tag += first_tag;
              packet.group = group;
              network.offer(packet);
            }
          },
          py::arg("packets"), py::arg("first_tag") = 0,
          "Queues rows as offer() takes them: the contributions of one reduction.")
      .def("next_event", &noc::FlitNetwork::next_event)
      .def("step", &noc::FlitNetwork::step, py::arg("cycle"))
      .def(
          "run",
          [](noc::FlitNetwork& network, std::int64_t before) {
            const py::gil_scoped_release unlocked;
            for (std::int64_t t = network.next_event(); t < before; t = network.next_event()) network.step(t);
          },
          py::arg("before"), "Steps through every event before this cycle.")
      .def(
          "take_arrivals",
          [](noc::FlitNetwork& network) {
            auto out = arrivals_table(network.arrivals());
            network.arrivals().clear();
            return out;
          },
          "Rows (tag, cycle, create_cycle, inject_cycle, hops, flit_latency_sum_cycles) since the last call.")
      .def(
          "take_departures",
          [](noc::FlitNetwork& network) {
            auto out = table(network.departures(), 2, [](const noc::Departure& d) {
              return std::array<std::int64_t, 2>{static_cast<std::int64_t>(d.tag), d.cycle};
            });
            network.departures().clear();
            return out;
          },
          "Rows (tag, cycle) since the last call.")
      .def_property_readonly("last_cycle", &noc::FlitNetwork::last_cycle)
      .def_property_readonly("flits_in_flight", &noc::FlitNetwork::flits_in_flight)
      .def_property_readonly("packets_queued", &noc::FlitNetwork::packets_queued)
      .def_property_readonly("idle", &noc::FlitNetwork::idle)
      .def_property_readonly("flit_hops", &noc::FlitNetwork::flit_hops)
      .def_property_readonly("core_bytes", &noc::FlitNetwork::core_bytes)
      .def_property_readonly("failure", &noc::FlitNetwork::failure)
      .def_property_readonly(
          "router_pipeline_cycles",
          [](const noc::FlitNetwork& network) {
            return network.terms(noc::LatencySums{0, 0, 1, 0, 0, 0}).router_cycles;
          },
          "Cycles that a flit spends in a router without contention.")
      .def("verify_conservation", &noc::FlitNetwork::verify_conservation)
      .def("wait_for_cycle", &noc::FlitNetwork::wait_for_cycle)
      .def("connected_outputs", &noc::FlitNetwork::connected_outputs)
      .def("connected_counters", [](noc::FlitNetwork& network) { return counters_table(network.connected_counters()); })
      .def("save",
           [](noc::FlitNetwork& network) {
             sim::Saver saver;
             network.visit(saver);
             return py::bytes(reinterpret_cast<const char*>(saver.data().data()), saver.data().size());
           })
      .def(
          "load",
          [](noc::FlitNetwork& network, const py::bytes& state) {
            const std::string_view text = state;
            sim::Loader loader({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
            network.visit(loader);
            if (!loader.finished()) throw py::value_error("saved state is longer than this network's state");
          },
          py::arg("state"));
}

// Calls of router models; none with built-in routers.
std::optional<std::int64_t> calls_of(const noc::FlitNetwork& network) {
  if (network.router_models() == nullptr) return std::nullopt;
  return network.router_models()->calls();
}

// What the routing plug-in of a network cost; None without one.
std::optional<noc::PluginCost> cost_of(const noc::FlitNetwork& network) {
  const auto* plugin = dynamic_cast<const noc::PluginRouting*>(network.routing_function());
  return plugin == nullptr ? std::nullopt : std::optional(plugin->cost());
}

// Rows (flits, retries) per connected output.
py::array_t<std::int64_t> retry_counters(const noc::FlitNetwork& network) {
  std::vector<noc::LinkRetry::Counters> rows;
  for (const auto& [router, port] : network.connected_outputs()) {
    const auto link = static_cast<std::size_t>(router) * static_cast<std::size_t>(network.spec().ports) +
                      static_cast<std::size_t>(port);
    rows.push_back(network.retry() == nullptr ? noc::LinkRetry::Counters{} : network.retry()->counters(link));
  }
  return table(rows, 2, [](const noc::LinkRetry::Counters& c) { return std::array{c.flits, c.retries}; });
}

// Rows (parts, sums, most_open) per router; none without a reduction class.
py::array_t<std::int64_t> reduction_units(const noc::FlitNetwork& network) {
  const auto units =
      network.reductions() == nullptr ? std::vector<noc::ReductionUnit>{} : network.reductions()->units();
  return table(units, 3, [](const noc::ReductionUnit& u) { return std::array{u.parts, u.sums, u.most_open}; });
}

void register_runs(py::module_& m) {
  py::register_exception<noc::LawBroken>(m, "LawBrokenError", PyExc_AssertionError);
  py::register_exception<noc::RoutingError>(m, "RoutingError", PyExc_RuntimeError);
  py::class_<noc::TrafficSpec>(m, "TrafficSpec", "Open-loop synthetic traffic: Bernoulli sources and windows.")
      .def(py::init<>())
      .def_readwrite("permutation", &noc::TrafficSpec::permutation)
      .def_readwrite("dest_sets", &noc::TrafficSpec::dest_sets)
      .def_readwrite("source_sets", &noc::TrafficSpec::source_sets)
      .def_readwrite("nodes", &noc::TrafficSpec::nodes)
      .def_readwrite("weights", &noc::TrafficSpec::weights)
      .def_readwrite("injection_rate", &noc::TrafficSpec::injection_rate)
      .def_readwrite("packet_size_flits", &noc::TrafficSpec::packet_size_flits)
      .def_readwrite("message_class", &noc::TrafficSpec::message_class)
      .def_readwrite("warmup_cycles", &noc::TrafficSpec::warmup_cycles)
      .def_readwrite("measure_cycles", &noc::TrafficSpec::measure_cycles)
      .def_readwrite("max_drain_cycles", &noc::TrafficSpec::max_drain_cycles)
      .def_readwrite("seed", &noc::TrafficSpec::seed);
  py::class_<noc::LatencyTerms>(m, "LatencyTerms", "The terms of a packet's latency, in cycles; they sum to it.")
      .def_readonly("source_queueing_cycles", &noc::LatencyTerms::source_queueing_cycles)
      .def_readonly("router_cycles", &noc::LatencyTerms::router_cycles)
      .def_readonly("link_cycles", &noc::LatencyTerms::link_cycles)
      .def_readonly("serialisation_cycles", &noc::LatencyTerms::serialisation_cycles)
      .def_readonly("contention_cycles", &noc::LatencyTerms::contention_cycles)
      .def_readonly("retry_cycles", &noc::LatencyTerms::retry_cycles)
      .def_readonly("reduction_wait_cycles", &noc::LatencyTerms::reduction_wait_cycles);
  py::class_<noc::TrafficResult>(m, "TrafficResult", "Integer sums of a run of synthetic traffic.")
      .def_readonly("created_packets", &noc::TrafficResult::created_packets)
      .def_readonly("delivered_packets", &noc::TrafficResult::delivered_packets)
      .def_readonly("created_flits", &noc::TrafficResult::created_flits)
      .def_readonly("packet_latency_sum_cycles", &noc::TrafficResult::packet_latency_sum_cycles)
      .def_readonly("network_latency_sum_cycles", &noc::TrafficResult::network_latency_sum_cycles)
      .def_readonly("flit_latency_sum_cycles", &noc::TrafficResult::flit_latency_sum_cycles)
      .def_readonly("hops_sum", &noc::TrafficResult::hops_sum)
      .def_readonly("batch_packets", &noc::TrafficResult::batch_packets)
      .def_readonly("batch_packet_latency_sums_cycles", &noc::TrafficResult::batch_packet_latency_sums_cycles)
      .def_readonly("terms_sum", &noc::TrafficResult::terms_sum)
      .def_readonly("injected_flits", &noc::TrafficResult::injected_flits)
      .def_readonly("ejected_flits", &noc::TrafficResult::ejected_flits)
      .def_readonly("ejected_flits_least", &noc::TrafficResult::ejected_flits_least)
      .def_readonly("flit_hops", &noc::TrafficResult::flit_hops)
      .def_readonly("end_cycle", &noc::TrafficResult::end_cycle)
      .def_readonly("core_bytes", &noc::TrafficResult::core_bytes)
      .def(
          "packet_latency_percentile",
          [](const noc::TrafficResult& r, double p) { return r.packet_latency.percentile(p); }, py::arg("share"))
      .def(
          "network_latency_percentile",
          [](const noc::TrafficResult& r, double p) { return r.network_latency.percentile(p); }, py::arg("share"))
      .def_property_readonly("packet_latency_max_cycles",
                             [](const noc::TrafficResult& r) { return r.packet_latency.max(); })
      .def("window_counters", [](const noc::TrafficResult& r) { return counters_table(r.window); });
  py::class_<noc::TrafficRun>(m, "TrafficRun", "Synthetic traffic on an empty network, from cycle 0.")
      .def(py::init<const noc::NetworkSpec&, noc::TrafficSpec>(), py::arg("network"), py::arg("traffic"))
      .def("advance", &noc::TrafficRun::advance, py::arg("max_work"), py::call_guard<py::gil_scoped_release>(),
           "Runs on for about max_work router cycles; true when complete.")
      .def_property_readonly("cycle", &noc::TrafficRun::cycle)
      .def_property_readonly("plugin_cost", [](const noc::TrafficRun& run) { return cost_of(run.network()); })
      .def_property_readonly("route_changes_made",
                             [](const noc::TrafficRun& run) { return run.network().route_changes_made(); })
      .def_property_readonly("router_calls", [](const noc::TrafficRun& run) { return calls_of(run.network()); })
      .def("result", &noc::TrafficRun::result, py::return_value_policy::reference_internal)
      .def("retry_counters", [](const noc::TrafficRun& run) { return retry_counters(run.network()); })
      .def("connected_outputs", [](const noc::TrafficRun& run) { return run.network().connected_outputs(); });
  py::class_<noc::PacketRun>(m, "PacketRun", "A list of packets on an empty network, from cycle 0.")
      .def(py::init([](const noc::NetworkSpec& spec, const Int64Array& rows,
                       const std::vector<std::vector<std::int32_t>>& dest_sets,
                       const std::vector<std::int64_t>& reductions) {
             return std::make_unique<noc::PacketRun>(spec, packets_from(rows), dest_sets, reductions);
           }),
           py::arg("network"), py::arg("packets"), py::arg("dest_sets") = std::vector<std::vector<std::int32_t>>{},
           py::arg("reductions") = std::vector<std::int64_t>{})
      .def("advance", &noc::PacketRun::advance, py::arg("max_work"), py::call_guard<py::gil_scoped_release>(),
           "Runs on for about max_work flit-hops; true when every packet has arrived.")
      .def(
          "records",
          [](const noc::PacketRun& run) {
            return table(run.records(), 11, [](const noc::PacketRecord& r) { return columns_of(r); });
          },
          "Rows (inject_cycle, eject_cycle, hops, then the latency terms), in the order of the packets.")
      .def(
          "deliveries",
          [](const noc::PacketRun& run) {
            return table(run.deliveries(), 13, [](const noc::Delivery& d) {
              std::array<std::int64_t, 13> row{d.packet, d.dest};
              std::ranges::copy(columns_of(d.record), row.begin() + 2);
              return row;
            });
          },
          "Rows (packet, node, then as records()) of the packets with sets of destinations, by packet and node.")
      .def(
          "sessions",
          [](const noc::PacketRun& run) {
            return table(run.sessions(), 8, [](const noc::SessionRecord& s) {
              return std::array<std::int64_t, 8>{s.source,       s.tree,         s.ask_cycle, s.grant_cycle,
                                                 s.detach_cycle, s.return_cycle, s.packets,   s.flits};
            });
          },
          "Rows (source, tree, ask_cycle, grant_cycle, detach_cycle, return_cycle, packets, flits), as they ended.")
      .def(
          "session_nodes",
          [](noc::PacketRun& run, std::uint32_t tree) {
            const noc::SessionTrees& trees = run.network().sessions()->trees();
            std::vector<std::int32_t> nodes;
            for (std::uint32_t i = 0; i < trees.at(tree).stops; ++i) {
              nodes.push_back(trees.stop(trees.at(tree).first_stop + i).dest);
            }
            return nodes;
          },
          py::arg("tree"), "The nodes of a session's tree, ascending.")
      .def(
          "session_links",
          [](noc::PacketRun& run, std::uint32_t tree) { return run.network().sessions()->trees().links_of(tree); },
          py::arg("tree"), "The links (router, port) of a session's tree, ascending.")
      .def(
          "session_counters",
          [](noc::PacketRun& run) {
            std::vector<std::array<std::int64_t, 2>> rows;
            const noc::Sessions* sessions = run.network().sessions();
            for (const auto& [router, port] : run.network().connected_outputs()) {
              const auto link =
                  static_cast<std::size_t>(router) * static_cast<std::size_t>(run.network().spec().ports) +
                  static_cast<std::size_t>(port);
              rows.push_back(sessions == nullptr
                                 ? std::array<std::int64_t, 2>{}
                                 : std::array{sessions->flits()[link], sessions->detached_cycles()[link]});
            }
            return table(rows, 2, [](const std::array<std::int64_t, 2>& row) { return row; });
          },
          "Rows (flits, detached_cycles) of sessions, per connected output.")
      .def("retry_counters", [](noc::PacketRun& run) { return retry_counters(run.network()); })
      .def(
          "reduction_units", [](noc::PacketRun& run) { return reduction_units(run.network()); },
          "Rows (parts, sums, most_open) of the reduction units, per router.")
      .def_property_readonly("session_flit_hops",
                             [](noc::PacketRun& run) {
                               const noc::Sessions* sessions = run.network().sessions();
                               return sessions == nullptr ? 0 : sessions->flit_hops();
                             })
      .def_property_readonly("flit_hops", [](noc::PacketRun& run) { return run.network().flit_hops(); })
      .def_property_readonly("plugin_cost", [](noc::PacketRun& run) { return cost_of(run.network()); })
      .def_property_readonly("route_changes_made",
                             [](noc::PacketRun& run) { return run.network().route_changes_made(); })
      .def_property_readonly("router_calls", [](noc::PacketRun& run) { return calls_of(run.network()); })
      .def_property_readonly("core_bytes", [](noc::PacketRun& run) { return run.network().core_bytes(); })
      .def("connected_outputs", [](noc::PacketRun& run) { return run.network().connected_outputs(); })
      .def("connected_counters",
           [](noc::PacketRun& run) { return counters_table(run.network().connected_counters()); });
}

}  // namespace

void register_noc(py::module_& m) {
  register_spec(m);
  register_multicast(m);
  register_reductions(m);
  register_sessions(m);
  register_network(m);
  register_runs(m);
}

}  // namespace cosim::bindings
