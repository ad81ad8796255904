"""Writes cosim/_core.pyi from the installed extension; with --check prints how the committed one differs, exit 1."""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).parents[1] / "cosim" / "_core.pyi"
# pybind11 gives its containers no type arguments
ARGUMENTS = {"dict": "dict[str, typing.Any]", "list": "list[typing.Any]", "tuple": "tuple[typing.Any, ...]"}


def generate() -> str:
    """The stub as pybind11-stubgen and ruff write it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-P", "-m", "pybind11_stubgen", "cosim._core", "--exit-code", "-o", folder],
            check=True,
        )
        written = Path(folder) / "cosim" / "_core.pyi"
        bare = re.compile(r"(?<=: |> )(dict|list|tuple)(?=[,:)]| =)")
        written.write_text(bare.sub(lambda match: ARGUMENTS[match[1]], written.read_text()))
        for command in (["check", "--fix-only", "--quiet"], ["format", "--quiet"]):
            subprocess.run(["ruff", *command, "--config", str(STUB.parents[1] / "pyproject.toml"), written], check=True)
        return written.read_text()


def main(check: bool) -> int:
    """Write the stub, or compare it with the committed one."""
    fresh = generate()
    if not check:
        STUB.write_text(fresh)
        return 0
    committed = STUB.read_text() if STUB.exists() else ""
    lines = list(
        difflib.unified_diff(committed.splitlines(), fresh.splitlines(), "committed", "generated", lineterm="")
    )
    print("\n".join(lines) if lines else "the committed stub is the generated one")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
