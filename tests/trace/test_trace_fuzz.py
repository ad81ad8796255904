"""Damaged and hostile files: every reader answers with a trace or a TraceError, within bounded memory."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cosim import trace
from cosim.trace import RoutingTrace, TraceError

FORMATS = {"npz": "npz", "block": "npz", "parquet": "parquet", "jsonl": "jsonl", "csv": "csv", "json": "hdmoe_json"}
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # to shrink bytes takes minutes and shows little
Edits = list[tuple[str, int, bytes]]
EDITS = st.lists(
    st.tuples(st.sampled_from(["set", "delete", "insert"]), st.integers(0, 2**20), st.binary(min_size=1, max_size=12)),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def originals(make_trace: Callable[..., RoutingTrace]) -> Callable[[str], bytes]:
    @lru_cache
    def original(kind: str) -> bytes:
        full = make_trace(requests=4, positions=6)
        if kind == "json":
            return json.dumps({str(n): full.ids[:, n].tolist() for n in range(full.layers)}).encode()
        if kind == "block":
            buffer = io.BytesIO()
            meta = json.dumps([{"prompt_tokens": n, "domain": "law"} for n in range(4)])
            np.savez_compressed(buffer, experts=full.ids.reshape(4, 6, 2, 2), meta=np.array(meta))
            return buffer.getvalue()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"t.{kind}"
            trace.save(full.without_scores() if kind == "csv" else full, path)
            return path.read_bytes()

    return original


def edited(content: bytes, edits: Edits) -> bytes:
    data = bytearray(content)
    for kind, where, piece in edits:
        at = where % (len(data) + 1)
        if kind == "set":
            data[at : at + len(piece)] = piece
        elif kind == "delete":
            del data[at : at + len(piece)]
        else:
            data[at:at] = piece
    return bytes(data)


def load_or_refuse(content: bytes, format: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        path.write_bytes(content)
        with contextlib.suppress(TraceError):
            trace.load(path, format)


@pytest.mark.parametrize("kind", FORMATS)
@given(edits=EDITS)
@settings(deadline=None, max_examples=30, phases=PHASES)
def test_edited_bytes(originals: Callable[[str], bytes], kind: str, edits: Edits) -> None:
    content = edited(originals(kind), edits)
    load_or_refuse(content, None)
    load_or_refuse(content, FORMATS[kind])


@pytest.mark.parametrize("kind", ["npz", "block"])
@given(edits=EDITS, which=st.integers(0, 100))
@settings(deadline=None, max_examples=30, phases=PHASES)
def test_edited_members_of_a_sound_archive(
    originals: Callable[[str], bytes], kind: str, edits: Edits, which: int
) -> None:
    """Checksums are right, so the damage reaches the array headers and values."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(originals(kind))) as old, zipfile.ZipFile(buffer, "w") as new:
        names = old.namelist()
        for number, name in enumerate(names):
            content = old.read(name)
            new.writestr(name, edited(content, edits) if number == which % len(names) else content)
    load_or_refuse(buffer.getvalue(), None)


@given(content=st.binary(max_size=300), format=st.sampled_from([None, *FORMATS.values()]))
@settings(deadline=None, max_examples=50, phases=PHASES)
def test_any_bytes(content: bytes, format: str | None) -> None:
    load_or_refuse(content, format)


HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}"


def npy(descr: str, shape: str, data: bytes = b"") -> bytes:
    header = HEADER.format(descr, shape).encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    ("descr", "shape"),
    [
        ("|u1", "(1000000000000, 8, 4)"),
        ("|u1", "(-1, 8, 4)"),
        ("<i8", "(9223372036854775807, 9, 9)"),
        ("<U0", "(10**9,)"),
        ("|O", "(1,)"),
    ],
)
def test_headers_that_promise_too_much(tmp_path: Path, descr: str, shape: str) -> None:
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("ids.npy", npy(descr, shape))
    with pytest.raises(TraceError):
        trace.load(tmp_path / "t.npz")


def peak_growth_of_load(path: Path) -> tuple[int, str]:
    """Bytes by which the process grew while it loaded `path`, and what came of it."""
    code = (
        "import resource, sys\n"
        "import pyarrow.csv, pyarrow.parquet\n"
        "from cosim import trace\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        "    outcome = repr(trace.load(sys.argv[1]))\n"
        "except trace.TraceError as error:\n"
        "    outcome = str(error)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, outcome)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    grown, outcome = done.stdout.split(maxsplit=1)
    return int(grown), outcome


def test_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("ids.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy("|u1", "(100663296, 1, 1)"))
        for _ in range(96):
            member.write(bytes(1 << 20))
    grown, outcome = peak_growth_of_load(tmp_path / "t.npz")
    assert "bytes unpacked, the limit for a file of this size" in outcome
    assert grown < 30 << 20


def test_parquet_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rows = 4_000_000
    column = pa.array(np.zeros(rows, np.int32))
    parquet.write_table(pa.table({"token": column, "layer": column, "expert_0": column}), tmp_path / "t.parquet")
    grown, outcome = peak_growth_of_load(tmp_path / "t.parquet")
    assert "bytes unpacked, the limit for a file of this size" in outcome
    assert grown < 30 << 20


@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv", "jsonl", "json"])
def test_memory_stays_within_ten_times_the_file(
    tmp_path: Path, make_trace: Callable[..., RoutingTrace], suffix: str
) -> None:
    requests = 100 if suffix in ("csv", "jsonl") else 400  # text is slow to write
    full = make_trace(requests=requests, positions=50, layers=4, experts=64, top_k=8, scores=False)
    path = tmp_path / f"t.{suffix}"
    if suffix == "json":
        path.write_text(json.dumps({str(n): full.ids[:, n].tolist() for n in range(full.layers)}))
    else:
        trace.save(full, path)
    grown, outcome = peak_growth_of_load(path)
    assert f"{requests * 50} tokens, 4 layers, top 8" in outcome
    # a small file, so that the test is quick: 24 MiB are allowed for buffers that do not grow with it
    assert grown < 10 * path.stat().st_size + (24 << 20)
