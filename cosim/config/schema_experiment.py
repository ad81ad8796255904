"""An experiment: routing trace, workload, system, policies, rungs, claims, seeds and limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    model_serializer,
    model_validator,
)

from cosim.config.errors import did_you_mean, one_of
from cosim.config.quantities import BareOrBytes
from cosim.config.schema_hardware import HardwareSpec
from cosim.config.schema_model import ModelSpec
from cosim.config.spec import IndexSet, Indices, Items, Name, Problem, Reference, ShortSpec, Spec, duplicates, refuse

__all__ = [
    "RUNGS",
    "AnalyticSpec",
    "CommunicationSpec",
    "ComplementaritySpec",
    "ComponentsSpec",
    "ExperimentSpec",
    "FaultsSpec",
    "FullModelSpec",
    "HotspotComponentSpec",
    "IsolationSpec",
    "LimitsSpec",
    "PartSpec",
    "PointSpec",
    "PolicySpec",
    "SamplingSpec",
    "SweepSpec",
    "TenantSpec",
    "TraceSpec",
    "WorkloadSpec",
    "ZipfMarkovSpec",
]

Positive = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]

RUNGS = ("analytic", "link", "flit", "link+command", "flit+rate")


class PartSpec(Spec):
    """A part of a trace: by request where the trace knows requests, else by time, that is by row in recorded order.

    ``positions``: of the requests, only these of their tokens.
    """

    requests: Indices | None = None
    positions: Indices | None = None
    rows: Indices | None = None

    def problems(self) -> Iterator[Problem]:
        if self.positions is not None and self.requests is None:
            yield Problem(("positions",), "requests beside it, of whose tokens it speaks", "none")
        if (self.requests is None) == (self.rows is None):
            got = "both" if self.rows else "neither"
            yield Problem((), "one of the keys requests (by request) and rows (by time, in recorded order)", got)


def _part(words: tuple[str, ...]) -> BeforeValidator:
    def read(value: Any) -> Any:
        if isinstance(value, str) and value not in words:
            raise refuse(
                f"{one_of(words)}, or a mapping such as {{requests: 0-63}}", repr(value), did_you_mean(value, words)
            )
        if not isinstance(value, (str, Mapping, PartSpec)):
            raise refuse(f"{one_of(words)}, or a mapping such as {{requests: 0-63}}", repr(value))
        return PartSpec.model_validate(value) if isinstance(value, Mapping) else value

    return BeforeValidator(read)


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ZipfMarkovSpec(Spec):
    """A synthetic trace of the model's MoE layers, experts and Top-k; see ``cosim.trace.zipf_markov``.

    ``alpha`` is the Zipf exponent of the load; ``rho`` the recall of the next layer's experts, or ``keep`` the
    probability that an expert's draw is kept from layer to layer. All ``positions`` of a request are decode steps.
    After every ``drift_positions`` of them ``drift_share`` of a layer's experts deal their places in its order anew.
    """

    requests: Positive
    positions: Positive
    alpha: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    rho: Share | None = None
    keep: Share | None = None
    draw: Literal["inclusion", "successive"] = "inclusion"
    drift_positions: Positive | None = None
    drift_share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**63)]

    def problems(self) -> Iterator[Problem]:
        if self.drift_positions is not None and self.drift_positions >= self.positions:
            yield Problem(("drift_positions",), f"fewer than the {self.positions} positions", f"{self.drift_positions}")
        if self.drift_positions is None and self.drift_share != 1:
            yield Problem(("drift_share",), "drift_positions beside it", "none")
        if (self.rho is None) == (self.keep is None):
            got = "both" if self.rho is not None else "neither"
            yield Problem((), "one of the keys rho (a recall) and keep (a probability)", got)


class TraceSpec(Spec):
    """A routing trace and the two parts of it: what policies may learn from, and what is run.

    ``file`` is a shipped name or a path, ``format`` forces a reader; ``zipf_markov`` makes a synthetic one instead.
    ``profile`` is a part, ``none``, or ``oracle``: the evaluated part itself, which every table then says.
    """

    file: Text | None = None
    format: Text | None = None
    zipf_markov: ZipfMarkovSpec | None = None
    profile: Annotated[PartSpec | Literal["oracle", "none"], _part(("oracle", "none"))]
    evaluate: Annotated[PartSpec | Literal["all"], _part(("all",))]

    @property
    def title(self) -> str:
        """What tables call it: the shipped name, the file's name without its ending, or how it is made."""
        if self.file is not None:
            return self.file if "/" not in self.file else PurePath(self.file).stem
        made = self.zipf_markov
        assert made is not None
        kept = f"rho {made.rho:g}" if made.rho is not None else f"keep {made.keep:g}"
        moving = "" if made.drift_positions is None else f", {made.drift_share:g} moved every {made.drift_positions}"
        return f"Zipf-Markov alpha {made.alpha:g}, {kept}{moving}, seed {made.seed}"

    def problems(self) -> Iterator[Problem]:
        if (self.file is None) == (self.zipf_markov is None):
            yield Problem((), "one of the keys file and zipf_markov", "both" if self.file is not None else "neither")
        if self.format is not None and self.file is None:
            yield Problem(("format",), "none without a file, which alone is read in one", repr(self.format))
        profile, evaluate = self.profile, self.evaluate
        if isinstance(profile, str):
            return
        if isinstance(evaluate, str):
            yield Problem(
                ("evaluate",),
                "a part that shares nothing with the profile",
                "all",
                "write 'profile: oracle' if the policies are to see what is evaluated",
            )
            return
        pairs: list[tuple[str, IndexSet | None, IndexSet | None]] = [
            ("requests", profile.requests, evaluate.requests),
            ("rows", profile.rows, evaluate.rows),
        ]
        for key, first, second in pairs:
            if (first is None) != (second is None) and key == "requests":
                yield Problem(("evaluate",), "profile and evaluate by the same of requests and rows", "one by each")
            if first is not None and second is not None and first.overlaps(second):
                yield Problem(
                    ("evaluate", key),
                    "a part that shares nothing with the profile",
                    f"'{second}' beside the profile's '{first}'",
                    "write 'profile: oracle' if the policies are to see what is evaluated",
                )


class FullModelSpec(Spec):
    """What scope ``model`` needs beyond the model: how attention is fed, and how close to the roofline its work comes.

    Attributes:
        context_tokens: tokens whose keys and values a token attends to.
        sequence_tokens: tokens of a batch that share one context: 1 in decode, those of a prompt in prefill.
        efficiency: share of a chiplet's rate that attention, dense layers and output head reach.
    """

    context_tokens: Positive
    sequence_tokens: Positive = 1
    efficiency: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]

    @property
    def exact_efficiency(self) -> Fraction:
        """The decimal text of ``efficiency`` taken exactly."""
        return Fraction(repr(self.efficiency))


class WorkloadSpec(Spec):
    """Which tokens make a batch, on which model, and how much of a layer is simulated.

    ``residency``: whose experts the tiers hold. ``layer_window``: those of the layers that run, which have the tiers to
    themselves. ``layer_share``: those too, in their share of every tier, running over all MoE layers. ``model``: those
    of every MoE layer.
    """

    model: Annotated[ModelSpec, Reference()]
    mode: Literal["decode", "prefill", "random", "sequential"]
    batch_tokens: Positive
    batches: Positive
    chunk_tokens: Positive | None = None
    layers: Indices
    scope: Literal["routed", "moe", "model"]
    full_model: FullModelSpec | None = None
    residency: Literal["layer_window", "layer_share", "model"] = "layer_window"

    def problems(self) -> Iterator[Problem]:
        yield from _scope_problems(self.scope, self.full_model, self.model)
        if self.chunk_tokens is not None and self.mode != "prefill":
            yield Problem(("chunk_tokens",), f"none with mode {self.mode!r}: only prefill cuts prompts", "it")
        if self.layers.last is not None and self.layers.last >= self.model.moe_layers:
            yield Problem(
                ("layers",),
                f"MoE layers of the model, which has 0 to {self.model.moe_layers - 1}",
                f"layer {self.layers.last}",
            )


def _scope_problems(scope: str, full: FullModelSpec | None, model: ModelSpec) -> Iterator[Problem]:
    if scope != "model":
        if full is not None:
            yield Problem(("full_model",), f"none with scope {scope!r}: only scope model reads it", "it")
        return
    if full is None:
        yield Problem((), "the key 'full_model' beside scope 'model'", "no such key")
    attention = model.attention
    missing = [] if model.vocab is not None else ["vocab"]
    if attention is None:
        missing.append("attention")
    elif attention.kind == "mla":
        names = ("head_dim", "kv_lora_rank", "rope_head_dim")
        missing += [f"attention.{name}" for name in names if getattr(attention, name) is None]
    if model.first_moe_layer + model.moe_layer_step > 1 and not model.dense_intermediate:
        missing.append("dense_intermediate")
    for key in missing:
        yield Problem(("model",), f"a model with the key {key!r}, which scope model reads", "no such key")


class PolicySpec(ShortSpec):
    """A policy by name (shipped or installed) or ``path.py:Class``, and its parameters.

    In a file also just the name.
    """

    name: Text
    params: dict[str, Any] = Field(default_factory=dict)
    label: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        if value is None or isinstance(value, (list, int, float)):
            raise refuse("a policy's name, or a mapping with name and params", repr(value))
        return {"name": value} if isinstance(value, str) else value

    @model_serializer
    def _short(self) -> str | dict[str, Any]:
        if not self.params and self.label is None:
            return self.name
        full: dict[str, Any] = {"name": self.name}
        if self.params:
            full["params"] = self.params
        if self.label is not None:
            full["label"] = self.label
        return full

    @property
    def title(self) -> str:
        """What tables call it: the label, else the name."""
        return self.label if self.label is not None else self.name


class AnalyticSpec(ShortSpec):
    """Analytical figures: a model by name, ``path.py:function``, or a table of results. One of the three."""

    name: Text | None = None
    function: Text | None = None
    table: Text | None = None
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"function": value} if ".py:" in value else {"name": value}
        if not isinstance(value, (Mapping, AnalyticSpec)):
            raise refuse("a model's name, {table: results.csv} or path.py:function", repr(value))
        return value

    def problems(self) -> Iterator[Problem]:
        given = [key for key in ("name", "function", "table") if getattr(self, key) is not None]
        if len(given) != 1:
            yield Problem((), "one of the keys name, function and table", " and ".join(given) or "none of them")
        if self.table is not None and self.params:
            yield Problem(("params",), "none with a table, which reads none", "some")
        if self.function is not None:
            file, colon, attribute = self.function.rpartition(":")
            if not colon or not file.endswith(".py") or not attribute.isidentifier():
                yield Problem(("function",), "path.py:function", repr(self.function))

    @model_serializer
    def _short(self) -> str | dict[str, Any]:
        if not self.params:
            return {"table": self.table} if self.table is not None else str(self.name or self.function)
        key = "name" if self.name is not None else "function"
        return {key: getattr(self, key), "params": self.params}


class LimitsSpec(Spec):
    """Beyond ``max_estimated_hours`` a run asks for ``--yes``."""

    max_estimated_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0


class FaultsSpec(Spec):
    """Faults injected into the management of replicas; ``seed`` chooses which.

    prefetch: share of prefetches that fail. interruption: of copies that end before their last byte. checksum: of
    copies that arrive harmed. upgrade: of layers of a batch in which a next version of an expert begins to be written,
    beside the one that tokens are reading; interruption and checksum befall it too. rollback: of the published versions
    that are taken back, where the others are confirmed, each ``trial_batches`` after it was published.
    """

    prefetch: Share = 0.0
    interruption: Share = 0.0
    checksum: Share = 0.0
    upgrade: Share = 0.0
    rollback: Share = 0.0
    trial_batches: Positive = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1

    def problems(self) -> Iterator[Problem]:
        if self.interruption + self.checksum > 1:
            shown = f"{self.interruption + self.checksum:g}"
            yield Problem((), "interruption and checksum of at most 1 together", shown)
        for key, unset in (("rollback", 0), ("trial_batches", 1)):
            if getattr(self, key) != unset and not self.upgrade:
                yield Problem((key,), "a share `upgrade` above 0, of which it speaks", "upgrade: 0")


class TenantSpec(Spec):
    """One tenant: whose requests of the trace, and how much of what all share may be its; no figure, no bound.

    replica_bytes: copies of experts that are charged to it, those under way and those that drain included; the replicas
    of the start are nobody's. prefetch_pages: its prefetches under way or waiting in buffers. queue_tokens: its tokens
    that one chiplet holds at a time; the tokens of one expert's job come together, more than this alone.
    """

    requests: Indices
    replica_bytes: BareOrBytes | None = None
    prefetch_pages: Annotated[int, Field(ge=0)] | None = None
    queue_tokens: Positive | None = None


class IsolationSpec(Spec):
    """Who shares the system. ``scrub``: a region of memory is written over before it is given to somebody else."""

    tenants: dict[Name, TenantSpec]
    scrub: bool = False

    def problems(self) -> Iterator[Problem]:
        if not self.tenants:
            yield Problem(("tenants",), "at least one tenant, such as first: {requests: 0-63}", "none")
        seen: list[tuple[str, IndexSet]] = []
        for name, tenant in self.tenants.items():
            for other, requests in seen:
                if tenant.requests.overlaps(requests):
                    yield Problem(
                        ("tenants", name, "requests"),
                        f"requests that are not those of tenant {other!r}, '{requests}'",
                        f"'{tenant.requests}'",
                    )
            seen.append((name, tenant.requests))


class SamplingSpec(Spec):
    """Which share of the (seed, batch, layer) units the rungs above ``link`` simulate; ``seed`` chooses them.

    ``strata: layer``: the same share of every layer of every seed, at least one unit of each. ``strata: run``: that
    share of all units, spread evenly over layers and batches. The same units for every policy.
    """

    fraction: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    strata: Literal["layer", "run"] = "layer"


class HotspotComponentSpec(Spec):
    """The benchmark of a file, as of ``cosim noc hotspot``, by shipped name (configs/networks) or path."""

    file: Text


class ComplementaritySpec(Spec):
    """The test of ``cosim trace complementarity`` on the experiment's trace."""

    batch_tokens: Positive = 64
    layers: Indices = IndexSet(None)
    permutations: Annotated[int, Field(ge=19)] = 199  # the fewest at a false-discovery rate of 5 %
    shuffles: Positive = 3
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1


class CommunicationSpec(Spec):
    """The fit of ``cosim place gamma`` on the experiment's trace: systems by a name of their own (hardware by shipped
    name or path), policies by title, the experiment's where none is given, and what is drawn."""

    systems: dict[Name, Text] = Field(default_factory=dict)
    policies: Items[Text] = ()
    samples: Annotated[int, Field(ge=3)] = 12
    least_tokens: Positive = 256  # as HD-MoE's published script draws them
    most_tokens: Positive = 638
    partial_sums: Literal["FP32", "FP16"] = "FP32"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1

    def problems(self) -> Iterator[Problem]:
        if not self.systems:
            yield Problem(("systems",), "at least one system, such as mesh: near-memory-4x8", "none")
        if self.least_tokens > self.most_tokens:
            yield Problem(
                ("most_tokens",), f"at least least_tokens, which is {self.least_tokens}", str(self.most_tokens)
            )


class LoadsSpec(Spec):
    """How uneven and how changing the loads of the experiment's trace are, beside draws of two kinds of chance."""

    batch_tokens: Positive = 64
    layers: Indices = IndexSet(None)
    draws: Annotated[int, Field(ge=19)] = 19  # beyond all of them: at a level of 5 %
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1


class GroupingComponentSpec(Spec):
    """Groupings and mappings as of ``cosim place group``, made on the profile part and judged on the evaluate part."""

    batch_tokens: Positive = 64
    layers: Indices = IndexSet(None)
    restarts: Annotated[int, Field(ge=0)] = 2
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1


class ComponentsSpec(Spec):
    """Components and inputs that are measured by themselves, beside the runs, for claims that speak of them."""

    hotspot: HotspotComponentSpec | None = None
    communication: CommunicationSpec | None = None
    complementarity: ComplementaritySpec | None = None
    loads: LoadsSpec | None = None
    grouping: GroupingComponentSpec | None = None


def _sampling(value: Any) -> Any:
    if isinstance(value, (Mapping, SamplingSpec)) or value == "none":
        return value
    raise refuse("none, or a mapping such as {fraction: 0.25, seed: 1}", repr(value))


Seed = Annotated[int, Field(ge=0, lt=2**63)]
Real = Annotated[float, Field(allow_inf_nan=False)]


def _real(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class PointSpec(Spec):
    """One point of a sweep: the base experiment with the keys of ``set`` changed.

    It stands ``at`` a number, or has a ``name``. ``set`` maps key paths, as of ``-o``, to values.
    """

    at: Annotated[Real | None, BeforeValidator(_real)] = None
    name: Text | None = None
    set: Annotated[dict[str, Any], Field(min_length=1)]

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.name if self.name is not None else f"{self.at:g}"

    def problems(self) -> Iterator[Problem]:
        if (self.at is None) == (self.name is None):
            yield Problem((), "one of the keys at and name", "both" if self.name is not None else "neither")
        for key in self.set:
            root = key.partition(".")[0]
            if root in SHARED_BY_POINTS or key == "workload.batches" or root not in ExperimentSpec.model_fields:
                known = [name for name in ExperimentSpec.model_fields if name not in SHARED_BY_POINTS]
                yield Problem(
                    ("set", key),
                    "a key that a point may change: " + one_of([*known[:-1], f"{known[-1]}; never workload.batches"]),
                    repr(key),
                    did_you_mean(root, known),
                )


#: Top keys that all points of an experiment share: the units of their comparison must be the same.
SHARED_BY_POINTS = (
    "name",
    "rungs",
    "claims",
    "seeds",
    "limits",
    "sweeps",
    "skipping",
    "components",
    "companions",
)


class SweepSpec(Spec):
    """An axis along which the base experiment is changed, one point at a time.

    ``key`` and ``values`` change one number of the experiment; ``points`` change any keys. ``base`` is where the base
    itself stands on a numeric axis (read from ``key`` if not given). ``policies`` are the titles that run at the
    points; all of them if not given.
    """

    key: Text | None = None
    values: Items[Annotated[Real, BeforeValidator(_real)]] = ()
    points: Items[PointSpec] = ()
    base: Annotated[Real | None, BeforeValidator(_real)] = None
    policies: Items[Text] = ()

    def problems(self) -> Iterator[Problem]:
        if (self.key is None) == (not self.points):
            yield Problem((), "either the keys key and values, or points", "both" if self.points else "neither")
        if (self.key is None) != (not self.values):
            yield Problem((), "the keys key and values together", "one of them")
        found = self.listed()
        if len({point.name is None for point in found}) > 1:
            yield Problem(("points",), "all points with a number (at) or all with a name", "some of each")
        if self.base is not None and any(point.name is not None for point in found):
            yield Problem(("base",), "no such key on an axis of names", f"{self.base:g}")
        labels = [point.label for point in found] + ([] if self.base is None else [f"{self.base:g}"])
        for position in duplicates(labels):
            yield Problem(("points",), "each point once, and none at the base", f"{labels[position]!r} again")

    def listed(self) -> tuple[PointSpec, ...]:
        """The points, however they were written."""
        if self.key is None:
            return self.points
        whole = [int(value) if value.is_integer() else value for value in self.values]
        return tuple(PointSpec(at=float(value), set={self.key: value}) for value in whole)


class ExperimentSpec(Spec):
    """The one schema of all experiments."""

    name: str | None = None
    trace: TraceSpec
    workload: WorkloadSpec
    system: Annotated[HardwareSpec, Reference()]
    policies: Annotated[Items[PolicySpec], Field(min_length=1)]
    rungs: Annotated[Items[Literal["analytic", "link", "flit", "link+command", "flit+rate"]], Field(min_length=1)]
    analytic: Items[AnalyticSpec] = ()
    skipping: Literal["on", "off"] = "on"
    claims: Text | None = None
    sampling: Annotated[SamplingSpec | Literal["none"], BeforeValidator(_sampling)] = "none"
    seeds: Annotated[Items[Seed], Field(min_length=1)]
    limits: LimitsSpec = Field(default_factory=LimitsSpec)
    faults: FaultsSpec | None = None
    isolation: IsolationSpec | None = None
    sweeps: dict[Name, SweepSpec] = Field(default_factory=dict)
    components: ComponentsSpec | None = None
    companions: Items[Text] = ()

    def alone(self) -> ExperimentSpec:
        """The base by itself: without sweeps, and without claims and what is there for them."""
        return self.model_copy(update={"sweeps": {}, "claims": None, "components": None, "companions": ()})

    def problems(self) -> Iterator[Problem]:
        titles = [policy.title for policy in self.policies]
        for position in duplicates(titles):
            yield Problem(
                ("policies", position), "each policy once", f"{titles[position]!r} again", "give it a label of its own"
            )
        for key in ("rungs", "seeds"):
            values = getattr(self, key)
            for position in duplicates(values):
                yield Problem((key, position), "each of them once", f"{values[position]!r} again")
        for position in duplicates(self.companions):
            yield Problem(("companions", position), "each of them once", f"{self.companions[position]!r} again")
        if self.companions and self.claims is None:
            yield Problem(("companions",), "the key 'claims', which companions answer together", "no such key")
        if self.components is not None and self.claims is None:
            yield Problem(("components",), "the key 'claims', which alone reads them", "no such key")
        if self.sampling != "none" and "link" not in self.rungs:
            yield Problem(("rungs",), "the rung 'link', which runs every unit and carries the sample", "no such rung")
        if "analytic" in self.rungs and not self.analytic:
            yield Problem((), "the key 'analytic' with models for the rung 'analytic'", "no such key")
        if self.analytic and "analytic" not in self.rungs:
            yield Problem(("analytic",), "the rung 'analytic' in rungs, which alone reads these", "no such rung")
        for axis, sweep in self.sweeps.items():
            for position, title in enumerate(sweep.policies):
                if title not in titles:
                    yield Problem(
                        ("sweeps", axis, "policies", position), one_of(titles), repr(title), did_you_mean(title, titles)
                    )
