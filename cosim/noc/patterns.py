"""Synthetic traffic patterns: who sends to whom.

Definitions follow BookSim2; the bit patterns work on the bits of the node id, tornado and neighbor on coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cosim.config.errors import Problems

__all__ = ["PATTERNS", "Pattern", "read_pattern"]


@dataclass(frozen=True)
class Pattern:
    """Destinations: a permutation, or weighted nodes, or a set per node, or (all empty) any node alike.

    `source_sets` are the nodes that send to each node, to be summed on their way.
    """

    name: str
    permutation: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    dest_sets: tuple[tuple[int, ...], ...] = ()
    source_sets: tuple[tuple[int, ...], ...] = ()


def _bits(nodes: int) -> int | None:
    return nodes.bit_length() - 1 if nodes & (nodes - 1) == 0 else None


def _transpose(node: int, bits: int) -> int:
    half = bits // 2
    low = node & ((1 << half) - 1)
    return (low << (bits - half)) | (node >> half)


def _shuffle(node: int, bits: int) -> int:
    return ((node << 1) & ((1 << bits) - 1)) | (node >> (bits - 1)) if bits else node


def _bit_complement(node: int, bits: int) -> int:
    return node ^ ((1 << bits) - 1)


def _bit_reversal(node: int, bits: int) -> int:
    return int(format(node, f"0{bits}b")[::-1], 2) if bits else node


BIT_PATTERNS: dict[str, Callable[[int, int], int]] = {
    "transpose": _transpose,
    "shuffle": _shuffle,
    "bit_complement": _bit_complement,
    "bit_reversal": _bit_reversal,
}
SHIFT_PATTERNS: dict[str, Callable[[int], int]] = {
    "tornado": lambda k: (k + 1) // 2 - 1,
    "neighbor": lambda k: 1 % k,
}
PATTERNS = ("uniform", *BIT_PATTERNS, *SHIFT_PATTERNS, "hotspot", "multicast", "reduction")


def _shifted(node: int, shape: Sequence[int], shift: Callable[[int], int]) -> int:
    dest, stride = 0, 1
    for k in shape:
        coordinate = (node // stride) % k
        dest += stride * ((coordinate + shift(k)) % k)
        stride *= k
    return dest


def _hotspot(given: Mapping[str, Any], nodes: int, problems: Problems) -> Pattern:
    listed = given.get("nodes")
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        problems.add("pattern.nodes", "the list of hotspot nodes", repr(listed))
        return Pattern("hotspot")
    found = [problems.integer(f"pattern.nodes.{i}", n, 0, nodes - 1) for i, n in enumerate(listed)]
    weights = given.get("weights", [1] * len(listed))
    if not isinstance(weights, Sequence) or isinstance(weights, str) or len(weights) != len(listed):
        problems.add("pattern.weights", f"one weight per hotspot node ({len(listed)})", repr(weights))
        return Pattern("hotspot")
    heavy = [problems.integer(f"pattern.weights.{i}", w, 1, 1 << 32) for i, w in enumerate(weights)]
    return Pattern("hotspot", (), tuple(n or 0 for n in found), tuple(w or 1 for w in heavy))


def _sets(
    given: Mapping[str, Any], nodes: int, key: str, members_are: str, problems: Problems
) -> tuple[tuple[int, ...], ...]:
    """`sets`: lists of nodes by the node named `key`, per node."""
    sets = given.get("sets")
    if not isinstance(sets, Mapping) or not sets:
        expected = f"{members_are} of each {key}, as {{{key}: [{members_are}]}}"
        problems.add("pattern.sets", expected, repr(sets))
        return ()
    found: list[tuple[int, ...]] = [()] * nodes
    for source, members in sets.items():
        place = f"pattern.sets.{source}"
        if isinstance(source, bool) or not isinstance(source, int) or not 0 <= source < nodes:
            problems.add("pattern.sets", f"a {key} from 0 to {nodes - 1}", repr(source))
        elif not isinstance(members, Sequence) or isinstance(members, str) or not members:
            problems.add(place, "a list of nodes", repr(members))
        else:
            known = [problems.integer(f"{place}.{i}", node, 0, nodes - 1) for i, node in enumerate(members)]
            if len(set(known)) != len(known):
                problems.add(place, "every node once", repr(members))
            found[source] = tuple(sorted(node or 0 for node in known))
    return tuple(found)


def _reduction(given: Mapping[str, Any], nodes: int, problems: Problems) -> Pattern:
    sets = _sets(given, nodes, "node", "sources", problems)
    owner: dict[int, int] = {}
    for node, sources in enumerate(sets):
        for source in sources:
            if source in owner:
                expected = f"sources of one node each (node {source} sends for node {owner[source]})"
                problems.add(f"pattern.sets.{node}", expected, repr(list(sources)))
            owner[source] = node
    return Pattern("reduction", source_sets=sets)


def read_pattern(pattern: str | Mapping[str, Any], nodes: int, shape: Sequence[int]) -> Pattern:
    """The destinations that a pattern means on a network.

    Args:
        pattern: a name of `PATTERNS`, or {"kind": name} with the pattern's own keys
            (hotspot: `nodes`, and `weights`, equal when absent; multicast and reduction: `sets`).
        nodes: number of nodes.
        shape: nodes per dimension; empty when the network has no coordinates.

    Raises:
        ConfigErrors: an unknown pattern, or one that this network cannot carry.
    """
    problems = Problems()
    given: Mapping[str, Any] = {"kind": pattern} if isinstance(pattern, str) else pattern
    if not isinstance(given, Mapping):
        problems.add("pattern", "a pattern name or a mapping with kind", repr(pattern))
        problems.raise_if_any()
    place = "pattern" if isinstance(pattern, str) else "pattern.kind"
    kind = problems.choice(place, given.get("kind"), PATTERNS)
    own = {
        "hotspot": ("nodes", "weights"),
        "multicast": ("sets",),
        "reduction": ("sets",),
        None: ("nodes", "weights", "sets"),
    }
    problems.unknown_keys("pattern", given, ("kind", *own.get(kind, ())))
    result = Pattern(kind or "")
    if kind == "multicast":
        result = Pattern("multicast", dest_sets=_sets(given, nodes, "source", "nodes", problems))
    if kind == "reduction":
        result = _reduction(given, nodes, problems)
    if kind == "hotspot":
        result = _hotspot(given, nodes, problems)
    elif kind in BIT_PATTERNS:
        bits = _bits(nodes)
        if bits is None:
            problems.add(place, f"a power of two of nodes ({kind} permutes node id bits)", str(nodes))
        elif kind == "transpose" and bits % 2:
            problems.add(place, "an even number of node id bits for transpose", f"{bits} ({nodes} nodes)")
        else:
            result = Pattern(kind, tuple(BIT_PATTERNS[kind](node, bits) for node in range(nodes)))
    elif kind in SHIFT_PATTERNS:
        if not shape:
            problems.add(place, "a mesh or torus with one node per router", f"{kind} on another network")
        else:
            result = Pattern(kind, tuple(_shifted(node, shape, SHIFT_PATTERNS[kind]) for node in range(nodes)))
    problems.raise_if_any()
    return result
