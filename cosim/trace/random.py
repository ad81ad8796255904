"""Counter-based random numbers, bit for bit those of the C++ core (`ext/sim/random.hpp`).

A draw depends only on (seed, stream, counter), so the order in which code asks for numbers cannot change them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_GAMMA = 0x9E3779B97F4A7C15
_MUL_1 = 0xBF58476D1CE4E5B9
_MUL_2 = 0x94D049BB133111EB


def mix64(value: int) -> int:
    """splitmix64's finaliser (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014)."""
    x = (value + _GAMMA) & _MASK
    x = ((x ^ (x >> 30)) * _MUL_1) & _MASK
    x = ((x ^ (x >> 27)) * _MUL_2) & _MASK
    return x ^ (x >> 31)


def _mix64_array(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = values + np.uint64(_GAMMA)  # uint64 arrays wrap modulo 2^64
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_MUL_1)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_MUL_2)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


class RandomStream:
    """One stream of draws; its whole state is (key, counter).

    Args:
        seed: any non-negative integer below 2**64.
        stream: number of the stream under that seed.
    """

    def __init__(self, seed: int, stream: int = 0) -> None:
        for name, value in (("seed", seed), ("stream", stream)):
            if not 0 <= value <= _MASK:
                raise ValueError(f"{name}: expected an integer in [0, 2**64), got {value}")
        self.key = mix64(mix64(seed) ^ mix64((stream * 2 + 1) & _MASK))
        self.counter = 0

    def next(self) -> int:
        """The next 64-bit draw."""
        draw = mix64(self.key ^ mix64(self.counter))
        self.counter += 1
        return draw

    def below(self, n: int) -> int:
        """Uniform integer in [0, n), by multiplication (bias below n / 2**64)."""
        if n < 1:
            raise ValueError(f"below: expected n >= 1, got {n}")
        return (self.next() * n) >> 64

    def unit(self) -> float:
        """Uniform double in (0, 1]."""
        return ((self.next() >> 11) + 1) * 2.0**-53

    def draws(self, count: int) -> NDArray[np.uint64]:
        """The next `count` 64-bit draws, as `count` calls of `next` would give them."""
        counters = np.arange(self.counter, self.counter + count, dtype=np.uint64)
        self.counter += count
        return _mix64_array(np.uint64(self.key) ^ _mix64_array(counters))

    def units(self, count: int) -> NDArray[np.float64]:
        """The next `count` uniform doubles in (0, 1]."""
        numbers: NDArray[np.float64] = ((self.draws(count) >> np.uint64(11)) + np.uint64(1)).astype(np.float64)
        return numbers * 2.0**-53

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A uniform permutation of 0..n-1: the order that sorts `n` draws."""
        return np.argsort(self.draws(n), kind="stable").astype(np.int64)
