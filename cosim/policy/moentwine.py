"""MoEntwine: entwined domains and the NI-Balancer, which gives shadow replicas to hot devices over cold links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.config.errors import ConfigErrors
from cosim.config.spec import Items
from cosim.policy.assignment import nearest
from cosim.policy.base import ActionKind, Policy, Pressure, Profile, ResidencyAction, WindowState
from cosim.policy.directory import Directory, PlacedReplica, Placement
from cosim.policy.placement import expert_parallel, nearest_memory
from cosim.policy.room import Room

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System
    from cosim.system.routes import Routes

__all__ = ["Moentwine", "er_mapping", "shadow_step"]


def er_mapping(shape: tuple[int, int], block: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Tensor-parallel group of every device of a mesh, so that each block holds one device of every group.

    ER-Mapping (MoEntwine, arXiv 2510.25258): groups are entwined with stride ``block``, hence the devices of a group
    are block-sized steps apart and every block is a full token domain.

    Args:
        shape: columns and rows of the mesh.
        block: columns and rows of a domain.

    Returns:
        int64, shape (rows, columns).

    Raises:
        ValueError: blocks that do not tile the mesh.
    """
    if shape[0] % block[0] or shape[1] % block[1]:
        raise ValueError(f"block: expected one that tiles a mesh of {shape[0]} × {shape[1]}, got {block}")
    x, y = np.meshgrid(np.arange(shape[0]), np.arange(shape[1]))
    return (y % block[1] * block[0] + x % block[0]).astype(np.int64)


def shadow_step(
    load: npt.NDArray[np.float64],
    places: Mapping[int, Sequence[int]],
    slots: Mapping[int, int],
    routes: Routes,
    trigger: float,
    most: int,
) -> tuple[int, int] | None:
    """One step of the NI-Balancer: the shadow replica (expert, device) to make, or ``None``.

    A device's load is the sum of load / replicas of its experts. The hottest expert of the hottest device goes to the
    nearest device with a free slot whose load stays below the present maximum, once maximum / mean exceeds ``trigger``.

    Args:
        load: of every expert.
        places: devices of every expert.
        slots: free shadow slots of every device.
        most: replicas of one expert.
    """
    device = dict.fromkeys(slots, 0.0)
    for expert, held in places.items():
        for place in held:
            device[place] += float(load[expert]) / len(held)
    hottest = max(device, key=lambda place: (device[place], -place))
    peak = device[hottest]
    if peak <= trigger * (sum(device.values()) / len(device)):
        return None
    resident = [e for e, held in places.items() if hottest in held and len(held) < most and load[e] > 0]
    for expert in sorted(resident, key=lambda e: (-float(load[e]) / len(places[e]), e)):
        share = float(load[expert]) / (len(places[expert]) + 1)
        fitting = [p for p in slots if slots[p] > 0 and p not in places[expert] and device[p] + share < peak]
        if fitting:
            return expert, min(fitting, key=lambda place: (routes.between(hottest, place), place))
    return None


class Moentwine(Policy):
    """Shadow replicas by load over the mesh (MoEntwine, HPCA 2026); tokens to a replica of their own domain if any.

    Tokens are dealt out to chiplets here, there are no tensor-parallel groups whose all-reduce ER-Mapping shortens;
    what remains of it are its domains, within which tokens stay. Slots are filled from the profile at the start and,
    with ``window_batches``, one step per window and layer goes on; copies travel in the class of the lowest priority,
    which leaves links to other traffic (the paper's cold links).
    """

    name = "moentwine"

    class Params(Policy.Params):
        """``replica_budget``: shadow slots, as bytes of all replicas over those of one copy. ``max_replicas``: of one
        expert. ``trigger``: maximum over mean load above which a step is taken (1 + alpha; not published).
        ``block``: columns and rows of a domain. ``window_batches``: batches of a window; 0: the start stays."""

        replica_budget: Annotated[float, Field(ge=1, le=64, allow_inf_nan=False)] = 1.3
        max_replicas: Annotated[int, Field(ge=1)] = 4
        trigger: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.1
        block: Annotated[Items[Annotated[int, Field(ge=1)]], Field(min_length=2, max_length=2)] = (2, 2)
        window_batches: Annotated[int, Field(ge=0)] = 1

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        self._system, self._routes = system, system.routes
        self._chiplets = [endpoint.index for endpoint in system.compute_endpoints]
        self._experts = model.experts
        places = system.package_places
        width, height = (max(place[axis] for place in places) + 1 for axis in (0, 1))
        columns, rows = self.params.block
        try:
            er_mapping((width, height), (columns, rows))
        except ValueError as problem:
            raise ConfigErrors.single(
                f"a block that tiles the package of {width} × {height}", str(problem), path="policies.moentwine.block"
            ) from None
        self._domain = {c: places[c][1] // rows * width + places[c][0] // columns for c in self._chiplets}
        homes = list(expert_parallel(system, model).replicas)
        room = Room(system, model, [home for home in homes if home.layer in set(profile.running)])
        tiers = room.tiers[1:] or room.tiers  # slots of device memory, not of the scarce near tier
        copies = int((self.params.replica_budget - 1) * model.experts)
        self._slots = dict.fromkeys(self._chiplets, -(-copies // len(self._chiplets)))
        shadows: list[PlacedReplica] = []
        for layer in profile.running:
            held = {home.expert: [home.chiplet] for home in homes if home.layer == layer}
            slots = dict(self._slots)
            for _ in range(copies):
                step = self._step(profile.counts[layer].astype(np.float64), held, slots)
                shadow = room.replica(layer, *step, tiers) if step is not None else None
                if step is None or shadow is None:
                    break
                held[step[0]].append(step[1])
                slots[step[1]] -= 1
                shadows.append(shadow)
        self._tier = tiers[0]
        return Placement(homes + shadows)

    def _step(
        self, load: npt.NDArray[np.float64], held: Mapping[int, Sequence[int]], slots: Mapping[int, int]
    ) -> tuple[int, int] | None:
        return shadow_step(load, held, slots, self._routes, self.params.trigger, self.params.max_replicas)

    def on_window(self, state: WindowState) -> Sequence[ResidencyAction]:
        rows = state.directory.rows
        actions: list[ResidencyAction] = []
        coming = {action.layer for action in state.migrating}
        for layer in np.unique(rows["layer"]).tolist():
            of_layer = np.sort(rows[(rows["layer"] == layer) & (rows["expert"] < self._experts)], order="replica")
            held: dict[int, list[int]] = {}
            slots = dict(self._slots)
            for row in of_layer:
                places = held.setdefault(int(row["expert"]), [])
                if places:
                    slots[int(row["chiplet"])] -= 1
                places.append(int(row["chiplet"]))
            step = None if layer in coming else self._step(state.demand[layer].astype(np.float64), held, slots)
            if step is not None:
                memory = nearest_memory(self._system, self._routes, {}, step[1], self._tier)
                actions.append(ResidencyAction(ActionKind.promote, layer, step[0], step[1], memory, self._tier))
        return actions

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return nearest(groups, directory, self._routes, self._domain)
