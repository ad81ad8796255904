// Whole routers by a user's table of C functions (cosim/plugin/cosim_router_model.h): what crosses the line is checked
// here. A network with such routers has only its sources, links and nodes in common with the built-in ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cosim/plugin/cosim_router_model.h"
#include "noc/plugin_topology.hpp"
#include "noc/spec.hpp"
#include "sim/visit.hpp"

namespace cosim::noc {

class FlitNetwork;

// A table of functions and what its owner knows of it.
struct RouterModelPlugin {
  const cosim_router_model_v1* table = nullptr;
  std::shared_ptr<const void> library;  // whatever must live as long as the table is used
  std::string params = "{}";            // compact JSON
  std::string topology = "graph";       // cosim_topology.kind
  std::vector<std::uint32_t> dims;
  std::uint32_t flit_bytes = 0;
};

class RouterModels {
 public:
  // Throws std::invalid_argument with the plug-in's own words when it does not take this network.
  RouterModels(const RouterModelPlugin& plugin, const NetworkSpec& network);
  ~RouterModels();
  RouterModels(const RouterModels&) = delete;
  RouterModels& operator=(const RouterModels&) = delete;

  // One cycle of the network's routers, after its wakes.
  void step(FlitNetwork& network, std::uint32_t now);
  // The first cycle after `cycle` in which a router is called without a new packet.
  [[nodiscard]] std::int64_t next_event(std::int64_t cycle) const;

  [[nodiscard]] std::uint32_t pipeline_cycles() const { return info_.pipeline_cycles; }
  [[nodiscard]] std::int64_t calls() const { return calls_; }
  [[nodiscard]] std::int64_t flits() const { return in_routers_ + on_links_; }  // that have entered and not left
  // The first broken law of an empty network, empty when all hold.
  [[nodiscard]] std::string verify_idle() const;
  // Which flits are where, as text.
  [[nodiscard]] std::string left(const FlitNetwork& network) const;
  [[nodiscard]] std::size_t core_bytes() const;
  // Throws std::runtime_error when the plug-in has state and cannot save it.
  void visit(sim::Visitor& v, std::int64_t cycle);

 private:
  static constexpr std::uint32_t kNone = ~0U;
  enum Place : std::uint32_t { kFree = ~0U, kOnLink = ~0U - 1, kWaiting = ~0U - 2 };  // else a router

  struct Flit {
    std::uint32_t packet = 0;  // slot; of a free flit the next free one
    std::uint32_t index = 0;
    std::uint32_t hops = 0;  // routers visited, the present one included
    std::uint32_t link_cycles = 0;
    std::uint32_t place = kFree;
    std::uint32_t vc = 0;
    std::uint64_t state = 0;
  };
  struct Event {
    std::uint32_t port = 0;      // router * ports + port: of the input a flit arrives at, or the output a credit is for
    std::uint32_t flit = kNone;  // none: a credit
    std::uint32_t vc = 0;
  };
  struct Wish {
    std::int64_t cycle = 0;
    std::uint32_t router = 0;
    std::uint32_t unused = 0;
    friend bool operator>(const Wish& a, const Wish& b) {
      return a.cycle != b.cycle ? a.cycle > b.cycle : a.router > b.router;
    }
  };

  void deliver(std::int64_t cycle);
  void offer(FlitNetwork& network, std::uint32_t now);
  void offer_of(FlitNetwork& network, std::uint32_t terminal, std::uint32_t now);
  bool call(FlitNetwork& network, std::uint32_t router, std::uint32_t now);
  void show(const FlitNetwork& network, std::uint32_t flit, cosim_flit& shown) const;
  bool take(FlitNetwork& network, std::uint32_t router, std::uint32_t port, std::uint32_t now);
  bool free_slots(FlitNetwork& network, std::uint32_t router, std::uint32_t port);
  bool send(FlitNetwork& network, std::uint32_t router, std::uint32_t port, const cosim_flit& sent);
  void read(FlitNetwork& network, std::uint32_t terminal, std::uint32_t flit);
  bool fail(FlitNetwork& network, std::uint32_t router, const std::string& text) const;
  [[nodiscard]] std::string name_of(const FlitNetwork& network, std::uint32_t flit) const;
  void wish(std::uint32_t router, std::int64_t cycle);
  void activate(std::uint32_t router) { active_[router >> 6U] |= std::uint64_t{1} << (router & 63U); }
  void at(std::int64_t cycle, const Event& event) {
    due_[static_cast<std::size_t>(cycle) & due_mask_].push_back(event);
  }

  RouterModelPlugin plugin_;
  PluginTopology graph_;
  cosim_router_model_v1 table_{};  // as much of the plug-in's as both sides know
  cosim_router_info info_{};
  std::vector<void*> routers_;
  std::uint32_t ports_ = 0;
  std::uint32_t vcs_ = 0;
  std::uint32_t credit_delay_ = 0;
  std::uint64_t seed_key_ = 0;
  std::int64_t most_quiet_cycles_ = 0;
  std::vector<std::uint32_t>
      upstream_;  // [router * ports + port] output that feeds this input; kNone: an endpoint, none

  std::vector<Flit> flits_;
  std::vector<std::int64_t> arrived_at_;  // cycle in which a flit came into its router
  std::uint32_t free_flit_ = kNone;
  std::vector<std::uint32_t> read_;      // flits read, per packet slot
  std::vector<std::uint32_t> waiting_;   // flit per terminal
  std::vector<std::uint32_t> room_;      // [(router * ports + port) * vcs + vc] free slots behind an output
  std::vector<std::uint32_t> held_;      // likewise: used slots of an input
  std::vector<std::vector<Event>> due_;  // by cycle modulo its size
  std::size_t due_mask_ = 0;
  std::vector<std::int64_t> wanted_;  // per router; kNever: not
  std::vector<Wish> wishes_;          // binary heap, earliest first; those that wanted_ does not tell are void
  std::int64_t in_routers_ = 0;
  std::int64_t on_links_ = 0;
  std::int64_t waiting_flits_ = 0;
  std::int64_t quiet_since_ = 0;
  std::int64_t calls_ = 0;

  // of the step at hand
  std::vector<std::uint64_t> active_;
  std::vector<std::uint32_t> arrived_;  // flit per router * ports + port
  std::vector<std::uint64_t> credits_;
  std::vector<cosim_flit> shown_arrived_;
  std::vector<cosim_flit> shown_waiting_;
  std::vector<cosim_flit> sent_;
  std::vector<std::uint64_t> freed_;
  std::vector<std::uint8_t> state_;
};

}  // namespace cosim::noc
