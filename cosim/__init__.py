"""cosim: the cycle-level judge of mixture-of-experts hardware ideas."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("cosim-moe")
except PackageNotFoundError:  # a bare checkout on the path
    __version__ = "0+unknown"
