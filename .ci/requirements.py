"""Prints the requirements of pyproject.toml's named extras and of its build system, one a line."""

from __future__ import annotations

import sys
from pathlib import Path

import tomllib


def main(extras: list[str]) -> None:
    """Print the build requirements and those of each extra."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    lines = list(project["build-system"]["requires"])
    for extra in extras:
        lines += project["project"]["optional-dependencies"][extra]
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
