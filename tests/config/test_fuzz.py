"""Whatever stands in an experiment, a system or a model, the answer is a spec or a list of placed errors."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config import ConfigErrors, Spec, load_experiment, load_hardware, load_model, parse_yaml, resolved_yaml
from cosim.config.dump import dump_yaml
from cosim.config.loader import walk

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2**65),
    st.floats(),
    st.sampled_from(
        [
            "",
            "all",
            "on",
            "mesh",
            "0-3",
            "9-1",
            "64 B",
            "64 b",
            "1 GHz",
            "-1 B",
            "1/0 B",
            "a.py:f",
            "~nobody/a.yaml",
            "{}",
            "/",
            "\0",
        ]
    ),
    st.just([]),
    st.just({}),
    st.lists(st.one_of(st.none(), st.integers(-1, 40), st.text(max_size=3), st.just({})), max_size=3),
    st.dictionaries(
        st.sampled_from(["kind", "name", "file", "requests", "vcs", "package", "x y"]), st.integers(), max_size=2
    ),
)
"""Values of every type, near misses among them."""

EXPERIMENT = load_experiment("quickstart").document.data
HARDWARE = load_hardware("package-4x4").document.data
MODEL = load_model("deepseek-v3").document.data


def mutated(base: Any, data: st.DataObject) -> Any:
    """``base`` with one to three places replaced, removed or added to."""
    value = copy.deepcopy(base)
    for _ in range(data.draw(st.integers(1, 3))):
        places = [path for path, below in walk(value) if path]
        if not places:
            return value
        path = data.draw(st.sampled_from(places))
        parent = value
        for part in path[:-1]:
            parent = parent[part]
        action = data.draw(st.sampled_from(["replace", "remove", "add", "rename"]))
        if action == "replace":
            parent[path[-1]] = data.draw(junk)
        elif action == "remove":
            del parent[path[-1]]
        elif isinstance(parent, dict) and action == "add":
            parent[data.draw(st.text("abkx_ ", min_size=1, max_size=4))] = data.draw(junk)
        elif isinstance(parent, dict):
            key = str(path[-1])
            parent[key[:-1] or "k"] = parent.pop(key)
    return value


def answered(load: Any, value: Any) -> None:
    try:
        spec: Spec = load(value).spec
    except ConfigErrors as caught:
        text = str(caught)
        lines = len(caught.errors)
    else:
        text, lines = "", 0
        assert load(parse_yaml(resolved_yaml(spec)).data).spec == spec
    assert len(text.splitlines()) >= lines


@settings(deadline=None, max_examples=120)
@given(data=st.data())
def test_any_hardware(data: st.DataObject) -> None:
    answered(load_hardware, mutated(HARDWARE, data))


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_model(data: st.DataObject) -> None:
    answered(load_model, mutated(MODEL, data))


@settings(deadline=None, max_examples=120)
@given(data=st.data())
def test_any_experiment(data: st.DataObject) -> None:
    answered(load_experiment, mutated(EXPERIMENT, data))


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_file_has_placed_errors(data: st.DataObject, tmp_path_factory: Any) -> None:
    value = mutated(HARDWARE, data)
    file: Path = tmp_path_factory.mktemp("fuzz") / "hw.yaml"
    file.write_text(dump_yaml(value), encoding="utf-8")
    errors: tuple[Any, ...] = ()
    try:
        load_hardware(str(file))
    except ConfigErrors as caught:
        errors = caught.errors
    assert all(error.file == str(file) and error.line is not None for error in errors)


@settings(deadline=None, max_examples=100)
@given(
    path=st.lists(
        st.sampled_from(
            ["system", "levels", "package", "workload", "model", "seeds", "0", "7", "x", "policies", "trace", ""]
        ),
        min_size=1,
        max_size=5,
    ),
    text=st.one_of(st.text(max_size=8), st.sampled_from(["[1, 2]", "{a: 1}", "1", "64 B", "package-4x4"])),
)
def test_any_option(path: list[str], text: str) -> None:
    option = f"{'.'.join(path)}={text}"

    def load(options: list[str]) -> Any:
        return load_experiment("quickstart", options)

    answered(lambda value: load(value) if isinstance(value, list) else load_experiment(value), [option])
