"""The registry of components by kind: cosim's own, and those of installed packages.

A package offers a component by an entry point in the group of its kind, and so does cosim for its own::

    [project.entry-points."cosim.policies"]
    my_policy = "my_package.policies:MyPolicy"

Listing reads the metadata of installed packages and imports nothing, so that a broken package cannot break it. In a
checkout, installed as editable or not at all, cosim's own are read from its pyproject.toml, of which their metadata is
made: an edit counts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cosim._core import __version__
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

OWN_DISTRIBUTION = "cosim-moe"
_PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


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


@lru_cache(maxsize=1)
def _checkout() -> Mapping[str, Mapping[str, str]] | None:
    """Entry points of the checkout that this module lies in, by group; None where it lies in none.

    Python 3.10 cannot read the file: there the metadata of an editable install counts.

    Raises:
        PluginError: neither can be read.
    """
    if not _PYPROJECT.is_file():
        return None
    try:
        toml = import_module("tomllib")
    except ModuleNotFoundError:
        try:
            distribution(OWN_DISTRIBUTION)
        except PackageNotFoundError:
            raise PluginError(
                f"a checkout that is not installed needs Python 3.11 to read {_PYPROJECT}: `pip install -e .`"
            ) from None
        return None
    project = toml.loads(_PYPROJECT.read_text(encoding="utf-8")).get("project", {})
    if project.get("name") != OWN_DISTRIBUTION:
        return None
    points: Mapping[str, Mapping[str, str]] = project["entry-points"]
    return points


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


def _order(plugin: Plugin) -> tuple[str, bool, str]:
    return plugin.name, plugin.distribution != OWN_DISTRIBUTION, plugin.distribution


def plugins(kind: str, *, installed: Callable[[str], Iterable[Plugin]] = _installed) -> list[Plugin]:
    """All components of ``kind`` by name, none of them imported.

    Raises:
        KeyError: no such kind.
        PluginError: two packages claim one name.
    """
    if kind not in GROUPS:
        raise KeyError(f"no kind {kind!r} of plug-ins: {', '.join(GROUPS)}")
    own = _checkout()
    others = [plugin for plugin in installed(kind) if own is None or plugin.distribution != OWN_DISTRIBUTION]
    found = {
        name: Plugin(kind, name, value, OWN_DISTRIBUTION, __version__)
        for name, value in (own or {}).get(GROUPS[kind], {}).items()
    }
    for plugin in sorted(others, key=_order):
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
