"""The registry of components by kind: cosim's own, and those of installed packages.

A package offers a component by an entry point in the group of its kind::

    [project.entry-points."cosim.policies"]
    my_policy = "my_package.policies:MyPolicy"

Listing reads the metadata of installed packages and imports nothing, so that a broken package cannot break it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

from cosim.config.errors import ConfigErrors, did_you_mean, one_of

__all__ = ["GROUPS", "Plugin", "PluginError", "find", "names", "plugins"]

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        kind: f"cosim.{kind}"
        for kind in (
            "topologies",
            "routing",
            "routers",
            "arbiters",
            "memory",
            "policies",
            "trace_adapters",
            "analytic_models",
        )
    }
)
"""Kind of component → entry-point group."""

_OWN: Mapping[str, Mapping[str, str]] = {
    "topologies": {
        "crossbar": "cosim.config.schema_topology:CrossbarSpec",
        "fat_tree": "cosim.config.schema_topology:FatTreeSpec",
        "fully_connected": "cosim.config.schema_topology:FullyConnectedSpec",
        "graph": "cosim.config.schema_topology:GraphSpec",
        "mesh": "cosim.config.schema_topology:MeshWithNodesSpec",
        "pod_fat_tree": "cosim.config.schema_topology:PodFatTreeSpec",
        "ring": "cosim.config.schema_topology:RingSpec",
        "torus": "cosim.config.schema_topology:TorusSpec",
    },
    "policies": {
        "static": "cosim.policy.static:Static",
        "hot_replication": "cosim.policy.hot_replication:HotReplication",
        "hda_moe": "cosim.policy.hardware_aware_gating:HDAMoE",
        "popularity_prefetch": "cosim.policy.popularity_prefetch:PopularityPrefetch",
        "hcrmap": "cosim.policy.hcrmap.policy:HCRMap",
        "fixed_replica": "cosim.policy.fixed_replica:FixedReplica",
        "eplb": "cosim.policy.eplb:Eplb",
        "hydra": "cosim.policy.hydra:Hydra",
        "moentwine": "cosim.policy.moentwine:Moentwine",
        "pimoe": "cosim.policy.pimoe:Pimoe",
        "transition_prefetch": "cosim.policy.transition_prefetch:TransitionPrefetch",
        "comoe": "cosim.policy.comoe:CoMoE",
        "work_stealing": "cosim.policy.work_stealing:WorkStealing",
        "periodic_replication": "cosim.policy.periodic_replication:PeriodicReplication",
        "three_d_moe": "cosim.policy.three_d_moe:ThreeDMoE",
        "tensor_parallel": "cosim.policy.hybrid_parallel:TensorParallel",
        "expert_parallel": "cosim.policy.hybrid_parallel:ExpertParallel",
        "placed": "cosim.policy.hybrid_parallel:Placed",
    },
    "trace_adapters": {
        "flame_moe": "cosim_adapters.flame:ADAPTER",
        "gptoss_json": "cosim_adapters.gptoss:ADAPTER",
        "hdmoe_json": "cosim_adapters.hdmoe:ADAPTER",
        "llamacpp_csv": "cosim_adapters.llamacpp:CSV",
        "llamacpp_jsonl": "cosim_adapters.llamacpp:JSONL",
        "llamacpp_log": "cosim_adapters.llamacpp:LOG",
        "load_counts": "cosim_adapters.load_counts:ADAPTER",
        "megatron_replay": "cosim_adapters.megatron:ADAPTER",
        "policylang_jsonl": "cosim_adapters.policylang:JSONL",
        "policylang_parquet": "cosim_adapters.policylang:PARQUET",
        "sglang_json": "cosim_adapters.sglang:JSON",
        "sglang_recorder": "cosim_adapters.sglang:RECORDER",
        "transformers_logits": "cosim_adapters.transformers_logits:ADAPTER",
        "trtllm_statistics": "cosim_adapters.trtllm:ADAPTER",
        "vllm_eplb": "cosim_adapters.vllm:EPLB",
        "vllm_json": "cosim_adapters.vllm:JSON",
        "vllm_npz": "cosim_adapters.vllm:NPZ",
        "weights_csv": "cosim_adapters.weights_csv:ADAPTER",
    },
    "analytic_models": {
        "comoe": "cosim.analytic.comoe:CoMoE",
        "comoe_reconstructed": "cosim.analytic.comoe:CoMoEReconstructed",
        "hcrmap": "cosim.analytic.hcrmap:HCRMap",
        "hda_moe": "cosim.analytic.hda_moe:HDAMoE",
    },
}
"""Cosim's own components by kind: name → module:attribute."""

OWN_DISTRIBUTION = "cosim-moe"


class PluginError(RuntimeError):
    """A plug-in that cannot be used: its import failed, or two packages claim one name."""

    exit_code = 2


@dataclass(frozen=True)
class Plugin:
    """A component as its metadata tells it.

    Attributes:
        kind: one of :data:`GROUPS`.
        name: what users write.
        value: ``module:attribute`` that is imported on use.
        distribution: the package that brings it.
        version: of that package, empty where the metadata has none.
    """

    kind: str
    name: str
    value: str
    distribution: str
    version: str

    def load(self) -> Any:
        """Import it.

        Raises:
            PluginError: naming plug-in, package and cause.
        """
        module, _, attributes = self.value.partition(":")
        try:
            found: Any = import_module(module)
            for attribute in filter(None, attributes.split(".")):
                found = getattr(found, attribute)
        except Exception as problem:  # whatever a stranger's module does at import
            raise PluginError(
                f"the plug-in {self.name!r} ({self.kind}) of {self.distribution} cannot be loaded from {self.value!r}: "
                f"{type(problem).__name__}: {problem}"
            ) from problem
        return found


def _installed(kind: str) -> Iterable[Plugin]:
    points: Iterable[EntryPoint] = entry_points(group=GROUPS[kind])
    for point in points:
        metadata = point.dist
        yield Plugin(
            kind,
            point.name,
            point.value,
            metadata.name if metadata else "an unnamed package",
            metadata.version if metadata else "",
        )


def plugins(kind: str, *, installed: Callable[[str], Iterable[Plugin]] = _installed) -> list[Plugin]:
    """All components of ``kind`` by name, none of them imported.

    Raises:
        KeyError: no such kind.
        PluginError: two packages claim one name.
    """
    if kind not in GROUPS:
        raise KeyError(f"no kind {kind!r} of plug-ins: {', '.join(GROUPS)}")
    found = {name: Plugin(kind, name, value, OWN_DISTRIBUTION, "") for name, value in _OWN.get(kind, {}).items()}
    for plugin in sorted(installed(kind), key=lambda plugin: (plugin.name, plugin.distribution)):
        other = found.get(plugin.name)
        if other is not None and other.value != plugin.value:
            raise PluginError(
                f"the name {plugin.name!r} ({kind}) is claimed by {other.distribution} ({other.value}) and by "
                f"{plugin.distribution} ({plugin.value}): uninstall one of them"
            )
        found[plugin.name] = plugin
    return [found[name] for name in sorted(found)]


def names(kind: str) -> list[str]:
    """Names of all components of ``kind``, sorted."""
    return [plugin.name for plugin in plugins(kind)]


def find(kind: str, name: str) -> Plugin:
    """The component ``name`` of ``kind``, not imported yet.

    Raises:
        ConfigErrors: no such component, with the known ones and the nearest.
    """
    known = {plugin.name: plugin for plugin in plugins(kind)}
    if name not in known:
        expected = one_of(list(known)) if known else f"one of the {kind}, of which none is there"
        raise ConfigErrors.single(expected, repr(name), path=kind, suggestion=did_you_mean(name, known))
    return known[name]
