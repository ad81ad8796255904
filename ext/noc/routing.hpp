// What a head may ask for next: the seam between a network and its routing.
//
// A routing is one of three:
// - a table, [router * terminals + destination] -> (port, VC set), or where chance or the half of a ring has a say the
//   RouteWays of an oblivious RoutingKind: the fast path, looked up inside the core;
// - a built-in function (RoutingKind): a final class of routing_<name>.hpp that routing_builtin.hpp calls directly. In
//   BookSim2-compatible mode oblivious kinds are functions too, called in the order of its draws;
// - a plug-in: any other RoutingFunction, made by RoutingSpec::plugin; one virtual call per head and router.
//
// A head is routed once when it reaches the front of its VC, R cycles before its first VC allocation. A head that was
// not granted a VC is asked for again in every cycle when the function is `adaptive` (it sees fresh credits); else it
// keeps its candidates. No candidates means "held back": it is routed again in the next cycle.
//
// To add a built-in: write `class NewRouting final : public RoutingFunction` in routing_<name>.hpp/.cpp; name it in
// RoutingKind; add it to the two switches of routing_builtin.hpp (make_builtin and route_builtin). An oblivious one is
// a function that makes RouteWays, named in is_oblivious and make_ways. What it needs from the configuration are fields
// of RoutingSpec; what it needs from the graph it computes in its constructor from the NetworkSpec. Keep everything
// that changes in RouteRequest::state (per packet) or show it in visit().
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "noc/booksim_random.hpp"
#include "sim/random.hpp"
#include "sim/visit.hpp"

namespace cosim::noc {

struct NetworkSpec;
class FlitNetwork;

enum class RoutingKind : std::uint8_t {
  table,
  plugin,
  dateline,
  dateline_booksim,
  nca,
  odd_even,
  west_first,
  min_adaptive,
};

// Answers draws one after another, for those who want to see every answer of a routing function.
class ScriptedDraws {
 public:
  std::uint32_t below(std::uint32_t n) {
    if (position_ == answers_.size()) {
      answers_.push_back(0);
      bounds_.push_back(n);
    }
    return answers_[position_++];
  }
  void restart() { position_ = 0; }
  // Goes to the next sequence of answers; false after the last one.
  bool next() {
    while (!answers_.empty() && ++answers_.back() == bounds_.back()) {
      answers_.pop_back();
      bounds_.pop_back();
    }
    position_ = 0;
    return !answers_.empty();
  }

 private:
  std::vector<std::uint32_t> answers_;
  std::vector<std::uint32_t> bounds_;
  std::size_t position_ = 0;
};

// Random draws of routing functions: one counter stream per router, or BookSim2's one generator for the whole network.
class RouteDraws {
 public:
  RouteDraws() = default;
  explicit RouteDraws(ScriptedDraws& script) : script_(&script) {}

  // Uniform in [0, n), n > 0.
  std::uint32_t below(std::uint32_t n) {
    ++made_;
    if (booksim_ != nullptr) return static_cast<std::uint32_t>(booksim_->next()) % n;
    return stream_ != nullptr ? static_cast<std::uint32_t>(stream_->below(n)) : script_->below(n);
  }
  std::uint64_t bits() {
    ++made_;
    return stream_ != nullptr ? stream_->next() : script_->below(2);
  }

 private:
  friend class FlitNetwork;
  ScriptedDraws* script_ = nullptr;
  sim::RandomStream* stream_ = nullptr;
  BooksimRandom* booksim_ = nullptr;
  std::int64_t made_ = 0;
};

// A head that asks for an output; valid during the call.
struct RouteRequest {
  std::uint32_t router = 0;
  std::uint32_t in_port = 0;
  std::uint32_t in_vc = 0;
  bool from_terminal = false;  // entered the network at this router
  std::uint32_t source = 0;    // terminal
  std::uint32_t dest = 0;      // terminal
  std::uint32_t message_class = 0;
  std::uint32_t class_vcs = 0;  // VC mask of its class; candidates are confined to it
  std::uint32_t hops = 0;       // routers visited before this one
  std::uint32_t size_flits = 0;
  std::int64_t cycle = 0;
  std::uint64_t packet = 0;  // number of the offer, from 0
  std::uint32_t state = 0;   // of the packet, 0 at its source; a function may change it
  RouteDraws* draws = nullptr;
};

// One output a head may take. The lowest priority number goes first, ties in the order written; iSLIP in
// BookSim2-compatible mode ignores priorities.
struct Candidate {
  std::uint32_t vc_mask = 0;
  std::uint8_t port = 0;
  std::uint8_t priority = 0;
  std::uint16_t reserved = 0;
};

// Local state of one router as a routing function may see it, computed when asked for.
class RouterView {
 public:
  RouterView(const FlitNetwork& network, std::uint32_t router, std::uint32_t now)
      : network_(network), router_(router), now_(now) {}
  [[nodiscard]] std::uint32_t ports() const;
  [[nodiscard]] std::uint32_t num_vcs() const;
  [[nodiscard]] bool link_up(std::uint32_t port) const;                                // connected and not failed
  [[nodiscard]] std::uint32_t free_slots(std::uint32_t port, std::uint32_t vc) const;  // usable downstream now
  [[nodiscard]] std::uint32_t free_vcs(std::uint32_t port) const;                      // mask of VCs without an owner
  [[nodiscard]] std::uint32_t queued_flits(std::uint32_t port) const;  // in input VCs whose front packet asks for it

 private:
  const FlitNetwork& network_;
  std::uint32_t router_;
  std::uint32_t now_;
};

struct RoutingTraits {
  bool adaptive = false;    // asked again in every cycle in which its head was not granted
  bool several = false;     // may offer more than one candidate
  bool memoryless = false;  // same request, view and draws, same answer: what cannot move now never will
};

class RoutingFunction {
 public:
  RoutingFunction() = default;
  RoutingFunction(const RoutingFunction&) = delete;
  RoutingFunction& operator=(const RoutingFunction&) = delete;
  virtual ~RoutingFunction() = default;

  [[nodiscard]] virtual RoutingTraits traits() const = 0;

  // Writes 1..room candidates and returns how many; 0 holds the head back; a negative number ends the run with
  // failure().
  virtual std::int32_t route(RouteRequest& request, const RouterView& view, Candidate* candidates,
                             std::uint32_t room) = 0;
  [[nodiscard]] virtual std::string failure() const { return "it reported an error"; }

  // The next cycle for which tick() is wanted; called in order, each before any route() of that cycle, late for cycles
  // in which the network slept. No progress by itself. false ends the run with failure().
  [[nodiscard]] virtual std::int64_t next_tick() const { return std::numeric_limits<std::int64_t>::max(); }
  virtual bool tick(std::int64_t /*cycle*/) { return true; }

  virtual void visit(sim::Visitor& /*v*/) {}
};

// Makes one function per network, so that a spec can be run any number of times.
class RoutingFactory {
 public:
  RoutingFactory() = default;
  RoutingFactory(const RoutingFactory&) = delete;
  RoutingFactory& operator=(const RoutingFactory&) = delete;
  virtual ~RoutingFactory() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  // Throws std::invalid_argument when the function cannot serve this network.
  [[nodiscard]] virtual std::unique_ptr<RoutingFunction> create(const NetworkSpec& network) const = 0;
};

struct RoutingSpec {
  RoutingKind kind = RoutingKind::table;
  std::vector<std::int32_t> shape;  // routers per dimension, of kinds that use coordinates
  std::vector<std::int32_t> level;  // of each router, leaves at 0, of kind nca
  std::uint64_t seed = 1;           // of the draws
  // A function that is not memoryless is taken for deadlocked when nothing has moved for so long.
  std::int64_t no_progress_cycles = 100'000;
  std::shared_ptr<const RoutingFactory> plugin;
};

// A routing function failed or offered what does not exist; the text names it, the router, the packet and the cycle.
class RoutingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cosim::noc
