// Matchings of requesters (inputs) with resources (outputs), router by router: iSLIP with any number of iterations,
// separable allocators with their arbiters. A network whose allocation is iSLIP with one iteration and no priorities
// does not use them: its cycle has that matching built in.
//
// Names and pointer rules are BookSim2's (allocators/, arbiters/ of 28f43299): iSLIP moves its pointers on acceptance
// in the first iteration only; the arbiters of a separable allocator move for every matched pair.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "noc/bits.hpp"
#include "sim/visit.hpp"

namespace cosim::noc {

enum class AllocatorKind : std::uint8_t { islip, separable_input_first, separable_output_first, plugin };

// Of a separable allocator: round robin, or a matrix of who was served before whom (least recently served first).
enum class ArbiterKind : std::uint8_t { round_robin, matrix };

struct AllocatorSpec {
  AllocatorKind kind = AllocatorKind::islip;
  ArbiterKind arbiter = ArbiterKind::round_robin;  // of separable kinds
  std::int32_t iterations = 1;                     // of iSLIP
  bool ignores_keys = false;                       // BookSim2's iSLIP knows no priorities
};

// What a user's allocator may know of the packet behind a request.
struct RequestFacts {
  std::int64_t create_cycle = 0;
  std::uint32_t packet_flits = 0;
  std::uint16_t message_class = 0;
  bool speculative = false;
};

// Who asks for what in one allocation: at most 128 inputs and outputs. Every pair has two keys, by which the arbiter of
// its input and that of its output choose: the smallest goes first, equal ones by the arbiter's own order.
class AllocationRequests {
 public:
  static constexpr std::uint32_t kMost = kMostVcs;

  AllocationRequests() : labels_(kMost * kMost), input_keys_(kMost * kMost), output_keys_(kMost * kMost) {}

  void clear() { inputs_ = outputs_ = 0; }
  void add(std::uint32_t input, std::uint32_t output, std::uint8_t label, std::int64_t input_key,
           std::int64_t output_key) {
    if ((inputs_ >> input & 1U) == 0) of_input_[input] = 0;
    if ((outputs_ >> output & 1U) == 0) of_output_[output] = 0;
    inputs_ |= vc_bit(input);
    outputs_ |= vc_bit(output);
    of_input_[input] |= vc_bit(output);
    of_output_[output] |= vc_bit(input);
    labels_[pair(input, output)] = label;
    input_keys_[pair(input, output)] = input_key;
    output_keys_[pair(input, output)] = output_key;
  }
  [[nodiscard]] bool asks(std::uint32_t input, std::uint32_t output) const {
    return (inputs_ >> input & 1U) != 0 && (of_input_[input] >> output & 1U) != 0;
  }
  [[nodiscard]] VcSet inputs() const { return inputs_; }
  [[nodiscard]] VcSet outputs() const { return outputs_; }
  [[nodiscard]] VcSet of_input(std::uint32_t input) const { return of_input_[input]; }      // if it asks
  [[nodiscard]] VcSet of_output(std::uint32_t output) const { return of_output_[output]; }  // if it is asked
  [[nodiscard]] std::uint8_t label(std::uint32_t input, std::uint32_t output) const {
    return labels_[pair(input, output)];
  }
  [[nodiscard]] std::int64_t input_key(std::uint32_t input, std::uint32_t output) const {
    return input_keys_[pair(input, output)];
  }
  [[nodiscard]] std::int64_t output_key(std::uint32_t input, std::uint32_t output) const {
    return output_keys_[pair(input, output)];
  }
  // Of the packet at the front of an input VC of the router.
  void set_facts(std::uint32_t vc, const RequestFacts& facts) { facts_[vc] = facts; }
  [[nodiscard]] const RequestFacts& facts(std::uint32_t vc) const { return facts_[vc]; }
  [[nodiscard]] std::size_t core_bytes() const { return kMost * kMost * (1 + 2 * sizeof(std::int64_t)); }

 private:
  [[nodiscard]] static std::size_t pair(std::uint32_t input, std::uint32_t output) {
    return std::size_t{input} * kMost + output;
  }
  VcSet inputs_ = 0;
  VcSet outputs_ = 0;
  VcSet of_input_[kMost] = {};
  VcSet of_output_[kMost] = {};
  RequestFacts facts_[kMost] = {};
  std::vector<std::uint8_t> labels_;  // what the owner wants to find again: the VC that a pair stands for
  std::vector<std::int64_t> input_keys_;
  std::vector<std::int64_t> output_keys_;
};

// Inputs with the output that each of them got.
struct AllocationMatch {
  VcSet inputs = 0;
  std::uint8_t output[AllocationRequests::kMost] = {};  // of matched inputs
};

// What is allocated: output VCs to input VCs, or output ports to input ports.
struct AllocationStage {
  bool of_vcs = false;
  std::uint32_t routers = 0;
  std::uint32_t ports = 0;
  std::uint32_t num_vcs = 0;
  std::uint32_t classes = 0;
  [[nodiscard]] std::uint32_t width() const { return of_vcs ? ports * num_vcs : ports; }
};

// An allocator of the user's for all routers.
class UserAllocator {
 public:
  UserAllocator() = default;
  UserAllocator(const UserAllocator&) = delete;
  UserAllocator& operator=(const UserAllocator&) = delete;
  virtual ~UserAllocator() = default;
  // false: it failed, see failure().
  virtual bool match(std::uint32_t router, std::int64_t cycle, const AllocationRequests& requests,
                     AllocationMatch& found) = 0;
  [[nodiscard]] virtual std::string failure() const = 0;
  virtual void visit(sim::Visitor& v) = 0;
};

// Makes one per network and stage, so that a spec can be run any number of times.
class UserAllocatorFactory {
 public:
  UserAllocatorFactory() = default;
  UserAllocatorFactory(const UserAllocatorFactory&) = delete;
  UserAllocatorFactory& operator=(const UserAllocatorFactory&) = delete;
  virtual ~UserAllocatorFactory() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  // Throws std::invalid_argument when it does not take this stage.
  [[nodiscard]] virtual std::unique_ptr<UserAllocator> create(const AllocationStage& stage) const = 0;
};

// The allocators of one stage of all routers.
class Allocator {
 public:
  // `plugin` with kind plugin alone.
  Allocator(const AllocatorSpec& spec, const AllocationStage& stage, const UserAllocatorFactory* plugin = nullptr);

  // false: the user's allocator failed, see failure().
  bool match(std::uint32_t router, std::int64_t cycle, const AllocationRequests& requests, AllocationMatch& found);
  [[nodiscard]] std::string failure() const { return user_->failure(); }

  [[nodiscard]] std::size_t core_bytes() const;
  void visit(sim::Visitor& v);

 private:
  // Arbiters of one side, one per own port, over the ports of the other side.
  struct Side {
    std::uint32_t ports = 0;
    std::uint32_t over = 0;
    std::vector<std::uint8_t> next;   // [router * ports + port]: round robin begins here
    std::vector<std::uint8_t> ranks;  // [(router * ports + port) * over + other]: 0 is served first
    [[nodiscard]] std::uint32_t pick(std::size_t arbiter, VcSet asking) const;
    void served(std::size_t arbiter, std::uint32_t other);
  };
  [[nodiscard]] std::uint32_t pick_output(std::uint32_t router, std::uint32_t input, VcSet outputs,
                                          const AllocationRequests& requests) const;
  [[nodiscard]] std::uint32_t pick_input(std::uint32_t router, std::uint32_t output, VcSet inputs,
                                         const AllocationRequests& requests) const;
  void served(std::uint32_t router, std::uint32_t input, std::uint32_t output);
  void match_islip(std::uint32_t router, const AllocationRequests& requests, AllocationMatch& found);
  void match_input_first(std::uint32_t router, const AllocationRequests& requests, AllocationMatch& found);
  void match_output_first(std::uint32_t router, const AllocationRequests& requests, AllocationMatch& found);

  AllocatorSpec spec_;
  Side inputs_;
  Side outputs_;
  std::unique_ptr<UserAllocator> user_;
};

}  // namespace cosim::noc
