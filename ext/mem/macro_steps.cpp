#include "mem/macro_steps.hpp"

#include <utility>

namespace cosim::mem {

std::uint64_t MacroSteps::hash(std::span<const std::int32_t> form) {
  std::uint64_t h = 0x9E37'79B9'7F4A'7C15ULL;
  for (const std::int32_t word : form) {
    h = (h ^ static_cast<std::uint32_t>(word)) * 0xD6E8'FEB8'6659'FD93ULL;
    h ^= h >> 32;
  }
  return h;
}

std::span<const std::size_t> MacroSteps::starting_with(std::span<const std::int32_t> form) const {
  const auto found = by_hash_.find(hash(form));
  return found == by_hash_.end() ? std::span<const std::size_t>{} : std::span<const std::size_t>{found->second};
}

void MacroSteps::add(MacroStep step) {
  bytes_ += (step.start.size() + step.end.size()) * sizeof(std::int32_t) +
            step.finished.size() * sizeof(MacroStep::Finished) + step.commands.size() * sizeof(IssuedCommand) +
            step.gained.banks.size() * sizeof(BankCounters);
  for (const MacroStep::Taken& t : step.taken) {
    bytes_ += t.offered.size() * sizeof(Request) + t.accepted.size() * sizeof(std::int32_t);
  }
  by_hash_[hash(step.start)].push_back(steps_.size());
  steps_.push_back(std::move(step));
}

}  // namespace cosim::mem
