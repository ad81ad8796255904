"""DeepSeek's expert-parallel load balancer (EPLB): how many replicas each expert gets, and which rank holds them.

After https://github.com/deepseek-ai/EPLB (MIT licence, commit d52c72d), whose published example the tests repeat. Three
steps: groups of experts are packed onto nodes; every node gives its spare slots one by one to the expert with the
largest load per replica; the replicas of a node are packed onto its GPUs. Packing goes from the heaviest item to the
lightest, each into the lightest pack that has room; equals in their order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigError, ConfigErrors

__all__ = ["BalancedExperts", "rebalance_experts"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BalancedExperts:
    """Slots of a layer are numbered GPU by GPU, those of a node together.

    Attributes:
        phy2log: expert in each slot, int64, shape (layers, slots).
        log2phy: slots of each expert, padded with -1, int64, shape (layers, experts, most replicas).
        logcnt: replicas of each expert, int64, shape (layers, experts).
    """

    phy2log: IntArray
    log2phy: IntArray
    logcnt: IntArray


def _packed(load: FloatArray, packs: int) -> tuple[IntArray, IntArray]:
    """Items of each row into ``packs`` packs of equal count: pack of each item, and its place there."""
    rows, items = load.shape
    room = items // packs
    pack, place = np.zeros((rows, items), dtype=np.int64), np.zeros((rows, items), dtype=np.int64)
    for row in range(rows):
        held, weight = np.zeros(packs, dtype=np.int64), np.zeros(packs)
        order = np.arange(items) if room == 1 else np.argsort(-load[row], kind="stable")
        for number, item in enumerate(order.tolist()):
            open_packs = np.flatnonzero(held < room)
            target = number if room == 1 else int(open_packs[np.argmin(weight[open_packs])])
            pack[row, item], place[row, item] = target, held[target]
            held[target] += 1
            weight[target] += load[row, item]
    return pack, place


def _replicated(load: FloatArray, slots: int) -> tuple[IntArray, IntArray, IntArray]:
    """Every row's experts into ``slots`` slots: expert of each slot, which of its replicas that is, replicas."""
    rows, experts = load.shape
    expert = np.tile(np.arange(slots, dtype=np.int64), (rows, 1))
    replica = np.zeros((rows, slots), dtype=np.int64)
    count = np.ones((rows, experts), dtype=np.int64)
    every = np.arange(rows)
    for slot in range(experts, slots):
        heaviest = np.argmax(load / count, axis=1)
        expert[:, slot], replica[:, slot] = heaviest, count[every, heaviest]
        count[every, heaviest] += 1
    return expert, replica, count


def _inverse(permutation: IntArray) -> IntArray:
    found = np.empty_like(permutation)
    np.put_along_axis(found, permutation, np.broadcast_to(np.arange(permutation.shape[1]), permutation.shape), axis=1)
    return found


def _problems(load: FloatArray, replicas: int, groups: int, nodes: int, gpus: int) -> list[tuple[str, str, str]]:
    if load.ndim != 2 or not load.size:
        return [("load", "an array [layer, expert]", f"one of shape {load.shape}")]
    experts = load.shape[1]
    found = [
        (name, "a positive number", str(value))
        for name, value in (("replicas", replicas), ("groups", groups), ("nodes", nodes), ("gpus", gpus))
        if value < 1
    ]
    if not np.isfinite(load).all() or (load < 0).any():
        found.append(("load", "finite loads that are not negative", "others"))
    if found:
        return found
    if replicas < experts:
        found.append(("replicas", f"at least one slot for each of {experts} experts", str(replicas)))
    if replicas % gpus:
        found.append(("replicas", f"a multiple of {gpus} GPUs", str(replicas)))
    if experts % groups:
        found.append(("groups", f"a divisor of {experts} experts", str(groups)))
    if gpus % nodes:
        found.append(("nodes", f"a divisor of {gpus} GPUs", str(nodes)))
    return found


def rebalance_experts(
    load: npt.ArrayLike, replicas: int, *, groups: int = 1, nodes: int = 1, gpus: int
) -> BalancedExperts:
    """Replicas of every layer's experts and their GPUs, for a load that was measured.

    Args:
        load: tokens of each expert, shape (layers, experts).
        replicas: slots in all, the first of each expert included.
        groups: expert groups of the model that are kept together on a node (``num_groups``).
        nodes: with fast links inside. Where the groups cannot be dealt evenly to them, all GPUs are one node.
        gpus: ranks in all; each gets ``replicas / gpus`` slots.

    Raises:
        ConfigErrors: sizes that do not divide each other, loads that are none.
    """
    weight = np.asarray(load, dtype=np.float64)
    problems = _problems(weight, replicas, groups, nodes, gpus)
    if problems:
        raise ConfigErrors(ConfigError("", None, None, path, expected, got) for path, expected, got in problems)
    if groups % nodes:
        groups = nodes = 1
    layers, experts = weight.shape
    of_group, of_node = experts // groups, experts // nodes
    # experts are renumbered so that those of a node stand together
    pack, place = _packed(weight.reshape(layers, groups, of_group).sum(axis=2), nodes)
    start = (pack * (groups // nodes) + place) * of_group
    renumbered = (start[:, :, None] + np.arange(of_group)).reshape(layers, experts)
    original = _inverse(renumbered)
    by_node = np.take_along_axis(weight, original, axis=1).reshape(layers * nodes, of_node)
    expert, replica, count = _replicated(by_node, replicas // nodes)
    each = np.take_along_axis(by_node / count, expert, axis=1)
    pack, place = _packed(each, gpus // nodes)
    slot = _inverse(pack * (replicas // gpus) + place)
    inside = np.take_along_axis(expert, slot, axis=1).reshape(layers, nodes, -1)
    numbered = (inside + np.arange(0, experts, of_node)[None, :, None]).reshape(layers, replicas)
    phy2log = np.take_along_axis(original, numbered, axis=1)
    which = np.take_along_axis(replica, slot, axis=1).reshape(layers, replicas)
    logcnt = np.take_along_axis(count.reshape(layers, experts), renumbered, axis=1)
    log2phy = np.full((layers, experts, int(logcnt.max())), -1, dtype=np.int64)
    for layer in range(layers):
        log2phy[layer, phy2log[layer], which[layer]] = np.arange(replicas)
    return BalancedExperts(phy2log, log2phy, logcnt)
