// Allocation by a user's table of C functions (cosim/plugin/cosim_arbiter.h): what crosses the line is checked here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cosim/plugin/cosim_arbiter.h"
#include "noc/allocator.hpp"

namespace cosim::noc {

// A table of functions and what its owner knows of it.
struct ArbiterPlugin {
  const cosim_arbiter_v1* table = nullptr;
  std::shared_ptr<const void> library;  // whatever must live as long as the table is used
  std::string params = "{}";            // compact JSON
};

class PluginArbiter final : public UserAllocator {
 public:
  // Throws std::invalid_argument with the plug-in's own words when it does not take this stage.
  PluginArbiter(const ArbiterPlugin& plugin, const AllocationStage& stage);
  ~PluginArbiter() override;
  PluginArbiter(const PluginArbiter&) = delete;
  PluginArbiter& operator=(const PluginArbiter&) = delete;

  bool match(std::uint32_t router, std::int64_t cycle, const AllocationRequests& requests,
             AllocationMatch& found) override;
  [[nodiscard]] std::string failure() const override { return failure_; }
  // Throws std::runtime_error when the plug-in has state and cannot save it.
  void visit(sim::Visitor& v) override;

 private:
  bool fail(const std::string& text);

  ArbiterPlugin plugin_;
  cosim_arbiter_v1 table_{};  // as far as the plug-in filled it
  void* self_ = nullptr;
  AllocationStage stage_;
  cosim_arbiter_config config_{};
  std::vector<cosim_arbiter_request> requests_;
  std::vector<std::uint8_t> grants_;
  std::vector<std::uint8_t> state_;
  std::int64_t refused_since_ = -1;  // the first cycle of those in which requests stand and nothing was granted
  std::string failure_;
};

class PluginArbiterFactory final : public UserAllocatorFactory {
 public:
  explicit PluginArbiterFactory(ArbiterPlugin plugin) : plugin_(std::move(plugin)) {}
  [[nodiscard]] std::string name() const override { return plugin_.table->name; }
  [[nodiscard]] std::unique_ptr<UserAllocator> create(const AllocationStage& stage) const override {
    return std::make_unique<PluginArbiter>(plugin_, stage);
  }

 private:
  ArbiterPlugin plugin_;
};

}  // namespace cosim::noc
