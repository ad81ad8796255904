"""Memories by name: DRAM standards and SRAM, resolved from the files of ``configs/memory`` or of a user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cosim.mem.dram import DramResolver
from cosim.mem.problems import refuse
from cosim.mem.sram import SramResolver
from cosim.mem.standard import Standard
from cosim.mem.standard_files import kind_of, locate

__all__ = ["load_standard"]


def load_standard(
    preset: str,
    values: str = "standard",
    overrides: Mapping[str, int] | None = None,
    file: str | Path | None = None,
    organisation: str | None = None,
) -> Standard:
    """Resolves one preset of a standard.

    Args:
        preset: a name of `presets()`, or of the given file, or a path to a file (see `locate`).
        values: "standard", or "ramulator2.1": the figures and rules of that simulator.
        overrides: timings in nCK by name, in place of the file's.
        file: a user's own standard in the form of ``configs/memory``.
        organisation: one of the file's organisations in place of the preset's.

    Raises:
        ConfigErrors: every unknown name and every missing or contradictory figure, with its file and field.
    """
    path, name = locate(preset, file)
    kind = kind_of(path)
    if kind == "sram":
        if organisation is not None:
            raise refuse(path.name, "organisation", "SRAM has none; its presets name banks, ports and width")
        return SramResolver(path, name, values, dict(overrides or {})).resolve()
    if kind != "dram":
        raise refuse(path.name, "kind", f"expected 'dram' or 'sram', got {kind!r}")
    return DramResolver(path, name, values, dict(overrides or {}), organisation).resolve()
