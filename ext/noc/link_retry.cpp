#include "noc/link_retry.hpp"

#include <cmath>

#include "noc/bits.hpp"

namespace cosim::noc {

std::uint64_t flit_error_threshold(double bit_error_rate, std::int64_t bits) {
  if (bit_error_rate <= 0.0) return 0;
  // 2^64 - x fits a double exactly where the rate is small: no rounding to 1
  const auto wrong = static_cast<std::uint64_t>(std::ldexp(bit_error_rate, 64));
  unsigned __int128 good = (static_cast<unsigned __int128>(1) << 64U) - wrong;
  unsigned __int128 all_good = static_cast<unsigned __int128>(1) << 64U;
  for (std::int64_t bit = 0; bit < bits && all_good != 0; ++bit) {
    // both are at most 2^64: their product may need 129 bits
    all_good = good >> 64U != 0 ? all_good : (all_good >> 64U != 0 ? good : all_good * good >> 64U);
  }
  const unsigned __int128 failing = (static_cast<unsigned __int128>(1) << 64U) - all_good;
  return failing >> 64U != 0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(failing);
}

LinkRetry::LinkRetry(const NetworkSpec& spec)
    : links_(as_size(spec.routers) * as_size(spec.ports)),
      threshold_(flit_error_threshold(spec.retry.bit_error_rate, spec.retry.flit_bits + spec.retry.crc_bits)),
      nack_delay_(spec.retry.nack_delay) {
  for (std::size_t link = 0; link < links_.size(); ++link) {
    links_[link].random = sim::RandomStream(spec.retry.seed, link);
  }
}

}  // namespace cosim::noc
