"""What others can add without touching the tree: entry points by kind, listed without importing any of them."""

from cosim.plugins.registry import GROUPS, Plugin, PluginError, find, names, plugins

__all__ = ["GROUPS", "Plugin", "PluginError", "find", "names", "plugins"]
