"""The seam of every policy: where replicas live, what is prefetched, and which replica serves which tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from cosim.config.spec import Spec
from cosim.policy.delivery import DeliveryName
from cosim.policy.directory import Directory, Placement

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = [
    "ActionKind",
    "GateState",
    "Outcome",
    "Policy",
    "PreBroadcast",
    "Prefetch",
    "PrefetchState",
    "Pressure",
    "Profile",
    "ResidencyAction",
    "Revoke",
    "RoutedAction",
    "RoutedEvent",
    "Upgrade",
    "UpgradeStep",
    "WindowState",
]


@dataclass(frozen=True)
class Profile:
    """What a policy may learn from: the profile part of the trace.

    counts: tokens per expert, int64, shape (MoE layers, experts).
    transitions: slot pairs (expert of layer l, expert of layer l + 1) of the same token, int64, shape
        (MoE layers - 1, experts, experts).
    tokens: tokens in the part; zero when the experiment gives none.
    layers: MoE layers that run, of those in ``counts``; empty: all of them.
    """

    counts: npt.NDArray[np.int64]
    transitions: npt.NDArray[np.int64]
    tokens: int
    layers: tuple[int, ...] = ()

    @property
    def running(self) -> Sequence[int]:
        """The layers of ``counts`` that run."""
        return self.layers or range(len(self.counts))


@dataclass(frozen=True)
class Pressure:
    """How busy the system was since the window began, as shares of that time; all zero at the start of a run.

    compute: float64 per endpoint. link: float64 per directed link. bank: float64 per endpoint, of its peak
    bandwidth. tier: share of capacity in use, per endpoint. migration_bytes: under way. link_migration: the part of
    ``link`` that prefetches and copies took. window_fs: the time that the shares are of.
    """

    compute: npt.NDArray[np.float64]
    link: npt.NDArray[np.float64]
    bank: npt.NDArray[np.float64]
    tier: npt.NDArray[np.float64]
    migration_bytes: int
    link_migration: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    window_fs: int = 0


class ActionKind(Enum):
    """What a residency action does to one replica."""

    promote = "promote"  # make a new replica at a chiplet and in a memory
    retain = "retain"  # keep a replica for at least another window
    demote = "demote"  # move a replica to a lower tier
    evict = "evict"  # give a replica's room back once its last tokens are through


@dataclass(frozen=True)
class ResidencyAction:
    """One wish of the slow loop.

    ``promote`` names chiplet, memory and tier, ``demote`` those of the new place and the replica that leaves once its
    copy there is published; the others name a directory replica.
    """

    kind: ActionKind
    layer: int
    expert: int
    chiplet: int = -1
    memory: int = -1
    tier: str = ""
    replica: int = -1


@dataclass(frozen=True)
class Prefetch:
    """Start streaming an expert's weights into a chiplet's buffer before the layer is routed; revocable."""

    layer: int
    expert: int
    chiplet: int


@dataclass(frozen=True)
class Revoke:
    """Withdraw a prefetch that no demand has claimed."""

    prefetch: int


@dataclass(frozen=True)
class PreBroadcast:
    """Bring a whole replica of an expert to every compute endpoint that has none, before its layer is routed.

    Nodes pass the weights on to each other in chunks of ``chunk_bytes``, along a tree of near neighbours; with 0 every
    node reads all of them from the expert's home. The replicas are published together, when the last node has its own;
    what lies at a node already, a part of a split expert, is not sent to it again.
    """

    layer: int
    expert: int
    chunk_bytes: int = 0


class UpgradeStep(Enum):
    """A step in which an expert's weights are replaced by a next version."""

    stage = "stage"  # the next version begins to be written, beside every replica
    publish = "publish"  # it is the one that tokens are sent to, at all replicas at once
    drop = "drop"  # it was harmed or not written to its end: it is given up
    confirm = "confirm"  # the version before it is given up
    roll_back = "roll_back"  # the version before it is published again


@dataclass(frozen=True)
class Upgrade:
    """One step of an expert's upgrade; no policy asks for it. ``replicas``, of a first step: which get a successor."""

    step: UpgradeStep
    layer: int
    expert: int
    replicas: tuple[int, ...] = ()


RoutedAction: TypeAlias = "Prefetch | Revoke | PreBroadcast | ResidencyAction"
"""What :meth:`Policy.on_routed` may ask for."""


@dataclass(frozen=True)
class Outcome:
    """What became of an action: ``done``, ``deferred`` or ``refused``, and why."""

    action: RoutedAction
    status: str
    reason: str = ""


@dataclass(frozen=True)
class PrefetchState:
    """A prefetch that is under way or waits in a buffer for its demand."""

    prefetch: int
    batch: int
    layer: int
    expert: int
    chiplet: int


@dataclass(frozen=True)
class GateState:
    """What a gate may look at besides the scores.

    recorded: the model's own choice, shape (tokens, slots), -1 an empty slot. homes: compute endpoint of each token.
    """

    batch: int
    layer: int
    recorded: npt.NDArray[np.integer]
    homes: npt.NDArray[np.int32]
    directory: Directory
    pressure: Pressure


@dataclass(frozen=True)
class RoutedEvent:
    """A layer's routing is known: its token groups, and what the system looks like at that instant.

    ``next_layer`` is the MoE layer that runs next (the first one again at a batch's end), -1 at the end of the run.
    ``ids``: the experts of every token in this layer, shape (tokens, slots), -1 for an empty slot; the tokens of a
    batch keep their rows from layer to layer. ``homes``: compute endpoint at which each of them waits, int32, shape
    (tokens,).
    """

    time_fs: int
    batch: int
    layer: int
    next_layer: int
    next_batch: int
    groups: npt.NDArray[np.void]
    directory: Directory
    pressure: Pressure
    prefetches: Sequence[PrefetchState]
    outcomes: Sequence[Outcome]
    ids: npt.NDArray[np.integer] = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    homes: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))


@dataclass(frozen=True)
class WindowState:
    """A decision window has closed: the directory, the window's demand, and the outcome of every earlier action.

    ``demand``: tokens per (MoE layer, expert) in the window, int64. ``what_if``, for policies that ask for it
    (:attr:`Policy.needs_what_if`): the seconds that the window's last batch takes from an idle system, under the
    present directory or one in which an action is done, replicas chosen by the policy's own fast loop.
    """

    time_fs: int
    window: int
    demand: npt.NDArray[np.int64]
    directory: Directory
    pressure: Pressure
    outcomes: Sequence[Outcome]
    migrating: Sequence[ResidencyAction]
    what_if: Callable[[ResidencyAction | None], float] | None = None


LIMITS = ("window_batches", "max_replicas", "replica_budget", "min_residency_windows")
"""What the run holds a policy to, where its parameters say it."""


class Policy:
    """Base of all policies; every hook but :meth:`assign` may be left out.

    A policy sees numbers and returns numbers. The engine owns legality: an action that would break capacity, the
    replica count, the budget or a version is refused with a reason, and the policy is told.
    """

    name: str = "policy"
    decision_cost: Mapping[str, Fraction] = {}
    """Seconds per call of a hook, charged on the control chiplet before what was decided takes effect."""
    preserves_routing: bool = True
    window_batches: int = 0
    """Batches of a decision window; 0: no windows, :meth:`on_window` is never called."""
    max_replicas: int = 1
    """Of one expert; more are refused."""
    replica_budget: float = 1.0
    """Bytes of all replicas over those of one copy of every expert; more are refused."""
    min_residency_windows: int = 0
    """Windows that a replica stays before it may be evicted or demoted; earlier is refused."""
    updates_per_window: int = 0
    """Residency updates (promote, demote, evict) of a window, further ones are refused; 0: no bound."""
    prefetch_class: str = "prefetch"
    """Message class of prefetches: the lowest one, or ``weight``, that of demand loads."""
    local_reduction: bool = False
    """Whether a chiplet adds up what its experts return for one token before it sends the sum back."""
    dispatch_once: bool = False
    """Whether a token that several of its experts want at one chiplet is sent there once."""
    multicast_dispatch: bool = False
    """Whether tokens that the same set of chiplets wants leave their own once, as packets that fork in routers."""
    metadata_bytes: int = 0
    """What every chiplet tells every other, for each expert held there, before it sends tokens; 0: nothing."""
    all_reduce: bool = False
    """Whether every chiplet holds every token before and after a layer, so that none is sent and a ring all-reduce sums
    what the chiplets computed: tensor parallelism. Every replica is then split over all that compute."""
    group_all_reduce: bool = False
    """Whether the endpoints that hold the parts of a split expert sum up in a ring all-reduce among themselves, after
    which one of them returns a token's sums as activations; else every part returns partial sums."""
    delivery: DeliveryName = "unicast"
    """How the weights of a replica reach the endpoints of :meth:`execute_at` that help with it."""
    phase_aligned: bool = False
    """Whether a read for several endpoints waits until a layer's tokens are dispatched in their network."""
    needs_what_if: bool = False
    """Whether :meth:`on_window` gets :attr:`WindowState.what_if`."""
    partial_sum_bytes: int = 4
    """Of one element of the partial sums that the parts of a split expert return; whole experts return activations."""

    class Params(Spec):
        """The policy's parameters: a strict schema, unknown names are errors. Subclasses add fields.

        A field of the name of one of :data:`LIMITS` is that limit of the policy.
        """

    def __init__(self, params: Mapping[str, object] | None = None) -> None:
        self.params = self.Params.model_validate(dict(params or {}))
        for limit in LIMITS:
            if limit in self.Params.model_fields:
                setattr(self, limit, getattr(self.params, limit))

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        """The replicas at the start. Sees the profile part of the trace only."""
        from cosim.policy.placement import expert_parallel

        return expert_parallel(system, model)

    def gate(self, scores: npt.NDArray[np.floating], state: GateState) -> npt.NDArray[np.floating]:
        """Adjusted router scores, shape (tokens, experts) like ``scores``; the highest of each token are its experts.

        Called only where ``preserves_routing`` is false. Weights stay those of the original scores.
        """
        raise NotImplementedError

    def on_window(self, state: WindowState) -> Sequence[ResidencyAction]:
        """The slow loop: residency actions after each decision window."""
        return ()

    def on_routed(self, event: RoutedEvent) -> Sequence[RoutedAction]:
        """What to start and to withdraw once a layer's routing is known: prefetches, broadcasts, residency actions.

        The layer itself runs on the replicas that ``event.directory`` shows; none that it uses may be evicted here.
        """
        return ()

    def execute_at(
        self,
        groups: npt.NDArray[np.void],
        assigned: npt.NDArray[np.int32],
        directory: Directory,
        pressure: Pressure,
    ) -> npt.NDArray[np.int32] | None:
        """Compute endpoint that works on each group, int32, shape (groups,); none: each at its replica's own.

        An endpoint other than the replica's is a helper for this layer: it streams the same expert's weights from the
        replica's memory into its own buffer, and forgets them afterwards; :attr:`delivery` says how. Replicas that are
        split have no helpers.
        """
        return None

    def save(self) -> dict[str, object]:
        """What the policy has learnt since :meth:`place`, as plain JSON, so that an interrupted run can go on."""
        return {}

    def load(self, state: Mapping[str, object]) -> None:
        """Takes what :meth:`save` gave; called after :meth:`place`."""

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        """The fast loop: one directory row per group, int32, shape (groups,); a replica of the group's own expert."""
        raise NotImplementedError

    def map_tokens(
        self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure
    ) -> npt.NDArray[np.int32]:
        """As :meth:`assign`, but nothing is learnt from it: for :attr:`WindowState.what_if`."""
        return self.assign(groups, directory, pressure)
