"""Same inputs, same bytes: in another process, with another hash seed, in another folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# each prints the digest of everything the call returns
PROGRAMS = {
    "network": """
from cosim import noc
net = noc.Network({"topology": {"kind": "mesh", "shape": [4, 4]}, "routing": "dor"})
run = net.run_traffic("uniform", injection_rate=0.3, packet_size_flits=2, warmup_cycles=200, measure_cycles=800, seed=7)
for field in sorted(run.__dataclass_fields__):
    add(getattr(run, field))
add(run.links)
""",
    "memory": """
import numpy as np
import pandas as pd
from cosim import mem
n = np.arange(600)
frame = pd.DataFrame({"arrive_cycle": n * 3, "op": np.where(n % 3, "R", "W"), "bank_group": n * 7 % 4,
                      "bank": n * 5 % 4, "row": n * 11 % 40, "column": n % 32})
run = mem.Memory({"preset": "HBM2_2000", "channels": 2, "refresh": "per_bank"}).run_requests(frame, commands=True)
for item in (run.requests, run.commands, run.banks, run.energy, run.bounds, run.bound_by, run.total_cycles):
    add(item)
""",
    "trace": """
from cosim import trace
made = trace.zipf_markov(layers=3, experts=16, top_k=2, requests=4, positions=40, alpha=0.8, rho=0.5, seed=3)
for item in (made.ids, made.weights, made.request, made.position):
    add(item)
""",
}
DIGEST = """
import hashlib
import numpy as np
import pandas as pd
digest = hashlib.sha256()
def add(item):
    if isinstance(item, pd.DataFrame):
        item = item.to_csv()
    elif isinstance(item, np.ndarray):
        item = item.tolist()
    digest.update(repr(item).encode())
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_same_bytes_in_another_process(program: str, tmp_path: Path) -> None:
    text = DIGEST + PROGRAMS[program] + "print(digest.hexdigest())"
    digests = set()
    for hash_seed, folder in (("0", tmp_path), ("4321", Path.cwd())):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)
        run = subprocess.run(
            [sys.executable, "-c", text], cwd=folder, env=environment, check=True, capture_output=True, text=True
        )
        digests.add(run.stdout)
    assert len(digests) == 1
