"""cosim: the cycle-level judge of mixture-of-experts hardware ideas.

``from cosim import noc, mem, trace, workload`` gives the rooms a user works with and ``from cosim import
Experiment`` the main job, each imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cosim._core import __version__

if TYPE_CHECKING:
    from cosim import mem, noc, trace, workload
    from cosim.experiment import Experiment

__all__ = ["Experiment", "__version__", "mem", "noc", "trace", "workload"]


def __getattr__(name: str) -> Any:
    if name == "Experiment":
        return importlib.import_module(f"{__name__}.experiment").Experiment
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
