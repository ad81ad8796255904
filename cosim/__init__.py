"""cosim: the cycle-level judge of mixture-of-experts hardware ideas."""

from cosim._core import __version__

__all__ = ["__version__"]
