// Fault points: each law's test is seen to fail with its fault on. Compiled only into test builds (COSIM_FAULTS);
// chosen by the environment variable COSIM_FAULT, read once per engine or network at construction.
#pragma once

#include <cstdint>

namespace cosim::sim {

// forget_*: something is left out of the canonical form.
enum class Fault : std::uint8_t {
  none,
  drop_credit,
  lose_flit,
  late_refresh,
  unordered_commit,
  lose_request,
  skip_state,
  lose_room,
  share_link,
  lose_part,
  forget_arbiter,
  forget_timing,
  forget_progress,
  late_parting
};

#ifdef COSIM_FAULTS
inline constexpr bool kFaultsCompiled = true;
Fault fault_from_environment();  // throws std::invalid_argument on an unknown name
#else
inline constexpr bool kFaultsCompiled = false;
inline Fault fault_from_environment() { return Fault::none; }
#endif

}  // namespace cosim::sim
