# ruff: noqa: E501
"""Units: a closed table, exact values, bits never taken for bytes."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config import units
from cosim.config.units import DIMENSIONS, UnitError, format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("64 B", units.BYTES, 64),
        ("16KiB", units.BYTES, 16384),
        ("1.5 MiB", units.BYTES, 1_572_864),
        ("1.2 GB", units.BYTES, 1_200_000_000),
        ("128 b", units.BITS, 128),
        ("12.5 ns", units.TIME, 12_500_000),
        ("3 µs", units.TIME, 3 * 10**9),
        ("1 fs", units.TIME, 1),
        ("1 GHz", units.FREQUENCY, Fraction(10**9)),
        ("7000/3 MHz", units.FREQUENCY, Fraction(7 * 10**9, 3)),
        ("256 GB/s", units.BANDWIDTH, Fraction(256 * 10**9)),
        ("1 GiB/s", units.BANDWIDTH, Fraction(2**30)),
        ("4 TFLOP/s", units.OPERATION_RATE, Fraction(4 * 10**12)),
        ("4e0 TOP/s", units.OPERATION_RATE, Fraction(4 * 10**12)),
        ("0.5 pJ/b", units.ENERGY_PER_BIT, Fraction(1, 2 * 10**12)),
        ("15 W", units.POWER, Fraction(15)),
        ("0 B", units.BYTES, 0),
    ],
)
def test_exact_values(text: str, dimension: units.Dimension, value: int | Fraction) -> None:
    parsed = parse_quantity(text, dimension)
    assert parsed == value
    assert isinstance(parsed, int if dimension.whole else Fraction)


@pytest.mark.parametrize(
    ("text", "dimension", "message"),
    [
        (
            "512 Gb/s",
            units.BANDWIDTH,
            "expected a bandwidth in bytes per second with its unit, such as '256 GB/s', got '512 Gb/s', a rate in bits"
            " per second; a byte has 8 bits: write '64 GB/s' if that is meant",
        ),
        (
            "64 Mib",
            units.BYTES,
            "expected a size in bytes with its unit, such as '64 KiB', got '64 Mib', a size in bits; a byte has 8 bits:"
            " write '8 MiB' if that is meant",
        ),
        (
            "3 b",
            units.BYTES,
            "expected a size in bytes with its unit, such as '64 KiB', got '3 b', a size in bits",
        ),
        (
            64,
            units.BYTES,
            "expected a size in bytes with its unit, such as '64 KiB', got the bare number 64; add the unit, for example"
            " '64 KiB'",
        ),
        (
            "1.2",
            units.FREQUENCY,
            "expected a frequency with its unit, such as '1 GHz', got the bare number '1.2'; add the unit, for example"
            " '1.2 GHz'",
        ),
        (
            "4 TFLOPS",
            units.OPERATION_RATE,
            "expected a rate of operations with its unit, such as '4 TFLOP/s', got '4 TFLOPS', whose unit is not known;"
            " did you mean '4 TFLOP/s'?",
        ),
        (
            "10 cycles",
            units.TIME,
            "expected a time with its unit, such as '12.5 ns', got '10 cycles', whose unit is not known; units are fs,"
            " ms, ns, ps, s, us, µs",
        ),
        (
            "-1 B",
            units.BYTES,
            "expected a size in bytes with its unit, such as '64 KiB', got the negative '-1 B'",
        ),
        ("0.3 B", units.BYTES, "expected a size in bytes that is a whole number of B, got '0.3 B'"),
        ("0.5 fs", units.TIME, "expected a time that is a whole number of fs, got '0.5 fs'"),
        ("9300 s", units.TIME, "expected a time below 2^63 fs, got '9300 s'"),
        (
            "1/0 GHz",
            units.FREQUENCY,
            "expected a frequency with its unit, such as '1 GHz', got '1/0 GHz', a division by zero",
        ),
        ("GHz", units.FREQUENCY, "expected a frequency with its unit, such as '1 GHz', got 'GHz'"),
        (True, units.BYTES, "expected a size in bytes with its unit, such as '64 KiB', got True"),
        (None, units.BYTES, "expected a size in bytes with its unit, such as '64 KiB', got None"),
        (
            "400 MT/s",
            units.FREQUENCY,
            "expected a frequency with its unit, such as '1 GHz', got '400 MT/s', whose unit is not known; units are GHz,"
            " Hz, KHz, MHz, PHz, THz, kHz",
        ),
        (
            "5 ns",
            units.BYTES,
            "expected a size in bytes with its unit, such as '64 KiB', got '5 ns', a time",
        ),
    ],
)
def test_refused_with_the_fix(text: object, dimension: units.Dimension, message: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_quantity(text, dimension)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda d: d.name)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_format_reads_back(dimension: units.Dimension, data: st.DataObject) -> None:
    whole = st.integers(0, 2**63 - 1)
    value: int | Fraction = data.draw(
        whole if dimension.whole else st.builds(Fraction, st.integers(0, 10**18), st.integers(1, 10**15))
    )
    text = format_quantity(value, dimension)
    assert parse_quantity(text, dimension) == value
    assert parse_quantity(text.replace(" ", ""), dimension) == value


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda d: d.name)
def test_every_unit_reads_back_and_every_example_is_valid(dimension: units.Dimension) -> None:
    parse_quantity(dimension.example, dimension)
    for unit, factor in dimension.units.items():
        if dimension.whole and factor.denominator != 1:
            continue
        assert parse_quantity(f"3 {unit}", dimension) == 3 * factor


def test_no_unit_means_two_things() -> None:
    owners: dict[str, str] = {}
    for dimension in DIMENSIONS:
        for unit in dimension.units:
            assert owners.setdefault(unit, dimension.name) == dimension.name


@settings(deadline=None, max_examples=200)
@given(
    text=st.one_of(
        st.text(max_size=30),
        st.builds(
            "{}{}{}".format,
            st.one_of(st.integers(), st.floats(), st.just("1e99"), st.just("٣")),
            st.sampled_from(["", " ", "/", "  "]),
            st.sampled_from([*units.BYTES.units, *units.BIT_RATE.units, "cycles", "/s", "GBps"]),
        ),
        st.none(),
        st.booleans(),
        st.floats(),
    ),
    dimension=st.sampled_from(DIMENSIONS),
)
def test_any_text_gives_a_value_or_a_unit_error(text: object, dimension: units.Dimension) -> None:
    with contextlib.suppress(UnitError):
        assert parse_quantity(text, dimension) >= 0


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (16384, units.BYTES, "16 KiB"),
        (1000, units.BYTES, "1 KB"),
        (64, units.BYTES, "64 B"),
        (2**30, units.BYTES, "1 GiB"),
        (Fraction(10**9), units.FREQUENCY, "1 GHz"),
        (Fraction(10**10, 3), units.FREQUENCY, "10/3 GHz"),
        (Fraction(4 * 10**12), units.OPERATION_RATE, "4 TFLOP/s"),
        (Fraction(460_800_000_000), units.BANDWIDTH, "460.8 GB/s"),
        (0, units.TIME, "0 fs"),
    ],
)
def test_format_is_what_a_person_would_write(value: int | Fraction, dimension: units.Dimension, text: str) -> None:
    assert format_quantity(value, dimension) == text


def test_negative_is_not_formatted() -> None:
    with pytest.raises(ValueError, match="not negative"):
        format_quantity(-1, units.BYTES)
