"""What each tenant of a shared system had and got in one layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.policy.tenants import TenantLedger

__all__ = ["TENANT_COLUMNS", "TenantRow", "tenant_frame", "tenant_rows"]


@dataclass(frozen=True)
class TenantRow:
    """One tenant in one (batch, layer).

    tokens: token–expert pairs, those in parts of split experts counted once a part. total_fs: from the layer's start to
    the last of its groups; 0 without any. queue_fs: that its groups waited at chiplets, held_fs: that they were held
    back for room within the tenant's queue quota (in a replay also for copies), both summed over them. The rest is the
    keeper's book since the run began: bytes of copies now charged to it and at most at once, and what its bounds
    refused.
    """

    tenant: str
    tokens: int
    total_fs: int
    queue_fs: int
    held_fs: int
    replica_bytes: int
    peak_replica_bytes: int
    refused_copies: int
    refused_prefetches: int


TENANT_COLUMNS = tuple(name for name in TenantRow.__dataclass_fields__ if name != "tenant")


def tenant_rows(
    books: TenantLedger, groups: npt.NDArray[np.void], stages: Mapping[str, npt.NDArray[np.int64]], start_fs: int
) -> tuple[TenantRow, ...]:
    """One row per tenant; ``stages`` as of :func:`cosim.workload.stages.group_stages`."""
    rows = []
    for tenant, name in enumerate(books.limits.names):
        mine = groups["tenant"] == tenant
        rows.append(
            TenantRow(
                name,
                int(groups["tokens"][mine].sum()),
                int(stages["end"][mine].max(initial=start_fs)) - start_fs,
                int(stages["queue"][mine].sum()),
                int(stages["publish_wait"][mine].sum()),
                books.held_bytes(tenant),
                books.peak_bytes[tenant],
                books.refused["copies"][tenant],
                books.refused["prefetches"][tenant],
            )
        )
    return tuple(rows)


def tenant_frame(units: list[tuple[int, int, tuple[TenantRow, ...]]]) -> pd.DataFrame:
    """One row per (batch, layer, tenant); empty where nobody shares the system."""
    frame: pd.DataFrame = pd.DataFrame(
        [{"batch": batch, "layer": layer, **asdict(row)} for batch, layer, rows in units for row in rows]
    )
    return frame
