#include "mem/address_map.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace cosim::mem {
namespace {

constexpr std::array<const char*, kFields> kFieldNames = {"channel", "pseudo_channel", "stack_id", "bank_group", "bank",
                                                          "row",     "column"};

std::uint64_t parity(std::uint64_t v) { return static_cast<std::uint64_t>(std::popcount(v) & 1); }

}  // namespace

AddressMap::AddressMap(const std::array<std::int64_t, kFields>& sizes, int access_bytes, const std::vector<Bit>& bits)
    : sizes_(sizes), access_bytes_(access_bytes), bits_(bits) {
  if (access_bytes < 1 || !std::has_single_bit(static_cast<unsigned>(access_bytes))) {
    throw std::invalid_argument("access_bytes must be a power of two, got " + std::to_string(access_bytes));
  }
  offset_bits_ = std::countr_zero(static_cast<unsigned>(access_bytes));
  std::array<int, kFields> width{};
  for (std::size_t f = 0; f < kFields; ++f) {
    if (sizes[f] < 1 || !std::has_single_bit(static_cast<std::uint64_t>(sizes[f]))) {
      throw std::invalid_argument(std::string(kFieldNames[f]) + " count must be a power of two, got " +
                                  std::to_string(sizes[f]));
    }
    width[f] = std::countr_zero(static_cast<std::uint64_t>(sizes[f]));
    address_bits_ += width[f];
  }
  if (address_bits_ + offset_bits_ > 62) throw std::invalid_argument("the address map has more than 62 bits");
  capacity_ = std::int64_t{1} << (address_bits_ + offset_bits_);

  std::array<std::uint64_t, kFields> seen{};
  const std::uint64_t mapped = ((std::uint64_t{1} << address_bits_) - 1) << offset_bits_;
  for (const Bit& b : bits) {
    const auto f = static_cast<std::size_t>(b.field);
    if (b.bit < 0 || b.bit >= width[f]) {
      throw std::invalid_argument(std::string(kFieldNames[f]) + " has " + std::to_string(width[f]) +
                                  " bits; the address map names bit " + std::to_string(b.bit));
    }
    if ((seen[f] >> b.bit & 1) != 0) {
      throw std::invalid_argument("the address map gives " + std::string(kFieldNames[f]) + " bit " +
                                  std::to_string(b.bit) + " twice");
    }
    seen[f] |= std::uint64_t{1} << b.bit;
    if (b.mask == 0 || (b.mask & ~mapped) != 0) {
      throw std::invalid_argument("the address map takes " + std::string(kFieldNames[f]) + " bit " +
                                  std::to_string(b.bit) + " from address bits outside " + std::to_string(offset_bits_) +
                                  " to " + std::to_string(offset_bits_ + address_bits_ - 1));
    }
  }
  for (std::size_t f = 0; f < kFields; ++f) {
    for (int i = 0; i < width[f]; ++i) {
      if ((seen[f] >> i & 1) == 0) {
        throw std::invalid_argument("the address map leaves out " + std::string(kFieldNames[f]) + " bit " +
                                    std::to_string(i));
      }
    }
  }
  // Gauss-Jordan over GF(2): rows are coordinate bits as parities of address bits, `own` what they are made of.
  const std::size_t n = bits_.size();
  std::vector<std::uint64_t> row(n);
  std::vector<std::uint64_t> own(n);
  for (std::size_t i = 0; i < n; ++i) {
    row[i] = bits_[i].mask >> offset_bits_;
    own[i] = std::uint64_t{1} << i;
  }
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    while (pivot < n && (row[pivot] >> column & 1) == 0) ++pivot;
    if (pivot == n) {
      throw std::invalid_argument("the address map is not a bijection: address bit " +
                                  std::to_string(column + static_cast<std::size_t>(offset_bits_)) +
                                  " cannot be told from the others by the coordinates");
    }
    std::swap(row[pivot], row[column]);
    std::swap(own[pivot], own[column]);
    for (std::size_t i = 0; i < n; ++i) {
      if (i != column && (row[i] >> column & 1) != 0) {
        row[i] ^= row[column];
        own[i] ^= own[column];
      }
    }
  }
  inverse_ = own;

  std::vector<Bit> plain;
  for (const Bit& b : bits_) (std::has_single_bit(b.mask) ? plain : hashed_).push_back(b);
  std::sort(plain.begin(), plain.end(), [](const Bit& a, const Bit& b) { return a.mask < b.mask; });
  for (const Bit& b : plain) {
    const int from = std::countr_zero(b.mask);
    if (!runs_.empty()) {
      Run& last = runs_.back();
      const int length = std::popcount(last.mask);
      if (last.field == b.field && last.from + length == from && last.to + length == b.bit) {
        last.mask = last.mask << 1 | 1;
        continue;
      }
    }
    runs_.push_back({b.field, from, b.bit, 1});
  }
}

Coordinate AddressMap::decode(std::uint64_t address) const {
  Coordinate c;
  for (const Run& r : runs_) c[r.field] |= static_cast<std::int64_t>((address >> r.from & r.mask) << r.to);
  for (const Bit& b : hashed_) c[b.field] |= static_cast<std::int64_t>(parity(address & b.mask) << b.bit);
  return c;
}

std::uint64_t AddressMap::encode(const Coordinate& c) const {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bits_.size(); ++i) {
    word |= (static_cast<std::uint64_t>(c[bits_[i].field]) >> bits_[i].bit & 1) << i;
  }
  std::uint64_t address = 0;
  for (std::size_t i = 0; i < inverse_.size(); ++i) address |= parity(word & inverse_[i]) << i;
  return address << offset_bits_;
}

bool AddressMap::is_plain(Field field) const {
  return std::none_of(hashed_.begin(), hashed_.end(), [&](const Bit& b) { return b.field == field; });
}

std::uint64_t AddressMap::plain_bits(Field field) const {
  if (!is_plain(field)) return 0;
  std::uint64_t mask = 0;
  for (const Bit& b : bits_) {
    if (b.field == field) mask |= b.mask;
  }
  return mask;
}

std::uint64_t AddressMap::row_stride() const {
  if (runs_.empty()) return 0;
  const Run& top = runs_.back();
  const std::uint64_t stride = std::uint64_t{1} << top.from;
  const auto rows = static_cast<std::uint64_t>(sizes_[static_cast<std::size_t>(Field::row)]);
  if (top.field != Field::row || top.to != 0 || rows != std::uint64_t{1} << std::popcount(top.mask)) return 0;
  const bool hashed =
      std::any_of(hashed_.begin(), hashed_.end(), [stride](const Bit& b) { return (b.mask & ~(stride - 1)) != 0; });
  return hashed ? 0 : stride;
}

std::uint64_t AddressMap::next_match(std::uint64_t from, std::uint64_t mask, std::uint64_t value) {
  const std::uint64_t differs = (from ^ value) & mask;
  if (differs == 0) return from;
  const int top = 63 - std::countl_zero(differs);
  const std::uint64_t below = top == 63 ? ~std::uint64_t{0} : (std::uint64_t{2} << top) - 1;
  if ((value >> top & 1) != 0) return (from & ~below & ~mask) | value;  // going up at `top`: the rest starts at zero
  const std::uint64_t carried = (from | mask | below) + 1;
  if (carried == 0) return ~std::uint64_t{0};
  return (carried & ~mask) | value;
}

}  // namespace cosim::mem
