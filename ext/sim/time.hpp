// Global time and clock domains.
//
// Global time is int64 femtoseconds (about 9,200 s). A clock has a rational frequency; its edge n is at
// floor(n * den / num) fs, computed in 128 bits, so nothing drifts and clocks with a rational ratio stay aligned.
#pragma once

#include <cstdint>
#include <limits>

namespace cosim::sim {

using Fs = std::int64_t;
inline constexpr Fs kNever = std::numeric_limits<Fs>::max();
inline constexpr std::int64_t kFsPerSecond = 1'000'000'000'000'000;

// How long a path of a rate is taken by so many bytes, rounded up.
[[nodiscard]] constexpr Fs transfer_fs(std::int64_t bytes, std::int64_t bytes_per_second) {
  const __int128 time = static_cast<__int128>(bytes) * kFsPerSecond;
  return static_cast<Fs>((time + bytes_per_second - 1) / bytes_per_second);
}

// A clock of `num / den` edges per femtosecond, in lowest terms.
class Clock {
 public:
  // frequency in hertz as a rational hz_num / hz_den; both positive.
  explicit Clock(std::int64_t hz_num, std::int64_t hz_den = 1);

  // Time of edge n (n >= 0); kNever when it lies beyond the range of Fs.
  [[nodiscard]] Fs edge_fs(std::int64_t n) const {
    if (period_ != 0 && n <= last_whole_) return n * period_;
    return edge_fs_wide(n);
  }
  // The last edge at or before t (t >= 0).
  [[nodiscard]] std::int64_t edge_at_or_before(Fs t) const {
    if (period_ != 0) return t / period_;
    return edge_at_or_before_wide(t);
  }
  // The first edge at or after t.
  [[nodiscard]] std::int64_t edge_at_or_after(Fs t) const { return t <= 0 ? 0 : edge_at_or_before(t - 1) + 1; }
  // The first edge strictly after t: where a value committed at t is seen by this domain.
  [[nodiscard]] std::int64_t edge_after(Fs t) const { return t < 0 ? 0 : edge_at_or_before(t) + 1; }

  [[nodiscard]] std::int64_t numerator() const { return num_; }
  [[nodiscard]] std::int64_t denominator() const { return den_; }

 private:
  [[nodiscard]] Fs edge_fs_wide(std::int64_t n) const;
  [[nodiscard]] std::int64_t edge_at_or_before_wide(Fs t) const;

  std::int64_t num_;              // edges ...
  std::int64_t den_;              // ... per den_ femtoseconds
  std::int64_t period_ = 0;       // whole femtoseconds per edge, else 0
  std::int64_t last_whole_ = -1;  // edges up to this one fit Fs as n * period_
};

}  // namespace cosim::sim
