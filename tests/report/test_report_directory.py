from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import synthetic_run

from cosim.report import directory
from cosim.report.contents import FRAMES, RunContents
from cosim.report.directory import RunDirectory, incomplete_reason, is_run_directory, read_contents

DETERMINISTIC = ("metrics.json", "claims.json", "info.json", *(f"{spec.name}.parquet" for spec in FRAMES))


def write(path: Path, contents: RunContents, config: str = "trace: {file: sample}\n") -> Path:
    with RunDirectory(path, config) as run:
        run.write_contents(contents)
        run.write_provenance(contents.info.seeds, {"router.so": "00ff"}, {"wall_s": 1.5})
    return path


def test_written_run_reads_back_equal(tmp_path: Path, whole: RunContents) -> None:
    back = read_contents(write(tmp_path / "out", whole))
    for spec in FRAMES:
        pd.testing.assert_frame_equal(getattr(back, spec.name), getattr(whole, spec.name))
    assert back.info == whole.info
    assert list(back.claims) == list(whole.claims)


def test_bytes_are_the_same_twice_and_hold_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory.socket, "gethostname", lambda: "a-host-of-some-length")
    folders = []
    for name in ("one", "two"):
        folders.append(write(tmp_path / name, synthetic_run.contents(seeds=(1,), batches=2, layers=2)))
    for name in DETERMINISTIC:
        first = (folders[0] / name).read_bytes()
        assert first == (folders[1] / name).read_bytes(), name
        for secret in ("a-host-of-some-length", str(tmp_path)):
            assert secret.encode() not in first, name
    assert "a-host-of-some-length" in (folders[0] / "provenance.json").read_text()


def test_bytes_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import hashlib, sys
        import synthetic_run
        from cosim.report import directory
        from cosim.report.contents import FRAMES
        c = synthetic_run.contents(policies=("static",), rungs=("flit",), seeds=(1,), batches=1, layers=2)
        digest = hashlib.sha256(directory.metrics_json(c.metrics) + directory.claims_json(c.claims))
        for spec in FRAMES:
            digest.update(directory.parquet_bytes(getattr(c, spec.name), spec))
        print(digest.hexdigest())
        """
    )
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths},
            check=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_metrics_json_has_the_public_shape(tmp_path: Path, whole: RunContents) -> None:
    data = json.loads((write(tmp_path / "out", whole) / "metrics.json").read_text())
    assert data["schema"] == 1
    assert all(
        set(row) == {"policy", "rung", "metric", "unit", "value", "ci_low", "ci_high", "n"} for row in data["rows"]
    )
    small = [row for row in data["rows"] if row["metric"] == "layer_latency_p99"]
    assert small
    assert all(row["value"] is None and row["n"] == 192 for row in small)


def test_parquet_types_and_metadata_are_fixed(tmp_path: Path, whole: RunContents) -> None:
    schema = pq.read_schema(write(tmp_path / "out", whole) / "layers.parquet")
    assert schema.metadata == {b"cosim.frame": b"layers", b"cosim.schema": b"1"}
    assert str(schema.field("total_fs").type) == "int64"
    assert [name for name in schema.names if name.startswith("bytes_")] == [
        "bytes_combine",
        "bytes_dispatch",
        "bytes_weight",
    ]


def test_provenance_holds_what_results_do_not(tmp_path: Path, small: RunContents) -> None:
    folder = write(tmp_path / "out", small)
    data = json.loads((folder / "provenance.json").read_text())
    assert data["tool"] == "cosim"
    assert data["host"] == os.uname().nodename
    assert data["path"] == str(folder)
    assert data["plugins"] == {"router.so": "00ff"}
    assert data["seeds"] == [1]
    assert data["wall_s"] == 1.5


def test_finished_run_is_not_marked(tmp_path: Path, small: RunContents) -> None:
    folder = write(tmp_path / "out", small)
    assert incomplete_reason(folder) is None
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        (*DETERMINISTIC, "config.resolved.yaml", "provenance.json")
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyboardInterrupt(), "interrupted by the user"),
        (OSError(28, "No space left on device"), "The host failed: OSError"),
        (MemoryError(), "The host failed: MemoryError"),
        (RuntimeError("flit lost"), "It failed: RuntimeError: flit lost"),
    ],
)
def test_unfinished_run_says_why_and_keeps_its_work(
    tmp_path: Path, small: RunContents, error: BaseException, reason: str
) -> None:
    folder = tmp_path / "out"

    def run_and_fail() -> None:
        with RunDirectory(folder, "a: 1\n") as run:
            run.write_text("state.txt", "half")
            raise error

    with pytest.raises(type(error)):
        run_and_fail()
    assert reason in (incomplete_reason(folder) or "")
    assert (folder / "state.txt").read_text() == "half"
    assert is_run_directory(folder)
    with pytest.raises(ValueError, match=r"expected a complete run directory, got one without info.json"):
        read_contents(folder)
    write(folder, small, "a: 1\n")
    assert incomplete_reason(folder) is None


def test_killed_process_leaves_the_mark(tmp_path: Path) -> None:
    script = (
        "import os, sys; from cosim.report.directory import RunDirectory\n"
        "with RunDirectory(sys.argv[1], 'a: 1\\n') as run: os._exit(9)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "out")], env=env, check=False)
    assert done.returncode == 9
    assert incomplete_reason(tmp_path / "out") == "It was started and has not ended."


def test_foreign_directory_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match=r"expected an empty directory or one written by cosim, got .* thesis.tex"):
        RunDirectory(tmp_path, "a: 1\n")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(ValueError, match="expected an empty directory or one written by cosim, got a file"):
        RunDirectory(tmp_path / "out", "a: 1\n")


def test_other_configuration_is_refused_unless_replaced(tmp_path: Path, small: RunContents) -> None:
    folder = write(tmp_path / "out", small, "a: 1\n")
    before = (folder / "metrics.json").read_bytes()
    with pytest.raises(ValueError, match="got a run of another configuration; name another directory"):
        RunDirectory(folder, "a: 2\n")
    assert (folder / "metrics.json").read_bytes() == before
    assert incomplete_reason(folder) is None
    (folder / "notes.md").write_text("mine")
    with RunDirectory(folder, "a: 2\n", replace=True):
        assert not (folder / "metrics.json").exists()
    assert (folder / "notes.md").read_text() == "mine"


def test_full_disk_raises_oserror_and_keeps_the_old_file(tmp_path: Path) -> None:
    """The limit on file size makes the kernel refuse the write, as a full disk would."""
    script = textwrap.dedent(
        """
        import pathlib, resource, signal, sys
        from cosim.report.directory import write_atomically
        path = pathlib.Path(sys.argv[1])
        write_atomically(path, b"old")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write_atomically(path, bytes(5000))
        except OSError as error:
            print("OSError", error.errno)
        """
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "x")], env=env, check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("OSError")
    assert (tmp_path / "x").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("name", ["metrics.parquet", "layers.parquet", "claims.json", "info.json", "metrics.json"])
def test_damaged_file_is_named(tmp_path: Path, small: RunContents, name: str) -> None:
    folder = write(tmp_path / "out", small)
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=name):
        read_contents(folder)


def test_metrics_edited_by_hand_are_noticed(tmp_path: Path, small: RunContents) -> None:
    folder = write(tmp_path / "out", small)
    path = folder / "metrics.json"
    path.write_text(path.read_text().replace('"n": 8', '"n": 9', 1))
    with pytest.raises(ValueError, match=r"expected the rows of metrics\.parquet"):
        read_contents(folder)


def test_plain_names_only(tmp_path: Path) -> None:
    with RunDirectory(tmp_path / "out", "a: 1\n") as run, pytest.raises(ValueError, match="plain file name"):
        run.write_text("../x", "")


def test_sha256_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    assert directory.file_sha256(tmp_path / "x") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
