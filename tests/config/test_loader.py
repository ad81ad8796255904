# ruff: noqa: E501
"""The YAML loader: values by YAML 1.2, a place for each, every error at once, no crash on any text."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config import ConfigError, ConfigErrors, load_yaml, parse_yaml
from cosim.config.dump import dump_yaml
from cosim.config.loader import MAX_BYTES, MAX_DEPTH, MAX_VALUES, Mark


def errors(text: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        parse_yaml(text, "f.yaml")
    return [str(error) for error in caught.value.errors]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1e-9", 1e-9),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-3", -3),
        ("+3", 3),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("2026-11-30", "2026-11-30"),
        ("~", None),
        ("null", None),
        ("", None),
        ("true", True),
        ("False", False),
        ("'1'", "1"),
        ('"true"', "true"),
        ("-.inf", -math.inf),
        ("64 B", "64 B"),
        ("0-63", "0-63"),
        ("!!str 12", "12"),
        ("!!str 1e-9", "1e-9"),
        ("!!float 3", 3.0),
        ("!!int '7'", 7),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    got = parse_yaml(f"key: {text}").data["key"]
    assert got == value
    assert type(got) is type(value)


def test_every_value_has_its_place() -> None:
    document = parse_yaml("a: {b: [10, 20]}\nc:\n  - d: x\n", "f.yaml")
    assert document.data == {"a": {"b": [10, 20]}, "c": [{"d": "x"}]}
    assert document.marks[("a", "b", 1)] == Mark("f.yaml", 1, 13)
    assert document.marks[("c", 0, "d")] == Mark("f.yaml", 3, 8)
    assert document.key_marks[("c", 0, "d")] == Mark("f.yaml", 3, 5)
    # A key that is not there is placed at the nearest thing around it.
    assert document.mark(("c", 0, "missing", "deep")) == Mark("f.yaml", 3, 5)


def test_aliases_are_values_in_their_own_right() -> None:
    document = parse_yaml("a: &x {p: 1}\nb: *x\n")
    assert document.data == {"a": {"p": 1}, "b": {"p": 1}}
    assert document.data["a"] is not document.data["b"]
    assert document.marks[("b", "p")] == document.marks[("a", "p")]


def test_all_errors_at_once() -> None:
    assert errors("a: 1\na: 2\n8: x\n<<: {}\nb: !!python/none x\nc: &r [*r]\n? [k]\n: v\n") == [
        "f.yaml:2:1: a: expected each key once, got it again (first on line 1)",
        "f.yaml:3:1: 8: expected a string as key, got the number 8; quote it: '8'",
        "f.yaml:4:1: <<: expected keys of YAML 1.2, got the merge key '<<'; write the keys out, or use an alias for a "
        "whole value",
        "f.yaml:5:4: b: expected plain YAML values, got the tag 'tag:yaml.org,2002:python/none'",
        "f.yaml:6:4: c.0: expected an alias of a finished value, got an alias of itself",
        "f.yaml:7:3: expected a string as key, got a list or mapping",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1, 2\n", "f.yaml:2:1: expected valid YAML, got while parsing a flow sequence, expected ',' or ']'"),
        ("a: *nowhere\n", "f.yaml:1:4: expected valid YAML, got found undefined alias 'nowhere'"),
        ("a: 1\n--- \nb: 2\n", "f.yaml:2:1: expected valid YAML, got expected a single document in the stream"),
        ("x\ny: \x00\n", "f.yaml:2:4: expected printable text, got the character U+0000"),
        ("a: '\n", "f.yaml:2:1: expected valid YAML, got while scanning a quoted scalar"),
        ('a: "\\UFFFFFFFF"\n', "f.yaml:1:1: expected valid YAML"),
        ("a: !!int x\n", "f.yaml:1:4: a: expected a value of type int, got 'x'"),
        ("a: " + "9" * 5000, "f.yaml:1:4: a: expected a number, got 5000 digits"),
        ("[" * (MAX_DEPTH + 1), f"f.yaml:1:{MAX_DEPTH + 1}: expected at most {MAX_DEPTH} nested values, got more"),
        ("a: {b: 1, b: 2}\n", "f.yaml:1:11: a.b: expected each key once, got it again (first on line 1)"),
    ],
)
def test_broken_text_is_placed(text: str, message: str) -> None:
    assert errors(text)[0].startswith(message)


def test_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 9)]
    assert errors("\n".join(lines))[0].endswith(
        f"expected at most {MAX_VALUES} values in a file, aliases expanded, got more"
    )


def test_files(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_bytes(b"\xef\xbb\xbfa: \xc3\xa9\n")
    document = load_yaml(good)
    assert document.data == {"a": "é"}
    assert document.folder == tmp_path

    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(ConfigErrors) as caught:
        load_yaml(latin)
    assert str(caught.value) == f"{latin}:2:7: expected UTF-8 text, got the byte 0xe9"

    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ConfigErrors, match=f"at most {MAX_BYTES} bytes"):
        load_yaml(large)

    with pytest.raises(ConfigErrors) as caught:
        load_yaml(tmp_path / "god.yaml")
    assert str(caught.value).endswith(f"expected a file, got no such file; did you mean '{good}'?")
    with pytest.raises(ConfigErrors, match="got a folder"):
        load_yaml(tmp_path)
    with pytest.raises(ConfigErrors, match="got no such file"):
        load_yaml(good / "below.yaml")
    with pytest.raises(ConfigErrors):
        load_yaml("a\0b")


def test_empty_file_is_nothing() -> None:
    assert parse_yaml("").data is None
    assert parse_yaml("# only a comment\n").data is None


fuzz = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            ["a: ", "- ", "[", "]", "{", "}", "&x ", "*x", "!!int ", "? ", ": ", "\n", "  ", "'", '"', "|\n", "<<: ", "#",
             "%YAML 1.1\n", "--- ", "\t", "\\", "9" * 20, "1e5", "~", ",", "\x85", "\ufeff", "!<x> ", ">-\n", "\\x"]
        ),
        max_size=30,
    ).map("".join),
)  # fmt: skip


@settings(deadline=None, max_examples=400)
@given(text=fuzz)
def test_any_text_gives_values_or_config_errors(text: str) -> None:
    findings: tuple[ConfigError, ...] = ()
    try:
        document = parse_yaml(text, "f.yaml")
    except ConfigErrors as caught:
        findings = caught.errors
    if findings:
        assert all(error.line is not None and error.line >= 1 for error in findings)
    else:
        assert () in document.marks


@settings(deadline=None, max_examples=100)
@given(raw=st.binary(max_size=60))
def test_any_bytes_give_values_or_config_errors(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "f.yaml"
    file.write_bytes(raw)
    with contextlib.suppress(ConfigErrors):
        load_yaml(file)


values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False),
        st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12),
        st.sampled_from(
            ["on", "010", "1e-9", "0o7", "<<", "", "null", "1_0", "=", "12:30", "~", "- x", "a: b", " y", "0x1"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text("abcXYZ_-09", min_size=1, max_size=5), inner, max_size=4),
    ),
    max_leaves=15,
)


@settings(deadline=None, max_examples=200)
@given(value=values)
def test_dumped_values_load_again(value: object) -> None:
    assert parse_yaml(dump_yaml({"value": value})).data == {"value": value}
