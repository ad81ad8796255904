// BookSim2's generator: Knuth's ran_array (The Art of Computer Programming, volume 2, section 3.6, version of 2002).
#pragma once

#include <array>
#include <cstdint>

#include "sim/visit.hpp"

namespace cosim::noc {

class BooksimRandom {
 public:
  explicit BooksimRandom(std::int32_t seed);
  // The next number below 2^30; of every 1009 generated the first 100 are used.
  std::int32_t next();
  void visit(sim::Visitor& v);

 private:
  static constexpr std::size_t kLong = 100;
  static constexpr std::size_t kShort = 37;
  static constexpr std::size_t kQuality = 1009;
  void generate(std::int32_t* out, std::size_t count);

  std::array<std::int32_t, kLong> state_{};
  std::array<std::int32_t, kLong> ready_{};
  std::uint64_t used_ = kLong;
};

}  // namespace cosim::noc
