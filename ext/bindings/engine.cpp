#include "sim/engine.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/register.hpp"
#include "endpoint/compute_node.hpp"
#include "endpoint/flit_network_node.hpp"
#include "endpoint/gateway.hpp"
#include "endpoint/memory_node.hpp"
#include "endpoint/near_path.hpp"
#include "endpoint/rate_memory.hpp"
#include "link/link_network.hpp"

namespace py = pybind11;

namespace cosim::bindings {

namespace {

template <class T>
using Column = py::array_t<T, py::array::c_style | py::array::forcecast>;

template <class T>
T& node_as(sim::Engine& engine, std::int32_t id) {
  auto* node = dynamic_cast<T*>(&engine.node(id));
  if (node == nullptr) throw std::invalid_argument("node " + std::to_string(id) + " is of another kind");
  return *node;
}

template <class T>
void read_column(const py::dict& columns, const char* name, std::vector<sim::Task>& tasks, T sim::Task::* field) {
  if (!columns.contains(name)) return;
  const auto values = py::cast<Column<T>>(columns[name]);
  if (values.ndim() != 1 || static_cast<std::size_t>(values.size()) != tasks.size()) {
    throw std::invalid_argument(std::string("column ") + name + " has another length than kind");
  }
  const T* data = values.data();
  for (std::size_t i = 0; i < tasks.size(); ++i) tasks[i].*field = data[i];
}

std::int64_t submit(sim::Engine& engine, const py::dict& columns, const Column<std::int64_t>& before,
                    const Column<std::int64_t>& after, sim::Fs effective_fs) {
  const auto kinds = py::cast<Column<std::uint8_t>>(columns["kind"]);
  std::vector<sim::Task> tasks(static_cast<std::size_t>(kinds.size()));
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (kinds.data()[i] > static_cast<std::uint8_t>(sim::TaskKind::stream)) {
      throw std::invalid_argument("unknown task kind");
    }
    tasks[i].kind = static_cast<sim::TaskKind>(kinds.data()[i]);
  }
  read_column(columns, "message_class", tasks, &sim::Task::message_class);
  read_column(columns, "prefetch", tasks, &sim::Task::prefetch);
  read_column(columns, "source", tasks, &sim::Task::source);
  read_column(columns, "destination", tasks, &sim::Task::destination);
  read_column(columns, "bytes", tasks, &sim::Task::bytes);
  read_column(columns, "address", tasks, &sim::Task::address);
  read_column(columns, "to_address", tasks, &sim::Task::to_address);
  read_column(columns, "cycles", tasks, &sim::Task::cycles);
  read_column(columns, "stream", tasks, &sim::Task::stream);
  read_column(columns, "key", tasks, &sim::Task::key);
  read_column(columns, "group", tasks, &sim::Task::group);
  return engine.graph().submit(tasks, {before.data(), static_cast<std::size_t>(before.size())},
                               {after.data(), static_cast<std::size_t>(after.size())}, effective_fs, engine.now());
}

template <class T, class Get>
Column<T> column(const std::vector<sim::TaskGraph::Record>& records, Get get) {
  Column<T> out(static_cast<py::ssize_t>(records.size()));
  T* data = out.mutable_data();
  for (std::size_t i = 0; i < records.size(); ++i) data[i] = get(records[i]);
  return out;
}

py::dict take_records(sim::Engine& engine) {
  using Record = sim::TaskGraph::Record;
  const std::vector<Record> records = engine.graph().take_records();
  py::dict out;
  out["task"] = column<std::int64_t>(records, [](const Record& r) { return r.id; });
  out["ready_fs"] = column<std::int64_t>(records, [](const Record& r) { return r.task.ready_fs; });
  out["start_fs"] = column<std::int64_t>(records, [](const Record& r) { return r.task.start_fs; });
  out["end_fs"] = column<std::int64_t>(records, [](const Record& r) { return r.task.end_fs; });
  out["waited_fs"] = column<std::int64_t>(records, [](const Record& r) { return r.task.waited_fs; });
  out["stalled_fs"] = column<std::int64_t>(records, [](const Record& r) { return r.task.stalled_fs; });
  out["used_bytes"] = column<std::int64_t>(records, [](const Record& r) { return r.task.used_bytes; });
  out["moved_bytes"] = column<std::int64_t>(records, [](const Record& r) { return r.task.moved_bytes; });
  return out;
}

py::dict flit_network_statistics(sim::Engine& engine, std::int32_t id) {
  auto& node = node_as<endpoint::FlitNetworkNode>(engine, id);
  const noc::FlitNetwork& network = node.network();
  py::dict d;
  d["flit_hops"] = network.flit_hops();
  d["last_cycle"] = network.last_cycle();
  d["core_bytes"] = network.core_bytes();
  d["messages_in_flight"] = node.messages_in_flight();
  d["packet_payload_bytes"] = node.packet_payload_bytes();
  d["conservation_error"] = node.conservation_error();

  py::list classes;
  for (const endpoint::ClassLatency& sums : node.class_latency()) {
    py::dict c;
    c["packets"] = sums.packets;
    c["flits"] = sums.flits;
    c["payload_bytes"] = sums.payload_bytes;
    c["hops"] = sums.hops;
    c["latency_cycles"] = sums.latency_cycles;
    c["source_queueing_cycles"] = sums.terms.source_queueing_cycles;
    c["router_cycles"] = sums.terms.router_cycles;
    c["link_cycles"] = sums.terms.link_cycles;
    c["serialisation_cycles"] = sums.terms.serialisation_cycles;
    c["contention_cycles"] = sums.terms.contention_cycles;
    c["session_wait_cycles"] = sums.terms.session_wait_cycles;
    c["retry_cycles"] = sums.terms.retry_cycles;
    classes.append(c);
  }
  d["classes"] = classes;
  py::list journeys;
  for (const endpoint::JourneyTerms& sums : node.journeys()) {
    py::dict j;
    j["packets"] = sums.packets;
    j["latency_fs"] = sums.latency_fs;
    j["source_queueing_fs"] = sums.source_queueing_fs;
    j["router_fs"] = sums.router_fs;
    j["link_fs"] = sums.link_fs;
    j["serialisation_fs"] = sums.serialisation_fs;
    j["contention_fs"] = sums.contention_fs;
    j["session_wait_fs"] = sums.session_wait_fs;
    j["retry_fs"] = sums.retry_fs;
    j["gateway_fs"] = sums.gateway_fs;
    journeys.append(j);
  }
  d["journeys"] = journeys;

  const std::vector<noc::OutputCounters> counters = node.link_counters();
  const auto rows = static_cast<py::ssize_t>(counters.size());
  Column<std::int64_t> flits(rows);
  Column<std::int64_t> no_credit(rows);
  Column<std::int64_t> lost_arbitration(rows);
  Column<std::int64_t> busy_vc(rows);
  for (std::size_t i = 0; i < counters.size(); ++i) {
    flits.mutable_data()[i] = counters[i].flits;
    no_credit.mutable_data()[i] = counters[i].no_credit;
    lost_arbitration.mutable_data()[i] = counters[i].lost_switch + counters[i].lost_vc;
    busy_vc.mutable_data()[i] = counters[i].busy_vc;
  }
  Column<std::int64_t> session_flits(static_cast<py::ssize_t>(network.spec().links.size()));
  Column<std::int64_t> detached(session_flits.size());
  for (py::ssize_t i = 0; i < session_flits.size(); ++i) {
    const noc::LinkSpec& link = network.spec().links[static_cast<std::size_t>(i)];
    const noc::Sessions* sessions = network.sessions();
    const auto at = static_cast<std::size_t>(link.from_router) * static_cast<std::size_t>(network.spec().ports) +
                    static_cast<std::size_t>(link.from_port);
    session_flits.mutable_data()[i] = sessions == nullptr ? 0 : sessions->flits()[at];
    detached.mutable_data()[i] = sessions == nullptr ? 0 : sessions->detached_cycles()[at];
  }
  d["link_session_flits"] = session_flits;
  d["link_detached_cycles"] = detached;
  d["session_flit_hops"] = network.sessions() == nullptr ? 0 : network.sessions()->flit_hops();
  d["link_vc_flits"] = flits;
  d["link_vc_no_credit_cycles"] = no_credit;
  d["link_vc_lost_arbitration_cycles"] = lost_arbitration;
  d["link_vc_busy_vc_cycles"] = busy_vc;
  return d;
}

py::dict memory_statistics(sim::Engine& engine, std::int32_t id) {
  auto& node = node_as<endpoint::MemoryNode>(engine, id);
  const std::int64_t tick = std::max<std::int64_t>(node.last_tick(), 0);
  py::dict d;
  d["granted_bytes"] = node.granted_bytes();
  d["read_bytes"] = node.read_bytes();
  d["cancelled_bytes"] = node.cancelled_bytes();
  d["written_bytes"] = node.written_bytes();
  d["last_tick"] = tick;
  d["conservation_error"] = node.conservation_error();
  py::list banks;
  py::list channels;
  for (std::int32_t c = 0; c < node.channels(); ++c) {
    const mem::Channel& controller = node.channel(c);
    const mem::ChannelConfig& config = controller.config();
    const mem::ChannelCounters& counters = controller.counters();
    py::dict channel;
    channel["served_reads"] = counters.served_reads;
    channel["served_writes"] = counters.served_writes;
    channel["refreshes_all"] = counters.refreshes_all;
    channel["refreshes_bank"] = counters.refreshes_bank;
    channel["any_open_ticks"] = controller.any_open_ticks(tick);
    channel["blocked_by_return_ticks"] = counters.blocked_by_return_ticks;
    channels.append(channel);
    for (int pc = 0; pc < config.pseudo_channels; ++pc) {
      for (int bank = 0; bank < config.banks(); ++bank) {
        const mem::BankCounters b = controller.bank_counters(pc, bank, tick);
        banks.append(py::make_tuple(c, pc, bank / config.banks_per_group, bank % config.banks_per_group, b.bytes, b.rd,
                                    b.wr, b.act, b.pre, b.ref, b.row_hits, b.row_misses, b.row_conflicts,
                                    b.busy_ticks));
      }
    }
  }
  d["channels"] = channels;
  d["banks"] = banks;
  return d;
}

// Counts that energy follows from, over all channels of a memory node.
py::dict memory_totals(sim::Engine& engine, std::int32_t id) {
  auto& node = node_as<endpoint::MemoryNode>(engine, id);
  const std::int64_t tick = std::max<std::int64_t>(node.last_tick(), 0);
  mem::BankCounters sum;
  std::int64_t all = 0;
  std::int64_t bank = 0;
  std::int64_t open = 0;
  for (std::int32_t c = 0; c < node.channels(); ++c) {
    const mem::Channel& controller = node.channel(c);
    for (int pc = 0; pc < controller.config().pseudo_channels; ++pc) {
      for (int b = 0; b < controller.config().banks(); ++b) {
        const mem::BankCounters one = controller.bank_counters(pc, b, tick);
        sum.act += one.act;
        sum.rd += one.rd;
        sum.wr += one.wr;
      }
    }
    all += controller.counters().refreshes_all;
    bank += controller.counters().refreshes_bank;
    open += controller.any_open_ticks(tick);
  }
  py::dict d;
  d["ACT"] = sum.act;
  d["RD"] = sum.rd;
  d["WR"] = sum.wr;
  d["refreshes_all"] = all;
  d["refreshes_bank"] = bank;
  d["open_ticks"] = open;
  return d;
}

py::dict gateway_statistics(sim::Engine& engine, std::int32_t id) {
  auto& node = node_as<endpoint::Gateway>(engine, id);
  const auto column = [](const std::vector<std::int64_t>& values) {
    return Column<std::int64_t>(static_cast<py::ssize_t>(values.size()), values.data());
  };
  py::dict d;
  d["granted_bytes"] = column(node.granted_bytes());
  d["arrived_bytes"] = column(node.arrived_bytes());
  d["forwarded_bytes"] = column(node.forwarded_bytes());
  d["most_used_bytes"] = column(node.most_used_bytes());
  d["open_messages"] = node.open_messages();
  d["conservation_error"] = node.conservation_error();
  return d;
}

template <class T, class Use, class Get>
Column<T> use_column(const std::vector<Use>& uses, Get get) {
  Column<T> out(static_cast<py::ssize_t>(uses.size()));
  T* data = out.mutable_data();
  for (std::size_t i = 0; i < uses.size(); ++i) data[i] = static_cast<T>(get(uses[i]));
  return out;
}

// Empty columns without a journal.
py::dict journal(const sim::Engine& engine) {
  using sim::BankUse;
  using sim::LinkUse;
  const sim::Journal none(0);
  const sim::Journal& kept = engine.journal() != nullptr ? *engine.journal() : none;
  py::dict links;
  links["begin_fs"] = use_column<std::int64_t>(kept.links, [](const LinkUse& u) { return u.begin; });
  links["end_fs"] = use_column<std::int64_t>(kept.links, [](const LinkUse& u) { return u.end; });
  links["task"] = use_column<std::int64_t>(kept.links, [](const LinkUse& u) { return u.task; });
  links["network"] = use_column<std::int32_t>(kept.links, [](const LinkUse& u) { return u.network; });
  links["link"] = use_column<std::int32_t>(kept.links, [](const LinkUse& u) { return u.link; });
  links["vc"] = use_column<std::int32_t>(kept.links, [](const LinkUse& u) { return u.vc; });
  links["flits"] = use_column<std::int32_t>(kept.links, [](const LinkUse& u) { return u.flits; });
  py::dict banks;
  banks["begin_fs"] = use_column<std::int64_t>(kept.banks, [](const BankUse& u) { return u.begin; });
  banks["last_fs"] = use_column<std::int64_t>(kept.banks, [](const BankUse& u) { return u.last; });
  banks["task"] = use_column<std::int64_t>(kept.banks, [](const BankUse& u) { return u.task; });
  banks["memory"] = use_column<std::int32_t>(kept.banks, [](const BankUse& u) { return u.memory; });
  banks["channel"] = use_column<std::int32_t>(kept.banks, [](const BankUse& u) { return u.channel; });
  banks["pseudo_channel"] = use_column<std::int32_t>(kept.banks, [](const BankUse& u) { return u.pseudo_channel; });
  banks["bank"] = use_column<std::int32_t>(kept.banks, [](const BankUse& u) { return u.bank; });
  banks["row"] = use_column<std::int32_t>(kept.banks, [](const BankUse& u) { return u.row; });
  banks["bursts"] = use_column<std::int32_t>(kept.banks, [](const BankUse& u) { return u.bursts; });
  banks["command"] = use_column<std::int32_t>(kept.banks, [](const BankUse& u) { return u.command; });
  py::dict d;
  d["links"] = links;
  d["banks"] = banks;
  d["left_out"] = kept.left_out();
  return d;
}

py::dict skip_report(const sim::Engine& engine) {
  const sim::SkipReport& report = engine.skip_report();
  py::dict d;
  d["jumps"] = report.jumps;
  d["periods"] = report.periods;
  d["instants"] = report.instants;
  d["skipped_fs"] = report.time;
  d["looks"] = report.looks;
  d["found"] = report.found;
  py::dict reasons;
  for (const auto& [why, times] : report.reasons) reasons[py::str(why)] = times;
  d["reasons"] = reasons;
  return d;
}

// Rows of (node, clock, synchroniser cycles).
using GatewayRows = std::vector<std::tuple<std::int32_t, sim::Clock, std::int32_t>>;

// Runs without the GIL, looking for Ctrl-C every `slice` instants.
void leave_out(sim::Engine& engine, const std::string& part) {
  const auto at = std::find(sim::kPartNames.begin(), sim::kPartNames.end(), part);
  if (at == sim::kPartNames.end()) throw std::invalid_argument("no part of a canonical form: " + part);
  engine.leave_out(static_cast<sim::Part>(at - sim::kPartNames.begin()));
}

// One stretch of at most `instants`; true while there is more to do before the next decision or the end.
bool step(sim::Engine& engine, std::int64_t instants, bool drain) {
  return engine.run(instants, drain) == sim::Stop::budget;
}

// Columns over the items of save(): node, size, width of an element, whether it is a counter.
py::dict layout(sim::Engine& engine) {
  const std::vector<sim::Engine::SavedItem> items = engine.layout();
  const auto all = [&](auto get) {
    Column<std::int64_t> out(static_cast<py::ssize_t>(items.size()));
    for (std::size_t i = 0; i < items.size(); ++i) out.mutable_data()[i] = static_cast<std::int64_t>(get(items[i]));
    return out;
  };
  py::dict d;
  d["node"] = all([](const auto& saved) { return saved.node; });
  d["size"] = all([](const auto& saved) { return saved.item.size; });
  d["width"] = all([](const auto& saved) { return saved.item.width; });
  d["counter"] = all([](const auto& saved) { return saved.item.kind == sim::Kind::counter; });
  return d;
}

py::tuple run(sim::Engine& engine, bool drain, std::int64_t slice) {
  for (;;) {
    sim::Stop stop;
    {
      const py::gil_scoped_release release;
      stop = engine.run(slice, drain);
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (stop == sim::Stop::budget) continue;
    if (stop == sim::Stop::idle) return py::make_tuple("idle", engine.now(), -1, -1);
    return py::make_tuple("decision", engine.decision().time, engine.decision().key, engine.decision().task);
  }
}

}  // namespace

void register_engine(py::module_& m) {
  py::register_exception<sim::DeadlockError>(m, "DeadlockError", PyExc_RuntimeError);

  py::register_exception<sim::LivelockError>(m, "LivelockError", PyExc_RuntimeError);

  py::enum_<sim::TaskKind>(m, "TaskKind")
      .value("transfer", sim::TaskKind::transfer)
      .value("fetch", sim::TaskKind::fetch)
      .value("compute", sim::TaskKind::compute)
      .value("delay", sim::TaskKind::delay)
      .value("decision", sim::TaskKind::decision)
      .value("copy", sim::TaskKind::copy)
      .value("revoke", sim::TaskKind::revoke)
      .value("stream", sim::TaskKind::stream);

  py::class_<sim::Engine>(m, "Engine", "Advances network, memory and compute nodes to the next decision.")
      .def(py::init<>())
      .def(
          "add_compute",
          [](sim::Engine& e, const sim::Clock& clock, std::int64_t tile_bytes, std::int64_t buffer_tiles,
             std::int64_t grant_latency_cycles) {
            return e.add(std::make_unique<endpoint::ComputeNode>(
                endpoint::ComputeNodeConfig{clock, tile_bytes, buffer_tiles, grant_latency_cycles}, e.graph()));
          },
          py::kw_only(), py::arg("clock"), py::arg("tile_bytes"), py::arg("buffer_tiles"),
          py::arg("grant_latency_cycles"))
      .def(
          "add_rate_memory",
          [](sim::Engine& e, const sim::Clock& clock, std::int64_t bytes_per_second, std::int64_t latency_fs,
             std::int64_t grant_latency_fs, std::int64_t copy_chunk_bytes, std::int32_t network,
             std::int32_t near_reader, std::int32_t near_path) {
            return e.add(std::make_unique<endpoint::RateMemory>(
                endpoint::RateMemoryConfig{clock, bytes_per_second, latency_fs, grant_latency_fs, copy_chunk_bytes,
                                           network, near_reader, near_path},
                e.graph()));
          },
          py::kw_only(), py::arg("clock"), py::arg("bytes_per_second"), py::arg("latency_fs"),
          py::arg("grant_latency_fs"), py::arg("copy_chunk_bytes"), py::arg("network"), py::arg("near_reader") = -1,
          py::arg("near_path") = -1)
      .def(
          "add_near_path",
          [](sim::Engine& e, std::int64_t bytes_per_second, std::int64_t latency_fs) {
            return e.add(std::make_unique<endpoint::NearPath>(endpoint::NearPathConfig{bytes_per_second, latency_fs}));
          },
          py::kw_only(), py::arg("bytes_per_second"), py::arg("latency_fs"))
      .def(
          "add_link_network",
          [](sim::Engine& e, std::int32_t routers, std::vector<std::int64_t> link_bytes_per_second,
             std::vector<std::int32_t> link_target, std::vector<std::int32_t> next_link,
             std::vector<std::int32_t> endpoint_node, std::vector<std::int32_t> endpoint_router,
             std::int32_t chunks_per_message, std::int64_t hop_latency_fs, std::int32_t message_classes,
             std::int32_t unicast_classes) {
            link::LinkNetworkConfig c;
            c.routers = routers;
            c.link_bytes_per_second = std::move(link_bytes_per_second);
            c.link_target = std::move(link_target);
            c.next_link = std::move(next_link);
            c.endpoint_node = std::move(endpoint_node);
            c.endpoint_router = std::move(endpoint_router);
            c.chunks_per_message = chunks_per_message;
            c.hop_latency_fs = hop_latency_fs;
            c.message_classes = message_classes;
            c.unicast_classes = unicast_classes;
            c.graph = &e.graph();
            const std::int32_t id = e.add(std::make_unique<link::LinkNetwork>(std::move(c), 0));
            e.graph().set_network(id);
            return id;
          },
          py::kw_only(), py::arg("routers"), py::arg("link_bytes_per_second"), py::arg("link_target"),
          py::arg("next_link"), py::arg("endpoint_node"), py::arg("endpoint_router"), py::arg("chunks_per_message"),
          py::arg("hop_latency_fs"), py::arg("message_classes"), py::arg("unicast_classes"))
      .def(
          "add_memory",
          [](sim::Engine& e, const sim::Clock& clock, std::int32_t channels, std::int32_t read_return_slots,
             std::int64_t packet_payload_bytes, std::int64_t grant_latency_fs, std::int32_t network,
             const mem::ChannelConfig& channel, const mem::AddressMap& address_map, std::int32_t near_reader,
             std::int32_t near_path) {
            endpoint::MemoryNodeConfig c{
                clock,   channels,    read_return_slots, packet_payload_bytes, grant_latency_fs,
                network, near_reader, near_path};
            return e.add(std::make_unique<endpoint::MemoryNode>(c, channel, address_map, e.graph()));
          },
          py::kw_only(), py::arg("clock"), py::arg("channels"), py::arg("read_return_slots"),
          py::arg("packet_payload_bytes"), py::arg("grant_latency_fs"), py::arg("network"), py::arg("channel"),
          py::arg("address_map"), py::arg("near_reader") = -1, py::arg("near_path") = -1)
      .def(
          "add_flit_network",
          [](sim::Engine& e, const noc::NetworkSpec& graph, const sim::Clock& clock, std::int64_t flit_bytes,
             std::int64_t header_bytes, std::int32_t max_packet_flits, std::int32_t message_classes,
             std::vector<std::int32_t> endpoint_node, std::vector<std::vector<std::int32_t>> endpoint_terminals,
             std::string name, std::int64_t livelock_cycles, std::int32_t legs, std::vector<std::uint8_t> descends,
             const GatewayRows& gateways, std::int32_t nodes, std::vector<std::int32_t> gateway_towards,
             std::vector<std::int64_t> payload_towards) {
            endpoint::FlitNetworkNodeConfig c;
            c.graph = &e.graph();
            c.name = std::move(name);
            c.clock = clock;
            c.flit_bytes = flit_bytes;
            c.header_bytes = header_bytes;
            c.max_packet_flits = max_packet_flits;
            c.message_classes = message_classes;
            c.endpoint_node = std::move(endpoint_node);
            c.endpoint_terminals = std::move(endpoint_terminals);
            c.livelock_cycles = livelock_cycles;
            c.legs = legs;
            c.descends = std::move(descends);
            for (const auto& [node, reader, cycles] : gateways) c.gateways.push_back({node, reader, cycles});
            c.nodes = nodes;
            c.gateway_towards = std::move(gateway_towards);
            c.payload_towards = std::move(payload_towards);
            const std::vector<std::int32_t> endpoints = c.endpoint_node;
            const std::int32_t id = e.add(std::make_unique<endpoint::FlitNetworkNode>(graph, std::move(c), 0));
            for (const std::int32_t node : endpoints) e.graph().set_network_of(node, id);
            return id;
          },
          py::kw_only(), py::arg("graph"), py::arg("clock"), py::arg("flit_bytes"), py::arg("header_bytes"),
          py::arg("max_packet_flits"), py::arg("message_classes"), py::arg("endpoint_node"),
          py::arg("endpoint_terminals"), py::arg("name") = "",
          py::arg("livelock_cycles") = endpoint::FlitNetworkNodeConfig{}.livelock_cycles, py::arg("legs") = 1,
          py::arg("descends") = std::vector<std::uint8_t>{}, py::arg("gateways") = GatewayRows{}, py::arg("nodes") = 0,
          py::arg("gateway_towards") = std::vector<std::int32_t>{},
          py::arg("payload_towards") = std::vector<std::int64_t>{})
      .def(
          "add_gateway",
          [](sim::Engine& e, std::string name, const sim::Clock& clock, const sim::Clock& from_clock,
             std::int32_t from_network, std::int32_t to_network, std::int64_t from_flit_bytes,
             std::int64_t from_header_bytes, std::int64_t to_flit_bytes, std::int64_t to_header_bytes,
             std::int32_t synchroniser_cycles, std::int32_t grant_latency_cycles,
             std::vector<std::int64_t> buffer_bytes) {
            endpoint::GatewayConfig c;
            c.name = std::move(name);
            c.clock = clock;
            c.from_clock = from_clock;
            c.from_network = from_network;
            c.to_network = to_network;
            c.from_flit_bytes = from_flit_bytes;
            c.from_header_bytes = from_header_bytes;
            c.to_flit_bytes = to_flit_bytes;
            c.to_header_bytes = to_header_bytes;
            c.synchroniser_cycles = synchroniser_cycles;
            c.grant_latency_cycles = grant_latency_cycles;
            c.buffer_bytes = std::move(buffer_bytes);
            return e.add(std::make_unique<endpoint::Gateway>(std::move(c)));
          },
          py::kw_only(), py::arg("name"), py::arg("clock"), py::arg("from_clock"), py::arg("from_network"),
          py::arg("to_network"), py::arg("from_flit_bytes"), py::arg("from_header_bytes"), py::arg("to_flit_bytes"),
          py::arg("to_header_bytes"), py::arg("synchroniser_cycles"), py::arg("grant_latency_cycles"),
          py::arg("buffer_bytes"))
      .def(
          "add_group",
          [](sim::Engine& e, std::vector<std::int32_t> nodes) { return e.graph().add_group(std::move(nodes)); },
          py::arg("nodes"), "The number of a set of nodes, for the column `group` of streams and transfers.")
      .def("submit", &submit, py::arg("columns"), py::arg("before"), py::arg("after"), py::arg("effective_fs"))
      .def("run", &run, py::arg("drain") = false, py::arg("slice") = 20'000)
      .def("take_records", &take_records)
      .def("keep_journal", &sim::Engine::keep_journal, py::arg("limit"))
      .def("journal", &journal)
      .def_property("skipping", &sim::Engine::skipping, &sim::Engine::set_skipping)
      .def("skip_report", &skip_report)
      .def("form",
           [](sim::Engine& e) {
             const sim::Form form = e.form();
             return py::make_tuple(
                 form.now, Column<std::int64_t>(static_cast<py::ssize_t>(form.same.size()), form.same.data()),
                 Column<std::int64_t>(static_cast<py::ssize_t>(form.grows.size()), form.grows.data()));
           })
      .def(
          "has_form",
          [](sim::Engine& e, std::int64_t now, const Column<std::int64_t>& same, const Column<std::int64_t>& grows) {
            return e.has_form(
                {now, {same.data(), same.data() + same.size()}, {grows.data(), grows.data() + grows.size()}});
          },
          py::arg("now"), py::arg("same"), py::arg("grows"))
      .def("leave_out", &leave_out, py::arg("part"))
      .def("set_every_edge", &sim::Engine::set_every_edge, py::arg("on"))
      .def("set_lockstep", &sim::Engine::set_lockstep, py::arg("on"))
      .def("step", &step, py::arg("instants"), py::arg("drain") = false)
      .def("layout", &layout)
      .def("set_order", &sim::Engine::set_order, py::arg("order"))
      .def_property_readonly("now_fs", &sim::Engine::now)
      .def_property_readonly("instants", &sim::Engine::instants)
      .def_property_readonly("nodes", &sim::Engine::nodes)
      .def_property_readonly("unfinished_tasks", [](sim::Engine& e) { return e.graph().unfinished(); })
      .def("save",
           [](sim::Engine& e) {
             const std::vector<std::uint8_t> data = e.save();
             return py::bytes(reinterpret_cast<const char*>(data.data()), data.size());
           })
      .def(
          "load",
          [](sim::Engine& e, const py::bytes& data) {
            const std::string_view view = data;
            e.load({reinterpret_cast<const std::uint8_t*>(view.data()), view.size()});
          },
          py::arg("data"))
      .def("compute_statistics",
           [](sim::Engine& e, std::int32_t id) {
             auto& node = node_as<endpoint::ComputeNode>(e, id);
             py::dict d;
             d["busy_cycles"] = node.busy_cycles();
             d["wasted_bytes"] = node.wasted_bytes();
             d["free_tiles"] = node.free_tiles();
             d["buffer_tiles"] = node.buffer_tiles();
             d["unfinished"] = node.unfinished();
             return d;
           })
      .def("rate_memory_statistics",
           [](sim::Engine& e, std::int32_t id) {
             auto& node = node_as<endpoint::RateMemory>(e, id);
             py::dict d;
             d["read_bytes"] = node.read_bytes();
             d["cancelled_bytes"] = node.cancelled_bytes();
             d["written_bytes"] = node.written_bytes();
             d["busy_fs"] = node.busy_fs();
             return d;
           })
      .def("link_network_statistics",
           [](sim::Engine& e, std::int32_t id) {
             auto& node = node_as<link::LinkNetwork>(e, id);
             py::dict d;
             d["link_busy_fs"] =
                 Column<std::int64_t>(static_cast<py::ssize_t>(node.link_busy_fs().size()), node.link_busy_fs().data());
             d["link_class_bytes"] = Column<std::int64_t>(static_cast<py::ssize_t>(node.link_class_bytes().size()),
                                                          node.link_class_bytes().data());
             d["delivered_bytes"] = Column<std::int64_t>(static_cast<py::ssize_t>(node.delivered_bytes().size()),
                                                         node.delivered_bytes().data());
             d["hop_events"] = node.hop_events();
             d["messages_in_flight"] = node.messages_in_flight();
             d["conservation_error"] = node.conservation_error();
             return d;
           })
      .def("near_path_statistics",
           [](sim::Engine& e, std::int32_t id) {
             auto& node = node_as<endpoint::NearPath>(e, id);
             py::dict d;
             d["moved_bytes"] = node.moved_bytes();
             d["busy_fs"] = node.busy_fs();
             return d;
           })
      .def("flit_network_statistics", &flit_network_statistics)
      .def("gateway_statistics", &gateway_statistics)
      .def(
          "stepped_bursts",
          [](sim::Engine& e, std::int32_t node) { return node_as<endpoint::MemoryNode>(e, node).stepped_bursts(); },
          py::arg("node"))
      .def("memory_statistics", &memory_statistics)
      .def("memory_totals", &memory_totals);
}

}  // namespace cosim::bindings
