"""A topology made by a Python function: ``{"plugin": .., "params": {..}}`` becomes a graph of links and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosim.config.errors import ConfigErrors, did_you_mean, one_of
from cosim.config.schema_topology import TopologySpec
from cosim.plugins.description import checked_params
from cosim.plugins.loading import load_object
from cosim.plugins.python_table import parameters_of_call, qualified_name
from cosim.plugins.registry import PluginError

__all__ = ["made_topology"]

KEYS = ("routers", "links", "nodes")


def made_topology(topology: Any, path: str = "network.topology") -> Any:
    """What a topology plug-in makes, as the description of a graph; any other topology as it is.

    Args:
        topology: ``{"plugin": reference, "params": {..}}``: ``path.py:name``, an entry point of ``cosim.topologies`` or
            a function of this process. It is called with the params and returns a mapping of ``routers`` (how many),
            ``links`` (as a graph has them) and, where not every router has one node, ``nodes`` (router of each).
        path: what to call it in errors.

    Raises:
        ConfigErrors: no such function, or params that it does not have.
        PluginError: it raises, or returns something else.
    """
    if not isinstance(topology, Mapping) or "plugin" not in topology:
        return topology
    for key in topology:
        if key not in ("plugin", "params"):
            hint = did_you_mean(str(key), ("plugin", "params"))
            raise ConfigErrors.single("plugin and params alone", f"the unknown key {key!r}", path=path, suggestion=hint)
    reference, params = topology["plugin"], topology.get("params", {})
    if not isinstance(params, Mapping):
        raise ConfigErrors.single("a mapping of parameters", repr(params), path=f"{path}.params")
    make = load_object(reference, "topologies")
    if not callable(make):
        raise PluginError(f"the topology {reference!r} is a {type(make).__name__}, expected a function")
    name = qualified_name(make)
    if isinstance(make, type) and issubclass(make, TopologySpec):
        raise ConfigErrors.single(f"kind: {reference}", "a built-in topology as a plug-in", path=f"{path}.plugin")
    given = checked_params(params, parameters_of_call(make), name, f"{path}.params")
    try:
        made = make(**given)
    except Exception as problem:  # whatever a user's function does
        raise PluginError(f"the topology {name!r} raised {type(problem).__name__}: {problem}") from problem
    if not isinstance(made, Mapping) or not {"routers", "links"} <= set(made) <= set(KEYS):
        said = sorted(map(str, made)) if isinstance(made, Mapping) else type(made).__name__
        raise PluginError(f"the topology {name!r} returned {said}, expected a mapping of {one_of(KEYS)}")
    return {"kind": "graph", **made}
