// Stretches of a run that were simulated once and come again: a stream through all banks repeats itself row by row.
//
// A macro-step starts and ends between two ticks. It is known by the canonical form of the channel at its start and by
// the requests that are taken in it; where both come again, moved in time and rows, and banks by other names, all the
// rest does. A refresh belongs to the form only where it falls due inside.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "mem/channel.hpp"

namespace cosim::mem {

struct MacroStep {
  struct Taken {  // of one queue pair
    std::int32_t count = 0;
    std::int64_t phase = -1;     // where in the address range of one row its first burst lies; -1: from several ranges
    std::uint64_t distance = 0;  // that of `count` bursts, without the bits that select the queue pair
    // `count` and the one behind them, of one range the first and the one behind; rows relative; none if there is none
    std::vector<Request> offered;
    std::vector<std::int32_t> accepted;  // ticks from the start, in the order of the requests; of one range the first
    std::int64_t first_tag = 0;          // the least of the tags that are finished, relative
    std::int32_t first_issue = 0;        // of those
    std::int32_t last_done = 0;
    RowResult first_result = RowResult::none;
    std::int32_t finished = 0;
  };
  struct Finished {
    std::int32_t tag = 0;  // relative
    std::int32_t issue = 0;
    std::int32_t done = 0;
    RowResult row_result = RowResult::none;
  };

  // forms without refresh, each from its own origin, and with one inside what refresh adds to them
  std::size_t start = 0;
  std::size_t end = 0;
  std::vector<std::int32_t> start_refresh;
  std::vector<std::int32_t> end_refresh;
  std::size_t layout = 0;
  std::size_t turn = 0;      // at its start
  std::int64_t in_turn = 0;  // bursts of the first stream since that turn began
  std::int64_t ticks = 0;
  std::vector<Taken> taken;
  std::vector<Finished> finished;
  std::vector<IssuedCommand> commands;  // ticks and rows relative
  Statistics gained;                    // banks by name
};

// The macro-steps of one configuration, as many as fit into a bounded memory.
class MacroSteps {
 public:
  static constexpr std::size_t kUnknown = ~std::size_t{0};

  // The number of a form, kUnknown where none was recorded.
  [[nodiscard]] std::size_t find(std::span<const std::int32_t> form) const;
  std::size_t add_form(std::span<const std::int32_t> form);  // one that is not there
  [[nodiscard]] std::span<const std::int32_t> form(std::size_t number) const { return forms_[number]; }

  // Macro-steps that may start with this form, and what refresh adds to it, from the first one recorded on.
  [[nodiscard]] std::span<const std::size_t> starting_with(std::size_t form,
                                                           std::span<const std::int32_t> refresh) const;
  [[nodiscard]] const MacroStep& operator[](std::size_t i) const { return steps_[i]; }
  void add(MacroStep step);
  [[nodiscard]] bool full() const { return bytes_ >= kBytes; }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  [[nodiscard]] static std::uint64_t hash(std::uint64_t seed, std::span<const std::int32_t> form);

  std::vector<std::vector<std::int32_t>> forms_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> forms_by_hash_;
  std::vector<MacroStep> steps_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> by_start_;
  std::size_t bytes_ = 0;
};

}  // namespace cosim::mem
