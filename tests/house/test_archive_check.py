"""The comparison of an archive with its committed list reports what is surplus, missing and left out."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def contents() -> ModuleType:
    spec = importlib.util.spec_from_file_location("contents", ROOT / ".ci" / "contents.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_equal(contents: ModuleType) -> None:
    assert contents.differences(["a/x.py", "a/b/y.py"], ["a/*.py", "a/**/y.py"], {"a/x.py"}) == []


def test_each_kind_of_difference(contents: ModuleType) -> None:
    lines = contents.differences(["a/b/x.py"], ["a/*.py"], {"a/z.py"})
    assert lines == ["not in the list: a/b/x.py", "nothing matches: a/*.py", "committed, but left out: a/z.py"]


def test_a_star_is_literal_elsewhere(contents: ModuleType) -> None:
    assert contents.pattern_to_regex("a.py").fullmatch("axpy") is None


def test_wheel_listing(contents: ModuleType, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        wheel.writestr("b/c.py", "")
        wheel.writestr("a.py", "")
    assert contents.files_of("wheel", tmp_path / "x.whl") == ["a.py", "b/c.py"]
