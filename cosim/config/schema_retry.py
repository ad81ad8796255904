"""Links that flip bits and send bad flits again."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cosim.config.spec import Spec

__all__ = ["RetrySpec"]


class RetrySpec(Spec):
    """Every bit of a flit on a link between routers is wrong with probability ``bit_error_rate``, by itself.

    A flit of ``flit_bits`` carries ``crc_bits`` more, which find every error. What the far end takes to answer with a
    NACK and the sender to begin again are ``nack_delay`` cycles together; it sends all that followed again as well
    (go-back-N). ``seed`` is of the errors.
    """

    bit_error_rate: Annotated[float, Field(gt=0, le=0.01)]
    flit_bits: Annotated[int, Field(ge=1, le=1 << 20)]
    crc_bits: Annotated[int, Field(ge=0, le=1024)] = 16
    nack_delay: Annotated[int, Field(ge=0, le=100_000)] = 1
    seed: Annotated[int, Field(ge=0, le=(1 << 64) - 1)] = 1
