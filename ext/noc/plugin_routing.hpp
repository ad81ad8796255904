// Routing by a user's table of C functions (cosim/plugin/cosim_router.h): what crosses the line is checked here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cosim/plugin/cosim_router.h"
#include "noc/plugin_topology.hpp"
#include "noc/routing.hpp"
#include "noc/spec.hpp"

namespace cosim::noc {

// A table of functions and what its owner knows of it.
struct RouterPlugin {
  const cosim_router_v1* table = nullptr;
  std::shared_ptr<const void> library;  // whatever must live as long as the table is used
  std::string params = "{}";            // compact JSON
  std::string topology = "graph";       // cosim_topology.kind
  std::vector<std::uint32_t> dims;
  std::uint32_t flit_bytes = 0;
};

// What a routing plug-in costs: heads routed, and how many of them took a call.
struct PluginCost {
  std::int64_t heads = 0;
  std::int64_t calls = 0;
};

class PluginRouting final : public RoutingFunction {
 public:
  // Throws std::invalid_argument with the plug-in's own words when it does not take this network.
  PluginRouting(const RouterPlugin& plugin, const NetworkSpec& network);
  ~PluginRouting() override;

  [[nodiscard]] RoutingTraits traits() const override;
  std::int32_t route(RouteRequest& request, const RouterView& view, Candidate* candidates, std::uint32_t room) override;
  [[nodiscard]] std::string failure() const override { return failure_; }
  // Throws std::runtime_error when the plug-in has state and cannot save it.
  void visit(sim::Visitor& v) override;

  [[nodiscard]] const PluginCost& cost() const { return cost_; }

 private:
  // The answer for one (node, in port, destination, class) that holds always: candidates_[first, first + count).
  struct Answer {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  static constexpr std::size_t kMostKeys = std::size_t{1} << 28U;

  bool tick_until(std::uint64_t cycle);
  std::int32_t ask(const RouteRequest& request, const RouterView& view, std::uint32_t room, std::vector<Candidate>& out,
                   bool& always);
  bool convert(const RouteRequest& request, std::int32_t count, std::vector<Candidate>& out);
  void fill_view(const RouterView& view);
  [[nodiscard]] std::size_t key_of(const RouteRequest& request) const;
  std::int32_t fail(std::string text);
  void remember(std::size_t key, const std::vector<Candidate>& found);
  [[nodiscard]] bool same(const Answer& answer, const std::vector<Candidate>& found) const;

  RouterPlugin plugin_;
  cosim_router_v1 table_{};  // as much of the plug-in's as both sides know
  void* self_ = nullptr;
  bool pure_ = false;
  bool stateless_ = false;
  bool wants_view_ = true;
  std::string failure_;
  std::uint64_t seed_key_ = 0;
  std::uint32_t hop_limit_ = 0;

  PluginTopology graph_;
  const cosim_topology& topology_;  // of graph_

  cosim_route_req request_{};
  cosim_router_view view_{};
  std::vector<std::uint16_t> credits_;
  std::vector<std::uint16_t> out_queue_;
  std::vector<std::uint8_t> link_up_;
  std::vector<cosim_candidate> raw_;

  // Answers that hold always, by key: index into answers_ + 1 in the low 24 bits, uses so far above (saturating).
  std::vector<std::uint32_t> known_;
  std::vector<Answer> answers_;
  std::vector<Candidate> candidates_;
  std::vector<Candidate> found_;

  std::uint64_t next_tick_ = 0;
  std::uint64_t ticked_ = COSIM_NEVER;  // last cycle of a tick; COSIM_NEVER: none yet
  std::vector<std::uint8_t> state_;
  PluginCost cost_;
};

class PluginRoutingFactory final : public RoutingFactory {
 public:
  explicit PluginRoutingFactory(RouterPlugin plugin) : plugin_(std::move(plugin)) {}
  [[nodiscard]] std::string name() const override { return plugin_.table->name; }
  [[nodiscard]] std::unique_ptr<RoutingFunction> create(const NetworkSpec& network) const override {
    return std::make_unique<PluginRouting>(plugin_, network);
  }
  [[nodiscard]] const RouterPlugin& plugin() const { return plugin_; }

 private:
  RouterPlugin plugin_;
};

}  // namespace cosim::noc
