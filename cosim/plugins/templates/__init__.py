"""What `cosim plugins new` writes: the shipped examples, and the projects around them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["EXAMPLES", "examples"]

EXAMPLES = {
    ("router", "c"): ("table", "adaptive", "deadlock"),
    ("router", "python"): ("table", "adaptive"),
    ("arbiter", "c"): ("oldest",),
    ("router_model", "c"): ("deflection",),
    ("topology", "python"): ("dragonfly",),
    ("memory", "c"): ("fixed",),
    ("memory", "python"): ("fixed",),
}
"""Kind and language of a plug-in → the examples to start from; the first is the default."""


def examples() -> Path:
    """The folder of the examples, `<name>_<kind>.c` and `.py`."""
    return Path(__file__).parent / "examples"
