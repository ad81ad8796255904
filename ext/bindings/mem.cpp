#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <optional>

#include "bindings/register.hpp"
#include "mem/address_map.hpp"
#include "mem/channel.hpp"
#include "mem/replay.hpp"

namespace cosim::bindings {
namespace {

namespace py = pybind11;
using namespace cosim::mem;

using Columns = py::typing::Dict<py::str, py::array>;
using Counts = py::typing::Dict<py::str, py::int_>;

template <class T>
py::array_t<T> column(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

template <class T>
std::vector<T> vector_of(const Columns& table, const char* name) {
  if (!table.contains(name)) return {};
  const auto array = py::array_t<T, py::array::c_style | py::array::forcecast>::ensure(table[name]);
  if (!array) throw py::type_error(std::string("column ") + name + " is not an array of numbers");
  return std::vector<T>(array.data(), array.data() + array.size());
}

RequestTable table_of(const Columns& d) {
  RequestTable t;
  t.arrive_tick = vector_of<std::int64_t>(d, "arrive_tick");
  t.op = vector_of<std::uint8_t>(d, "op");
  t.address = vector_of<std::int64_t>(d, "address");
  t.size_bytes = vector_of<std::int64_t>(d, "size_bytes");
  t.channel = vector_of<std::int32_t>(d, "channel");
  t.pseudo_channel = vector_of<std::uint8_t>(d, "pseudo_channel");
  t.stack_id = vector_of<std::uint8_t>(d, "stack_id");
  t.bank_group = vector_of<std::uint8_t>(d, "bank_group");
  t.bank = vector_of<std::uint8_t>(d, "bank");
  t.row = vector_of<std::int32_t>(d, "row");
  t.column = vector_of<std::int32_t>(d, "column");
  return t;
}

// Commands as columns; bank -1 (all banks) stays -1 in every level below the pseudo-channel.
template <class Get>
Columns command_columns(std::size_t n, const ChannelConfig& config, Get get) {
  std::vector<std::int64_t> tick(n);
  std::vector<std::uint8_t> command(n);
  std::vector<std::int32_t> channel(n), pc(n), sid(n), bg(n), bank(n), row(n), col(n);
  for (std::size_t i = 0; i < n; ++i) {
    const LoggedCommand l = get(i);
    tick[i] = l.command.tick;
    command[i] = static_cast<std::uint8_t>(l.command.command);
    channel[i] = l.channel;
    pc[i] = l.command.pc;
    const int b = l.command.bank;
    sid[i] = b < 0 ? -1 : b / (config.bank_groups * config.banks_per_group);
    bg[i] = b < 0 ? -1 : b / config.banks_per_group % config.bank_groups;
    bank[i] = b < 0 ? -1 : b % config.banks_per_group;
    row[i] = l.command.row;
    col[i] = l.command.column;
  }
  Columns d;
  d["tick"] = column(tick);
  d["command"] = column(command);
  d["channel"] = column(channel);
  d["pseudo_channel"] = column(pc);
  d["stack_id"] = column(sid);
  d["bank_group"] = column(bg);
  d["bank"] = column(bank);
  d["row"] = column(row);
  d["column"] = column(col);
  return d;
}

Counts counters_of(const Channel& c) {
  const ChannelCounters& k = c.counters();
  Counts d;
  d["asked"] = k.asked;
  d["served_reads"] = k.served_reads;
  d["served_writes"] = k.served_writes;
  d["forwarded"] = k.forwarded;
  d["coalesced"] = k.coalesced;
  d["cancelled"] = k.cancelled;
  d["refreshes_all"] = k.refreshes_all;
  d["refreshes_bank"] = k.refreshes_bank;
  d["precharges_all"] = k.precharges_all;
  d["most_postponed"] = k.most_postponed;
  d["blocked_by_return_ticks"] = k.blocked_by_return_ticks;
  return d;
}

// One entry per bank, pseudo-channel by pseudo-channel.
Columns banks_of(const Channel& c, std::int64_t tick) {
  const std::array<std::pair<const char*, std::int64_t BankCounters::*>, 10> fields = {{
      {"bytes", &BankCounters::bytes},
      {"ACT", &BankCounters::act},
      {"PRE", &BankCounters::pre},
      {"RD", &BankCounters::rd},
      {"WR", &BankCounters::wr},
      {"REF", &BankCounters::ref},
      {"row_hits", &BankCounters::row_hits},
      {"row_misses", &BankCounters::row_misses},
      {"row_conflicts", &BankCounters::row_conflicts},
      {"busy_ticks", &BankCounters::busy_ticks},
  }};
  Columns d;
  for (const auto& [name, member] : fields) {
    std::vector<std::int64_t> values;
    for (int pc = 0; pc < c.config().pseudo_channels; ++pc) {
      for (int b = 0; b < c.config().banks(); ++b) values.push_back(c.bank_counters(pc, b, tick).*member);
    }
    d[name] = column(values);
  }
  return d;
}

Columns take_completions(Channel& c) {
  const std::size_t n = c.completions.size();
  std::vector<std::uint64_t> tag(n);
  std::vector<std::int64_t> issue(n), done(n);
  std::vector<std::uint8_t> pc(n), op(n), result(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Completion& k = c.completions[i];
    tag[i] = k.tag;
    issue[i] = k.issue_tick;
    done[i] = k.done_tick;
    pc[i] = k.pc;
    op[i] = static_cast<std::uint8_t>(k.op);
    result[i] = static_cast<std::uint8_t>(k.row_result);
  }
  c.completions.clear();
  Columns d;
  d["tag"] = column(tag);
  d["issue_tick"] = column(issue);
  d["done_tick"] = column(done);
  d["pseudo_channel"] = column(pc);
  d["op"] = column(op);
  d["row_result"] = column(result);
  return d;
}

void register_config(py::module_& m) {
  py::enum_<Scope>(m, "MemScope")
      .value("channel", Scope::channel)
      .value("pseudo_channel", Scope::pseudo_channel)
      .value("stack_id", Scope::stack_id)
      .value("other_stack_id", Scope::other_stack_id)
      .value("bank_group", Scope::bank_group)
      .value("bank", Scope::bank);
  py::enum_<Refresh>(m, "MemRefresh")
      .value("none", Refresh::none)
      .value("all_bank", Refresh::all_bank)
      .value("per_bank", Refresh::per_bank);
  py::enum_<PagePolicy>(m, "MemPagePolicy")
      .value("open", PagePolicy::open)
      .value("closed", PagePolicy::closed)
      .value("timeout", PagePolicy::timeout);
  py::enum_<MemoryKind>(m, "MemKind").value("dram", MemoryKind::dram).value("sram", MemoryKind::sram);
  py::class_<ChannelConfig>(m, "MemChannelConfig", "One memory channel as plain integers; times in ticks.")
      .def(py::init<>())
      .def_readwrite("kind", &ChannelConfig::kind)
      .def_readwrite("port_bytes", &ChannelConfig::port_bytes)
      .def_readwrite("ports", &ChannelConfig::ports)
      .def_readwrite("pseudo_channels", &ChannelConfig::pseudo_channels)
      .def_readwrite("stack_ids", &ChannelConfig::stack_ids)
      .def_readwrite("bank_groups", &ChannelConfig::bank_groups)
      .def_readwrite("banks_per_group", &ChannelConfig::banks_per_group)
      .def_readwrite("rows", &ChannelConfig::rows)
      .def_readwrite("columns", &ChannelConfig::columns)
      .def_readwrite("access_bytes", &ChannelConfig::access_bytes)
      .def_readwrite("slots_per_cycle", &ChannelConfig::slots_per_cycle)
      .def_readwrite("shared_command_bus", &ChannelConfig::shared_command_bus)
      .def_readwrite("rising_edge_only", &ChannelConfig::rising_edge_only)
      .def_readwrite("read_latency", &ChannelConfig::read_latency)
      .def_readwrite("write_latency", &ChannelConfig::write_latency)
      .def_readwrite("precharge_ticks", &ChannelConfig::precharge_ticks)
      .def_readwrite("refresh_all_ticks", &ChannelConfig::refresh_all_ticks)
      .def_readwrite("refresh_bank_ticks", &ChannelConfig::refresh_bank_ticks)
      .def_readwrite("refresh", &ChannelConfig::refresh)
      .def_readwrite("refresh_interval", &ChannelConfig::refresh_interval)
      .def_readwrite("refresh_set", &ChannelConfig::refresh_set)
      .def_readwrite("postponed_refreshes", &ChannelConfig::postponed_refreshes)
      .def_readwrite("page_policy", &ChannelConfig::page_policy)
      .def_readwrite("page_timeout", &ChannelConfig::page_timeout)
      .def_readwrite("read_queue", &ChannelConfig::read_queue)
      .def_readwrite("write_queue", &ChannelConfig::write_queue)
      .def_readwrite("write_high", &ChannelConfig::write_high)
      .def_readwrite("write_low", &ChannelConfig::write_low)
      .def_readwrite("age_cap", &ChannelConfig::age_cap)
      .def_readwrite("slot_freed_at_act", &ChannelConfig::slot_freed_at_act)
      .def_readwrite("ties_by_arrival_tick", &ChannelConfig::ties_by_arrival_tick)
      .def_readwrite("refresh_blocks_channel", &ChannelConfig::refresh_blocks_channel)
      .def_readwrite("reads_return_in_order", &ChannelConfig::reads_return_in_order)
      .def_readwrite("coalesce_writes", &ChannelConfig::coalesce_writes)
      .def_readwrite("shared_queues", &ChannelConfig::shared_queues)
      .def_readwrite("refresh_pairs_pseudo_channels", &ChannelConfig::refresh_pairs_pseudo_channels)
      .def_readwrite("log_commands", &ChannelConfig::log_commands)
      .def(
          "add_rule",
          [](ChannelConfig& c, Scope scope, int from, int to, std::int32_t value, std::int32_t window) {
            c.rules.push_back({scope, static_cast<Command>(from), static_cast<Command>(to), value, window});
          },
          py::arg("scope"), py::arg("start"), py::arg("to"), py::arg("value"), py::arg("window") = 1)
      .def("problems", &ChannelConfig::problems);
}

void register_address_map(py::module_& m) {
  py::class_<AddressMap>(m, "MemAddressMap",
                         "Byte address to coordinate; every coordinate bit a parity of address bits.")
      .def(py::init([](const std::array<std::int64_t, kFields>& sizes, int access_bytes,
                       const std::vector<std::tuple<int, int, std::uint64_t>>& bits) {
             std::vector<AddressMap::Bit> list;
             for (const auto& [field, bit, mask] : bits) list.push_back({static_cast<Field>(field), bit, mask});
             return AddressMap(sizes, access_bytes, list);
           }),
           py::arg("sizes"), py::arg("access_bytes"), py::arg("bits"))
      .def("decode", [](const AddressMap& map, std::uint64_t address) { return map.decode(address).value; })
      .def("encode",
           [](const AddressMap& map, const std::array<std::int64_t, kFields>& c) { return map.encode(Coordinate{c}); })
      .def_property_readonly("capacity_bytes", &AddressMap::capacity_bytes);
}

void register_controller(py::module_& m) {
  py::class_<Channel>(m, "MemController", "One memory channel; driven tick by tick or event by event.")
      .def(py::init([](const ChannelConfig& config) { return make_channel(config); }))
      .def("can_accept", [](const Channel& c, int op, int pc) { return c.can_accept(static_cast<Op>(op), pc); })
      .def(
          "try_accept",
          [](Channel& c, int op, int pc, int sid, int bg, int bank, std::int32_t row, std::int32_t col,
             std::uint64_t tag, std::int64_t tick, int priority) {
            Request r;
            r.op = static_cast<Op>(op);
            r.pc = static_cast<std::uint8_t>(pc);
            r.stack_id = static_cast<std::uint8_t>(sid);
            r.bg = static_cast<std::uint8_t>(bg);
            r.bank = static_cast<std::uint8_t>(bank);
            r.row = row;
            r.column = col;
            r.tag = tag;
            r.priority = static_cast<std::int8_t>(priority);
            return c.try_accept(r, tick);
          },
          py::arg("op"), py::arg("pseudo_channel"), py::arg("stack_id"), py::arg("bank_group"), py::arg("bank"),
          py::arg("row"), py::arg("column"), py::arg("tag"), py::arg("tick"), py::arg("priority") = 0)
      .def("next_event",
           [](const Channel& c) -> std::optional<std::int64_t> {
             const std::int64_t t = c.next_event();
             return t == kNeverTick ? std::nullopt : std::optional(t);
           })
      .def("next_progress",
           [](const Channel& c) -> std::optional<std::int64_t> {
             const std::int64_t t = c.next_progress();
             return t == kNeverTick ? std::nullopt : std::optional(t);
           })
      .def("advance", &Channel::advance)
      .def("set_return_slots", &Channel::set_return_slots)
      .def("release_slot", &Channel::release_slot)
      .def("cancel", &Channel::cancel)
      .def("queued", [](const Channel& c) { return c.queued(); })
      .def("normalise", &Channel::normalise)
      .def("verify_conservation", &Channel::verify_conservation)
      .def("describe_wait", &Channel::describe_wait)
      .def("counters", &counters_of)
      .def("refreshes", &Channel::refreshes)
      .def("banks", &banks_of)
      .def("take_completions", &take_completions)
      .def("take_commands",
           [](Channel& c) {
             Columns d = command_columns(c.commands.size(), c.config(),
                                         [&](std::size_t i) { return LoggedCommand{0, c.commands[i]}; });
             c.commands.clear();
             return d;
           })
      .def("save",
           [](Channel& c) {
             sim::Saver s;
             c.visit(s);
             return py::bytes(reinterpret_cast<const char*>(s.data().data()), s.data().size());
           })
      .def("load", [](Channel& c, const py::bytes& data) {
        const std::string_view view = data;
        sim::Loader l({reinterpret_cast<const std::uint8_t*>(view.data()), view.size()});
        c.visit(l);
        return l.finished();
      });
}

void register_replay(py::module_& m) {
  py::class_<Replay>(m, "MemReplay", "Plays a table of requests through the channels of a memory.")
      .def(py::init([](const ChannelConfig& config, int channels, const Columns& table, std::optional<AddressMap> map,
                       bool skipping) {
             return std::make_unique<Replay>(config, channels, table_of(table), std::move(map), skipping);
           }),
           py::arg("config"), py::arg("channels"), py::arg("table"), py::arg("address_map") = py::none(),
           py::arg("skipping") = false)
      .def(
          "set_return_buffer",
          [](Replay& r, std::int32_t slots, std::int64_t ticks) { r.set_return_buffer({slots, ticks}); },
          py::arg("slots"), py::arg("ticks"),
          "Reads go through a buffer of so many slots a pseudo-channel (0: any number), each free `ticks` after the "
          "last "
          "beat; the channels then go event by event.")
      .def("run", &Replay::run, py::arg("events"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("finished_bursts", &Replay::finished_bursts)
      .def_property_readonly("skipped_bursts", &Replay::skipped_bursts)
      .def_property_readonly("periodic", &Replay::periodic)
      .def_property_readonly("total_ticks", &Replay::total_ticks)
      .def_property_readonly("bytes", &Replay::bytes)
      .def("accept_tick", [](const Replay& r) { return column(r.results().accept_tick); })
      .def("issue_tick", [](const Replay& r) { return column(r.results().issue_tick); })
      .def("done_tick", [](const Replay& r) { return column(r.results().done_tick); })
      .def("row_result", [](const Replay& r) { return column(r.results().row_result); })
      .def("commands",
           [](const Replay& r) {
             return command_columns(r.commands().size(), r.channel(0).config(),
                                    [&](std::size_t i) { return r.commands()[i]; });
           })
      .def("recent_commands",
           [](const Replay& r, int channel) {
             const auto recent = r.channel(channel).recent_commands();
             return command_columns(recent.size(), r.channel(channel).config(),
                                    [&](std::size_t i) { return LoggedCommand{channel, recent[i]}; });
           })
      .def("counters", [](const Replay& r, int channel) { return counters_of(r.channel(channel)); })
      .def("refreshes", [](const Replay& r, int channel, int pc) { return r.channel(channel).refreshes(pc); })
      .def("banks", [](const Replay& r, int channel) { return banks_of(r.channel(channel), r.total_ticks()); })
      .def("any_open_ticks",
           [](const Replay& r, int channel) { return r.channel(channel).any_open_ticks(r.total_ticks()); })
      .def("verify_conservation",
           [](const Replay& r, int channel) { return r.channel(channel).verify_conservation(); });
}

}  // namespace

void register_mem(py::module_& m) {
  m.attr("MEM_COMMANDS") = std::vector<std::string>(kCommandNames.begin(), kCommandNames.end());
  register_config(m);
  register_address_map(m);
  register_controller(m);
  register_replay(m);
}

}  // namespace cosim::bindings
