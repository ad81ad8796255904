"""What others can add without touching the tree: entry points by kind, shared objects, C source, Python functions."""

from cosim.plugins.arbiters import ArbiterPlugin, load_arbiter
from cosim.plugins.compile import compile_c
from cosim.plugins.headers import include_dir
from cosim.plugins.memory import MemoryPlugin, load_memory
from cosim.plugins.python_memory import MemoryGeometry, MemoryRequest
from cosim.plugins.python_routing import RouteRequest, Topology, stateless
from cosim.plugins.registry import GROUPS, Plugin, PluginError, find, names, plugins
from cosim.plugins.routers import RouterModelPlugin, load_router_model
from cosim.plugins.routing import RoutingPlugin, load_routing

__all__ = [
    "GROUPS",
    "ArbiterPlugin",
    "MemoryGeometry",
    "MemoryPlugin",
    "MemoryRequest",
    "Plugin",
    "PluginError",
    "RouteRequest",
    "RouterModelPlugin",
    "RoutingPlugin",
    "Topology",
    "compile_c",
    "find",
    "include_dir",
    "load_arbiter",
    "load_memory",
    "load_router_model",
    "load_routing",
    "names",
    "plugins",
    "stateless",
]
