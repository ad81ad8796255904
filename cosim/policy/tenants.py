"""What each tenant of a shared system may hold of it, and what it holds: the keeper's books, whatever the policy.

A copy or a prefetch of an expert is charged to the tenant whose tokens have used that expert most since the run began,
the first of equals; what nobody has used yet, to the tenant with most tokens so far. What the operator places at the
start is nobody's. Limits and rule after seed 003, section 6.3: budgets of copies, credits of prefetches and quotas of
queues have bounds per tenant, so that a tenant who makes hot spots pays for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["TenantLedger", "TenantLimits"]


@dataclass(frozen=True)
class TenantLimits:
    """Names of the tenants and their bounds, ``None`` where there is none; one entry each, in the same order."""

    names: Sequence[str]
    replica_bytes: Sequence[int | None]
    prefetch_pages: Sequence[int | None]
    queue_tokens: Sequence[int | None]


class TenantLedger:
    """Demand, charged bytes of copies and refusals of every tenant.

    Attributes:
        demand: tokens of each tenant that used an expert, int64, shape (tenants, layers, experts).
        peak_bytes: most that was charged to each tenant at once.
        refused: wishes that a tenant's bounds refused, by kind (``copies``, ``prefetches``), one count each.
    """

    def __init__(self, limits: TenantLimits, layers: int, experts: int) -> None:
        self.limits = limits
        tenants = len(limits.names)
        self.demand: npt.NDArray[np.int64] = np.zeros((tenants, layers, experts), dtype=np.int64)
        self.peak_bytes = [0] * tenants
        self.refused = {kind: [0] * tenants for kind in ("copies", "prefetches")}
        self._charged: dict[int, tuple[int, int]] = {}  # replica → tenant, bytes
        self._prefetches: dict[int, int] = {}  # prefetch → tenant

    def see(self, groups: npt.NDArray[np.void]) -> None:
        """Counts the tokens of routed groups."""
        routed = groups[groups["expert"] < self.demand.shape[2]]
        np.add.at(self.demand, (routed["tenant"], routed["layer"], routed["expert"]), routed["tokens"].astype(np.int64))

    def payer(self, layer: int, expert: int) -> int:
        """The tenant that a copy or a prefetch of an expert is charged to."""
        used = self.demand[:, layer, expert]
        return int(np.argmax(used if used.any() else self.demand.sum(axis=(1, 2))))

    # -- copies

    def held_bytes(self, tenant: int) -> int:
        """Bytes of the copies that are charged to a tenant."""
        return sum(size for owner, size in self._charged.values() if owner == tenant)

    def copy_problem(self, layer: int, expert: int, size: int) -> str:
        """Why a copy is beyond its tenant's bound; empty if it is not."""
        tenant = self.payer(layer, expert)
        most, held = self.limits.replica_bytes[tenant], self.held_bytes(tenant)
        if most is None or held + size <= most:
            return ""
        self.refused["copies"][tenant] += 1
        return f"{held + size} B of copies exceed the quota of {most} B of tenant {self.limits.names[tenant]}"

    def charge(self, replica: int, layer: int, expert: int, size: int) -> None:
        """A copy has its region."""
        tenant = self.payer(layer, expert)
        self._charged[replica] = (tenant, size)
        self.peak_bytes[tenant] = max(self.peak_bytes[tenant], self.held_bytes(tenant))

    def move(self, replica: int, to: int) -> None:
        """A replica is charged under another identity: that of its copy in a farther tier, or back."""
        if replica in self._charged:
            self._charged[to] = self._charged.pop(replica)

    def release(self, replica: int) -> None:
        """A replica's region is free."""
        self._charged.pop(replica, None)

    # -- prefetches

    def prefetch_problem(self, layer: int, expert: int, live: Mapping[int, int]) -> str:
        """Why a prefetch is beyond its tenant's bound; empty if it is not. ``live``: pages by tenant."""
        tenant = self.payer(layer, expert)
        most = self.limits.prefetch_pages[tenant]
        if most is None or live.get(tenant, 0) < most:
            return ""
        self.refused["prefetches"][tenant] += 1
        return f"tenant {self.limits.names[tenant]} has its {most} pages under way or waiting"

    def prefetched(self, prefetch: int, layer: int, expert: int) -> None:
        """A prefetch has started."""
        self._prefetches[prefetch] = self.payer(layer, expert)

    def prefetch_of(self, prefetch: int) -> int:
        """Whose prefetch it is."""
        return self._prefetches[prefetch]

    # -- saving

    def state(self) -> dict[str, object]:
        """Everything but the limits, as plain JSON."""
        return {
            "demand": self.demand.reshape(-1).tolist(),
            "peak_bytes": list(self.peak_bytes),
            "refused": {kind: list(counts) for kind, counts in self.refused.items()},
            "charged": [[replica, *held] for replica, held in self._charged.items()],
            "prefetches": [list(item) for item in self._prefetches.items()],
        }

    def restore(self, state: Mapping[str, object]) -> None:
        """Puts the books into a state that :meth:`state` gave."""
        demand, peak, refused = state["demand"], state["peak_bytes"], state["refused"]
        charged, prefetches = state["charged"], state["prefetches"]
        assert isinstance(demand, list)
        assert isinstance(peak, list)
        assert isinstance(refused, Mapping)
        assert isinstance(charged, list)
        assert isinstance(prefetches, list)
        self.demand = np.array(demand, dtype=np.int64).reshape(self.demand.shape)
        self.peak_bytes = [int(value) for value in peak]
        self.refused = {kind: [int(value) for value in refused[kind]] for kind in self.refused}
        self._charged = {int(replica): (int(tenant), int(size)) for replica, tenant, size in charged}
        self._prefetches = {int(prefetch): int(tenant) for prefetch, tenant in prefetches}
