#include "noc/reductions.hpp"

#include <algorithm>
#include <utility>

#include "noc/bits.hpp"

namespace cosim::noc {

namespace {

constexpr std::int64_t kFaultPeriod = 5;  // sums before a fault point acts

std::int64_t hops_of(std::uint64_t path) { return static_cast<std::int64_t>(path >> 32U); }
std::int64_t links_of(std::uint64_t path) { return static_cast<std::int64_t>(path & ~0U); }

}  // namespace

Reductions::Reductions(const NetworkSpec& spec)
    : trees_(spec),
      pipeline_cycles_(std::int64_t{spec.routing_delay} + spec.vc_alloc_delay + spec.sw_alloc_delay +
                       spec.st_prepare_delay + spec.st_final_delay),
      units_(as_size(spec.routers)),
      fault_(sim::fault_from_environment()),
      fault_countdown_(kFaultPeriod) {}

// Steele, Lea and Flood's mix (SplitMix64, OOPSLA 2014) of both numbers.
std::uint64_t Reductions::value_of(std::int64_t number, std::int32_t source) {
  std::uint64_t z = static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(source) + 1;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

std::uint32_t Reductions::begin(std::uint32_t tree, std::int32_t size, std::int32_t message_class) {
  if (free_.size() < trees_.count()) free_.resize(trees_.count(), kNone);
  const ReductionTree& shape = trees_.at(tree);
  std::uint32_t number = free_[tree];
  if (number != kNone) {
    free_[tree] = opens_[number].next;
  } else {
    number = static_cast<std::uint32_t>(opens_.size());
    Open fresh;
    fresh.first_part = static_cast<std::uint32_t>(parts_.size());
    fresh.first_sum = static_cast<std::uint32_t>(sums_.size());
    opens_.push_back(fresh);
    parts_.resize(parts_.size() + shape.sources + shape.joins);
    sums_.resize(sums_.size() + shape.joins);
  }
  Open open;
  open.first_part = opens_[number].first_part;
  open.first_sum = opens_[number].first_sum;
  open.number = begun_++;
  open.tree = tree;
  open.size = size;
  open.message_class = message_class;
  open.alive = 1;
  opens_[number] = open;
  for (std::uint32_t i = 0; i < shape.sources + shape.joins; ++i) {
    parts_[open.first_part + i] = {};
    parts_[open.first_part + i].open = number;
  }
  for (std::uint32_t i = 0; i < shape.joins; ++i) {
    sums_[open.first_sum + i] = {};
    sums_[open.first_sum + i].open = number;
  }
  ++open_;
  return number;
}

std::string Reductions::wrong(const PacketIn& packet) const {
  const auto number = static_cast<std::uint32_t>(packet.group);
  if (number >= opens_.size() || opens_[number].alive == 0) {
    return "there is no reduction " + std::to_string(number);
  }
  const Open& open = opens_[number];
  const ReductionTree& tree = tree_of(open);
  if (packet.message_class != open.message_class || packet.size_flits != open.size) {
    return "reduction " + std::to_string(number) + " is of packets of class " + std::to_string(open.message_class) +
           " and " + std::to_string(open.size) + " flits";
  }
  for (std::uint32_t i = 0; i < tree.sources; ++i) {
    if (trees_.source(tree.first_source + i) != packet.source) continue;
    if (parts_[open.first_part + i].offered == 0) return {};
    return "node " + std::to_string(packet.source) + " has given its packet for reduction " + std::to_string(number);
  }
  return "node " + std::to_string(packet.source) + " is no source of reduction " + std::to_string(number);
}

void Reductions::offer(const PacketIn& packet, std::uint32_t slot) {
  const auto number = static_cast<std::uint32_t>(packet.group);
  Open& open = opens_[number];
  const ReductionTree& tree = tree_of(open);
  std::uint32_t i = 0;
  while (trees_.source(tree.first_source + i) != packet.source) ++i;
  Part& part = parts_[open.first_part + i];
  part.offered = 1;
  part.value = value_of(open.number, packet.source);
  ++open.offered;
  open.expected += part.value;
  if (leg_of_.size() <= slot) leg_of_.resize(slot + std::size_t{1}, kNone);
  leg_of_[slot] = open.first_part + i;
}

void Reductions::forget(std::uint32_t slot) {
  if (slot < leg_of_.size()) leg_of_[slot] = kNone;
}

std::uint32_t Reductions::unit_of(std::uint32_t slot) const {
  const Open& open = opens_[parts_[leg_of_[slot]].open];
  const ReductionLeg& leg = trees_.leg(tree_of(open).first_leg + leg_of_[slot] - open.first_part);
  return leg.join == ReductionLeg::kToDestination ? kNoUnit : leg.unit;
}

void Reductions::leave(std::uint32_t slot) { opens_[parts_[leg_of_[slot]].open].under_way = 1; }

bool Reductions::under_way(std::uint32_t slot) const { return opens_[parts_[leg_of_[slot]].open].under_way != 0; }

void Reductions::cancel(std::uint32_t slot) {
  const std::uint32_t number = parts_[leg_of_[slot]].open;
  leg_of_[slot] = kNone;
  if (--opens_[number].offered == 0) end(number);
}

void Reductions::end(std::uint32_t number) {
  Open& open = opens_[number];
  open.alive = 0;
  open.next = std::exchange(free_[open.tree], number);
  --open_;
}

Reductions::Progress Reductions::read(std::uint32_t slot, std::int64_t read, const Tail* tail) {
  const std::uint32_t index = leg_of_[slot];
  Part& part = parts_[index];
  Open& open = opens_[part.open];
  const ReductionTree& tree = tree_of(open);
  const ReductionLeg& leg = trees_.leg(tree.first_leg + index - open.first_part);
  ++part.read;
  if (tail != nullptr) {
    part.tail.inject = tail->inject;
    part.tail.path = tail->path;
    part.tail.create = tail->create;
    part.tail.tag = tail->tag;
    part.tail.flit_sum += tail->flit_sum;
    part.tail_read = read;
  }
  if (leg.join == ReductionLeg::kToDestination) {
    open.read_sum += read;
    if (tail != nullptr && tree.joins == 0) part.tail.flit_sum -= open.read_sum;
    return {0, false, tail != nullptr};
  }
  part.tail.flit_sum -= read;
  const ReductionJoin& join = trees_.join(tree.first_join + leg.join);
  Sum& sum = sums_[open.first_sum + leg.join];
  ReductionUnit& unit = units_[join.router];
  std::uint32_t least = ~0U;
  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < join.parts; ++i) {
    const std::uint32_t flits = parts_[open.first_part + trees_.part(join.first_part + i)].read;
    least = std::min(least, flits);
    most += flits;
  }
  if (most == 1) unit.most_open = std::max(unit.most_open, ++unit.open);
  if (tail != nullptr) {
    ++unit.parts;
    leg_of_[slot] = kNone;
  }
  if (least == sum.done) return {};
  sum.done = least;
  return {open.first_sum + leg.join, true, false};
}

Reductions::Ready Reductions::ready(std::uint32_t index, std::int64_t cycle) {
  Sum& sum = sums_[index];
  const Open& open = opens_[sum.open];
  const ReductionTree& tree = tree_of(open);
  const std::uint32_t number = index - open.first_sum;
  const ReductionJoin& join = trees_.join(tree.first_join + number);
  ++sum.ready;
  if (sum.ready == as_u32(open.size)) {
    sum.tail_ready = cycle;
    std::uint64_t value = 0;
    for (std::uint32_t i = 0; i < join.parts; ++i) {
      value += parts_[open.first_part + trees_.part(join.first_part + i)].value;
    }
    if constexpr (sim::kFaultsCompiled) {
      if (fault_ == sim::Fault::lose_part && --fault_countdown_ == 0) {
        value -= parts_[open.first_part + trees_.part(join.first_part)].value;
      }
    }
    parts_[open.first_part + tree.sources + number].value = value;
    ++units_[join.router].sums;
    --units_[join.router].open;
  }
  const ReductionLeg& leg = trees_.leg(tree.first_leg + tree.sources + number);
  return {sum.ready == 1,     tree.dest, open.size,
          open.message_class, join.unit, leg.join == ReductionLeg::kToDestination ? kNoUnit : leg.unit};
}

void Reductions::put(std::uint32_t index, std::uint32_t slot) {
  Sum& sum = sums_[index];
  const Open& open = opens_[sum.open];
  sum.slot = slot;
  if (leg_of_.size() <= slot) leg_of_.resize(slot + std::size_t{1}, kNone);
  leg_of_[slot] = open.first_part + tree_of(open).sources + index - open.first_sum;
}

void Reductions::finish(std::uint32_t slot, std::int64_t read, std::vector<Arrival>& arrivals) {
  const std::uint32_t last = std::exchange(leg_of_[slot], kNone);
  const std::uint32_t number = parts_[last].open;
  const Open& open = opens_[number];
  const ReductionTree& tree = tree_of(open);
  if (parts_[last].value != open.expected) ++wrong_sums_;
  for (std::uint32_t i = 0; i < tree.sources; ++i) {
    const Part& part = parts_[open.first_part + i];
    Arrival arrival{part.tail.tag,
                    read,
                    part.tail.create,
                    part.tail.inject,
                    part.tail.flit_sum + open.read_sum,
                    trees_.source(tree.first_source + i),
                    tree.dest,
                    open.size,
                    open.message_class};
    std::int64_t hops = 0;
    std::int64_t links = -std::int64_t{kTerminalCycles};
    way_.clear();
    for (std::uint32_t leg = i; leg != ReductionLeg::kToDestination;) {
      way_.push_back(leg);
      hops += hops_of(parts_[open.first_part + leg].tail.path);
      links += links_of(parts_[open.first_part + leg].tail.path) + kTerminalCycles;
      const std::uint32_t join = trees_.leg(tree.first_leg + leg).join;
      leg = join == ReductionLeg::kToDestination ? join : tree.sources + join;
    }
    arrival.hops = static_cast<std::int32_t>(hops);
    arrival.link_cycles = static_cast<std::int32_t>(links);
    arrival.reduction_wait_cycles = waited(open);
    arrivals.push_back(arrival);
  }
  end(number);
}

// What the contribution whose way is in way_ waited at units. A tail that a unit sends long after the head finds routes
// and VCs there: it makes up that much of a wait before, in a unit or in the network, which then cost nothing.
std::int64_t Reductions::waited(const Open& open) const {
  const ReductionTree& tree = tree_of(open);
  std::int64_t waited = 0;
  std::int64_t end = parts_[open.first_part + way_.back()].tail_read;
  for (std::size_t i = way_.size() - 1; i > 0; --i) {
    const Tail& tail = parts_[open.first_part + way_[i]].tail;
    const std::int64_t least = hops_of(tail.path) * pipeline_cycles_ + links_of(tail.path) + kTerminalCycles;
    const std::int64_t begin = std::min(sums_[open.first_sum + way_[i] - tree.sources].tail_ready, end - least);
    const std::int64_t before = parts_[open.first_part + way_[i - 1]].tail_read;
    waited += std::max<std::int64_t>(0, begin - before);
    end = std::min(before, begin);
  }
  return waited;
}

std::string Reductions::verify(bool idle) const {
  if (wrong_sums_ != 0) {
    return std::to_string(wrong_sums_) + " of " + std::to_string(begun_ - open_) +
           " reductions did not bring the sum of all contributions to their destination";
  }
  if (!idle) return {};
  for (std::size_t r = 0; r < units_.size(); ++r) {
    if (units_[r].open != 0) {
      return "the reduction unit of router " + std::to_string(r) + " still holds " + std::to_string(units_[r].open) +
             " partial sums in an empty network";
    }
  }
  return {};
}

std::string Reductions::waiting() const {
  std::string text;
  std::size_t shown = 0;
  for (const Open& open : opens_) {
    if (open.alive == 0 || shown == 4) continue;
    ++shown;
    const ReductionTree& tree = tree_of(open);
    text += "\n  reduction " + std::to_string(open.number) + " to node " + std::to_string(tree.dest) + ": ";
    std::string missing;
    for (std::uint32_t i = 0; i < tree.sources; ++i) {
      if (parts_[open.first_part + i].offered != 0) continue;
      missing += (missing.empty() ? "" : ", ") + std::to_string(trees_.source(tree.first_source + i));
    }
    text += missing.empty() ? "its contributions are under way" : "waits for the contributions of nodes " + missing;
  }
  return text;
}

std::size_t Reductions::core_bytes() const {
  const auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return sizeof(*this) + trees_.core_bytes() + bytes(opens_) + bytes(free_) + bytes(parts_) + bytes(sums_) +
         bytes(leg_of_) + bytes(units_);
}

void Reductions::visit(sim::Visitor& v) {
  using sim::Kind;
  trees_.visit(v);
  v.vector(Kind::stamp, opens_);
  v.vector(Kind::state, free_);
  v.vector(Kind::stamp, parts_);
  v.vector(Kind::stamp, sums_);
  v.vector(Kind::state, leg_of_);
  v.vector(Kind::state, units_);
  v.value(Kind::state, fault_countdown_);
  v.value(Kind::counter, begun_);
  v.value(Kind::state, open_);
  v.value(Kind::counter, wrong_sums_);
}

}  // namespace cosim::noc
