"""Memory at command level: standards as data, address maps, one controller per channel."""

from cosim.mem.address_map import AddressMap
from cosim.mem.checker import Violation, check_commands
from cosim.mem.memory import Memory, MemoryRun
from cosim.mem.standard import Constraint, Standard
from cosim.mem.standard_files import presets
from cosim.mem.standards import load_standard

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
