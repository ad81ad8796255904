"""Memory tiers of a built system: which endpoints carry them, which chiplets these serve, and what a bank holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from cosim.config.schema_hardware import HardwareSpec
from cosim.config.units import BYTES, format_quantity
from cosim.system.endpoints import Endpoint
from cosim.system.networks import Gateway, Network

__all__ = ["Tier", "bank_table", "banks_are_ranges", "build_tiers", "package_places", "tier_problems"]


@dataclass(frozen=True)
class Tier:
    """A memory tier: the endpoints that carry it, and what each of them holds and serves.

    Attributes:
        capacity_bytes: on each endpoint, for weights: reserves are taken off.
        rank: 0 is nearest to compute.
        served: chiplets (compute endpoints) of each endpoint, in the order of ``endpoints``.
        bank_bytes: of one bank where a replica must lie in one; ``None``: it is striped over all of an endpoint.
    """

    name: str
    endpoints: tuple[int, ...]
    capacity_bytes: int
    rank: int
    served: tuple[tuple[int, ...], ...]
    bank_bytes: int | None

    @property
    def total_bytes(self) -> int:
        """Bytes on all its endpoints together."""
        return self.capacity_bytes * len(self.endpoints)

    def serving(self, chiplet: int) -> tuple[int, ...]:
        """The endpoints whose weights may be executed at ``chiplet``."""
        return self._serving.get(chiplet, ())

    @cached_property
    def _serving(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, list[int]] = {}
        for endpoint, served in zip(self.endpoints, self.served, strict=True):
            for chiplet in dict.fromkeys(served):
                found.setdefault(chiplet, []).append(endpoint)
        return {chiplet: tuple(endpoints) for chiplet, endpoints in found.items()}


def package_places(
    networks: Sequence[Network], gateways: Sequence[Gateway], endpoints: Sequence[Endpoint]
) -> list[tuple[int, int]]:
    """Place (x, y) of every endpoint's router of the package, the level at the root.

    An endpoint of a lower level stands where the first gateway on its way up does.
    """
    places = []
    for endpoint in endpoints:
        network, router = networks[endpoint.network], endpoint.router
        while network.above >= 0:
            up = next(gateway for gateway in gateways if gateway.networks[0] == network.index)
            network, router = networks[up.networks[1]], up.routers[1]
        places.append(network.xy(router))
    return places


def build_tiers(
    spec: HardwareSpec, networks: Sequence[Network], gateways: Sequence[Gateway], endpoints: Sequence[Endpoint]
) -> tuple[Tier, ...]:
    """The tiers of ``spec``, by name."""
    places = package_places(networks, gateways, endpoints)
    width, height = (max(place[axis] for place in places) + 1 for axis in (0, 1))
    quarters = [(x * 2 >= width, y * 2 >= height) for x, y in places]
    computes = [endpoint.index for endpoint in endpoints if endpoint.kind == "compute"]
    tiers = []
    for name, tier in sorted(spec.tiers.items()):
        carriers = [endpoint for endpoint in endpoints if endpoint.name == tier.on]
        where: Sequence[object] = [0] * len(endpoints)
        if tier.group != "package":
            where = quarters if tier.group == "quadrant" else places
        served = tuple(tuple(c for c in computes if where[c] == where[carrier.index]) for carrier in carriers)
        figures = carriers[0].memory if carriers else None
        in_banks = figures is not None and tier.striping == "bank"
        tiers.append(
            Tier(
                name,
                tuple(endpoint.index for endpoint in carriers),
                tier.weight_bytes,
                tier.rank or 0,
                served,
                tier.capacity // figures.banks if in_banks and figures is not None else None,
            )
        )
    return tuple(tiers)


def tier_problems(tiers: Sequence[Tier], endpoints: Sequence[Endpoint]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """(key, expected, got): endpoints of a tier that serve no chiplet, chiplets without a home tier."""
    for tier in tiers:
        idle = [endpoints[e].label for e, served in zip(tier.endpoints, tier.served, strict=True) if not served]
        if idle:
            yield (
                ("tiers", tier.name, "group"),
                "a chiplet in the group of every endpoint",
                f"none at {', '.join(idle)}",
            )
    if not tiers:
        return
    home = max(tiers, key=lambda tier: tier.rank)
    alone = [place.label for place in endpoints if place.kind == "compute" and not home.serving(place.index)]
    if alone:
        yield (
            ("tiers", home.name, "group"),
            f"an endpoint of {home.name!r}, the tier of homes, for every chiplet",
            f"none for {len(alone)}: {', '.join(alone[:4])}",
        )


def bank_table(expert_bytes: int, tiers: Sequence[tuple[str, int, int, int]]) -> str:
    """How many whole experts a bank and an endpoint of each tier hold, as one line.

    Args:
        tiers: name, banks of an endpoint, bytes of a bank, bytes of an endpoint.
    """
    parts = [
        f"{name}: {banks} banks of {format_quantity(bank, BYTES)}, {bank // expert_bytes} experts in a bank, "
        f"{endpoint // expert_bytes} striped over an endpoint"
        for name, banks, bank, endpoint in tiers
    ]
    return f"experts of {format_quantity(expert_bytes, BYTES)}; " + "; ".join(parts)


def banks_are_ranges(address_map: str | tuple[str, ...], bank_fields: Sequence[str]) -> bool:
    """Whether the most significant bits of an address are those of the bank, so that a bank is a range of addresses.

    Args:
        address_map: a name such as ``ChPcRoBaSiCoBg``, or a list of bits, least significant first.
        bank_fields: fields that say which bank.
    """
    short = {"channel": "ch", "pseudo_channel": "pc", "bank_group": "bg", "bank": "ba"}
    wanted = {short[field] for field in bank_fields}
    if isinstance(address_map, str):
        fields = [text.lower() for text in re.findall(r"[A-Z][a-z]", address_map)]
    else:
        fields = [re.sub(r"[^a-z]", "", bit.lower()) for bit in reversed(address_map)]
    behind = [field for field in fields if field not in wanted]
    return fields[len(fields) - len(behind) :] == behind and wanted >= set(fields[: len(fields) - len(behind)])
