#include "noc/route_ways.hpp"

#include <stdexcept>

namespace cosim::noc {

// Equal sets are kept once: routers of a kind have the same.
std::uint32_t RouteWays::set_of(const std::vector<std::uint8_t>& ports) {
  const auto [found, added] =
      numbers_.try_emplace(std::string(ports.begin(), ports.end()), static_cast<std::uint32_t>(sets_.size()));
  if (!added) return found->second;
  if (sets_.size() > kSet) throw std::invalid_argument("a network with more than 4194303 choices of ports");
  sets_.push_back({static_cast<std::uint32_t>(ports_.size()), static_cast<std::uint32_t>(ports.size())});
  ports_.insert(ports_.end(), ports.begin(), ports.end());
  return found->second;
}

void RouteWays::lead(std::size_t router, std::size_t dest, const std::vector<std::uint8_t>& ports, bool upper) {
  const std::uint32_t set = ports.size() == 1 ? 0 : set_of(ports);
  entry(router, dest) = ports[0] | set << kSetShift | (upper ? 1U : 0U) << kUpperShift;
}

std::size_t RouteWays::core_bytes() const {
  const auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return sizeof(*this) + bytes(entries_) + bytes(sets_) + bytes(ports_) + bytes(halves_) + bytes(closes_);
}

}  // namespace cosim::noc
