#include "noc/plugin_routing.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "sim/random.hpp"

namespace cosim::noc {

namespace {

constexpr std::uint32_t kIndexBits = 24;
constexpr std::uint32_t kIndexMask = (1U << kIndexBits) - 1;
constexpr std::uint32_t kMostUses = 255;
constexpr std::uint32_t kErrorBytes = 512;

[[nodiscard]] std::uint32_t word(std::int32_t value) { return static_cast<std::uint32_t>(value); }

// An answer that is said to hold always is asked for again at its 2nd, 4th, 8th ... use, and must not change.
[[nodiscard]] bool time_to_check(std::uint32_t uses) { return uses < kMostUses && (uses & (uses - 1)) == 0; }

}  // namespace

PluginRouting::PluginRouting(const RouterPlugin& plugin, const NetworkSpec& network)
    : plugin_(plugin), graph_(network, plugin.topology, plugin.dims, plugin.flit_bytes), topology_(graph_.table()) {
  const std::size_t theirs = plugin_.table->struct_size;
  std::memcpy(&table_, plugin_.table, std::min(theirs, sizeof(table_)));
  pure_ = (table_.caps & COSIM_CAP_PURE) != 0;
  stateless_ = pure_ || (table_.caps & COSIM_CAP_STATELESS) != 0;
  wants_view_ = (table_.caps & (COSIM_CAP_NO_VIEW | COSIM_CAP_PURE)) == 0;
  seed_key_ = sim::mix64(network.routing.seed);
  hop_limit_ = std::max(1024U, 16 * word(network.routers));
  credits_.resize(static_cast<std::size_t>(topology_.max_ports) * topology_.n_vcs);
  out_queue_.resize(topology_.max_ports);
  link_up_.resize(topology_.max_ports);
  request_.struct_size = sizeof(request_);
  view_.struct_size = sizeof(view_);
  view_.n_ports = topology_.max_ports;
  view_.credits = credits_.data();
  view_.out_queue = out_queue_.data();
  view_.link_up = link_up_.data();
  const std::size_t keys =
      static_cast<std::size_t>(topology_.n_nodes) * topology_.max_ports * topology_.n_endpoints * topology_.n_classes;
  if (keys <= kMostKeys) known_.resize(keys);
  std::array<char, kErrorBytes> error{};
  const std::int32_t status = table_.create(&topology_, plugin_.params.c_str(), &self_, error.data(), error.size());
  if (status != COSIM_OK) {
    error.back() = '\0';
    throw std::invalid_argument(std::string("the routing plug-in '") + table_.name +
                                "' refuses this network: " + (error[0] != '\0' ? error.data() : "no reason given") +
                                " (status " + std::to_string(status) + ")");
  }
}

PluginRouting::~PluginRouting() { table_.destroy(self_); }

RoutingTraits PluginRouting::traits() const {
  RoutingTraits traits;
  traits.adaptive = !pure_;
  traits.several = true;
  traits.memoryless = stateless_;
  return traits;
}

std::int32_t PluginRouting::fail(std::string text) {
  failure_ = std::move(text);
  return COSIM_E_INTERNAL;
}

std::size_t PluginRouting::key_of(const RouteRequest& request) const {
  return ((static_cast<std::size_t>(request.router) * topology_.max_ports + request.in_port) * topology_.n_endpoints +
          request.dest) *
             topology_.n_classes +
         request.message_class;
}

bool PluginRouting::tick_until(std::uint64_t cycle) {
  if (table_.tick == nullptr) return true;
  // COSIM_NEVER: wanted for the next cycle in which a head is routed, and that is this one
  while (next_tick_ <= cycle || (next_tick_ == COSIM_NEVER && ticked_ != cycle)) {
    const std::uint64_t at = next_tick_ == COSIM_NEVER ? cycle : next_tick_;
    const std::uint64_t wanted = table_.tick(self_, at);
    ticked_ = at;
    if (wanted <= at) {
      failure_ = "tick of cycle " + std::to_string(at) + " asked for cycle " + std::to_string(wanted) +
                 ", expected a later one or COSIM_NEVER";
      return false;
    }
    next_tick_ = wanted;
  }
  return true;
}

void PluginRouting::fill_view(const RouterView& view) {
  constexpr std::uint32_t most = std::numeric_limits<std::uint16_t>::max();
  const std::uint32_t vcs = topology_.n_vcs;
  for (std::uint32_t port = 0; port < topology_.max_ports; ++port) {
    const bool up = view.link_up(port);
    link_up_[port] = up ? 1 : 0;
    out_queue_[port] = static_cast<std::uint16_t>(std::min(view.queued_flits(port), most));
    for (std::uint32_t vc = 0; vc < vcs; ++vc) {
      credits_[port * vcs + vc] = up ? static_cast<std::uint16_t>(std::min(view.free_slots(port, vc), most)) : 0;
    }
  }
}

// Calls the plug-in and checks what it says.
std::int32_t PluginRouting::ask(const RouteRequest& request, const RouterView& view, std::uint32_t room,
                                std::vector<Candidate>& out, bool& always) {
  ++cost_.calls;
  const auto cycle = static_cast<std::uint64_t>(request.cycle);
  if (!tick_until(cycle)) return COSIM_E_INTERNAL;
  request_.node = request.router;
  request_.in_port = request.in_port;
  request_.in_vc = request.in_vc;
  request_.src = request.source;
  request_.dst = request.dest;
  request_.class_id = request.message_class;
  request_.hops = request.hops;
  request_.packet_flits = request.size_flits;
  request_.cycle = cycle;
  request_.packet_id = request.packet;
  const std::uint64_t place = (std::uint64_t{request.router} << 32U) | request.hops;
  request_.rand = sim::mix64(seed_key_ ^ sim::mix64(place ^ sim::mix64(request.packet)));
  if (wants_view_) fill_view(view);
  const std::int32_t said = table_.route(self_, &request_, wants_view_ ? &view_ : nullptr, raw_.data(), room);
  if (said < 0) return fail("route returned the error " + std::to_string(said));
  always = pure_ || (said & COSIM_ROUTE_ALWAYS) != 0;
  const std::int32_t count = said & ~COSIM_ROUTE_ALWAYS;
  if (word(count) > room) {
    return fail("route returned " + std::to_string(count) + " candidates, more than the " + std::to_string(room) +
                " it may write");
  }
  if (count == 0 && always) return fail("route gave no candidates and said that this holds always");
  return convert(request, count, out) ? count : COSIM_E_INTERNAL;
}

bool PluginRouting::convert(const RouteRequest& request, std::int32_t count, std::vector<Candidate>& out) {
  out.clear();
  // by priority, ties in the order written: each then has a priority of its own
  for (std::int32_t i = 1; i < count; ++i) {
    for (std::size_t at = static_cast<std::size_t>(i); at > 0 && raw_[at].priority < raw_[at - 1].priority; --at) {
      std::swap(raw_[at], raw_[at - 1]);
    }
  }
  const std::uint64_t vcs = graph_.class_vcs(request.message_class);
  const std::uint64_t all = (std::uint64_t{1} << topology_.n_vcs) - 1;
  for (std::int32_t i = 0; i < count; ++i) {
    const cosim_candidate& said = raw_[static_cast<std::size_t>(i)];
    const auto who = [&] { return "candidate " + std::to_string(i) + " asks for port " + std::to_string(said.port); };
    if (said.port >= topology_.max_ports) {
      fail(who() + ", expected a port below " + std::to_string(topology_.max_ports));
      return false;
    }
    const std::uint32_t at = request.router * topology_.max_ports + said.port;
    if (graph_.neighbor(at) == COSIM_NO_LINK && graph_.ejects(at) == COSIM_NO_LINK) {
      fail(who() + ", which has no link");
      return false;
    }
    if (graph_.ejects(at) != COSIM_NO_LINK && graph_.ejects(at) != request.dest) {
      fail(who() + ", which ejects at endpoint " + std::to_string(graph_.ejects(at)) + ", expected endpoint " +
           std::to_string(request.dest));
      return false;
    }
    const std::uint64_t mask = said.vc_mask == ~std::uint64_t{0} ? vcs : said.vc_mask;
    if (mask == 0) {
      fail(who() + " and allows no VC");
      return false;
    }
    if ((mask & ~all) != 0 || (mask & ~vcs) != 0) {
      fail(who() + " with the VC mask " + std::to_string(mask) + ", expected VCs of " +
           ((mask & ~all) != 0
                ? "the " + std::to_string(topology_.n_vcs) + " there are"
                : "message class " + std::to_string(request.message_class) + ", mask " + std::to_string(vcs)));
      return false;
    }
    Candidate candidate;
    candidate.vc_mask = static_cast<std::uint32_t>(mask);
    candidate.port = static_cast<std::uint8_t>(said.port);
    candidate.priority = static_cast<std::uint8_t>(i);
    out.push_back(candidate);
  }
  return true;
}

bool PluginRouting::same(const Answer& answer, const std::vector<Candidate>& found) const {
  if (answer.count != found.size()) return false;
  return std::equal(found.begin(), found.end(), candidates_.begin() + static_cast<std::ptrdiff_t>(answer.first),
                    [](const Candidate& a, const Candidate& b) {
                      return a.vc_mask == b.vc_mask && a.port == b.port && a.priority == b.priority;
                    });
}

// Equal answers are kept once: there are few of them, and the key stays one word.
void PluginRouting::remember(std::size_t key, const std::vector<Candidate>& found) {
  std::size_t index = 0;
  while (index < answers_.size() && !same(answers_[index], found)) ++index;
  if (index == answers_.size()) {
    if (index + 1 >= kIndexMask) return;
    answers_.push_back({static_cast<std::uint32_t>(candidates_.size()), static_cast<std::uint32_t>(found.size())});
    candidates_.insert(candidates_.end(), found.begin(), found.end());
  }
  known_[key] = (1U << kIndexBits) | static_cast<std::uint32_t>(index + 1);
}

std::int32_t PluginRouting::route(RouteRequest& request, const RouterView& view, Candidate* candidates,
                                  std::uint32_t room) {
  if (raw_.size() < room) raw_.resize(room);
  ++cost_.heads;
  if (request.hops >= hop_limit_) {
    return fail("the packet has visited " + std::to_string(request.hops) +
                " routers and never arrives (the limit is 16 times the routers there are, at least 1024)");
  }
  const bool keyed = !known_.empty();
  const std::size_t key = keyed ? key_of(request) : 0;
  if (keyed && known_[key] != 0) {
    const Answer& answer = answers_[(known_[key] & kIndexMask) - 1];
    const std::uint32_t uses = (known_[key] >> kIndexBits) + 1;
    if (uses <= kMostUses) known_[key] += 1U << kIndexBits;
    if (time_to_check(uses)) {
      bool always = false;
      if (ask(request, view, room, found_, always) < 0) return COSIM_E_INTERNAL;
      if (!always || !same(answer, found_)) {
        return fail(
            "route changed an answer that it had said holds always (for this node, input port, destination and class)");
      }
    }
    const Candidate* kept = &candidates_[answer.first];
    for (std::uint32_t i = 0; i < answer.count; ++i) candidates[i] = kept[i];
    return static_cast<std::int32_t>(answer.count);
  }
  bool always = false;
  const std::int32_t count = ask(request, view, room, found_, always);
  if (count <= 0) return count;
  std::copy(found_.begin(), found_.end(), candidates);
  if (always && keyed) remember(key, found_);
  return count;
}

void PluginRouting::visit(sim::Visitor& v) {
  using sim::Kind;
  v.value(Kind::stamp, next_tick_);
  v.value(Kind::stamp, ticked_);
  v.value(Kind::counter, cost_);
  if (stateless_) return;
  if (table_.save == nullptr) {
    throw std::runtime_error(std::string("the routing plug-in '") + table_.name +
                             "' keeps state and has no save and load: a run with it cannot be saved");
  }
  state_.resize(table_.save(self_, nullptr, 0));
  if (table_.save(self_, state_.data(), state_.size()) != state_.size()) {
    throw std::runtime_error(std::string("the routing plug-in '") + table_.name + "' saves another size than it said");
  }
  const std::vector<std::uint8_t> before = state_;
  v.vector(Kind::state, state_);
  if (state_ != before && table_.load(self_, state_.data(), state_.size()) != COSIM_OK) {
    throw std::runtime_error(std::string("the routing plug-in '") + table_.name + "' cannot load what it has saved");
  }
}

}  // namespace cosim::noc
