"""The request patterns of the reference rows, as tables of coordinates (see tests/reference/mem/README.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Geometry:
    """Levels of one pseudo-channel the patterns run over."""

    bank_groups: int
    banks: int
    rows: int
    columns: int
    access_bytes: int


GEOMETRY = {
    "hbm2": Geometry(4, 4, 32768, 32, 32),
    "hbm3": Geometry(4, 4, 16384, 32, 32),
    "ddr5": Geometry(8, 4, 65536, 64, 64),
}


def splitmix64(seed: int, count: int) -> Words:
    """The first `count` draws of splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = np.uint64(seed) + steps
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _frame(bg: Ints, bank: Ints, row: Ints, column: Ints, op: npt.NDArray[np.str_] | str = "R") -> pd.DataFrame:
    out = pd.DataFrame({"bank_group": bg, "bank": bank, "row": row, "column": column})
    out.insert(0, "op", op)
    return out


def _linear(index: Ints, g: Geometry, order: tuple[str, ...]) -> pd.DataFrame:
    sizes = {"bank_group": g.bank_groups, "bank": g.banks, "row": g.rows, "column": g.columns}
    left = index.copy()
    parts: dict[str, Ints] = {}
    for name in order:
        parts[name] = left % sizes[name]
        left = left // sizes[name]
    return _frame(parts["bank_group"], parts["bank"], parts["row"], parts["column"])


ORDERS = {
    "RoBaBgCo": ("column", "bank_group", "bank", "row"),
    "RoBaCoBg": ("bank_group", "column", "bank", "row"),
}


def sequential(g: Geometry, count: int, mapping: str) -> pd.DataFrame:
    return _linear(np.arange(count, dtype=np.int64), g, ORDERS[mapping])


def bank_stride(g: Geometry, count: int) -> pd.DataFrame:
    """Every access opens a new row, bank group first."""
    i = np.arange(count, dtype=np.int64)
    return _frame(
        i % g.bank_groups,
        (i // g.bank_groups) % g.banks,
        (i // (g.bank_groups * g.banks)) % g.rows,
        np.zeros_like(i),
    )


def random(g: Geometry, count: int, seed: int, write_percent: int = 0) -> pd.DataFrame:
    draws = splitmix64(seed, count * 2 if write_percent else count)
    picks = draws[::2] if write_percent else draws
    parts = []
    left = picks.copy()
    for size in (g.bank_groups, g.banks, g.columns, g.rows):
        parts.append((left % np.uint64(size)).astype(np.int64))
        left = left // np.uint64(size)
    op = np.where(draws[1::2] % np.uint64(100) < write_percent, "W", "R") if write_percent else "R"
    return _frame(parts[0], parts[1], parts[3], parts[2], op)


def random_two(g: Geometry, count: int, seed: int) -> pd.DataFrame:
    """Random over two pseudo-channels: the lowest bit of a draw chooses."""
    draws = splitmix64(seed, count)
    left = draws // np.uint64(2)
    parts = []
    for size in (g.bank_groups, g.banks, g.columns, g.rows):
        parts.append((left % np.uint64(size)).astype(np.int64))
        left = left // np.uint64(size)
    out = _frame(parts[0], parts[1], parts[3], parts[2])
    out["pseudo_channel"] = (draws % np.uint64(2)).astype(np.int64)
    return out


def tiles(g: Geometry, count: int, seed: int, mapping: str) -> pd.DataFrame:
    """64 KiB pieces at random places, each read through."""
    per_tile = 65536 // g.access_bytes
    total = g.bank_groups * g.banks * g.rows * g.columns // per_tile
    first = (splitmix64(seed, count) % np.uint64(total)).astype(np.int64) * per_tile
    index = (first[:, None] + np.arange(per_tile, dtype=np.int64)[None, :]).reshape(-1)
    return _linear(index, g, ORDERS[mapping])


def row_thrash(g: Geometry, count: int) -> pd.DataFrame:
    i = np.arange(count, dtype=np.int64)
    zero = np.zeros_like(i)
    return _frame(zero, zero, 5 + (i // 3) % 2, (i // 6 * 3 + i % 3) % g.columns)


def by_name(standard: str, name: str) -> pd.DataFrame:
    """The pattern of one reference row, without arrival times."""
    g = GEOMETRY[standard]
    if name.startswith("seq_"):
        return sequential(g, 100_000, name.split("_")[1])
    if name.startswith("tiles64K_"):
        return tiles(g, 64, 4, name.split("_")[1])
    return {
        "bankstride_100k": lambda: bank_stride(g, 100_000),
        "random_100k": lambda: random(g, 100_000, 1),
        "mixed7030_100k": lambda: random(g, 100_000, 2, 30),
        "chase_10k": lambda: random(g, 10_000, 3),
        "rowthrash_20k": lambda: row_thrash(g, 20_000),
    }[name]()
