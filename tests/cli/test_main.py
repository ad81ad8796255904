"""The command line: help without imports, every way out with its exit status, errors on stderr."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import cosim.cli
from cosim.cli import main

ROOT = Path(__file__).parents[2]
RUN = [sys.executable, "-c", "from cosim.cli import main; main()"]

FAILING = """
import click, errno, time
from cosim.config.errors import ConfigError, ConfigErrors

class Deadlock(RuntimeError):
    exit_code = 2

class BrokenProcessPool(RuntimeError):
    pass

def fail(how):
    if how == "config":
        raise ConfigErrors([ConfigError("f", 1, 2, "a", "x", "y"), ConfigError("f", 3, 4, "b", "x", "y")])
    if how == "disk":
        raise OSError(errno.ENOSPC, "No space left on device", "out/layers.parquet")
    if how == "io":
        raise OSError(errno.EIO, "Input/output error")
    if how == "path":
        open("/no/such/file")
    if how == "memory":
        raise MemoryError
    if how == "pool":
        raise BrokenProcessPool("terminated abruptly")
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "known":
        raise Deadlock("deadlock over router 1, VC 0")
    if how == "refused":
        raise click.ClickException("no")
    if how == "sleep":
        print("ready", flush=True)
        time.sleep(60)
    raise AssertionError("a bug")

@click.command()
@click.argument("how")
def xval(how):
    if how != "nothing":
        fail(how)
    click.echo("done")
"""


@pytest.fixture
def extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Write the module of a command `xval`, found before cosim's own."""
    monkeypatch.setattr(cosim.cli, "__path__", [str(tmp_path), *cosim.cli.__path__])
    sys.modules.pop("cosim.cli.xval", None)

    def write(text: str) -> None:
        (tmp_path / "xval.py").write_text(text)
        importlib.invalidate_caches()

    yield write
    sys.modules.pop("cosim.cli.xval", None)
    importlib.invalidate_caches()


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize(
    ("how", "status", "text"),
    [
        ("nothing", 0, ""),
        ("config", 2, "f:1:2: a: expected x, got y\nf:3:4: b: expected x, got y\n2 errors\n"),
        ("disk", 3, "disk full: out/layers.parquet: No space left on device\n"),
        ("io", 3, "the host failed: Input/output error\n"),
        ("path", 2, "/no/such/file: No such file or directory\n"),
        ("memory", 3, "out of memory\n"),
        ("pool", 3, "the host failed: a worker process was killed (terminated abruptly)\n"),
        ("interrupt", 130, "interrupted\n"),
        ("known", 2, "deadlock over router 1, VC 0\n"),
        ("refused", 2, "no\n"),
    ],
)
def test_exit_status(extra: Callable[[str], None], how: str, status: int, text: str) -> None:
    extra(FAILING)
    result = call("xval", how)
    assert result.exit_code == status
    assert result.stderr.lstrip("\n") == text
    assert result.stdout == ("done\n" if how == "nothing" else "")


def test_a_fault_of_ours_has_a_traceback_and_says_so(extra: Callable[[str], None]) -> None:
    extra(FAILING)
    result = call("xval", "bug")
    assert result.exit_code == 1
    assert "AssertionError: a bug" in result.stderr
    assert "This is a fault of cosim" in result.stderr


def test_help_imports_no_command(extra: Callable[[str], None]) -> None:
    extra("raise RuntimeError('broken at import')")
    result = call("--help")
    assert result.exit_code == 0
    assert "xval" in result.stdout
    assert call("xval").exit_code == 1
    code = "import sys; from cosim.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    heavy = ("cosim.cli.", "cosim.system", "cosim.mem", "pandas", "numpy", "matplotlib")
    code += f"print([name for name in sys.modules if name.startswith({heavy})])"
    text = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert text.splitlines()[-1] == "[]"


def test_the_package_runs_as_a_module() -> None:
    run = subprocess.run([sys.executable, "-m", "cosim", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0
    assert run.stdout.startswith("Usage: cosim ")


def test_commands_exist_only_with_their_module() -> None:
    shown = call("--help").stdout
    for name in cosim.cli._COMMANDS:
        there = (ROOT / "cosim" / "cli" / f"{name}.py").exists()
        assert (f"\n  {name} " in shown) == there
        assert call(name, "--help").exit_code == (0 if there else 2)


def test_version_and_usage_errors() -> None:
    assert call("--version").stdout == f"cosim, version {cosim.__version__}\n"
    assert call("-h").stdout == call("--help").stdout
    wrong = call("plugin")
    assert wrong.exit_code == 2
    assert "no command 'plugin'; did you mean 'plugins'?" in wrong.stderr
    assert call("plugins", "list", "nothing").exit_code == 2
    assert call("--nothing").exit_code == 2


def test_a_closed_pipe_is_no_fault_and_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run([*RUN, "plugins", "list"], cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert run.returncode == 3
    assert "Traceback" not in run.stderr


def test_a_real_interrupt_ends_with_130(tmp_path: Path) -> None:
    (tmp_path / "xval.py").write_text(FAILING)
    # what starts the tests may have told its children to ignore interrupts
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import cosim.cli; "
    code += f"cosim.cli.__path__.insert(0, {str(tmp_path)!r}); cosim.cli.main(['xval', 'sleep'])"
    run = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n"
    run.send_signal(signal.SIGINT)
    _, stderr = run.communicate(timeout=60)
    assert run.returncode == 130
    assert stderr.strip() == "interrupted"
