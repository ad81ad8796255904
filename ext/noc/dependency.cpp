#include "noc/dependency.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "noc/bits.hpp"
#include "noc/flit_network.hpp"
#include "noc/routing_builtin.hpp"

namespace cosim::noc {

namespace {

constexpr std::uint32_t kNone = ~0U;

class Explorer {
 public:
  explicit Explorer(const NetworkSpec& spec) : spec_(spec), network_(spec), vcs_(as_u32(spec.num_vcs)) {
    if (spec.routing.kind == RoutingKind::plugin) {
      function_ = spec.routing.plugin->create(spec);
    } else if (spec.routing.kind != RoutingKind::table) {
      function_ = make_builtin(spec);
    }
    out_link_.assign(as_size(spec.routers) * as_size(spec.ports), kNone);
    for (std::size_t i = 0; i < spec.links.size(); ++i) {
      out_link_[as_size(spec.links[i].from_router) * as_size(spec.ports) + as_size(spec.links[i].from_port)] =
          static_cast<std::uint32_t>(i);
    }
    for (const ClassSpec& c : spec.classes) classes_.push_back(c.vc_mask);
    if (classes_.empty()) classes_.push_back(vcs_ == 32 ? ~0U : (1U << vcs_) - 1);
    for (const std::uint32_t mask : classes_) escapes_ |= mask & (~mask + 1);
    waits_.assign(spec.links.size() * vcs_, 0);
    used_.assign(waits_.size(), 0);
  }

  DependencyReport report() {
    // what a packet may do depends on its source only where the function says where it came from
    const bool by_source = spec_.routing.kind == RoutingKind::odd_even || spec_.routing.kind == RoutingKind::plugin;
    for (std::uint32_t c = 0; c < classes_.size(); ++c) {
      for (std::uint32_t dest = 0; dest < spec_.terminals.size(); ++dest) {
        seen_.clear();
        for (std::uint32_t source = 0; source < spec_.terminals.size(); ++source) {
          if (by_source) seen_.clear();
          walk(c, source, dest);
          if (!report_.problem.empty()) return report_;
        }
      }
    }
    for (std::size_t channel = 0; channel < waits_.size(); ++channel) {
      report_.channels += used_[channel];
      report_.dependencies += std::popcount(waits_[channel]);
    }
    report_.cycle = cycle_within(~0U);
    const bool committed_wait = spec_.routing.kind != RoutingKind::min_adaptive || spec_.compat_booksim2;
    if (report_.cycle.empty()) {
      report_.proof = DeadlockProof::acyclic;
    } else if (always_escape_ && escape_kept_ && !committed_wait && cycle_within(escapes_).empty()) {
      report_.proof = DeadlockProof::escape;
    }
    return report_;
  }

 private:
  struct Place {
    std::uint32_t link = kNone;  // kNone: at the source
    std::uint32_t vc = 0;
    std::uint32_t state = 0;
    friend bool operator<(const Place& a, const Place& b) {
      return std::tuple(a.link, a.vc, a.state) < std::tuple(b.link, b.vc, b.state);
    }
  };

  // Every way of the packets of a class from `source` to `dest`.
  void walk(std::uint32_t message_class, std::uint32_t source, std::uint32_t dest) {
    std::vector<Place> open;
    const auto reach = [&](const Place& place) {
      if (seen_.insert(place).second) open.push_back(place);
    };
    for (std::uint32_t rest = classes_[message_class]; rest != 0; rest &= rest - 1) {
      open.push_back({kNone, lowest(rest), 0});
    }
    while (!open.empty() && report_.problem.empty()) {
      const Place place = open.back();
      open.pop_back();
      ScriptedDraws script;
      do {
        script.restart();
        RouteDraws draws(script);
        follow(place, message_class, source, dest, draws, reach);
      } while (script.next() && report_.problem.empty());
    }
  }

  template <class Reach>
  void follow(const Place& place, std::uint32_t message_class, std::uint32_t source, std::uint32_t dest,
              RouteDraws& draws, Reach reach) {
    const TerminalSpec& start = spec_.terminals[source];
    RouteRequest request;
    request.from_terminal = place.link == kNone;
    request.router = as_u32(request.from_terminal ? start.router : spec_.links[place.link].to_router);
    request.in_port = as_u32(request.from_terminal ? start.port : spec_.links[place.link].to_port);
    request.in_vc = place.vc;
    request.source = source;
    request.dest = dest;
    request.message_class = message_class;
    request.class_vcs = classes_[message_class];
    request.size_flits = 1;
    request.state = place.state;
    request.draws = &draws;
    std::vector<Candidate> candidates(2 * as_size(spec_.ports));
    const std::int32_t count = ask(request, candidates);
    const std::string name = "a packet for node " + std::to_string(dest) + " at router " +
                             std::to_string(request.router) + " of node " + std::to_string(source);
    if (count <= 0) {
      report_.problem = name + " is left without a way";
      return;
    }
    candidates.resize(as_size(count));
    const bool on_escape = !request.from_terminal && (escapes_ >> place.vc & 1U) != 0;
    bool escape_offered = false;
    for (const Candidate& candidate : candidates) {
      const std::size_t output = request.router * as_size(spec_.ports) + candidate.port;
      if (candidate.port >= as_u32(spec_.ports)) {
        report_.problem = name + " is sent to port " + std::to_string(candidate.port) + ", which does not exist";
        return;
      }
      const std::uint32_t link = out_link_[output];
      if (link == kNone) {  // ejection: never blocks
        escape_offered = true;
        continue;
      }
      const std::uint32_t vcs = candidate.vc_mask & classes_[message_class];
      escape_offered = escape_offered || (vcs & escapes_) != 0;
      if (on_escape && (vcs & ~escapes_) != 0) escape_kept_ = false;
      for (std::uint32_t rest = vcs; rest != 0; rest &= rest - 1) {
        used_[link * vcs_ + lowest(rest)] = 1;
        if (place.link != kNone) waits_[place.link * vcs_ + place.vc] |= vc_bit(candidate.port * vcs_ + lowest(rest));
        reach({link, lowest(rest), request.state});
      }
    }
    always_escape_ = always_escape_ && escape_offered;
  }

  std::int32_t ask(RouteRequest& request, std::vector<Candidate>& candidates) {
    if (function_ == nullptr) {
      const std::uint16_t entry = spec_.routes.entries[request.router * spec_.terminals.size() + request.dest];
      candidates[0] = {spec_.routes.vc_sets[entry >> 8U], static_cast<std::uint8_t>(entry & 255U), 0, 0};
      return 1;
    }
    const RouterView view(network_, request.router, 0);
    return function_->route(request, view, candidates.data(), static_cast<std::uint32_t>(candidates.size()));
  }

  // A cycle over channels whose VC is in `vcs`; empty when there is none.
  [[nodiscard]] std::vector<Channel> cycle_within(std::uint32_t vcs) const {
    enum : std::uint8_t { fresh, open, done };
    std::vector<std::uint8_t> mark(waits_.size(), fresh);
    struct Step {
      std::size_t channel;
      VcSet left;
    };
    for (std::size_t first = 0; first < waits_.size(); ++first) {
      if (mark[first] != fresh || (vcs >> first % vcs_ & 1U) == 0) continue;
      std::vector<Step> path = {{first, waits_[first]}};
      mark[first] = open;
      while (!path.empty()) {
        Step& step = path.back();
        if (step.left == 0) {
          mark[step.channel] = done;
          path.pop_back();
          continue;
        }
        const std::uint32_t bit = lowest(step.left);
        step.left &= step.left - 1;
        if ((vcs >> bit % vcs_ & 1U) == 0) continue;
        const LinkSpec& link = spec_.links[step.channel / vcs_];
        const std::size_t next =
            std::size_t{out_link_[as_size(link.to_router) * as_size(spec_.ports) + bit / vcs_]} * vcs_ + bit % vcs_;
        if (mark[next] == fresh) {
          mark[next] = open;
          path.push_back({next, waits_[next]});
        } else if (mark[next] == open) {
          std::vector<Channel> cycle;
          const auto begin = std::find_if(path.begin(), path.end(), [&](const Step& s) { return s.channel == next; });
          for (auto at = begin; at != path.end(); ++at) {
            const LinkSpec& l = spec_.links[at->channel / vcs_];
            cycle.push_back({l.from_router, l.from_port, l.to_router, static_cast<std::int32_t>(at->channel % vcs_)});
          }
          return cycle;
        }
      }
    }
    return {};
  }

  const NetworkSpec& spec_;
  FlitNetwork network_;  // empty: what functions see
  std::uint32_t vcs_;
  std::unique_ptr<RoutingFunction> function_;
  std::vector<std::uint32_t> classes_;
  std::uint32_t escapes_ = 0;  // the first VC of every class
  std::vector<std::uint32_t> out_link_;
  std::vector<VcSet> waits_;  // per channel: outputs at its far router, port * num_vcs + vc
  std::vector<std::uint8_t> used_;
  std::set<Place> seen_;
  bool always_escape_ = true;
  bool escape_kept_ = true;
  DependencyReport report_;
};

}  // namespace

DependencyReport check_dependencies(const NetworkSpec& spec) { return Explorer(spec).report(); }

}  // namespace cosim::noc
