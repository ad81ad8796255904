"""Every fault point is used: a test marked `faults` sees its law break."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_fault_point_has_a_test() -> None:
    header = (ROOT / "ext" / "sim" / "faults.hpp").read_text()
    listed = re.search(r"enum class Fault[^{]*{([^}]*)}", header)
    assert listed is not None
    faults = set(re.findall(r"\w+", listed[1])) - {"none"}
    marked = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if "mark.faults" in path.read_text()]
    unseen = sorted(fault for fault in faults if not any(f'"{fault}"' in text for text in marked))
    assert not unseen
