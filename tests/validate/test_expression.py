"""The language of claims: what it accepts, what it means, and how it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cosim.validate.expression import ExpressionError, Term, parse


def value(text: str, figures: dict[str, float]) -> float:
    def measure(term: Term) -> np.ndarray:
        return np.array([figures[str(term)]])

    return float(parse(text).evaluate(measure)[0])


FIGURES = {
    "layer_latency_mean(a)": 6.0,
    "layer_latency_mean(b)": 4.0,
    "layer_latency_mean(b, rung=link+command, layer=3)": 9.0,
    "layer_latency_mean(b, r_comm=-0.01)": 8.0,
    "bytes_weight(a)": 12.0,
    "balance(zero)": 0.0,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("layer_latency_mean(a)", 6.0),
        ("layer_latency_mean(a) / layer_latency_mean(b)", 1.5),
        ("1 - layer_latency_mean(b) / layer_latency_mean(a)", 1 - 4 / 6),
        ("-(layer_latency_mean(a) - layer_latency_mean(b)) * 2", -4.0),
        ("layer_latency_mean('b', layer=3, rung='link+command')", 9.0),
        ("layer_latency_mean(b, r_comm=-1e-2)", 8.0),
        ("min(layer_latency_mean(a), layer_latency_mean(b))", 4.0),
        ("max(layer_latency_mean(a), layer_latency_mean(b))", 6.0),
        ("geomean(layer_latency_mean(a) / 3, layer_latency_mean(b) * 2)", 4.0),
        ("bytes_weight(a) / layer_latency_mean(a)", 2.0),
        ("layer_latency_mean(a) / balance(zero)", math.inf),
    ],
)
def test_values(text: str, expected: float) -> None:
    assert value(text, FIGURES) == pytest.approx(expected)


def test_terms_are_listed_once() -> None:
    terms = parse("balance(a) / (balance(a) + balance(b))").terms
    assert [str(term) for term in terms] == ["balance(a)", "balance(b)"]


@pytest.mark.parametrize(
    ("text", "unit", "factor"),
    [
        ("layer_latency_mean(a)", "ms", 1e-6),
        ("stage_queue_p95(a) - stage_memory_p95(a)", "ns", 1.0),
        ("bytes_weight(a)", "KiB", 1 / 1024),
        ("energy(a)", "mJ", 1e3),
        ("balance(a)", "1", 1.0),
        ("layer_latency_mean(a) / layer_latency_mean(b)", "%", 100.0),
        ("bytes_weight(a) / layer_latency_mean(a)", "GB/s", 1.0),
        ("bytes_weight(a) / layer_latency_mean(a)", "MB/s", 1000.0),
    ],
)
def test_units(text: str, unit: str, factor: float) -> None:
    assert parse(text).to_unit(unit) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("text", "unit", "message"),
    [
        ("layer_latency_mean(a)", "GB", "a unit of a time"),
        ("layer_latency_mean(a) / layer_latency_mean(b)", "ns", "1, x or %"),
        ("layer_latency_mean(a) * energy(a)", "J", "an expression of time"),
    ],
)
def test_impossible_units(text: str, unit: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        parse(text).to_unit(unit)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer_latncy_mean(a)", "did you mean 'layer_latency_mean'"),
        ("balance_mean(a)", "did you mean 'balance'"),
        ("layer_latency_mean(a) +", "an expression such as"),
        ("layer_latency_mean()", r"layer_latency_mean\(policy\)"),
        ("layer_latency_mean(a, b)", r"layer_latency_mean\(policy\)"),
        ("layer_latency_mean(3)", "a name"),
        ("layer_latency_mean(a) + bytes_weight(a)", "the same unit"),
        ("1 + 2", "measures something"),
        ("balance(a) ** 2", r"\+ - \* /"),
        ("balance(a) if True else 2", r"\+ - \* /"),
        ("balance(a).real", r"\+ - \* /"),
        ("__import__('os')", "a metric"),
        ("balance(a, layer='x')", "a number"),
        ("balance(a, layer=True)", "a number"),
        ("balance(a, rung=link, rung=flit)", "each selector once"),
        ("balance(a, **x)", "each selector once"),
        ("min()", "one or more values"),
        ("min(balance(a), layer_latency_mean(a))", "values of one unit"),
        ("True * balance(a)", "a number"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        parse(text)


def test_figures_are_told_with_their_unit() -> None:
    assert parse("layer_latency_mean(a) - stage_memory_mean(b)").own_unit == "ns"
    assert parse("bytes_weight(a)").own_unit == "B"
    assert parse("layer_latency_mean(a) / layer_latency_mean(b)").own_unit == ""
    assert parse("layer_latency_mean(a) * layer_latency_mean(b)").own_unit == ""
