"""Tensor, expert and hybrid parallelism: experts in shares over chiplets, from a rule or from a placement file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.placement.families import expert_parallel, tensor_parallel
from cosim.placement.file import load_placement, whole_neurons
from cosim.policy.assignment import homes
from cosim.policy.base import Policy, Pressure, Profile
from cosim.policy.directory import Directory, ExpertPart, PlacedReplica, Placement
from cosim.policy.placement import memory_tier, nearest_memory

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["ExpertParallel", "Placed", "TensorParallel"]

IntArray = npt.NDArray[np.int64]


class _Shares(Policy):
    """One replica of every expert, split over the chiplets that a share names."""

    def _neurons(self, system: System, model: ModelSpec) -> IntArray:
        """Neurons of every expert on every compute endpoint, shape (MoE layers, experts, compute endpoints)."""
        raise NotImplementedError

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        neurons = self._neurons(system, model)
        tier, routes = memory_tier(system), system.routes
        chiplets = [endpoint.index for endpoint in system.compute_endpoints]
        held: dict[int, int] = {}
        memory = {}
        for chiplet in chiplets:
            memory[chiplet] = nearest_memory(system, routes, held, chiplet)
            held[memory[chiplet]] = held.get(memory[chiplet], 0) + 1
        replicas = []
        for layer in range(model.moe_layers):
            for expert in range(model.experts):
                row = neurons[layer, expert]
                parts = [
                    ExpertPart(chiplets[c], memory[chiplets[c]], tier, int(row[c]))
                    for c in np.flatnonzero(row).tolist()
                ]
                replicas.append(PlacedReplica.split(layer, expert, parts))
        return Placement(replicas)

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return homes(groups, directory)


class TensorParallel(_Shares):
    """Every expert in equal slices on every chiplet, all tokens on every chiplet, and a ring all-reduce of their
    partial sums (TP of HDA-MoE, section II and Eq. 4)."""

    name = "tensor_parallel"
    all_reduce = True

    def _neurons(self, system: System, model: ModelSpec) -> IntArray:
        shares = tensor_parallel(1, model.experts, len(system.compute_endpoints)).shares
        return np.broadcast_to(whole_neurons(shares[0], model.moe_intermediate), (model.moe_layers, *shares.shape[1:]))


class _Dispatched(_Shares):
    """Tokens go to all parts of their experts and come back."""

    class Params(Policy.Params):
        """``dispatch``: a token is sent for each of its experts, or once to a chiplet however many of them are there.
        ``gather``: every expert's output comes back, or one sum of a token from a chiplet. Both per chiplet is what
        Eq. 2 of HDA-MoE counts. ``metadata_bytes``: of the count of tokens for an expert that every chiplet tells the
        one that holds it before it sends any (the all-to-all of its section II); 0: none. ``partial_sums``: the parts
        of a split expert return theirs, or all-reduce them in a ring among themselves, and the one nearest to a token's
        home returns the sum (tensor parallelism inside the groups of a hybrid)."""

        dispatch: Literal["per_expert", "per_chiplet"] = "per_expert"
        gather: Literal["per_expert", "per_chiplet"] = "per_expert"
        metadata_bytes: Annotated[int, Field(ge=0)] = 0
        partial_sums: Literal["returned", "all_reduced"] = "returned"

    params: Params

    def __init__(self, params: Mapping[str, object] | None = None) -> None:
        super().__init__(params)
        self.dispatch_once = self.params.dispatch == "per_chiplet"
        self.local_reduction = self.params.gather == "per_chiplet"
        self.metadata_bytes = self.params.metadata_bytes
        self.group_all_reduce = self.params.partial_sums == "all_reduced"


class ExpertParallel(_Dispatched):
    """Whole experts in blocks of chiplets; with more chiplets than experts each is sliced over its block (EP of
    HDA-MoE, section II, as its published code lays it out)."""

    name = "expert_parallel"

    def _neurons(self, system: System, model: ModelSpec) -> IntArray:
        shares = expert_parallel(1, model.experts, len(system.compute_endpoints)).shares
        return np.broadcast_to(whole_neurons(shares[0], model.moe_intermediate), (model.moe_layers, *shares.shape[1:]))


class Placed(_Dispatched):
    """The placement of a file that ``cosim place search`` wrote."""

    name = "placed"

    class Params(_Dispatched.Params):
        """``file``: a shipped placement by name, or a path; the others as of expert_parallel."""

        file: Annotated[str, Field(min_length=1)]

    params: Params

    def _neurons(self, system: System, model: ModelSpec) -> IntArray:
        loaded = load_placement(self.params.file)
        loaded.check(model, len(system.compute_endpoints))
        return loaded.neurons
