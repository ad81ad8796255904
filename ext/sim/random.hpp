// Counter-based random numbers: a draw depends only on (seed, stream, counter), never on who drew before.
#pragma once

#include <cstdint>

namespace cosim::sim {

// splitmix64's finaliser (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// One stream of draws; two words of state, both plain.
struct RandomStream {
  std::uint64_t key = 0;
  std::uint64_t counter = 0;

  RandomStream() = default;
  RandomStream(std::uint64_t seed, std::uint64_t stream) : key(mix64(mix64(seed) ^ mix64(stream * 2 + 1))) {}

  std::uint64_t next() { return mix64(key ^ mix64(counter++)); }
  // Uniform in [0, n), n > 0, by multiplication (bias below n / 2^64).
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }
  // Uniform in (0, 1].
  double unit() { return static_cast<double>((next() >> 11) + 1) * 0x1.0p-53; }
};

}  // namespace cosim::sim
