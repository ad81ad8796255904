"""CoMoE-Chip's latency model (seed 003): a physical reading of its text, and a fitted reconstruction.

The printed text of seed 003 has lost its formulas. Section 3.5 still says what each term depends on;
``CoMoE`` builds those terms from named parameters. ``CoMoEReconstructed`` reproduces the means of
Table 4 with fitted constants and is marked so; nothing else in this package is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cosim.analytic.groups import LayerGroups, layer_groups, unit_maximum
from cosim.analytic.interface import LayerTimes
from cosim.analytic.parameters import Parameter, Parameters
from cosim.analytic.system import AnalyticSystem, FloatArray, IntArray, ModelNumbers
from cosim.config.errors import ConfigErrors

PAPER = "CoMoE-Chip: a chiplet architecture for expert reuse in MoE inference (seed 003), section 3.5"

#: Table 4 of seed 003: policy, mean latency (ms), expert loading (GB per layer batch), balance.
TABLE_4 = (
    ("static", 4.7417, 12.9540, 0.5156),
    ("hot_replication", 4.0355, 10.0345, 0.5091),
    ("transition_prefetch", 2.0671, 1.9765, 0.5097),
    ("comoe", 1.6207, 1.2448, 0.8040),
)

_NO_VALUE = "section 3.5 names the effect and prints no value"


def _share(name: str, meaning: str) -> Parameter:
    return Parameter(name, 1.0, "1", meaning, _NO_VALUE, True, minimum=1e-6, maximum=1.0)


_PHYSICAL = Parameters(
    [
        Parameter(
            "overlap",
            0.0,
            "1",
            "share of the shorter of weight loading and expert compute hidden under the longer",
            "Table 4: mean less load / (8 x 512 GB/s) is one constant, so its loads are not hidden",
            maximum=1.0,
        ),
        _share("d2d_efficiency", "effective share of a port's bandwidth"),
        _share("memory_efficiency", "effective share of a memory's peak bandwidth"),
        _share("matrix_utilisation", "matrix utilisation on top of the system's compute efficiency"),
        Parameter(
            "stream_discount",
            0.0,
            "1",
            "bandwidth lost per further concurrent weight stream: B / (1 + discount * (streams - 1))",
            _NO_VALUE,
            True,
        ),
        Parameter("gather_ratio", 1.0, "1", "bytes returned / bytes dispatched", "same width and precision", True),
        Parameter("T_route", 0.0, "s", "directory look-up and mapping per layer", _NO_VALUE, True),
    ]
)


@dataclass(frozen=True)
class CoMoE:
    """Per-chiplet effective-bandwidth model: dispatch, load, expert and reduction on the critical path.

    The network is what the paper makes of it: one effective bandwidth per port and a fixed latency per
    hop. Links inside the package are not loaded one by one.
    """

    parameters: Parameters = _PHYSICAL
    paper: str = PAPER

    @property
    def name(self) -> str:
        """``comoe``, with the parameters that the user set."""
        return self.parameters.variant("comoe")

    @classmethod
    def with_parameters(cls, values: Mapping[str, object]) -> CoMoE:
        """The model with some parameters set by the user."""
        return cls(_PHYSICAL.override("comoe", values))

    def layer_times(self, decisions: pd.DataFrame, system: AnalyticSystem, model: ModelNumbers) -> LayerTimes:
        """Stages of one layer for every (seed, batch)."""
        p = self.parameters
        groups = layer_groups(decisions, system)
        units, n = groups.unit_count, system.endpoints
        port = system.port_bandwidth_Bps * p.number("d2d_efficiency")

        sent = groups.bytes.astype(np.float64)
        dispatch = _transfer(system, groups, groups.dispatch_pair, sent, port)
        gather = _transfer(system, groups, groups.gather_pair, sent * p.number("gather_ratio"), port)

        fetching = groups.fetching()
        memory = np.zeros(units)
        if len(fetching):
            unit, node = groups.replica_unit[fetching], groups.replica_memory[fetching]
            chiplet, read = groups.replica_chiplet[fetching], groups.replica_fetch_bytes[fetching].astype(np.float64)
            stacked = system.stacked(chiplet, node)
            remote = ((node != chiplet) & ~stacked).astype(np.float64)
            drain = _per_endpoint(units, n, unit, node, read) / np.where(
                system.memory_bandwidth_Bps > 0, system.memory_bandwidth_Bps * p.number("memory_efficiency"), 1.0
            )
            streams_in = _per_endpoint(units, n, unit, chiplet, remote)
            streams_out = _per_endpoint(units, n, unit, node, remote)
            arrive = _per_endpoint(units, n, unit, chiplet, read * remote) / port * self._discount(streams_in)
            leave = _per_endpoint(units, n, unit, node, read * remote) / port * self._discount(streams_out)
            way = np.where(stacked, 0.0, system.route_latency_s[node * n + chiplet])
            fixed = system.memory_latency_s[node] + way
            near = _per_endpoint(units, n, unit[stacked], chiplet[stacked], read[stacked]) / (
                np.where(system.near_bandwidth_Bps > 0, system.near_bandwidth_Bps, 1.0) if bool(stacked.any()) else 1.0
            )
            slowest = np.maximum.reduce([drain, arrive, leave, near]).max(axis=1)
            memory = unit_maximum(units, unit, fixed) + slowest

        macs = groups.replica_tokens * groups.replica_share * float(model.expert_macs_per_token)
        work = _per_endpoint(units, n, groups.replica_unit, groups.replica_chiplet, macs)
        rate = np.where(system.macs_per_s > 0, system.macs_per_s * p.number("matrix_utilisation"), 1.0)
        compute = (work / rate).max(axis=1)

        shown = np.maximum(compute, memory) + (1.0 - p.number("overlap")) * np.minimum(compute, memory)
        gate = np.full(units, p.number("T_route"))
        return LayerTimes(
            units=groups.units,
            stages={"gate": gate, "dispatch": dispatch, "memory": memory, "compute": compute, "gather": gather},
            total=gate + dispatch + shown + gather,
        )

    def _discount(self, streams: FloatArray) -> FloatArray:
        extra = np.maximum(streams - 1.0, 0.0)
        return 1.0 + self.parameters.number("stream_discount") * extra


_FITTED = "least squares of the relative error of the four means of Table 4"

_RECONSTRUCTED = Parameters(
    [
        Parameter("chiplets", 8.0, "1", "expert chiplets that load side by side", "Table 3", minimum=1.0),
        Parameter(
            "D2D",
            512e9,
            "B/s",
            "effective die-to-die bandwidth of one chiplet",
            "Table 3, which calls it aggregate; only per chiplet does it fit Table 4",
            minimum=1.0,
        ),
        Parameter("rest_fixed", 0.852355e-3, "s", "part of T_rest that balance does not change", _FITTED),
        Parameter("rest_imbalance", 0.373416e-3, "s", "T_rest = rest_fixed + rest_imbalance / balance", _FITTED),
        Parameter("tokens", 64.0, "tokens", "micro-batch of the fit", "Table 3", minimum=1.0),
        Parameter("top_k", 2.0, "1", "experts per token of the fit", "Table 3", minimum=1.0),
        Parameter(
            "elsewhere",
            "refuse",
            "",
            "decisions that are not the fit's configuration: 'refuse' or 'extrapolate'",
            "the constants hold for Table 4 only",
            choices=("refuse", "extrapolate"),
        ),
    ]
)


@dataclass(frozen=True)
class CoMoEReconstructed:
    """Fitted reconstruction of Table 4: T = T_rest(balance) + load / (chiplets * D2D).

    The constants are fitted to the paper's results and mean nothing outside Table 4's configuration
    (64 tokens, top-2, 8 expert chiplets): other decisions are refused unless ``elsewhere`` says so.
    """

    parameters: Parameters = _RECONSTRUCTED
    paper: str = PAPER + "; fitted reconstruction of Table 4"

    @property
    def name(self) -> str:
        """``comoe_reconstructed``, with the parameters that the user set."""
        return self.parameters.variant("comoe_reconstructed")

    @classmethod
    def with_parameters(cls, values: Mapping[str, object]) -> CoMoEReconstructed:
        """The model with some parameters set by the user."""
        read_only_with = {"tokens": ("elsewhere", "refuse"), "top_k": ("elsewhere", "refuse")}
        return cls(_RECONSTRUCTED.override("comoe_reconstructed", values, read_only_with))

    def mean_latency_s(self, load_bytes: FloatArray, balance: FloatArray) -> FloatArray:
        """The formula itself: seconds from loaded bytes and balance (mean / max chiplet work)."""
        return self._rest(balance) + self._load(load_bytes)

    def layer_times(self, decisions: pd.DataFrame, system: AnalyticSystem, model: ModelNumbers) -> LayerTimes:
        """Times of one layer; balance is the mean over the max of the expert chiplets' token counts."""
        p = self.parameters
        groups = layer_groups(decisions, system)
        units, n = groups.unit_count, system.endpoints
        tokens = _per_endpoint(units, n, groups.unit, groups.dispatch_pair % n, groups.tokens.astype(np.float64))
        picks = p.number("tokens") * p.number("top_k")
        used = int((tokens.sum(axis=0) > 0).sum())
        foreign = bool((tokens.sum(axis=1) != picks).any()) or used > p.number("chiplets")
        if foreign and p.choice("elsewhere") == "refuse":
            raise ConfigErrors.single(
                f"the fit's {picks:g} token-expert pairs per layer and batch "
                f"on {p.number('chiplets'):g} expert chiplets",
                f"{tokens.sum(axis=1).max():g} pairs on {used}",
                path="analytic.comoe_reconstructed",
                suggestion="use 'comoe', or set elsewhere: extrapolate",
            )
        balance = tokens.sum(axis=1) / p.number("chiplets") / tokens.max(axis=1)
        loaded = ~system.stacked(groups.replica_chiplet, groups.replica_memory)  # resident pages are no load
        fetched = np.bincount(
            groups.replica_unit[loaded], weights=groups.replica_fetch_bytes[loaded], minlength=units
        ).astype(np.float64)
        memory, compute = self._load(fetched), self._rest(balance)
        return LayerTimes(groups.units, {"memory": memory, "compute": compute}, memory + compute)

    def _rest(self, balance: FloatArray) -> FloatArray:
        return self.parameters.number("rest_fixed") + self.parameters.number("rest_imbalance") / balance

    def _load(self, load_bytes: FloatArray) -> FloatArray:
        return load_bytes / (self.parameters.number("chiplets") * self.parameters.number("D2D"))


def _per_endpoint(units: int, endpoints: int, unit: IntArray, endpoint: IntArray, values: FloatArray) -> FloatArray:
    flat = np.bincount(unit * endpoints + endpoint, weights=values, minlength=units * endpoints)
    return flat.astype(np.float64).reshape(units, endpoints)


def _transfer(
    system: AnalyticSystem, groups: LayerGroups, pair: IntArray, load: FloatArray, port: FloatArray
) -> FloatArray:
    """Longest fixed latency plus the busiest port, in or out; a group at home moves nothing."""
    n, units = system.endpoints, groups.unit_count
    source, target = pair // n, pair % n
    away = np.where(source != target, load, 0.0)
    out = _per_endpoint(units, n, groups.unit, source, away) / port
    into = _per_endpoint(units, n, groups.unit, target, away) / port
    fixed = unit_maximum(units, groups.unit, system.route_latency_s[pair])
    busiest: FloatArray = np.maximum(out, into).max(axis=1)
    return fixed + busiest
