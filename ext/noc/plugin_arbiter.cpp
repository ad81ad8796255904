#include "noc/plugin_arbiter.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace cosim::noc {

namespace {

constexpr std::uint32_t kErrorBytes = 512;
constexpr std::int64_t kMostCyclesWithoutGrant = 100'000;

}  // namespace

PluginArbiter::PluginArbiter(const ArbiterPlugin& plugin, const AllocationStage& stage)
    : plugin_(plugin), stage_(stage) {
  const std::size_t theirs = plugin_.table->struct_size;
  std::memcpy(&table_, plugin_.table, std::min(theirs, sizeof(table_)));
  config_.struct_size = sizeof(config_);
  config_.stage = stage.of_vcs ? COSIM_STAGE_VC : COSIM_STAGE_SWITCH;
  config_.n_nodes = stage.routers;
  config_.n_ports = stage.ports;
  config_.n_vcs = stage.num_vcs;
  config_.n_classes = stage.classes;
  config_.n_inputs = config_.n_outputs = stage.width();
  std::array<char, kErrorBytes> error{};
  const std::int32_t status = table_.create(&config_, plugin_.params.c_str(), &self_, error.data(), error.size());
  if (status != COSIM_OK) {
    error.back() = '\0';
    throw std::invalid_argument(std::string("the arbiter plug-in '") + table_.name + "' refuses " +
                                (stage.of_vcs ? "VC" : "switch") +
                                " allocation: " + (error[0] != '\0' ? error.data() : "no reason given") + " (status " +
                                std::to_string(status) + ")");
  }
}

PluginArbiter::~PluginArbiter() { table_.destroy(self_); }

bool PluginArbiter::fail(const std::string& text) {
  failure_ = std::string("arbiter plug-in '") + table_.name + "': " + text;
  return false;
}

bool PluginArbiter::match(std::uint32_t router, std::int64_t cycle, const AllocationRequests& requests,
                          AllocationMatch& found) {
  found.inputs = 0;
  requests_.clear();
  for (VcSet rest = requests.inputs(); rest != 0; rest &= rest - 1) {
    const std::uint32_t input = lowest(rest);
    for (VcSet outs = requests.of_input(input); outs != 0; outs &= outs - 1) {
      const std::uint32_t output = lowest(outs);
      const std::uint32_t vc = stage_.of_vcs ? input % stage_.num_vcs : requests.label(input, output);
      const RequestFacts& facts = requests.facts(stage_.of_vcs ? input : input * stage_.num_vcs + vc);
      cosim_arbiter_request request{};
      request.input = input;
      request.output = output;
      request.in_vc = vc;
      request.class_id = facts.message_class;
      request.priority = stage_.of_vcs ? static_cast<std::uint32_t>(requests.input_key(input, output)) : 0;
      request.flags = !stage_.of_vcs && facts.speculative ? COSIM_REQUEST_SPECULATIVE : 0;
      request.packet_flits = facts.packet_flits;
      request.create_cycle = static_cast<std::uint64_t>(facts.create_cycle);
      requests_.push_back(request);
    }
  }
  if (requests_.empty()) return true;
  grants_.assign(requests_.size(), 0);
  cosim_arbitration asked{};
  asked.struct_size = sizeof(asked);
  asked.node = router;
  asked.n_requests = static_cast<std::uint32_t>(requests_.size());
  asked.cycle = static_cast<std::uint64_t>(cycle);
  asked.requests = requests_.data();
  const auto fails = [&](const std::string& text) {
    found.inputs = 0;
    return fail(text + " (" + (stage_.of_vcs ? "VC" : "switch") + " allocation of router " + std::to_string(router) +
                ", cycle " + std::to_string(cycle) + ")");
  };
  const std::int32_t status = table_.arbitrate(self_, &asked, grants_.data());
  if (status != COSIM_OK) return fails("arbitrate returned the error " + std::to_string(status));
  VcSet outputs = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (grants_[i] == 0) continue;
    const std::uint32_t input = requests_[i].input;
    const std::uint32_t output = requests_[i].output;
    if (grants_[i] != 1) {
      return fails("arbitrate wrote " + std::to_string(grants_[i]) + " for request " + std::to_string(i) +
                   ", expected 0 or 1");
    }
    if ((found.inputs >> input & 1U) != 0) {
      return fails("arbitrate granted input " + std::to_string(input) + " two outputs, " +
                   std::to_string(found.output[input]) + " and " + std::to_string(output));
    }
    if ((outputs >> output & 1U) != 0) return fails("arbitrate granted output " + std::to_string(output) + " twice");
    found.inputs |= vc_bit(input);
    found.output[input] = as_u8(output);
    outputs |= vc_bit(output);
  }
  if (found.inputs != 0) {
    refused_since_ = -1;
  } else if (refused_since_ < 0) {
    refused_since_ = cycle;
  } else if (cycle - refused_since_ > kMostCyclesWithoutGrant) {
    return fails("requests stand, and nothing was granted for " + std::to_string(kMostCyclesWithoutGrant) + " cycles");
  }
  return true;
}

void PluginArbiter::visit(sim::Visitor& v) {
  using sim::Kind;
  v.value(Kind::stamp, refused_since_);
  if ((table_.caps & COSIM_CAP_STATELESS_ARBITER) != 0) return;
  const std::string who = std::string("the arbiter plug-in '") + table_.name + "'";
  if (table_.save == nullptr) {
    throw std::runtime_error(who + " keeps state and has no save and load: a run with it cannot be saved");
  }
  state_.resize(table_.save(self_, nullptr, 0));
  if (table_.save(self_, state_.data(), state_.size()) != state_.size()) {
    throw std::runtime_error(who + " saves another size than it said");
  }
  const std::vector<std::uint8_t> before = state_;
  v.vector(Kind::state, state_);
  if (state_ != before && table_.load(self_, state_.data(), state_.size()) != COSIM_OK) {
    throw std::runtime_error(who + " cannot load what it has saved");
  }
}

}  // namespace cosim::noc
