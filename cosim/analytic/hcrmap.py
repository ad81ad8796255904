"""HCRMap's closed-form layer model: equations 5 to 18 of seed 000, term by term.

Where the paper prints two forms, or leaves a quantity without a formula, the choice is a named
parameter; docs/analytic-models.md lists the readings and why each default was taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cosim.analytic.groups import LayerGroups, layer_groups, link_load, path_maximum, unit_maximum
from cosim.analytic.interface import LayerTimes
from cosim.analytic.parameters import Parameter, Parameters
from cosim.analytic.system import AnalyticSystem, FloatArray, IntArray, ModelNumbers
from cosim.config.errors import ConfigErrors

PAPER = "HCRMap: Pressure-Aware Hot-Expert Residency Mapping for 3.5D MoE Chiplet Inference (seed 000), Eq. 5-18"

#: Energy terms of Eq. 17, in its order; a tier of another name is accounted under its own.
ENERGY_TERMS = ("comp", "noc", "d2d", "sram", "hbm", "dram", "mig", "gate")

_DEFAULTS = Parameters(
    [
        Parameter(
            "layer_time",
            "eq15",
            "",
            "layer latency: 'eq15' takes max(compute, memory), 'eq14' adds all stages of a group and takes the "
            "slowest group",
            "Eq. 15 is the only closed form; Eq. 14 needs stage times recorded by the paper's simulator",
            choices=("eq15", "eq14"),
        ),
        Parameter(
            "communication",
            "per_class",
            "",
            "dispatch and gather: 'per_class' applies Eq. 8 to one traffic class each; 'eq8' takes T_net over all "
            "classes once, as the dispatch stage",
            "Eq. 15 names T_disp and T_gath and Eq. 12 shows the one-class form; T_net (Eq. 8) is used by no equation",
            choices=("per_class", "eq8"),
        ),
        Parameter(
            "route",
            "store_and_forward",
            "",
            "route time of a request: 'store_and_forward' pays D/B_u on every link, 'cut_through' on the slowest",
            "Eq. 7 sums D_h/B_u over the path",
            choices=("store_and_forward", "cut_through"),
        ),
        Parameter(
            "cores",
            "serial",
            "",
            "replicas of one chiplet: 'serial' run one after another on all cores, 'split' side by side on the "
            "integer core shares that minimise the slowest (Eq. 4)",
            "Eq. 4 splits the cores but gives no rule, Eq. 19 adds the times of a chiplet's replicas; "
            "the queue stage of Eq. 15 is empty without the latter",
            assumed=True,
            choices=("serial", "split"),
        ),
        Parameter(
            "weight_requests",
            "once",
            "",
            "bytes of the weight requests: 'once' reads a replica's fetch once and shares it among its groups, "
            "'per_group' reads it for every token group",
            "section 4.4 issues one request of D_wt(g,r) bytes per group and never defines D_wt; the decisions "
            "fetch a replica once per layer",
            assumed=True,
            choices=("once", "per_group"),
        ),
        Parameter(
            "striping",
            "tier",
            "",
            "backing of a replica: 'tier' stripes it over all banks of its memory, 'bank' puts it into one bank "
            "(expert number modulo banks)",
            "Eq. 1 names one bank per replica, into which no expert of Table 2 fits at Table 1's SRAM",
            assumed=True,
            choices=("tier", "bank"),
        ),
        Parameter("N_core", 16.0, "cores", "cores per compute chiplet", "Table 1", minimum=1.0, whole=True),
        Parameter("gather_ratio", 1.0, "1", "D_out / D_act of a group", "no figure: same width and precision", True),
        Parameter("T_gate", 0.0, "s", "gate stage of a layer", "no formula; scope routed starts after the gate", True),
        Parameter("T_combine", 0.0, "s", "combine stage", "no formula; scope routed ends with the gather", True),
        Parameter("epsilon_MAC", 1e-12, "J", "energy of one multiply-accumulate", "not printed", True),
        Parameter("epsilon_NoC", 1e-12, "J/B", "energy per byte and on-die link", "not printed", True),
        Parameter("epsilon_D2D", 4e-12, "J/B", "energy per byte and die-to-die link", "not printed", True),
        Parameter("epsilon_SRAM", 1.25e-12, "J/B", "SRAM access energy", "Table 1"),
        Parameter("epsilon_HBM", 31.8e-12, "J/B", "HBM access energy", "Table 1"),
        Parameter("epsilon_DRAM", 160e-12, "J/B", "DRAM access energy", "Table 1"),
        Parameter("E_gate", 0.0, "J", "gating energy of one token group (Eq. 18)", "not printed", True),
    ]
)


@dataclass(frozen=True)
class HCRMap:
    """Layer latency and energy of seed 000 on given decisions.

    Migration traffic does not enter: the decisions of a layer hold foreground requests only, so the
    class mig of Eq. 5 is zero and the physical and the weighted load of Eq. 6 are equal.
    """

    parameters: Parameters = _DEFAULTS
    paper: str = PAPER

    @property
    def name(self) -> str:
        """``hcrmap``, with the parameters that the user set."""
        return self.parameters.variant("hcrmap")

    @classmethod
    def with_parameters(cls, values: Mapping[str, object]) -> HCRMap:
        """The model with some parameters set by the user."""
        return cls(_DEFAULTS.override("hcrmap", values, {"N_core": ("cores", "split")}))

    def layer_times(self, decisions: pd.DataFrame, system: AnalyticSystem, model: ModelNumbers) -> LayerTimes:
        """Stages of Eq. 15 (or of the slowest group, Eq. 14) for every (seed, batch) of one layer.

        ``other`` holds T_net of Eq. 8 as 'net' and T_bank of Eq. 11 as 'bank'.
        """
        p = self.parameters
        groups = layer_groups(decisions, system)
        units = groups.unit_count

        dispatch_bytes = groups.bytes.astype(np.float64)
        gather_bytes = dispatch_bytes * p.number("gather_ratio")
        weight = self._weight_requests(groups, system)
        load = {
            "disp": link_load(system, units, groups.unit, groups.dispatch_pair, dispatch_bytes),
            "gath": link_load(system, units, groups.unit, groups.gather_pair, gather_bytes),
            "mem": link_load(system, units, weight.unit, weight.pair, weight.bytes),
        }
        physical = load["disp"] + load["gath"] + load["mem"]
        route = {
            "disp": self._route_time(system, groups.dispatch_pair, dispatch_bytes),
            "gath": self._route_time(system, groups.gather_pair, gather_bytes),
            "mem": self._route_time(system, weight.pair, weight.bytes),
        }

        # Eq. 8 on the links a request crosses: the layer's term is the maximum over its requests.
        bandwidth = system.link_bandwidth_Bps
        disp_g = np.maximum(
            path_maximum(system, groups.unit, groups.dispatch_pair, load["disp"] / bandwidth), route["disp"]
        )
        gath_g = np.maximum(
            path_maximum(system, groups.unit, groups.gather_pair, load["gath"] / bandwidth), route["gath"]
        )
        net = np.maximum.reduce(
            [
                (physical / bandwidth).max(axis=1, initial=0.0),
                unit_maximum(units, groups.unit, route["disp"]),
                unit_maximum(units, groups.unit, route["gath"]),
                unit_maximum(units, weight.unit, route["mem"]),
            ]
        )

        bank_r, bank = self._bank_times(groups, weight, system)
        mem_r = np.zeros(len(groups.replica_unit))
        np.maximum.at(
            mem_r,
            weight.replica,
            np.maximum(path_maximum(system, weight.unit, weight.pair, load["mem"] / bandwidth), route["mem"]),
        )
        mem_r = np.maximum(mem_r, bank_r)  # Eq. 12
        comp_r, queue_r = self._compute_times(groups, system, model)

        if p.choice("communication") == "eq8":
            disp_g = net[groups.unit]
            gath_g = np.zeros(len(groups.unit))
        gate, combine = p.number("T_gate"), p.number("T_combine")
        if p.choice("layer_time") == "eq15":
            comp = unit_maximum(units, groups.replica_unit, comp_r)
            mem = unit_maximum(units, groups.replica_unit, mem_r)
            stages = {
                "gate": np.full(units, gate),
                "dispatch": unit_maximum(units, groups.unit, disp_g),
                # Time by which the busiest chiplet outlasts the longest replica: queue + comp is its busy time.
                "queue": unit_maximum(units, groups.replica_unit, queue_r + comp_r) - comp,
                "memory": mem,
                "compute": comp,
                "gather": unit_maximum(units, groups.unit, gath_g),
                "combine": np.full(units, combine),
            }
            total = (
                stages["gate"]
                + stages["dispatch"]
                + stages["queue"]
                + np.maximum(comp, mem)
                + stages["gather"]
                + stages["combine"]
            )
        else:
            stages, total = self._slowest_group(groups, disp_g, queue_r, mem_r, comp_r, gath_g)
        return LayerTimes(
            units=groups.units,
            stages=stages,
            total=total,
            other={"net": net, "bank": bank},
            energy_J=self._energy(groups, weight, physical, system, model),
        )

    def _slowest_group(
        self,
        groups: LayerGroups,
        disp_g: FloatArray,
        queue_r: FloatArray,
        mem_r: FloatArray,
        comp_r: FloatArray,
        gath_g: FloatArray,
    ) -> tuple[dict[str, FloatArray], FloatArray]:
        """Eq. 14: stages of the group that completes last, and its completion time."""
        gate, combine = self.parameters.number("T_gate"), self.parameters.number("T_combine")
        ones = np.ones(len(groups.unit))
        per_group = {
            "gate": ones * gate,
            "dispatch": disp_g,
            "queue": queue_r[groups.replica],
            "memory": mem_r[groups.replica],
            "compute": comp_r[groups.replica],
            "gather": gath_g,
            "combine": ones * combine,
        }
        completion = np.zeros(len(groups.unit))
        for values in per_group.values():
            completion = completion + values
        total = unit_maximum(groups.unit_count, groups.unit, completion)
        candidates = np.flatnonzero(completion == total[groups.unit])
        _, first = np.unique(groups.unit[candidates], return_index=True)
        slowest = candidates[first]
        return {name: values[slowest] for name, values in per_group.items()}, total

    def _route_time(self, system: AnalyticSystem, pair: IntArray, load: FloatArray) -> FloatArray:
        """Eq. 7."""
        if self.parameters.choice("route") == "store_and_forward":
            per_byte = system.route_seconds_per_byte
        else:
            per_byte = system.route_slowest_seconds_per_byte
        return system.route_latency_s[pair] + load * per_byte[pair]

    def _weight_requests(self, groups: LayerGroups, system: AnalyticSystem) -> _WeightRequests:
        """One request per fetching replica, or one per group of it (section 4.4 read literally)."""
        fetching = groups.fetching()
        if self.parameters.choice("weight_requests") == "per_group":
            replica = groups.replica[groups.replica_fetch_bytes[groups.replica] > 0]
        else:
            replica = fetching
        node, chiplet = groups.replica_memory[replica], groups.replica_chiplet[replica]
        return _WeightRequests(
            replica=replica,
            unit=groups.replica_unit[replica],
            node=node,
            pair=node * system.endpoints + chiplet,
            bytes=groups.replica_fetch_bytes[replica].astype(np.float64),
        )

    def _bank_times(
        self, groups: LayerGroups, weight: _WeightRequests, system: AnalyticSystem
    ) -> tuple[FloatArray, FloatArray]:
        """Eq. 9 to 11: service time of each replica's backing banks, and the largest of a unit."""
        n = system.endpoints
        if self.parameters.choice("striping") == "tier":
            width, bank = 1, np.zeros(len(weight.replica), dtype=np.int64)
            bank_bandwidth = system.memory_bandwidth_Bps
        else:
            width = int(system.memory_banks.max())
            bank = groups.replica_expert[weight.replica] % system.memory_banks[weight.node]
            bank_bandwidth = system.memory_bandwidth_Bps / np.maximum(system.memory_banks, 1)
        key = (weight.unit * n + weight.node) * width + bank
        traffic = np.bincount(key, weights=weight.bytes, minlength=groups.unit_count * n * width)
        service = system.memory_latency_s[weight.node] + traffic[key] / bank_bandwidth[weight.node]  # Eq. 10
        per_replica = np.zeros(len(groups.replica_unit))
        np.maximum.at(per_replica, weight.replica, service)
        return per_replica, unit_maximum(groups.unit_count, weight.unit, service)

    def _compute_times(
        self, groups: LayerGroups, system: AnalyticSystem, model: ModelNumbers
    ) -> tuple[FloatArray, FloatArray]:
        """Eq. 13 per replica, and the time it waits for replicas before it on the same chiplet."""
        rate = system.macs_per_s[groups.replica_chiplet]
        ops = groups.replica_tokens * groups.replica_share * float(model.expert_macs_per_token)
        site = groups.replica_unit * system.endpoints + groups.replica_chiplet
        if self.parameters.choice("cores") == "serial":
            comp = ops / rate
            # Replicas are sorted by unit and chiplet: a running sum, less what ran before the site's first.
            before = np.cumsum(comp) - comp
            start = np.flatnonzero(np.diff(site, prepend=-1))
            sites = np.cumsum(np.diff(site, prepend=-1) != 0) - 1
            queue = np.maximum(before - before[start][sites], 0.0)
            return comp, queue
        cores = int(self.parameters.number("N_core"))
        share = _split_cores(ops, site, cores)
        return ops / (share / cores * rate), np.zeros(len(ops))

    def _energy(
        self,
        groups: LayerGroups,
        weight: _WeightRequests,
        physical: FloatArray,
        system: AnalyticSystem,
        model: ModelNumbers,
    ) -> dict[str, FloatArray]:
        """Eq. 17 and 18 in joules per unit."""
        p, units = self.parameters, groups.unit_count
        macs = groups.replica_tokens * groups.replica_share * float(model.expert_macs_per_token)
        compute = np.bincount(groups.replica_unit, weights=macs, minlength=units)
        d2d = system.link_is_d2d
        energy = {
            "comp": compute * p.number("epsilon_MAC"),
            "noc": physical[:, ~d2d].sum(axis=1) * p.number("epsilon_NoC"),
            "d2d": physical[:, d2d].sum(axis=1) * p.number("epsilon_D2D"),
        }
        known = {"sram": "epsilon_SRAM", "hbm": "epsilon_HBM", "dram": "epsilon_DRAM"}
        tiers = np.array([name.lower() for name in system.memory_tier])[weight.node]
        foreign = sorted(set(tiers.tolist()) - set(known))
        if foreign:
            raise ConfigErrors.single(
                f"memory tiers that the paper has an access energy for ({', '.join(known)})",
                ", ".join(map(repr, foreign)),
                path="analytic.hcrmap",
            )
        for tier, symbol in known.items():
            here = tiers == tier
            traffic = np.bincount(weight.unit[here], weights=weight.bytes[here], minlength=units)
            energy[tier] = traffic * p.number(symbol)
        energy["mig"] = np.zeros(units)
        energy["gate"] = np.bincount(groups.unit, minlength=units) * p.number("E_gate")
        return energy


@dataclass(frozen=True)
class _WeightRequests:
    """Requests of the class mem: one entry per request."""

    replica: IntArray
    unit: IntArray
    node: IntArray
    pair: IntArray
    bytes: FloatArray


def _split_cores(ops: FloatArray, site: IntArray, cores: int) -> IntArray:
    """Eq. 4: whole cores per replica, at least one each, so that the slowest replica of a site is fastest.

    Each further core goes to the replica that is slowest so far, which is optimal for a maximum.
    Raises ConfigErrors where a site has more active replicas than cores.
    """
    start = np.flatnonzero(np.diff(site, prepend=-1))
    active = np.diff(np.append(start, len(site)))
    if bool((active > cores).any()):
        raise ConfigErrors.single(
            "a core for each active replica of a chiplet (Eq. 4)",
            f"{int(active.max())} active replicas on one chiplet with {cores} cores",
            path="analytic.hcrmap.params.cores",
            suggestion="'serial' has no such limit",
        )
    share = np.ones(len(ops), dtype=np.int64)
    order = np.cumsum(np.diff(site, prepend=-1) != 0) - 1
    for spare in range(cores - 1):
        room = np.flatnonzero(active + spare < cores)
        if not len(room):
            break
        pace = ops / share
        slowest = np.zeros(len(start))
        np.maximum.at(slowest, order, pace)
        candidates = np.flatnonzero(pace == slowest[order])
        _, first = np.unique(order[candidates], return_index=True)
        share[candidates[first][room]] += 1
    return share
