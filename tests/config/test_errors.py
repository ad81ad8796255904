"""How a finding is printed, and the list of them."""

from __future__ import annotations

import pickle

import pytest

from cosim.config.errors import ConfigError, ConfigErrors, closest, did_you_mean


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigError("f.yaml", 3, 7, "a.b", "x", "y"), "f.yaml:3:7: a.b: expected x, got y"),
        (ConfigError("f.yaml", 3, None, "", "x", "y", "do z"), "f.yaml:3: expected x, got y; do z"),
        (ConfigError(None, 3, 7, "a", "x", "y"), "line 3:7: a: expected x, got y"),
        (ConfigError(None, None, None, "", "x", "y"), "expected x, got y"),
        (ConfigError("option '-o a=1'", None, None, "a", "x", "y"), "option '-o a=1': a: expected x, got y"),
    ],
)
def test_text(error: ConfigError, text: str) -> None:
    assert str(error) == text


def test_list_is_a_value_error_with_one_line_each_and_survives_a_process_border() -> None:
    first, second = ConfigError("f", 1, 1, "a", "x", "y"), ConfigError("f", 2, 1, "b", "x", "y")
    errors = ConfigErrors([first, second, first])
    assert isinstance(errors, ValueError)
    assert errors.errors == (first, second)
    assert str(errors) == f"{first}\n{second}"
    assert pickle.loads(pickle.dumps(errors)).errors == errors.errors  # noqa: S301
    with pytest.raises(AssertionError):
        ConfigErrors([])


def test_nearest_spelling() -> None:
    assert closest("num_vsc", ["vc_buf_size", "num_vcs"]) == "num_vcs"
    assert closest("HBM2_2000", ["hbm2_2000"]) == "hbm2_2000"
    assert closest("zzz", ["abc"]) is None
    assert did_you_mean("statc", ["static"]) == "did you mean 'static'?"
