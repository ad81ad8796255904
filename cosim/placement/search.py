"""Algorithm 2 of HDA-MoE (seed 002): Node Balance and Link Balance in turn, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cosim.analytic.hda_moe_equations import compute_time_s, fit_gamma, hosts, node_tokens, node_traffic_time_s
from cosim.link.simulator import LinkSimulator
from cosim.placement.activation import Activation
from cosim.placement.families import expert_parallel
from cosim.placement.link_balance import EVALUATIONS, LinkBalance, link_balance, one_pass_s
from cosim.placement.node_balance import NodeBalance, NodeCosts, node_balance
from cosim.placement.shares import ExpertShares, FloatArray, IntArray

__all__ = ["HybridSearch", "SearchOptions", "expert_parallel_gamma", "hybrid_search"]


@dataclass(frozen=True)
class SearchOptions:
    """How far the search goes.

    rounds:      Node Balance and Link Balance at most, each with the gamma of the round before.
    evaluations: link simulations of one Link Balance; 0: no map is searched (the ablation without Link Balance).
    node_limit, gap, coverage, smallest_share, trials: as of ``node_balance``.
    seed:        of all draws.
    """

    rounds: int = 2
    evaluations: int = EVALUATIONS
    node_limit: int = 200
    gap: float = 0.005
    coverage: float = 0.95
    smallest_share: float = 0.02
    trials: int = 400
    most_kinds: int = 700
    seed: int = 1


@dataclass(frozen=True, eq=False)
class HybridSearch:
    """The placement and a line of report per layer; objective_s: compute plus all passes at the link level, summed."""

    placement: ExpertShares
    report: Sequence[str]
    objective_s: float


def hybrid_search(
    layers: Mapping[int, Activation],
    nodes: int,
    costs: NodeCosts,
    token_bytes: float,
    simulator: LinkSimulator,
    options: SearchOptions | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> HybridSearch:
    """Places every layer.

    A round solves Node Balance with the present gamma, searches the map, and measures compute plus communication at the
    link level; the measured communication over Eq. 2 is the next round's gamma. The best round by the measured sum is
    kept; the first gamma is ``costs.gamma``.

    Args:
        layers: MoE layer → its frequencies in the profile.
        nodes: logical nodes, as many as the topology's endpoints.
        costs: of a node.
        token_bytes: B · h · element bytes.
        simulator: link level.
        progress: called with layers done and layers.

    Raises:
        ConfigErrors: from either balance, naming the layer.
    """
    chosen = options or SearchOptions()
    shares: list[FloatArray] = []
    maps: list[IntArray] = []
    report: list[str] = []
    total = 0.0
    for done, (number, found) in enumerate(layers.items()):
        best: tuple[float, NodeBalance, LinkBalance | None, IntArray, float] | None = None
        gamma = costs.gamma
        mapping: IntArray = np.arange(nodes, dtype=np.int64)
        for _ in range(max(1, chosen.rounds)):
            node = node_balance(
                found,
                nodes,
                replace(costs, gamma=gamma),
                coverage=chosen.coverage,
                smallest_share=chosen.smallest_share,
                node_limit=chosen.node_limit,
                gap=chosen.gap,
                trials=chosen.trials,
                most_kinds=chosen.most_kinds,
            )
            link: LinkBalance | None = None
            if chosen.evaluations:
                link = link_balance(
                    node.shares,
                    found,
                    token_bytes,
                    simulator,
                    evaluations=chosen.evaluations,
                    seed=chosen.seed + number,
                )
                mapping, one_pass = link.mapping, link.end_s
            else:
                one_pass = one_pass_s(node.shares, found, mapping, token_bytes, simulator)
            compute = float(compute_time_s(node.shares, found.expert, costs.compute_s, 1.0))
            value = compute + costs.passes * one_pass
            tokens = node_tokens(hosts(node.shares), found.groups, found.group)
            proxy = node_traffic_time_s(tokens, 1, costs.traffic_s, 1.0)
            if best is None or value < best[0] * (1 - 1e-6):
                best = (value, node, link, mapping, gamma)
            elif best is not None:
                break
            measured = one_pass / proxy if proxy > 0 else gamma
            if abs(measured - gamma) <= 0.01 * gamma:
                break
            gamma = measured
        assert best is not None
        value, node, link, mapping, gamma = best
        total += value
        shares.append(node.shares)
        maps.append(mapping)
        searched = f"; {link}" if link is not None else ""
        report.append(f"layer {number}: gamma {gamma:.3f}; {node.report}{searched}; {value * 1e6:.3f} us in all")
        if progress is not None:
            progress(done + 1, len(layers))
    placement = ExpertShares(np.stack(shares), np.stack(maps), "hybrid search")
    return HybridSearch(placement, report, total)


def expert_parallel_gamma(
    found: Activation, nodes: int, traffic_s: float, token_bytes: float, simulator: LinkSimulator, *, seed: int = 1
) -> float:
    """A first gamma (Eq. 3) of a topology: expert parallelism under 12 drawn maps at three batch sizes.

    The published script samples the same way, one map and 191 batch sizes, and frees the line from the origin.
    """
    shares = expert_parallel(1, found.experts, nodes).shares[0]
    tokens = node_tokens(hosts(shares), found.groups, found.group)
    draws = np.random.default_rng(seed)
    proxies, simulated = [], []
    for _ in range(12):
        mapping = draws.permutation(nodes).astype(np.int64)
        for scale in (0.5, 1.0, 2.0):
            proxies.append(scale * node_traffic_time_s(tokens, 1, traffic_s, 1.0))
            simulated.append(one_pass_s(shares, found, mapping, scale * token_bytes, simulator))
    return fit_gamma(np.array(proxies), np.array(simulated)).gamma
