"""What all runs of an experiment share: trace parts, batches per seed, profile, rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.config.errors import ConfigErrors
from cosim.config.units import BYTES, format_quantity
from cosim.policy.base import Profile
from cosim.policy.delivery import Delivery
from cosim.policy.registry import make_policy
from cosim.policy.tenants import TenantLedger, TenantLimits
from cosim.run.memory_channel import MemoryChannel
from cosim.run.power_cap import power_cap_problem
from cosim.system import LoadedExperiment, System
from cosim.trace import RoutingTrace, load, zipf_markov
from cosim.validate.sampling import stratified_sample
from cosim.workload.admission import QueueQuotas
from cosim.workload.batch import batches
from cosim.workload.batch_parts import Parts, resolve_parts
from cosim.workload.lowering import WorkRates

if TYPE_CHECKING:
    from cosim.config.schema_experiment import ExperimentSpec, PartSpec
    from cosim.config.schema_model import ModelSpec
    from cosim.policy.base import Policy

__all__ = ["Setup", "part_text"]


def part_text(part: PartSpec | str) -> str:
    """A part of a trace in the words of its file: ``requests 0-63``, ``all``, ``oracle``."""
    if isinstance(part, str):
        return part
    return f"requests {part.requests}" if part.requests is not None else f"rows {part.rows}"


def _selector(part: PartSpec | str) -> str | dict[str, str]:
    if isinstance(part, str):
        return part
    if part.requests is not None:
        named = {"requests": part.requests, "positions": part.positions}
        return {key: str(one) for key, one in named.items() if one is not None and one.ranges is not None} or "all"
    return {"rows": str(part.rows)} if part.rows is not None and part.rows.ranges is not None else "all"


@dataclass(frozen=True)
class Setup:
    """A checked experiment with its trace read; batches are made on demand."""

    loaded: LoadedExperiment

    @property
    def spec(self) -> ExperimentSpec:
        """The experiment."""
        return self.loaded.spec

    @cached_property
    def system(self) -> System:
        """The system; with ``residency: layer_share`` the running layers' share of every tier."""
        system = self.loaded.system
        if self.spec.workload.residency != "layer_share":
            return system
        share = Fraction(len(self.spec.workload.layers.indices(self.model.moe_layers)), self.model.moe_layers)
        tiers = tuple(replace(tier, capacity_bytes=int(tier.capacity_bytes * share)) for tier in system.tiers)
        return replace(system, tiers=tiers)

    @property
    def held_layers(self) -> Sequence[int]:
        """MoE layers whose experts the tiers hold."""
        return range(self.model.moe_layers) if self.spec.workload.residency == "model" else self.layers

    @property
    def model(self) -> ModelSpec:
        """The model."""
        return self.spec.workload.model

    @cached_property
    def trace(self) -> RoutingTrace:
        """The trace, checked against the model.

        Raises:
            ValueError: a trace that cannot be read or does not fit the model; all problems.
        """
        spec, model = self.spec.trace, self.model
        if spec.zipf_markov is not None:
            made = spec.zipf_markov.model_dump()
            return zipf_markov(layers=model.moe_layers, experts=model.experts, top_k=model.top_k, **made)
        assert spec.file is not None
        trace = load(spec.file, format=spec.format)
        trace.check_model(experts=self.model.experts)
        return trace

    @property
    def top_k_differs(self) -> bool:
        """Whether the trace routes a token to another number of experts than the model says."""
        return self.trace.top_k != self.model.top_k

    @cached_property
    def parts(self) -> Parts:
        """Rows that policies may learn from, and rows that are simulated."""
        return resolve_parts(self.trace, _selector(self.spec.trace.profile), _selector(self.spec.trace.evaluate))

    @cached_property
    def layers(self) -> list[int]:
        """MoE layers that run.

        Raises:
            ConfigErrors: layers that the trace does not have.
        """
        wanted = self.spec.workload.layers
        layers = wanted.indices(self.model.moe_layers)
        if layers[-1] >= self.trace.layers:
            raise ConfigErrors.single(
                f"MoE layers that the trace has, 0 to {self.trace.layers - 1}",
                f"{wanted} of a model with {self.model.moe_layers}",
                path="workload.layers",
                suggestion=f"write layers: 0-{self.trace.layers - 1}",
            )
        return layers

    def batches(self, seed: int) -> list[npt.NDArray[np.int64]]:
        """Token rows of each batch of a seed."""
        workload = self.spec.workload
        made = batches(
            self.trace,
            workload.mode,
            workload.batch_tokens,
            workload.batches,
            seed,
            self.parts.evaluate,
            chunk_tokens=workload.chunk_tokens,
        )
        return [batch.tokens for batch in made]

    def router_scores(self, policy: str) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.int64]]:
        """Router scores and the trace rows they belong to, for a policy that chooses experts by them.

        Raises:
            ConfigErrors: rows of the evaluate part without scores.
        """
        scores, rows = self.trace.scores, self.trace.scores_token
        evaluated = self.parts.evaluate
        scored = 0 if rows is None else int(np.isin(evaluated, rows).sum())
        if scores is None or rows is None or scored < len(evaluated):
            raise ConfigErrors.single(
                f"router scores of every evaluated token, by which the policy {policy!r} chooses experts",
                f"scores of {scored} of {len(evaluated)}",
                path="trace.evaluate",
                suggestion="evaluate requests that 'cosim trace inspect' lists as scored, or leave the policy out",
            )
        return scores, rows

    @cached_property
    def profile(self) -> Profile:
        """Counts and transitions of the profile part."""
        ids = self.trace.ids[self.parts.profile]
        experts = self.model.experts
        layers = min(self.model.moe_layers, self.trace.layers)
        counts = np.zeros((layers, experts), dtype=np.int64)
        transitions = np.zeros((max(layers - 1, 0), experts, experts), dtype=np.int64)
        for layer in range(layers):
            here = ids[:, layer, :]
            counts[layer] = np.bincount(here[here >= 0], minlength=experts)
            if layer + 1 < layers:
                first = np.repeat(here, ids.shape[2], axis=1).ravel().astype(np.int64)
                second = np.tile(ids[:, layer + 1, :], (1, ids.shape[2])).ravel().astype(np.int64)
                both = (first >= 0) & (second >= 0)
                pairs = np.bincount(first[both] * experts + second[both], minlength=experts * experts)
                transitions[layer] = pairs.reshape(experts, experts)
        running = tuple(layer for layer in self.layers if layer < layers)
        return Profile(counts, transitions, len(ids), running)

    @cached_property
    def tenants(self) -> npt.NDArray[np.int16] | None:
        """Tenant of every row of the trace, -1 where none owns its request; ``None`` where nobody shares the system.

        Raises:
            ConfigErrors: a trace without requests, an evaluated request that is nobody's.
        """
        isolation = self.spec.isolation
        if isolation is None:
            return None
        request = self.trace.request
        if request is None:
            raise ConfigErrors.single(
                "a trace that keeps the boundaries of requests, by which tenants are told apart",
                f"{self.spec.trace.title}, which has none",
                path="isolation.tenants",
            )
        owner = np.full(len(request), -1, dtype=np.int16)
        for number, tenant in enumerate(isolation.tenants.values()):
            for low, high in tenant.requests.ranges or ((0, int(request.max(initial=0))),):
                owner[(request >= low) & (request <= high)] = number
        rows = self.parts.evaluate
        nobody = np.unique(request[rows][owner[rows] < 0])
        if len(nobody):
            raise ConfigErrors.single(
                "a tenant for every evaluated request",
                f"none for {len(nobody)} of them, the first is request {nobody[0]}",
                path="isolation.tenants",
            )
        return owner

    def ledger(self) -> TenantLedger | None:
        """New books of the tenants; ``None`` where nobody shares the system."""
        isolation = self.spec.isolation
        if isolation is None:
            return None
        listed = list(isolation.tenants.values())
        limits = TenantLimits(
            list(isolation.tenants),
            [tenant.replica_bytes for tenant in listed],
            [tenant.prefetch_pages for tenant in listed],
            [tenant.queue_tokens for tenant in listed],
        )
        return TenantLedger(limits, self.model.moe_layers, self.model.experts)

    @cached_property
    def queue_quotas(self) -> QueueQuotas | None:
        """Bounds of the tenants' queues; ``None`` where there are none."""
        isolation = self.spec.isolation
        if isolation is None or all(tenant.queue_tokens is None for tenant in isolation.tenants.values()):
            return None
        tile, tiles = {}, {}
        for place in self.system.compute_endpoints:
            assert place.spec.tile is not None
            assert place.spec.expert_buffer is not None
            tile[place.index] = place.spec.tile
            tiles[place.index] = place.spec.expert_buffer // place.spec.tile
        return QueueQuotas([tenant.queue_tokens for tenant in isolation.tenants.values()], tiles, tile)

    @cached_property
    def burst_bytes(self) -> int:
        """The largest burst of the memory endpoints: weights occupy whole bursts."""
        return max(place.memory.access_bytes for place in self.system.memory_endpoints if place.memory is not None)

    @cached_property
    def rates(self) -> WorkRates:
        """Compute time and weight size of an expert.

        Raises:
            ConfigErrors: a tile that is no whole number of bursts.
        """
        burst = self.burst_bytes
        cycles = {}
        for place in self.system.compute_endpoints:
            spec = place.spec
            assert spec.compute is not None
            assert spec.tile is not None
            if spec.tile % burst:
                raise ConfigErrors.single(
                    f"a tile of whole bursts of {burst} B", f"{spec.tile} B", path=f"system.endpoints.{place.name}.tile"
                )
            cycles[place.index] = 2 * self.system.network_of(place).level.clock / spec.compute.effective_rate()
        model = self.model
        return WorkRates(
            cycles_per_mac=cycles,
            experts=model.experts,
            neurons=model.moe_intermediate,
            expert_bytes=-(-model.expert_bytes // burst) * burst,
            shared_bytes=-(-model.shared_bytes // burst) * burst if self.spec.workload.scope != "routed" else 0,
            expert_macs=model.expert_macs_per_token,
            shared_macs=model.shared_macs_per_token,
            gate_macs=model.gate_macs_per_token,
            combine_macs=model.hidden,
        )

    @cached_property
    def region_alignment_bytes(self) -> int:
        """Weights of an expert start at a multiple of this: one row in every pseudo-channel."""
        kinds = {place.name: place.spec.memory for place in self.system.memory_endpoints}
        return max(MemoryChannel(memory).row_stripe_bytes for memory in kinds.values() if memory is not None)

    def sample(self, seed: int) -> frozenset[tuple[int, int]] | None:
        """The (batch, layer) of a seed that rungs above ``link`` simulate; ``None``: all of them."""
        sampling = self.spec.sampling
        if sampling == "none":
            return None
        units = [
            (number, batch, layer)
            for number in self.spec.seeds
            for batch in range(self.spec.workload.batches)
            for layer in self.layers
        ]
        rows = pd.DataFrame(units, columns=["seed", "batch", "layer"])
        mask = stratified_sample(rows, sampling.fraction, sampling.seed, strata=sampling.strata)
        chosen = rows[mask & (rows["seed"] == seed).to_numpy()]
        return frozenset(zip(chosen["batch"].tolist(), chosen["layer"].tolist(), strict=True))

    def check(self) -> None:
        """Reads the trace, makes batches and policies and has these place, so that a wrong input is found before
        anything runs.

        Raises:
            ConfigErrors: all that is wrong, a policy that chooses experts by scores that the trace does not have, too.
        """
        self._check_capacity()
        self._check_power_cap()
        for seed in self.spec.seeds:
            self.batches(seed)
        _ = self.profile, self.rates, self.tenants
        for position, chosen in enumerate(self.spec.policies):
            policy = make_policy(chosen.name, chosen.params, path=f"policies.{position}")
            if self.queue_quotas is not None:
                self._check_quotas(policy)
            if policy.multicast_dispatch:
                self._check_multicast(policy, f"policies.{position}")
            if not policy.preserves_routing:
                self.router_scores(policy.name)
            policy.place(self.system, self.model, self.profile)

    def _check_multicast(self, policy: Policy, path: str) -> None:
        """Raises ConfigErrors where compute endpoints are of several networks, or theirs has no multicast class."""
        Delivery.on(self.system, "multicast", f"{path}.params.dispatch")
        networks = {place.network for place in self.system.compute_endpoints}
        others = [
            name
            for name in ("dispatch_once", "all_reduce", "group_all_reduce", "metadata_bytes")
            if getattr(policy, name)
        ]
        if len(networks) > 1 or others:
            got = f"{len(networks)} networks" if len(networks) > 1 else f"{policy.name} with {', '.join(others)}"
            raise ConfigErrors.single(
                "compute endpoints of one network and no other way to share dispatches, for multicasts of tokens",
                got,
                path=f"{path}.params.dispatch",
            )

    def _check_power_cap(self) -> None:
        """Raises ConfigErrors for a power cap at a rung that does not know all energies."""
        problems = [power_cap_problem(self.system, rung) for rung in self.spec.rungs if rung != "analytic"]
        if any(problems):
            raise ConfigErrors.single(
                "energies of everything at every rung, which a power cap adds up",
                "; ".join(problem for problem in problems if problem),
                path="system.power_cap",
            )

    def _check_quotas(self, policy: Policy) -> None:
        """Raises ConfigErrors for a policy whose groups share what a queue's quota would hold back."""
        shares = [name for name in ("dispatch_once", "multicast_dispatch", "all_reduce") if getattr(policy, name)]
        if policy.delivery != "unicast":
            shares.append(f"delivery: {policy.delivery}")
        if shares:
            raise ConfigErrors.single(
                "policies that send every token group by itself and read for one endpoint each, beside queue_tokens",
                f"{policy.name} with {', '.join(shares)}",
                path="isolation.tenants",
            )

    def _check_capacity(self) -> None:
        """One copy of every expert that is held must fit the tier of homes.

        Raises:
            ConfigErrors: with both figures, and the reading that holds less.
        """
        home, layers = self.system.home_tier, len(self.held_layers)
        needed = layers * self.model.experts * self.rates.expert_bytes
        if needed <= home.total_bytes:
            return
        held = {
            "model": "write residency: layer_window, or layer_share, to hold the layers that run",
            "layer_share": "write residency: layer_window to give the layers that run the whole tiers",
            "layer_window": "run fewer layers",
        }[self.spec.workload.residency]
        raise ConfigErrors.single(
            f"one copy of {layers} layers of {self.model.experts} experts of "
            f"{format_quantity(self.rates.expert_bytes, BYTES)}, {format_quantity(needed, BYTES)} together, in tier "
            f"{home.name}",
            f"{format_quantity(home.total_bytes, BYTES)} on its {len(home.endpoints)} endpoints",
            path="workload.residency",
            suggestion=held,
        )
