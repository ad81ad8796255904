"""The keys of a memory whose controller is a plug-in."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from cosim import _core
from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of
from cosim.mem.options import MemoryOptions
from cosim.plugins.memory import MemoryPlugin, load_memory

__all__ = ["plugin_errors", "serve", "split_plugin"]

BESIDE_PLUGIN = ("preset", "standard_file", "organisation", "values", "channels", "address_map")
"""Keys that say what the memory is; the others say how our controller works, which a plug-in replaces."""


def split_plugin(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], MemoryPlugin | None]:
    """The configuration without `plugin` and `params`, and the plug-in.

    Raises:
        ConfigErrors: params without a plug-in, keys that a plug-in's memory never reads, no such plug-in.
        PluginError: a plug-in that cannot be used.
    """
    if not isinstance(config, Mapping) or ("plugin" not in config and "params" not in config):
        return config, None
    if "plugin" not in config:
        raise ConfigErrors.single("plugin, beside params", "params alone", path="params")
    rest = {key: value for key, value in config.items() if key not in ("plugin", "params")}
    known = ("plugin", "params", *BESIDE_PLUGIN)
    problems = [
        ConfigError(
            None, None, None, str(key), f"{one_of(known)} (a plug-in is the controller)", f"the key {key!r}",
            did_you_mean(str(key), known),
        )
        for key in rest
        if key not in BESIDE_PLUGIN
    ]  # fmt: skip
    params = config.get("params", {})
    if not isinstance(params, Mapping):
        problems.append(ConfigError(None, None, None, "params", "a mapping of names to values", repr(params)))
    if problems:
        raise ConfigErrors(problems)
    return rest, load_memory(config["plugin"], params)


def serve(plugin: MemoryPlugin, options: MemoryOptions, config: _core.MemChannelConfig) -> None:
    """Let the channels of `config` be the plug-in's."""
    standard = options.standard
    tick = standard.tick_fs
    core = plugin.core(standard.preset, round(standard.peak_GBps * 1e9), tick.numerator, tick.denominator)
    core.serve(config)


def plugin_errors(plugin: MemoryPlugin | None) -> AbstractContextManager[None]:
    """What goes wrong inside is the plug-in's, where there is one; see `LoadedTable.in_use`."""
    if plugin is None:
        return nullcontext()
    return plugin.table.in_use("a memory that the plug-in takes", "plugin", RuntimeError)
