#include "noc/booksim_random.hpp"

#include <algorithm>
#include <utility>

namespace cosim::noc {

namespace {

constexpr std::int32_t kModulus = 1 << 30;
constexpr std::int32_t kSeparation = 70;  // streams of different seeds are this many bits apart

std::int32_t difference(std::int32_t a, std::int32_t b) { return (a - b) & (kModulus - 1); }

}  // namespace

void BooksimRandom::generate(std::int32_t* out, std::size_t count) {
  std::copy(state_.begin(), state_.end(), out);
  std::size_t j = kLong;
  for (; j < count; ++j) out[j] = difference(out[j - kLong], out[j - kShort]);
  std::size_t i = 0;
  for (; i < kShort; ++i, ++j) state_[i] = difference(out[j - kLong], out[j - kShort]);
  for (; i < kLong; ++i, ++j) state_[i] = difference(out[j - kLong], state_[i - kShort]);
}

BooksimRandom::BooksimRandom(std::int32_t seed) {
  std::array<std::int32_t, 2 * kLong - 1> x{};
  std::int32_t bits = (seed + 2) & (kModulus - 2);
  for (std::size_t j = 0; j < kLong; ++j) {
    x[j] = bits;
    bits <<= 1;
    if (bits >= kModulus) bits -= kModulus - 2;
  }
  ++x[1];
  bits = seed & (kModulus - 1);
  for (std::int32_t t = kSeparation - 1; t != 0;) {
    for (std::size_t j = kLong - 1; j > 0; --j) {  // square
      x[j + j] = x[j];
      x[j + j - 1] = 0;
    }
    for (std::size_t j = 2 * kLong - 2; j >= kLong; --j) {
      x[j - (kLong - kShort)] = difference(x[j - (kLong - kShort)], x[j]);
      x[j - kLong] = difference(x[j - kLong], x[j]);
    }
    if ((bits & 1) != 0) {  // multiply by z
      for (std::size_t j = kLong; j > 0; --j) x[j] = x[j - 1];
      x[0] = x[kLong];
      x[kShort] = difference(x[kShort], x[kLong]);
    }
    if (bits != 0) {
      bits >>= 1;
    } else {
      --t;
    }
  }
  for (std::size_t j = 0; j < kShort; ++j) state_[j + kLong - kShort] = x[j];
  for (std::size_t j = kShort; j < kLong; ++j) state_[j - kShort] = x[j];
  for (int warm = 0; warm < 10; ++warm) generate(x.data(), x.size());
}

std::int32_t BooksimRandom::next() {
  if (used_ == kLong) {
    std::array<std::int32_t, kQuality> batch;
    generate(batch.data(), batch.size());
    std::copy_n(batch.begin(), kLong, ready_.begin());
    used_ = 0;
  }
  return ready_[used_++];
}

void BooksimRandom::visit(sim::Visitor& v) {
  v.array(sim::Kind::state, state_.data(), state_.size());
  v.array(sim::Kind::state, ready_.data(), ready_.size());
  v.value(sim::Kind::state, used_);
}

}  // namespace cosim::noc
