"""Address maps by name or bit list, and their Python mirror of the C++ decoder.

A name lists the fields from the most to the least significant bits: ``RoBaSiPcBgCoCh``. Fields: Ro row, Ba bank,
Bg bank group, Si stack id, Pc pseudo-channel, Ch channel, Co column (burst index). A field may be split by giving the
number of bits of a part, as in ``RoCo3BaBgCo2Ch``. A bit list names one coordinate bit per address bit, least
significant first, above the bits inside a burst: ``["co0", "bg0", ...]``; ``"bg0^ro3"`` takes the parity of that
address bit and of the one that holds ro3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cosim.mem.problems import Problems, refuse

FIELDS = ("channel", "pseudo_channel", "stack_id", "bank_group", "bank", "row", "column")
SHORT = {
    "ch": "channel",
    "pc": "pseudo_channel",
    "si": "stack_id",
    "bg": "bank_group",
    "ba": "bank",
    "ro": "row",
    "co": "column",
}
DEFAULT_MAP = "RoBaSiCoBgPcCh"
_BANK_FIELDS = FIELDS[:5]


def _bits(size: int) -> int:
    return size.bit_length() - 1


def _bank_shifts(sizes: Mapping[str, int]) -> dict[str, int]:
    """Where each field of a bank lies when they are packed into one number."""
    shifts, at = {}, 0
    for field in _BANK_FIELDS:
        shifts[field] = at
        at += _bits(sizes[field])
    return shifts


@dataclass(frozen=True)
class AddressMap:
    """Byte address to (channel, pseudo_channel, stack_id, bank_group, bank, row, column).

    Attributes:
        sizes: how many of each field there are, powers of two.
        access_bytes: bytes of one burst.
        bits: per coordinate bit (field, bit, mask of the address bits whose parity it is).
        description: one word per address bit above the burst, least significant first.
    """

    sizes: Mapping[str, int]
    access_bytes: int
    bits: tuple[tuple[str, int, int], ...]
    description: tuple[str, ...]

    @classmethod
    def make(cls, spec: str | Sequence[str], sizes: Mapping[str, int], access_bytes: int) -> AddressMap:
        """Builds a map from a name or a bit list.

        Raises:
            ConfigErrors: unknown fields, bits left out or named twice, a map that is no bijection.
        """
        problems = Problems("address_map")
        words = _words_of_name(spec, sizes, problems) if isinstance(spec, str) else [str(w) for w in spec]
        problems.raise_if_any()
        bits = _parse_words(words, sizes, access_bytes, problems)
        problems.raise_if_any()
        made = cls(dict(sizes), access_bytes, tuple(bits), tuple(words))
        made._check_bijection()
        return made

    @property
    def capacity_bytes(self) -> int:
        total = self.access_bytes
        for size in self.sizes.values():
            total *= size
        return total

    def _check_bijection(self) -> None:
        rows = [mask for _, _, mask in self.bits]
        done: list[int] = []
        for row in rows:
            left = row
            for pivot in done:
                left = min(left, left ^ pivot)
            if left == 0:
                raise refuse("address_map", "", "is not a bijection: two addresses would share one coordinate")
            done.append(left)

    def decode(self, address: int) -> dict[str, int]:
        """The coordinate of a byte address."""
        out = dict.fromkeys(FIELDS, 0)
        for field, bit, mask in self.bits:
            out[field] |= ((address & mask).bit_count() & 1) << bit
        return out

    def banks_of(self, address: int, size_bytes: int) -> frozenset[tuple[int, ...]]:
        """The banks that a range of addresses touches, each as (channel, pseudo_channel, stack_id, bank_group, bank).

        Two regions that share none are isolated from each other: a stream into one never closes a row of the other.

        Args:
            address, size_bytes: whole bursts inside the capacity.

        Raises:
            ConfigErrors: the range is not one of whole bursts inside the capacity.
        """
        burst = self.access_bytes
        if (
            size_bytes < burst
            or address % burst
            or size_bytes % burst
            or not 0 <= address <= self.capacity_bytes - size_bytes
        ):
            raise refuse(
                "region",
                "",
                f"expected whole bursts of {burst} B inside {self.capacity_bytes} B, got {size_bytes} B at {address}",
            )
        shifts = _bank_shifts(self.sizes)
        masks = [(mask, shifts[field] + bit) for field, bit, mask in self.bits if field in shifts]
        found: set[int] = set()
        end = address + size_bytes
        while address < end:
            block = address & -address or self.capacity_bytes
            while block > end - address:
                block >>= 1
            # the low bits of a block take every value: the banks are a base and everything its bits can add to it
            base = sum(((address & mask).bit_count() & 1) << bit for mask, bit in masks)
            reached = {base}
            for low in range(burst.bit_length() - 1, block.bit_length() - 1):
                change = sum((mask >> low & 1) << bit for mask, bit in masks)
                if change:
                    reached |= {bank ^ change for bank in reached}
            found |= reached
            address += block
        return frozenset(
            tuple(packed >> shifts[field] & (self.sizes[field] - 1) for field in _BANK_FIELDS) for packed in found
        )

    def strides(self) -> dict[str, int]:
        """Per field the smallest power-of-two distance in bytes at which it changes; a field of one value has none."""
        out: dict[str, int] = {}
        for field, _, mask in self.bits:
            out[field] = min(out.get(field, mask & -mask), mask & -mask)
        return out

    def core_bits(self) -> list[tuple[int, int, int]]:
        """The bits as the C++ map takes them."""
        return [(FIELDS.index(field), bit, mask) for field, bit, mask in self.bits]

    def core_sizes(self) -> list[int]:
        return [self.sizes[f] for f in FIELDS]


def _words_of_name(name: str, sizes: Mapping[str, int], problems: Problems) -> list[str]:
    tokens = re.findall(r"([A-Za-z]{2})(\d*)", name)
    if "".join(a + b for a, b in tokens) != name or not tokens:
        problems.add("", f"{name!r} is not a list of fields such as {DEFAULT_MAP!r}")
        return []
    left = {f: _bits(sizes[f]) for f in FIELDS}
    parts: list[tuple[str, int | None]] = []
    for short, digits in tokens:
        if short.lower() not in SHORT:
            problems.unknown("", short, SHORT, "field")
            continue
        parts.append((SHORT[short.lower()], int(digits) if digits else None))
    for field in FIELDS:
        open_parts = [p for p in parts if p == (field, None)]
        given = sum(n for f, n in parts if f == field and n is not None)
        if len(open_parts) > 1:
            problems.add("", f"{name!r} names {field} twice without saying how many bits each part has")
        if given > left[field] or (not open_parts and given != left[field]):
            problems.add("", f"{name!r} gives {field} {given} bits; it has {left[field]}")
    if problems.found:
        return []
    given_of = {f: sum(n for g, n in parts if g == f and n is not None) for f in FIELDS}
    next_bit = dict.fromkeys(FIELDS, 0)
    words: list[str] = []
    short_of = {v: k for k, v in SHORT.items()}
    for field, count in reversed(parts):
        width = left[field] - given_of[field] if count is None else count
        for _ in range(width):
            words.append(f"{short_of[field]}{next_bit[field]}")
            next_bit[field] += 1
    return words


def _parse_words(
    words: Sequence[str], sizes: Mapping[str, int], access_bytes: int, problems: Problems
) -> list[tuple[str, int, int]]:
    offset = _bits(access_bytes)
    expected = sum(_bits(sizes[f]) for f in FIELDS)
    if len(words) != expected:
        problems.add("", f"names {len(words)} address bits; this memory has {expected} above the burst")
        return []
    holder: dict[tuple[str, int], int] = {}
    terms: list[list[tuple[str, int]]] = []
    for position, word in enumerate(words):
        parsed: list[tuple[str, int]] = []
        for term in word.split("^"):
            match = re.fullmatch(r"([a-z]{2})(\d+)", term.strip().lower())
            if match is None or match[1] not in SHORT:
                problems.add(f"bit {position + offset}", f"expected a field and a bit such as 'ro3', got {term!r}")
                continue
            field, bit = SHORT[match[1]], int(match[2])
            if bit >= _bits(sizes[field]):
                problems.add(f"bit {position + offset}", f"{field} has {_bits(sizes[field])} bits, got {term!r}")
                continue
            parsed.append((field, bit))
        terms.append(parsed)
        if parsed:
            if parsed[0] in holder:
                problems.add(f"bit {position + offset}", f"{word!r} is named twice")
            holder[parsed[0]] = 1 << (position + offset)
    if problems.found:
        return []
    bits: list[tuple[str, int, int]] = []
    for parsed in terms:
        mask = 0
        for term_ in parsed:
            mask ^= holder.get(term_, 0)
        bits.append((*parsed[0], mask))
    return bits
