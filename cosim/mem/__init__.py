"""Memory at command level: standards as data, address maps, one controller per channel."""

from cosim.mem.address_map import AddressMap
from cosim.mem.checker import Violation, check_commands
from cosim.mem.memory import Memory, MemoryRun
from cosim.mem.standards import Constraint, Standard, load_standard, presets

__all__ = [
    "AddressMap",
    "Constraint",
    "Memory",
    "MemoryRun",
    "Standard",
    "Violation",
    "check_commands",
    "load_standard",
    "presets",
]
