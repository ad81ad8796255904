"""The hotspot benchmark: one hot node whose weight tiles helpers need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from cosim.config.quantities import BareOrBytes, ByteCount
from cosim.config.schema_network import NetworkConfig
from cosim.config.spec import Items, Problem, Spec, duplicates

__all__ = ["SCHEMES", "HotspotFile", "HotspotSpec"]

SCHEMES = ("unicast", "multicast", "cmn", "ideal")
"""Ways to bring a tile to all helpers; the first three are message classes of the network."""

Count = Annotated[int, Field(ge=1, le=1 << 20)]


class HotspotSpec(Spec):
    """Every number of ``helpers`` with every size of ``tiles``, by every scheme.

    The helpers are the nodes nearest to ``hot`` (by links on the way, then by number). A tile is cut into packets of at
    most ``packet_flits``, each with a header; all of them are there at cycle 0. ``packet_sizes`` are further packet
    sizes for which the split of the unicasts' latency is given, with the most helpers and the first tile.
    """

    hot: Annotated[int, Field(ge=0)]
    helpers: Annotated[Items[Count], Field(min_length=1)]
    tiles: Annotated[Items[ByteCount], Field(min_length=1)]
    flit_width: ByteCount
    header_bytes: BareOrBytes = 8
    packet_flits: Count = 8
    packet_sizes: Items[Count] = ()

    def problems(self) -> Iterator[Problem]:
        for key in ("helpers", "tiles", "packet_sizes"):
            values = getattr(self, key)
            for position in duplicates(values):
                yield Problem((key, position), "each of them once", f"{values[position]} again")
        for key, flits in (
            ("packet_flits", self.packet_flits),
            *(("packet_sizes", size) for size in self.packet_sizes),
        ):
            if flits * self.flit_width <= self.header_bytes:
                yield Problem((key,), f"packets larger than a header of {self.header_bytes} B", f"{flits} flits")


class HotspotFile(Spec):
    """The file of ``cosim noc hotspot``: a network with the classes unicast, multicast and cmn, and the benchmark."""

    network: NetworkConfig
    hotspot: HotspotSpec

    def problems(self) -> Iterator[Problem]:
        classes = self.network.classes
        for name in SCHEMES[:-1]:
            if name not in classes:
                yield Problem(
                    ("network", "classes"), f"a class {name!r}", f"the classes {', '.join(classes) or 'none'}"
                )
        if "multicast" in classes and not classes["multicast"].multicast:
            yield Problem(("network", "classes", "multicast"), "`multicast: true`", "a class of unicasts")
        if "cmn" in classes and not classes["cmn"].session:
            yield Problem(("network", "classes", "cmn"), "`session: true`", "a class of packets")
        nodes = len(self.network.topology.node_routers())
        if self.hotspot.hot >= nodes:
            yield Problem(("hotspot", "hot"), f"a node from 0 to {nodes - 1}", str(self.hotspot.hot))
        for position, helpers in enumerate(self.hotspot.helpers):
            if helpers >= nodes:
                yield Problem(("hotspot", "helpers", position), f"at most {nodes - 1} helpers", str(helpers))
        depth = min(self.network.vc_buf_size, self.network.link_depth_flits)
        if self.hotspot.packet_flits > depth:
            expected = f"at most {depth} flits, the smallest VC (multicast is virtual cut-through)"
            yield Problem(("hotspot", "packet_flits"), expected, str(self.hotspot.packet_flits))
