// DRAM commands and what the field calls them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace cosim::mem {

enum class Command : std::uint8_t { ACT, PREpb, PREab, RD, WR, RDA, WRA, REFab, REFpb };
inline constexpr int kCommands = 9;
// Commands whose earliest tick is kept bank by bank; RDA and WRA wait exactly like RD and WR.
inline constexpr std::array<std::string_view, kCommands> kCommandNames = {"ACT", "PREpb", "PREab", "RD",   "WR",
                                                                          "RDA", "WRA",   "REFab", "REFpb"};

enum class Op : std::uint8_t { read = 0, write = 1 };

// What a request found at its first command: its row open, its bank closed, another row open; or the write queue
// held its data and DRAM was not asked.
enum class RowResult : std::uint8_t { none = 0, hit, miss, conflict, forwarded, coalesced };

[[nodiscard]] constexpr int index(Command c) { return static_cast<int>(c); }
[[nodiscard]] constexpr int index(Op op) { return static_cast<int>(op); }

}  // namespace cosim::mem
