"""The link-level network on its own: directed links with occupancy, one message or a million at a time."""

from cosim.link.simulator import LinkResult, LinkSimulator
from cosim.link.topology import LinkTopology, fat_tree, mesh, torus

__all__ = ["LinkResult", "LinkSimulator", "LinkTopology", "fat_tree", "mesh", "torus"]
