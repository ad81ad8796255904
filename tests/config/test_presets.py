"""Shipped files by kind and name."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosim.config import ConfigErrors, presets


def test_names_and_paths(tmp_path: Path) -> None:
    assert "package-4x4" in presets.names("hardware")
    assert presets.find("hardware", "package-4x4") == presets.root() / "hardware" / "package-4x4.yaml"
    own = tmp_path / "mine.yaml"
    own.write_text("")
    assert presets.find("hardware", "mine.yaml", folder=tmp_path) == own
    assert presets.find("hardware", str(own)) == own


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no kind 'hardwares'"):
        presets.names("hardwares")
    with pytest.raises(ConfigErrors, match="which is a folder"):
        presets.find("hardware", f"{tmp_path}/")
    with pytest.raises(ConfigErrors, match="did you mean 'package-4x4'"):
        presets.find("hardware", "Package-4X4")
    with pytest.raises(ConfigErrors):
        presets.find("hardware", "a\0/b")
