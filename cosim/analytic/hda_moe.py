"""HDA-MoE's latency model (seed 002): equations 1 to 4 on the decisions that the simulator executes.

A layer takes compute time (the most loaded node, Eq. 1) plus communication time (the busiest node's activations over
its link bandwidth, Eq. 2, times gamma, Eq. 3; gamma is 1 where every expert is spread over all nodes and a ring
all-reduce sums up, Eq. 4). Memory has no equation; its time is reported beside the total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cosim.analytic.groups import LayerGroups, layer_groups
from cosim.analytic.hda_moe_equations import OPERATIONS, expert_operations
from cosim.analytic.interface import LayerTimes
from cosim.analytic.parameters import Parameter, Parameters
from cosim.analytic.system import AnalyticSystem, FloatArray, IntArray, ModelNumbers
from cosim.config.errors import ConfigErrors

PAPER = "HDA-MoE: hybrid parallelism and dynamic scheduling with 3D near-memory processing (seed 002), Eq. 1-4"

#: Bytes of an element of a partial sum.
PARTIAL_SUMS = {"FP32": 4, "FP16": 2}

_DEFAULTS = Parameters(
    [
        Parameter(
            "operations",
            "3hI",
            "",
            "operations of one token in one expert: '3hI' counts up, gate and down projection, '2hI' two of them",
            "text below Eq. 1; HD-MoE's text and the figures of both repositories are 2hI",
            choices=tuple(OPERATIONS),
        ),
        Parameter(
            "flop_per_operation",
            1.0,
            "FLOP",
            "node operations that one of Eq. 1 takes; a multiply-accumulate is 2",
            "the published code divides 2hI by the TFLOPS figure as it is",
            minimum=1.0,
            maximum=2.0,
        ),
        Parameter(
            "partial_sums",
            "FP32",
            "",
            "number format of what crosses the links",
            "Eq. 2: a volume of 4 f_g B h 'assuming FP32 representation'",
            choices=tuple(PARTIAL_SUMS),
        ),
        Parameter(
            "gamma",
            1.0,
            "1",
            "simulated over node-traffic time, Eq. 3",
            "refitted for every topology and bandwidth, no value printed; 'cosim place search' fits it",
            assumed=True,
            minimum=1e-3,
        ),
        Parameter(
            "passes",
            2.0,
            "1",
            "times the volume of Eq. 2 moves: 1 gather only, 2 also the dispatch before it",
            "the published code doubles every communication time; Eq. 2 prints one pass",
            minimum=1.0,
            maximum=2.0,
            whole=True,
        ),
        Parameter(
            "co_activation",
            "exact",
            "",
            "tokens that touch a node: 'exact' counts a token once however many of its experts are there, 'disjoint' "
            "once per expert",
            "the double indicator of Eq. 2",
            choices=("exact", "disjoint"),
        ),
    ]
)


@dataclass(frozen=True)
class HDAMoE:
    """Eq. 1 plus Eq. 2 and 3 (Eq. 4 under tensor parallelism), per layer and batch."""

    parameters: Parameters = _DEFAULTS
    paper: str = PAPER

    @property
    def name(self) -> str:
        """``hda_moe``, with the parameters that the user set."""
        return self.parameters.variant("hda_moe")

    @classmethod
    def with_parameters(cls, values: Mapping[str, object]) -> HDAMoE:
        """The model with some parameters set by the user."""
        return cls(_DEFAULTS.override("hda_moe", values))

    def layer_times(self, decisions: pd.DataFrame, system: AnalyticSystem, model: ModelNumbers) -> LayerTimes:
        """Compute, dispatch and gather of one layer for every (seed, batch).

        Raises ConfigErrors where the decisions do not say which tokens share a node and ``co_activation`` is exact.
        """
        p = self.parameters
        groups = layer_groups(decisions, system)
        operations = expert_operations(model.hidden, model.moe_intermediate, p.choice("operations"))
        flop = operations * p.number("flop_per_operation")
        work = _per_node(groups, system, groups.replica_tokens * groups.replica_share * flop)
        rate = np.where(system.compute_flops > 0, system.compute_flops * system.compute_efficiency, 1.0)
        compute = (work / rate).max(axis=1)

        volume = model.hidden * PARTIAL_SUMS[p.choice("partial_sums")]
        tokens = self._node_tokens(groups, system)
        one_pass = (tokens * volume / system.port_bandwidth_Bps).max(axis=1)
        one_pass = one_pass * np.where(_spread_over_all(groups, system), 1.0, p.number("gamma"))
        gather = one_pass
        dispatch = one_pass * (p.number("passes") - 1.0)
        return LayerTimes(
            units=groups.units,
            stages={"dispatch": dispatch, "compute": compute, "gather": gather},
            total=dispatch + compute + gather,
            other={"memory": _memory_time(groups, system)},
        )

    def _node_tokens(self, groups: LayerGroups, system: AnalyticSystem) -> FloatArray:
        """Tokens that touch each node, shape (units, endpoints)."""
        counted = groups.tokens
        if self.parameters.choice("co_activation") == "exact":
            if groups.first_tokens is None:
                raise ConfigErrors.single(
                    "decisions with the column first_tokens, which says how many tokens of a group no other group "
                    "brings to the same chiplet",
                    "none",
                    path="analytic.hda_moe",
                    suggestion="set co_activation: disjoint to count a token once per expert",
                )
            counted = groups.first_tokens
        n = system.endpoints
        key = groups.unit * n + groups.dispatch_pair % n
        flat = np.bincount(key, weights=counted.astype(np.float64), minlength=groups.unit_count * n)
        return flat.astype(np.float64).reshape(groups.unit_count, n)


def _per_node(groups: LayerGroups, system: AnalyticSystem, values: FloatArray) -> FloatArray:
    n = system.endpoints
    key = groups.replica_unit * n + groups.replica_chiplet
    flat = np.bincount(key, weights=values, minlength=groups.unit_count * n)
    return flat.astype(np.float64).reshape(groups.unit_count, n)


def _spread_over_all(groups: LayerGroups, system: AnalyticSystem) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Units in which every expert that is used runs on every computing node: tensor parallelism."""
    computing = int((system.compute_flops > 0).sum())
    pairs: IntArray = np.stack([groups.replica_unit, groups.replica_expert])
    experts = np.unique(pairs, axis=1)
    per_unit = np.bincount(experts[0], minlength=groups.unit_count)
    placed = np.bincount(groups.replica_unit, minlength=groups.unit_count)
    return np.asarray(placed == per_unit * computing)


def _memory_time(groups: LayerGroups, system: AnalyticSystem) -> FloatArray:
    """The busiest memory's weight reads over its bandwidth: figure 13's third part, for which no equation stands."""
    n, units = system.endpoints, groups.unit_count
    fetching = groups.fetching()
    if not len(fetching):
        return np.zeros(units)
    key = groups.replica_unit[fetching] * n + groups.replica_memory[fetching]
    read = groups.replica_fetch_bytes[fetching].astype(np.float64)
    flat = np.bincount(key, weights=read, minlength=units * n).astype(np.float64).reshape(units, n)
    bandwidth = np.where(system.memory_bandwidth_Bps > 0, system.memory_bandwidth_Bps, 1.0)
    return np.asarray((flat / bandwidth).max(axis=1), dtype=np.float64)
