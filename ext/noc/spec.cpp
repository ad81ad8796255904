#include "noc/spec.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "noc/bits.hpp"

namespace cosim::noc {

namespace {

using Problems = std::vector<std::string>;

void need(Problems& out, bool holds, std::string sentence) {
  if (!holds) out.push_back(std::move(sentence));
}

void at_least(Problems& out, const char* name, std::int32_t value, std::int32_t least) {
  need(out, value >= least,
       std::string(name) + " must be at least " + std::to_string(least) + ", got " + std::to_string(value));
}

// Which ports of the routers already have a link or a terminal.
class TakenPorts {
 public:
  explicit TakenPorts(const NetworkSpec& s)
      : ports_(static_cast<std::size_t>(s.ports)), taken_(static_cast<std::size_t>(s.routers) * ports_) {}
  // False when it is taken already.
  bool take(std::int32_t router, std::int32_t port) {
    char& taken = taken_[static_cast<std::size_t>(router) * ports_ + static_cast<std::size_t>(port)];
    return std::exchange(taken, 1) == 0;
  }

 private:
  std::size_t ports_;
  std::vector<char> taken_;
};

void check_graph(const NetworkSpec& s, Problems& out) {
  TakenPorts outputs(s);
  TakenPorts inputs(s);
  const auto inside = [&](std::int32_t router, std::int32_t port) {
    return router >= 0 && router < s.routers && port >= 0 && port < s.ports;
  };
  for (std::size_t i = 0; i < s.links.size(); ++i) {
    const LinkSpec& l = s.links[i];
    const auto complain = [&](const std::string& what) {
      out.push_back("link " + std::to_string(i) + " (router " + std::to_string(l.from_router) + " port " +
                    std::to_string(l.from_port) + " to router " + std::to_string(l.to_router) + " port " +
                    std::to_string(l.to_port) + ")" + what);
    };
    if (!inside(l.from_router, l.from_port) || !inside(l.to_router, l.to_port)) {
      complain(" names a router or port that does not exist");
      continue;
    }
    if (!outputs.take(l.from_router, l.from_port)) complain(" shares its output port");
    if (!inputs.take(l.to_router, l.to_port)) complain(" shares its input port");
    if (l.latency < 1 || l.latency > 1'000'000)
      complain(": latency must be 1 to 1000000 cycles, got " + std::to_string(l.latency));
    if (l.buffer_flits < 1 || l.buffer_flits > 65'536)
      complain(": buffer must be 1 to 65536 flits, got " + std::to_string(l.buffer_flits));
  }
  for (std::size_t i = 0; i < s.terminals.size(); ++i) {
    const TerminalSpec& n = s.terminals[i];
    const auto complain = [&](const char* what) { out.push_back("terminal " + std::to_string(i) + what); };
    if (!inside(n.router, n.port)) {
      complain(" names a router or port that does not exist");
      continue;
    }
    if (!outputs.take(n.router, n.port)) complain(" shares its ejection port");
    if (!inputs.take(n.router, n.port)) complain(" shares its injection port");
  }
}

void check_classes(const NetworkSpec& s, Problems& out) {
  if (s.num_vcs < 1 || s.num_vcs > 32) return;
  const std::uint32_t all = s.num_vcs == 32 ? ~0U : (1U << s.num_vcs) - 1U;
  std::uint32_t taken = 0;
  need(out, s.classes.size() <= 32, "at most 32 message classes, got " + std::to_string(s.classes.size()));
  for (std::size_t c = 0; c < s.classes.size(); ++c) {
    const std::uint32_t mask = s.classes[c].vc_mask;
    const std::string name = "message class " + std::to_string(c);
    need(out, !s.classes[c].static_vcs || !(s.classes[c].multicast || s.classes[c].session || s.classes[c].reduction),
         name +
             " is one of multicasts, sessions or reductions; static VCs are for packets that go as they are to one "
             "destination");
    if (s.classes[c].session) {
      need(out, mask == 0, name + " is a session class: it uses no VC");
      need(out, !s.classes[c].multicast, name + " is a session class and a multicast class; one of both expected");
      continue;
    }
    need(out, mask != 0, name + " has no VC");
    need(out, (mask & ~all) == 0, name + " names a VC beyond num_vcs = " + std::to_string(s.num_vcs));
    need(out, (mask & taken) == 0, name + " shares a VC with another class; classes use disjoint VCs");
    taken |= mask;
  }
  if (std::none_of(s.classes.begin(), s.classes.end(), [](const ClassSpec& c) { return c.static_vcs; })) return;
  need(out, s.routing.kind != RoutingKind::min_adaptive && s.routing.kind != RoutingKind::plugin,
       "a message class with static VCs needs a routing that offers VCs whatever the load");
  need(out, s.router_model == nullptr, "a router model chooses the VCs itself: no message class has static ones");
}

void check_multicast(const NetworkSpec& s, Problems& out) {
  const std::int32_t vcs = s.multicast_vcs();
  if (vcs == 0) return;
  need(out, s.routing.kind == RoutingKind::table,
       "a multicast class needs a routing with one way per router and destination (a table)");
  need(out, !s.compat_booksim2, "BookSim2 knows no multicast: a multicast class goes with compat none");
  const std::int64_t lanes = static_cast<std::int64_t>(s.ports) * s.num_vcs + s.extra_branches();
  need(out, lanes <= kMostVcs,
       "a router of " + std::to_string(s.ports) + " ports x " + std::to_string(s.num_vcs) + " VCs of which " +
           std::to_string(vcs) + " fork to up to " + std::to_string(s.ports) + " branches has " +
           std::to_string(lanes) + " input VCs and branches; at most " + std::to_string(kMostVcs) + " are supported");
}

void check_allocation(const NetworkSpec& s, Problems& out) {
  const AllocationSpec& a = s.allocation;
  const bool islip = a.vc == AllocatorKind::islip || a.sw == AllocatorKind::islip;
  const auto separates = [](AllocatorKind kind) {
    return kind == AllocatorKind::separable_input_first || kind == AllocatorKind::separable_output_first;
  };
  const bool separable = separates(a.vc) || separates(a.sw);
  need(out,
       (a.vc == AllocatorKind::plugin) == (a.vc_plugin != nullptr) &&
           (a.sw == AllocatorKind::plugin) == (a.sw_plugin != nullptr),
       "a plug-in arbiter belongs to allocator kind plugin, and to no other");
  at_least(out, "alloc_iters", a.iterations, 1);
  need(out, a.iterations == 1 || islip, "alloc_iters is read by the islip allocator alone");
  need(out, a.arbiter == ArbiterKind::round_robin || separable, "arb_type is read by separable allocators alone");
  need(out, !a.speculative || s.vc_alloc_delay <= s.sw_alloc_delay,
       "speculative: a flit leaves with the VC that its head wins beside the switch, so vc_alloc_delay must be at most "
       "sw_alloc_delay = " +
           std::to_string(s.sw_alloc_delay) + ", got " + std::to_string(s.vc_alloc_delay));
  need(out, s.multicast_vcs() == 0 || (a.plain() && !s.wait_for_tail_credit),
       "a multicast class goes with islip allocators of one iteration, without speculative, priority and "
       "wait_for_tail_credit");
}

void check_sessions(const NetworkSpec& s, Problems& out) {
  if (!s.has_sessions()) return;
  need(out, s.routing.kind == RoutingKind::table,
       "a session class needs a routing with one way per router and destination (a table): which packets need a link "
       "must be known before they leave");
  need(out, !s.compat_booksim2, "BookSim2 knows no sessions: a session class goes with compat none");
  need(out, s.allocation.plain() && !s.wait_for_tail_credit,
       "a session class goes with islip allocators of one iteration, without speculative, priority and "
       "wait_for_tail_credit");
  need(out, std::any_of(s.classes.begin(), s.classes.end(), [](const ClassSpec& c) { return !c.session; }),
       "beside session classes a class of packets is needed");
  at_least(out, "sessions.setup_cycles", s.sessions.setup_cycles, 0);
  at_least(out, "sessions.teardown_cycles", s.sessions.teardown_cycles, 0);
  at_least(out, "sessions.segment_delay", s.sessions.segment_delay, 0);
  at_least(out, "sessions.idle_cycles", s.sessions.idle_cycles, 0);
  at_least(out, "sessions.max_waiting", s.sessions.max_waiting, -1);
  need(out, s.sessions.max_session_cycles >= 1 && s.sessions.max_session_cycles <= (std::int64_t{1} << 40U),
       "sessions.max_session_cycles must be 1 to 2^40, got " + std::to_string(s.sessions.max_session_cycles));
}

void check_reductions(const NetworkSpec& s, Problems& out) {
  const std::int32_t ports = s.reduction.ports;
  if (!s.has_reductions()) {
    need(out, ports == 0, "reduction.ports is read with a reduction class alone");
    return;
  }
  at_least(out, "reduction.ports", ports, 1);
  at_least(out, "reduction.combine_delay", s.reduction.combine_delay, 1);
  need(out, s.reduction.combine_delay <= 100'000,
       "reduction.combine_delay must be at most 100000 cycles, got " + std::to_string(s.reduction.combine_delay));
  const auto free = [&](std::int32_t port) { return port < s.ports - ports; };
  need(out,
       std::all_of(s.links.begin(), s.links.end(),
                   [&](const LinkSpec& l) { return free(l.from_port) && free(l.to_port); }) &&
           std::all_of(s.terminals.begin(), s.terminals.end(), [&](const TerminalSpec& t) { return free(t.port); }),
       "the last reduction.ports = " + std::to_string(ports) + " ports of a router are those of its reduction unit");
  for (const ClassSpec& c : s.classes) {
    need(out, !c.reduction || (!c.multicast && !c.session),
         "a reduction class is no multicast class and no session class");
  }
  need(out, s.routing.kind == RoutingKind::table,
       "a reduction class needs a routing with one way per router and destination (a table)");
  need(out, !s.compat_booksim2, "BookSim2 knows no reductions: a reduction class goes with compat none");
  need(out, s.allocation.plain() && !s.wait_for_tail_credit,
       "a reduction class goes with islip allocators of one iteration, without speculative, priority and "
       "wait_for_tail_credit");
  need(out, !s.has_sessions() && s.retry.bit_error_rate == 0.0,
       "a reduction class goes without session classes and links with retry");
}

void check_retry(const NetworkSpec& s, Problems& out) {
  const RetrySpec& r = s.retry;
  if (r.bit_error_rate == 0.0) return;
  need(out, r.bit_error_rate > 0.0 && r.bit_error_rate <= 0.01,
       "retry.bit_error_rate must be above 0 and at most 0.01, got " + std::to_string(r.bit_error_rate));
  need(out, r.flit_bits >= 1 && r.flit_bits <= (1 << 20),
       "retry.flit_bits must be 1 to 1048576, got " + std::to_string(r.flit_bits));
  need(out, r.crc_bits >= 0 && r.crc_bits <= 1024,
       "retry.crc_bits must be 0 to 1024, got " + std::to_string(r.crc_bits));
  need(out, r.nack_delay >= 0 && r.nack_delay <= 100'000,
       "retry.nack_delay must be 0 to 100000 cycles, got " + std::to_string(r.nack_delay));
  need(out, s.multicast_vcs() == 0 && !s.has_sessions(),
       "links with retry carry packets to one node: no multicast and no session class");
  need(out, !s.compat_booksim2, "BookSim2 knows no retry: links with retry go with compat none");
  need(out, s.allocation.plain() && !s.wait_for_tail_credit,
       "links with retry go with islip allocators of one iteration, without speculative, priority and "
       "wait_for_tail_credit");
}

void check_routes(const NetworkSpec& s, const RouteTable& routes, Problems& out) {
  const std::size_t want = static_cast<std::size_t>(std::max(s.routers, 0)) * s.terminals.size();
  if (routes.entries.size() != want) {
    out.push_back("the route table has " + std::to_string(routes.entries.size()) + " entries, expected " +
                  std::to_string(want));
    return;
  }
  need(out, !routes.vc_sets.empty() && routes.vc_sets.size() <= 256, "1 to 256 VC sets of routes expected");
  std::vector<char> connected(static_cast<std::size_t>(s.routers) * static_cast<std::size_t>(s.ports), 0);
  std::vector<std::int32_t> ejects(connected.size(), -1);
  const auto at = [&](std::int32_t router, std::int32_t port) {
    return static_cast<std::size_t>(router) * static_cast<std::size_t>(s.ports) + static_cast<std::size_t>(port);
  };
  for (const LinkSpec& l : s.links) connected[at(l.from_router, l.from_port)] = 1;
  for (std::size_t i = 0; i < s.terminals.size(); ++i) {
    connected[at(s.terminals[i].router, s.terminals[i].port)] = 1;
    ejects[at(s.terminals[i].router, s.terminals[i].port)] = static_cast<std::int32_t>(i);
  }
  std::size_t shown = 0;
  for (std::size_t e = 0; e < want && shown < 8; ++e) {
    const auto router = static_cast<std::int32_t>(e / s.terminals.size());
    const auto dest = static_cast<std::int32_t>(e % s.terminals.size());
    const std::int32_t port = routes.entries[e] & 255;
    const std::size_t set = routes.entries[e] >> 8U;
    const auto name = [&] { return "route at router " + std::to_string(router) + " to node " + std::to_string(dest); };
    if (port >= s.ports || connected[at(router, port)] == 0) {
      out.push_back(name() + " leaves by port " + std::to_string(port) + ", which is not connected");
      ++shown;
    } else if (ejects[at(router, port)] >= 0 && ejects[at(router, port)] != dest) {
      out.push_back(name() + " ejects to node " + std::to_string(ejects[at(router, port)]));
      ++shown;
    }
    if (set >= routes.vc_sets.size()) {
      out.push_back(name() + " names VC set " + std::to_string(set) + ", which does not exist");
      ++shown;
    }
  }
}

void check_route_changes(const NetworkSpec& s, Problems& out) {
  std::int64_t last = -1;
  for (const RouteChange& change : s.route_changes) {
    need(out, change.at_cycle > last, "changes of routes stand in ascending order of their cycles");
    last = change.at_cycle;
    check_routes(s, change.routes, out);
  }
  need(
      out, s.route_changes.empty() || (s.multicast_vcs() == 0 && !s.has_sessions() && !s.has_reductions()),
      "links that fail at a cycle go without multicast, session and reduction classes, whose trees are planned before");
}

}  // namespace

bool NetworkSpec::has_sessions() const {
  return std::any_of(classes.begin(), classes.end(), [](const ClassSpec& c) { return c.session; });
}

bool NetworkSpec::has_reductions() const {
  return std::any_of(classes.begin(), classes.end(), [](const ClassSpec& c) { return c.reduction; });
}

std::int32_t NetworkSpec::multicast_vcs() const {
  std::uint32_t vcs = 0;
  for (const ClassSpec& c : classes) vcs |= c.multicast ? c.vc_mask : 0;
  return std::popcount(vcs);
}

std::vector<std::string> NetworkSpec::problems() const {
  Problems out;
  at_least(out, "routers", routers, 1);
  at_least(out, "ports", ports, 1);
  need(out, num_vcs >= 1 && num_vcs <= 32, "num_vcs must be 1 to 32, got " + std::to_string(num_vcs));
  need(out, vc_buf_size >= 1 && vc_buf_size <= 65'536,
       "vc_buf_size must be 1 to 65536 flits, got " + std::to_string(vc_buf_size));
  at_least(out, "routing_delay", routing_delay, 0);
  at_least(out, "vc_alloc_delay", vc_alloc_delay, 1);
  at_least(out, "sw_alloc_delay", sw_alloc_delay, 1);
  at_least(out, "st_prepare_delay", st_prepare_delay, 0);
  at_least(out, "st_final_delay", st_final_delay, 0);
  at_least(out, "credit_delay", credit_delay, 0);
  at_least(out, "st_prepare_delay + st_final_delay", st_prepare_delay + st_final_delay, 1);
  const std::int32_t longest =
      std::max({routing_delay, vc_alloc_delay, sw_alloc_delay, st_prepare_delay, st_final_delay, credit_delay});
  need(out, longest <= 100'000, "pipeline delays must be at most 100000 cycles, got " + std::to_string(longest));
  if (routers >= 1 && ports >= 1 && num_vcs >= 1) {
    need(out, static_cast<std::int64_t>(ports) * num_vcs <= kMostVcs,
         "a router of " + std::to_string(ports) + " ports x " + std::to_string(num_vcs) + " VCs has " +
             std::to_string(static_cast<std::int64_t>(ports) * num_vcs) + " input VCs; at most " +
             std::to_string(kMostVcs) + " are supported");
    need(out, router_model == nullptr || ports <= 64,
         "a router model has at most 64 ports, got " + std::to_string(ports));
    need(out, routers <= (1 << 22), "at most 4194304 routers, got " + std::to_string(routers));
    need(out, !terminals.empty(), "the network has no terminal");
    const std::size_t before = out.size();
    check_graph(*this, out);
    check_classes(*this, out);
    check_multicast(*this, out);
    check_allocation(*this, out);
    check_sessions(*this, out);
    check_reductions(*this, out);
    check_retry(*this, out);
    if (before == out.size() && routing.kind == RoutingKind::table && router_model == nullptr) {
      check_routes(*this, routes, out);
      check_route_changes(*this, out);
    }
    need(out, route_changes.empty() || (routing.kind == RoutingKind::table && router_model == nullptr),
         "links that fail at a cycle need a routing with one way per router and destination (a table)");
    need(out,
         router_model == nullptr || (multicast_vcs() == 0 && !compat_booksim2 && !has_sessions() && !has_reductions() &&
                                     retry.bit_error_rate == 0.0),
         "a router model knows no multicast, sessions, reductions, retry and no BookSim2-compatible mode");
    need(out, (routing.kind == RoutingKind::plugin) == (routing.plugin != nullptr),
         "a plug-in routing function belongs to routing kind plugin, and to no other");
    need(out, routing.no_progress_cycles >= 1, "no_progress_cycles must be at least 1");
  }
  return out;
}

}  // namespace cosim::noc
