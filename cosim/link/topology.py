"""The three interconnects of HDA-MoE (seed 002, section IV) as directed links with a bandwidth each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigError, ConfigErrors

__all__ = ["LinkTopology", "fat_tree", "mesh", "torus"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LinkTopology:
    """Routers, directed links and the one route between every two routers.

    name:           what to call it.
    endpoint_router: router of each endpoint, int64, shape (endpoints,).
    source, target: routers at a link's ends, int64, shape (links,).
    bandwidth_Bps:  bytes per second of a link, int64, shape (links,).
    next_link:      link that leads from a router towards another, int64, shape (routers, routers), -1 on the diagonal.
    """

    name: str
    endpoint_router: IntArray
    source: IntArray
    target: IntArray
    bandwidth_Bps: IntArray
    next_link: IntArray

    @property
    def endpoints(self) -> int:
        """Number of endpoints."""
        return len(self.endpoint_router)

    @property
    def routers(self) -> int:
        """Number of routers."""
        return len(self.next_link)

    @property
    def links(self) -> int:
        """Number of directed links."""
        return len(self.source)

    def path(self, source: int, destination: int) -> list[int]:
        """The links from one endpoint to another, in order; none from an endpoint to itself."""
        here, goal = int(self.endpoint_router[source]), int(self.endpoint_router[destination])
        links = []
        while here != goal:
            link = int(self.next_link[here, goal])
            links.append(link)
            here = int(self.target[link])
            if len(links) > self.links:
                raise ValueError(f"{self.name}: the route from endpoint {source} to {destination} does not end")
        return links

    @cached_property
    def hops(self) -> IntArray:
        """Links between every two endpoints, int64, shape (endpoints, endpoints)."""
        pairs = [[len(self.path(a, b)) for b in range(self.endpoints)] for a in range(self.endpoints)]
        return np.array(pairs, dtype=np.int64)


def mesh(shape: Sequence[int], bandwidth_Bps: int) -> LinkTopology:
    """A mesh with dimension-order routing, dimension 0 first; node id = x + shape[0]·y, as in ``cosim.noc``."""
    return _grid("mesh", shape, bandwidth_Bps, wrap=False)


def torus(shape: Sequence[int], bandwidth_Bps: int) -> LinkTopology:
    """A mesh with wrap-around links that takes the direction of fewer hops in each dimension, upwards at a tie."""
    return _grid("torus", shape, bandwidth_Bps, wrap=True)


def fat_tree(
    *,
    endpoint_leaf_Bps: int,
    leaf_aggregation_Bps: int,
    aggregation_core_Bps: int,
    pods: int = 4,
    leaves_per_pod: int = 4,
    endpoints_per_leaf: int = 2,
    aggregations_per_pod: int = 2,
    cores: int = 4,
) -> LinkTopology:
    """A three-level tree with up-down routes and a bandwidth per level; 32 endpoints in 4 pods unless said otherwise.

    Every leaf has a link to each aggregation switch of its pod; aggregation switch a of every pod has links to the
    cores a·n .. (a + 1)·n - 1 with n = cores / aggregations_per_pod. On the way up the switch is chosen by the
    destination's number, so that the route of a pair is fixed and destinations spread over the switches.
    """
    _positive(
        "fat_tree",
        pods=pods,
        leaves_per_pod=leaves_per_pod,
        endpoints_per_leaf=endpoints_per_leaf,
        aggregations_per_pod=aggregations_per_pod,
        cores=cores,
        endpoint_leaf_Bps=endpoint_leaf_Bps,
        leaf_aggregation_Bps=leaf_aggregation_Bps,
        aggregation_core_Bps=aggregation_core_Bps,
    )
    if cores % aggregations_per_pod:
        raise ConfigErrors.single(
            f"cores in equal shares for {aggregations_per_pod} aggregation switches", f"{cores}", path="fat_tree.cores"
        )
    endpoints = pods * leaves_per_pod * endpoints_per_leaf
    first_leaf = endpoints
    first_aggregation = first_leaf + pods * leaves_per_pod
    first_core = first_aggregation + pods * aggregations_per_pod
    routers = first_core + cores
    share = cores // aggregations_per_pod
    builder = _Links()
    for endpoint in range(endpoints):
        builder.both(endpoint, first_leaf + endpoint // endpoints_per_leaf, endpoint_leaf_Bps)
    for leaf in range(pods * leaves_per_pod):
        for a in range(aggregations_per_pod):
            above = first_aggregation + leaf // leaves_per_pod * aggregations_per_pod + a
            builder.both(first_leaf + leaf, above, leaf_aggregation_Bps)
    for aggregation in range(pods * aggregations_per_pod):
        for n in range(share):
            core = first_core + aggregation % aggregations_per_pod * share + n
            builder.both(first_aggregation + aggregation, core, aggregation_core_Bps)

    def step(router: int, goal: int) -> int:
        leaf = goal // endpoints_per_leaf
        pod = leaf // leaves_per_pod
        if router < endpoints:  # up to its leaf
            return first_leaf + router // endpoints_per_leaf
        if router < first_aggregation:
            if router == first_leaf + leaf:
                return goal
            here = (router - first_leaf) // leaves_per_pod
            return first_aggregation + here * aggregations_per_pod + goal % aggregations_per_pod
        if router < first_core:
            if (router - first_aggregation) // aggregations_per_pod == pod:
                return first_leaf + leaf
            a = (router - first_aggregation) % aggregations_per_pod
            return first_core + a * share + goal // aggregations_per_pod % share
        return first_aggregation + pod * aggregations_per_pod + (router - first_core) // share

    # only endpoints are destinations; a switch as destination is never asked for
    return builder.topology("fat_tree", np.arange(endpoints, dtype=np.int64), routers, step)


class _Links:
    def __init__(self) -> None:
        self.ends: list[tuple[int, int]] = []
        self.rates: list[int] = []

    def one(self, source: int, target: int, rate: int) -> None:
        self.ends.append((source, target))
        self.rates.append(rate)

    def both(self, first: int, second: int, rate: int) -> None:
        self.one(first, second, rate)
        self.one(second, first, rate)

    def topology(
        self, name: str, endpoint_router: IntArray, routers: int, step: Callable[[int, int], int]
    ) -> LinkTopology:
        number = {ends: link for link, ends in enumerate(self.ends)}
        next_link = np.full((routers, routers), -1, dtype=np.int64)
        for goal in endpoint_router.tolist():
            for router in range(routers):
                if router != goal:
                    next_link[router, goal] = number[router, step(router, goal)]
        ends = np.array(self.ends, dtype=np.int64).reshape(-1, 2)
        return LinkTopology(
            name,
            endpoint_router,
            np.ascontiguousarray(ends[:, 0]),
            np.ascontiguousarray(ends[:, 1]),
            np.array(self.rates, dtype=np.int64),
            next_link,
        )


def _grid(kind: str, shape: Sequence[int], bandwidth_Bps: int, *, wrap: bool) -> LinkTopology:
    _positive(kind, **{f"shape[{i}]": size for i, size in enumerate(shape)}, bandwidth_Bps=bandwidth_Bps)
    if not shape:
        raise ConfigErrors.single("at least one dimension", "none", path=f"{kind}.shape")
    stride = [int(np.prod(shape[:d], dtype=np.int64)) for d in range(len(shape))]
    nodes = int(np.prod(shape, dtype=np.int64))
    builder = _Links()
    for node in range(nodes):
        for d, size in enumerate(shape):
            x = node // stride[d] % size
            if x + 1 < size:
                builder.both(node, node + stride[d], bandwidth_Bps)
            elif wrap and size > 2:  # with two nodes the wrap-around link would double the only one
                builder.both(node, node - (size - 1) * stride[d], bandwidth_Bps)

    def step(router: int, goal: int) -> int:
        for d, size in enumerate(shape):
            x, want = router // stride[d] % size, goal // stride[d] % size
            if x == want:
                continue
            up = want > x
            if wrap and size > 2:
                up = (want - x) % size <= (x - want) % size
            return router + ((x + (1 if up else -1)) % size - x) * stride[d]
        raise AssertionError("a router is asked for the way to itself")

    name = f"{kind} {'x'.join(map(str, shape))}"
    return builder.topology(name, np.arange(nodes, dtype=np.int64), nodes, step)


def _positive(kind: str, **values: int) -> None:
    errors = [
        ConfigError(None, None, None, f"{kind}.{name}", "a whole number of at least 1", repr(value))
        for name, value in values.items()
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1
    ]
    if errors:
        raise ConfigErrors(errors)
