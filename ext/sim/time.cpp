#include "sim/time.hpp"

#include <stdexcept>

namespace cosim::sim {

namespace {
using Wide = __int128;
}

Clock::Clock(std::int64_t hz_num, std::int64_t hz_den) {
  if (hz_num <= 0 || hz_den <= 0) throw std::invalid_argument("a clock needs a positive rational frequency");
  // edges per fs = hz_num / (hz_den * 1e15), reduced in 128 bits
  Wide num = hz_num;
  Wide den = Wide{hz_den} * kFsPerSecond;
  Wide a = num;
  Wide b = den;
  while (b != 0) {
    const Wide r = a % b;
    a = b;
    b = r;
  }
  num /= a;
  den /= a;
  if (den > std::numeric_limits<std::int64_t>::max()) {
    throw std::invalid_argument("the clock's frequency needs a denominator beyond 64 bits");
  }
  num_ = static_cast<std::int64_t>(num);
  den_ = static_cast<std::int64_t>(den);
  if (num_ == 1) {
    period_ = den_;
    last_whole_ = (kNever - 1) / den_;
  }
}

Fs Clock::edge_fs_wide(std::int64_t n) const {
  const Wide t = Wide{n} * den_ / num_;
  return t >= kNever ? kNever : static_cast<Fs>(t);
}

std::int64_t Clock::edge_at_or_before_wide(Fs t) const {
  // largest n with floor(n * den / num) <= t  <=>  n * den < (t + 1) * num
  const Wide n = ((Wide{t} + 1) * num_ - 1) / den_;
  return n >= std::numeric_limits<std::int64_t>::max() ? std::numeric_limits<std::int64_t>::max()
                                                       : static_cast<std::int64_t>(n);
}

}  // namespace cosim::sim
