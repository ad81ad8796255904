"""Units that sum packets in the network."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cosim.config.spec import Spec

__all__ = ["ReductionSpec"]


class ReductionSpec(Spec):
    """Every router has a reduction unit on ``ports`` ports of its own, behind its others.

    The packets of a reduction that come together at a router are read by its unit, on its ports in turn, and leave as
    one: a flit of the sum at the earliest ``combine_delay`` cycles after the last flit that it needs has been read.
    """

    ports: Annotated[int, Field(ge=1, le=32)] = 1
    combine_delay: Annotated[int, Field(ge=1, le=100_000)] = 1
