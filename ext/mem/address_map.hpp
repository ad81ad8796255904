// Byte address to memory coordinate: every coordinate bit is the parity of some address bits.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cosim::mem {

enum class Field : std::uint8_t { channel, pseudo_channel, stack_id, bank_group, bank, row, column };
inline constexpr int kFields = 7;

struct Coordinate {
  std::array<std::int64_t, kFields> value{};
  [[nodiscard]] std::int64_t operator[](Field f) const { return value[static_cast<std::size_t>(f)]; }
  std::int64_t& operator[](Field f) { return value[static_cast<std::size_t>(f)]; }
};

class AddressMap {
 public:
  // One coordinate bit: bit `bit` of `field` is the parity of the address bits in `mask`.
  struct Bit {
    Field field = Field::column;
    int bit = 0;
    std::uint64_t mask = 0;
  };

  // Sizes are powers of two, access_bytes as well; address bits below the burst are not mapped.
  // std::invalid_argument when the bits are no bijection between addresses and coordinates.
  AddressMap(const std::array<std::int64_t, kFields>& sizes, int access_bytes, const std::vector<Bit>& bits);

  [[nodiscard]] Coordinate decode(std::uint64_t address) const;
  [[nodiscard]] std::uint64_t encode(const Coordinate& c) const;
  [[nodiscard]] std::int64_t capacity_bytes() const { return capacity_; }
  [[nodiscard]] int access_bytes() const { return access_bytes_; }

  // Address bits that alone decide the field; 0 if it also depends on others (hashed) or has no bits.
  [[nodiscard]] std::uint64_t plain_bits(Field field) const;
  [[nodiscard]] bool is_plain(Field field) const;

  // The distance of addresses that differ in one row only, when all address bits from there on are the row's, in their
  // order, and no other coordinate depends on them; 0 otherwise.
  [[nodiscard]] std::uint64_t row_stride() const;

  // The smallest address >= `from` whose bits under `mask` equal `value`; all ones if there is none.
  [[nodiscard]] static std::uint64_t next_match(std::uint64_t from, std::uint64_t mask, std::uint64_t value);

 private:
  struct Run {  // consecutive address bits that are consecutive coordinate bits
    Field field = Field::column;
    int from = 0;
    int to = 0;
    std::uint64_t mask = 0;
  };

  std::array<std::int64_t, kFields> sizes_;
  int access_bytes_;
  std::int64_t capacity_ = 0;
  std::vector<Bit> bits_;
  std::vector<Run> runs_;    // plain bits
  std::vector<Bit> hashed_;  // the others
  std::vector<std::uint64_t>
      inverse_;  // address bit i (above the burst) as a parity over coordinate bits, in bits_ order
  int address_bits_ = 0;
  int offset_bits_ = 0;
};

}  // namespace cosim::mem
