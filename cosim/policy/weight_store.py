"""What the regions of the memories hold: which expert, of which version, whether all of it and unharmed.

The simulator moves bytes, not weights. This ledger says what those bytes are, so that every token group can be followed
to the weights it reads: none reads a region that is half written, harmed, of another expert or of another version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["ConsistencyError", "RegionKey", "StoredWeights", "WeightStore"]

#: (tier, memory endpoint, address)
RegionKey = tuple[int, int, int]


class ConsistencyError(RuntimeError):
    """A token group read weights that it must not read: the simulator is at fault, never the input."""


@dataclass(frozen=True)
class StoredWeights:
    """Contents of a region. ``whole``: all bytes are written; ``intact``: they are those that were read."""

    layer: int
    expert: int
    version: int
    whole: bool
    intact: bool = True


class WeightStore:
    """Contents by region; a region that holds nothing is not in it."""

    def __init__(self) -> None:
        self.regions: dict[RegionKey, StoredWeights] = {}

    def hold(self, region: RegionKey, layer: int, expert: int, version: int) -> None:
        """A region that is written when the run begins."""
        self.regions[region] = StoredWeights(layer, expert, version, whole=True)

    def begin(self, region: RegionKey, layer: int, expert: int, version: int) -> None:
        """A copy into a region begins: until it has ended nobody may read there."""
        if region in self.regions:
            raise ConsistencyError(f"region {region} is written over {self.regions[region]}")
        self.regions[region] = StoredWeights(layer, expert, version, whole=False)

    def end(self, region: RegionKey, *, intact: bool = True) -> None:
        """The copy's last byte is written."""
        self.regions[region] = replace(self.regions[region], whole=True, intact=intact)

    def verified(self, region: RegionKey) -> bool:
        """Whether the checksum of a region is that of its weights."""
        held = self.regions.get(region)
        return held is not None and held.whole and held.intact

    def erase(self, region: RegionKey) -> None:
        """The region is given back."""
        self.regions.pop(region, None)

    def problem(self, region: RegionKey, layer: int, expert: int, version: int) -> str:
        """Why a token group of this expert and version must not read there; empty if it may."""
        held = self.regions.get(region)
        if held is None:
            return "the region has been given back"
        if not held.whole:
            return "it is half written"
        if not held.intact:
            return "its checksum is wrong"
        if (held.layer, held.expert) != (layer, expert):
            return f"it holds expert {held.expert} of layer {held.layer}"
        if held.version != version:
            return f"it holds version {held.version} instead of {version}"
        return ""
