#include "sim/faults.hpp"

#ifdef COSIM_FAULTS
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cosim::sim {

Fault fault_from_environment() {
  const char* text = std::getenv("COSIM_FAULT");
  if (text == nullptr || *text == '\0') return Fault::none;
  const std::string_view name(text);
  if (name == "none") return Fault::none;
  if (name == "drop_credit") return Fault::drop_credit;
  if (name == "lose_flit") return Fault::lose_flit;
  if (name == "late_refresh") return Fault::late_refresh;
  if (name == "unordered_commit") return Fault::unordered_commit;
  if (name == "lose_request") return Fault::lose_request;
  if (name == "skip_state") return Fault::skip_state;
  if (name == "lose_room") return Fault::lose_room;
  if (name == "share_link") return Fault::share_link;
  if (name == "lose_part") return Fault::lose_part;
  if (name == "forget_arbiter") return Fault::forget_arbiter;
  if (name == "forget_timing") return Fault::forget_timing;
  if (name == "forget_progress") return Fault::forget_progress;
  if (name == "late_parting") return Fault::late_parting;
  throw std::invalid_argument("COSIM_FAULT names no fault point: " + std::string(name));
}

}  // namespace cosim::sim
#endif
