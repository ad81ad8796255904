#include "noc/allocator.hpp"

#include <limits>

namespace cosim::noc {

namespace {

// Of `among`, those with the smallest key.
template <class Key>
VcSet first_by(VcSet among, Key key) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  VcSet first = 0;
  for (; among != 0; among &= among - 1) {
    const std::int64_t own = key(lowest(among));
    if (own > least) continue;
    if (own < least) first = 0;
    least = own;
    first |= among & (0 - among);
  }
  return first;
}

}  // namespace

Allocator::Allocator(const AllocatorSpec& spec, const AllocationStage& stage, const UserAllocatorFactory* plugin)
    : spec_(spec), inputs_{stage.width(), stage.width(), {}, {}}, outputs_{stage.width(), stage.width(), {}, {}} {
  if (spec.kind == AllocatorKind::plugin) {
    user_ = plugin->create(stage);
    return;
  }
  const bool matrix = spec.kind != AllocatorKind::islip && spec.arbiter == ArbiterKind::matrix;
  for (Side* side : {&inputs_, &outputs_}) {
    const std::size_t arbiters = std::size_t{stage.routers} * side->ports;
    if (!matrix) {
      side->next.resize(arbiters);
      continue;
    }
    // BookSim2's matrix begins with the largest number first
    side->ranks.reserve(arbiters * side->over);
    for (std::size_t arbiter = 0; arbiter < arbiters; ++arbiter) {
      for (std::uint32_t other = 0; other < side->over; ++other) {
        side->ranks.push_back(static_cast<std::uint8_t>(side->over - 1 - other));
      }
    }
  }
}

std::uint32_t Allocator::Side::pick(std::size_t arbiter, VcSet asking) const {
  if (ranks.empty()) return round_robin(asking, next[arbiter]);
  const std::uint8_t* rank = &ranks[arbiter * over];
  std::uint32_t first = lowest(asking);
  for (VcSet rest = asking & (asking - 1); rest != 0; rest &= rest - 1) {
    if (rank[lowest(rest)] < rank[first]) first = lowest(rest);
  }
  return first;
}

void Allocator::Side::served(std::size_t arbiter, std::uint32_t other) {
  if (ranks.empty()) {
    next[arbiter] = static_cast<std::uint8_t>(other + 1 == over ? 0 : other + 1);
    return;
  }
  std::uint8_t* rank = &ranks[arbiter * over];
  const std::uint8_t own = rank[other];
  for (std::uint32_t each = 0; each < over; ++each) rank[each] = as_u8(rank[each] - (rank[each] > own ? 1U : 0U));
  rank[other] = static_cast<std::uint8_t>(over - 1);
}

std::uint32_t Allocator::pick_output(std::uint32_t router, std::uint32_t input, VcSet outputs,
                                     const AllocationRequests& requests) const {
  if (!single(outputs) && !spec_.ignores_keys) {
    outputs = first_by(outputs, [&](std::uint32_t output) { return requests.input_key(input, output); });
  }
  return inputs_.pick(std::size_t{router} * inputs_.ports + input, outputs);
}

std::uint32_t Allocator::pick_input(std::uint32_t router, std::uint32_t output, VcSet inputs,
                                    const AllocationRequests& requests) const {
  if (!single(inputs) && !spec_.ignores_keys) {
    inputs = first_by(inputs, [&](std::uint32_t input) { return requests.output_key(input, output); });
  }
  return outputs_.pick(std::size_t{router} * outputs_.ports + output, inputs);
}

void Allocator::served(std::uint32_t router, std::uint32_t input, std::uint32_t output) {
  inputs_.served(std::size_t{router} * inputs_.ports + input, output);
  outputs_.served(std::size_t{router} * outputs_.ports + output, input);
}

bool Allocator::match(std::uint32_t router, std::int64_t cycle, const AllocationRequests& requests,
                      AllocationMatch& found) {
  found.inputs = 0;
  switch (spec_.kind) {
    case AllocatorKind::islip:
      match_islip(router, requests, found);
      return true;
    case AllocatorKind::separable_input_first:
      match_input_first(router, requests, found);
      return true;
    case AllocatorKind::separable_output_first:
      match_output_first(router, requests, found);
      return true;
    case AllocatorKind::plugin:
      return user_->match(router, cycle, requests, found);
  }
  return true;
}

// Every free output grants an input, every free input accepts a grant; again with what is left.
void Allocator::match_islip(std::uint32_t router, const AllocationRequests& requests, AllocationMatch& found) {
  VcSet free = requests.outputs();
  for (std::int32_t iteration = 0; iteration < spec_.iterations; ++iteration) {
    VcSet grants[AllocationRequests::kMost];  // outputs, per input
    VcSet granted = 0;
    for (VcSet rest = free; rest != 0; rest &= rest - 1) {
      const std::uint32_t output = lowest(rest);
      const VcSet asking = requests.of_output(output) & ~found.inputs;
      if (asking == 0) continue;
      const std::uint32_t input = pick_input(router, output, asking, requests);
      if ((granted >> input & 1U) == 0) grants[input] = 0;
      granted |= vc_bit(input);
      grants[input] |= vc_bit(output);
    }
    if (granted == 0) return;
    for (VcSet rest = granted; rest != 0; rest &= rest - 1) {
      const std::uint32_t input = lowest(rest);
      const std::uint32_t output = pick_output(router, input, grants[input], requests);
      found.inputs |= vc_bit(input);
      found.output[input] = as_u8(output);
      free &= ~vc_bit(output);
      if (iteration == 0) served(router, input, output);
    }
  }
}

// Every input puts one request forward, every output takes one of them.
void Allocator::match_input_first(std::uint32_t router, const AllocationRequests& requests, AllocationMatch& found) {
  VcSet put[AllocationRequests::kMost];  // inputs, per output
  VcSet outputs = 0;
  for (VcSet rest = requests.inputs(); rest != 0; rest &= rest - 1) {
    const std::uint32_t input = lowest(rest);
    const std::uint32_t output = pick_output(router, input, requests.of_input(input), requests);
    if ((outputs >> output & 1U) == 0) put[output] = 0;
    outputs |= vc_bit(output);
    put[output] |= vc_bit(input);
  }
  for (VcSet rest = outputs; rest != 0; rest &= rest - 1) {
    const std::uint32_t output = lowest(rest);
    const std::uint32_t input = pick_input(router, output, put[output], requests);
    found.inputs |= vc_bit(input);
    found.output[input] = as_u8(output);
    served(router, input, output);
  }
}

// Every output picks one of its requests, every input takes one of the outputs that picked it.
void Allocator::match_output_first(std::uint32_t router, const AllocationRequests& requests, AllocationMatch& found) {
  VcSet picked[AllocationRequests::kMost];  // outputs, per input
  VcSet inputs = 0;
  for (VcSet rest = requests.outputs(); rest != 0; rest &= rest - 1) {
    const std::uint32_t output = lowest(rest);
    const std::uint32_t input = pick_input(router, output, requests.of_output(output), requests);
    if ((inputs >> input & 1U) == 0) picked[input] = 0;
    inputs |= vc_bit(input);
    picked[input] |= vc_bit(output);
  }
  for (VcSet rest = inputs; rest != 0; rest &= rest - 1) {
    const std::uint32_t input = lowest(rest);
    const std::uint32_t output = pick_output(router, input, picked[input], requests);
    found.inputs |= vc_bit(input);
    found.output[input] = as_u8(output);
    served(router, input, output);
  }
}

std::size_t Allocator::core_bytes() const {
  return inputs_.next.capacity() + inputs_.ranks.capacity() + outputs_.next.capacity() + outputs_.ranks.capacity();
}

void Allocator::visit(sim::Visitor& v) {
  for (Side* side : {&inputs_, &outputs_}) {
    v.vector(sim::Kind::state, side->next);
    v.vector(sim::Kind::state, side->ranks);
  }
  if (user_ != nullptr) user_->visit(v);
}

}  // namespace cosim::noc
