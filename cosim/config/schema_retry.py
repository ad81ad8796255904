"""Links that flip bits and send bad flits again."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cosim.config.spec import Spec

__all__ = ["LevelRetrySpec", "RetrySpec"]

MOST_FLIT_BITS = 1 << 20
ErrorRate = Annotated[float, Field(gt=0, le=0.01)]
CrcBits = Annotated[int, Field(ge=0, le=1024)]
NackDelay = Annotated[int, Field(ge=0, le=100_000)]
Seed = Annotated[int, Field(ge=0, le=(1 << 64) - 1)]


class RetrySpec(Spec):
    """Every bit of a flit on a link between routers is wrong with probability ``bit_error_rate``, by itself.

    A flit of ``flit_bits`` carries ``crc_bits`` more, which find every error. What the far end takes to answer with a
    NACK and the sender to begin again are ``nack_delay`` cycles together; it sends all that followed again as well
    (go-back-N). ``seed`` is of the errors.
    """

    bit_error_rate: ErrorRate
    flit_bits: Annotated[int, Field(ge=1, le=MOST_FLIT_BITS)]
    crc_bits: CrcBits = 16
    nack_delay: NackDelay = 1
    seed: Seed = 1


class LevelRetrySpec(Spec):
    """As :class:`RetrySpec`, of a level of a system: the bits of its flits are those of its ``flit_width``.

    Links of every instance of the level have errors of their own. Seen by flits alone: on other rungs links are
    perfect.
    """

    bit_error_rate: ErrorRate
    crc_bits: CrcBits = 16
    nack_delay: NackDelay = 1
    seed: Seed = 1
