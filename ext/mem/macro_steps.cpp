#include "mem/macro_steps.hpp"

#include <algorithm>
#include <utility>

namespace cosim::mem {

std::uint64_t MacroSteps::hash(std::uint64_t seed, std::span<const std::int32_t> form) {
  std::uint64_t h = seed ^ 0x9E37'79B9'7F4A'7C15ULL;
  const auto add = [&h](std::uint64_t word) {
    h = (h ^ word) * 0xD6E8'FEB8'6659'FD93ULL;
    h ^= h >> 32;
  };
  std::size_t i = 0;
  for (; i + 2 <= form.size(); i += 2) {
    add(std::uint64_t{static_cast<std::uint32_t>(form[i])} << 32 | static_cast<std::uint32_t>(form[i + 1]));
  }
  if (i < form.size()) add(static_cast<std::uint32_t>(form[i]));
  return h;
}

std::size_t MacroSteps::find(std::span<const std::int32_t> form) const {
  const auto found = forms_by_hash_.find(hash(0, form));
  if (found == forms_by_hash_.end()) return kUnknown;
  for (const std::size_t i : found->second) {
    if (std::ranges::equal(forms_[i], form)) return i;
  }
  return kUnknown;
}

std::size_t MacroSteps::add_form(std::span<const std::int32_t> form) {
  bytes_ += form.size() * sizeof(std::int32_t);
  forms_by_hash_[hash(0, form)].push_back(forms_.size());
  forms_.emplace_back(form.begin(), form.end());
  return forms_.size() - 1;
}

std::span<const std::size_t> MacroSteps::starting_with(std::size_t form, std::span<const std::int32_t> refresh) const {
  const auto found = by_start_.find(hash(form, refresh));
  return found == by_start_.end() ? std::span<const std::size_t>{} : std::span<const std::size_t>{found->second};
}

void MacroSteps::add(MacroStep step) {
  bytes_ += sizeof(MacroStep) + step.finished.size() * sizeof(MacroStep::Finished) +
            step.commands.size() * sizeof(IssuedCommand) + step.gained.banks.size() * sizeof(BankCounters);
  for (const MacroStep::Taken& t : step.taken) {
    bytes_ += t.offered.size() * sizeof(Request) + t.accepted.size() * sizeof(std::int32_t);
  }
  by_start_[hash(step.start, step.start_refresh)].push_back(steps_.size());
  steps_.push_back(std::move(step));
}

}  // namespace cosim::mem
