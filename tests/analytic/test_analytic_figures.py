"""A user's own figures: CSV tables and Python functions, and models by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from analytic_line import SMALL, TinyModel, line_system

from cosim.analytic import (
    RUNG,
    CoMoE,
    FigureTable,
    FunctionModel,
    HCRMap,
    analytic_rungs,
    layers_frame,
    load_all,
    load_analytic,
    model_names,
    quantity,
    quantity_names,
    read_table,
)
from cosim.config.errors import ConfigErrors


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_table_is_read_into_canonical_units(tmp_path: Path) -> None:
    text = "policy,layer,quantity,value,unit\nstatic,all,layer_latency_p95,1.5,us\nstatic,3,bytes_weight,2,KiB\n"
    table = read_table(write(tmp_path, "mine.csv", text))
    assert table.name == "mine"
    assert [(f.policy, f.layer, f.metric, f.value, f.quantity.unit, f.line) for f in table.figures] == [
        ("static", None, "layer_latency_p95", 1500.0, "ns", 2),
        ("static", 3, "bytes_weight[layer=3]", 2048.0, "B", 3),
    ]
    assert table.policies() == ["static"]


def test_column_order_is_free_and_quotes_work(tmp_path: Path) -> None:
    text = 'unit,value,quantity,layer,policy\n1,0.5,balance,all,"my, policy"\n'
    assert read_table(write(tmp_path, "t.csv", text)).figures[0].policy == "my, policy"


@pytest.mark.parametrize(
    ("row", "line", "message"),
    [
        ("static,all,layer_latency_p95,1.5,furlong", 2, "unit"),
        ("static,all,layer_latncy_p95,1.5,us", 2, "did you mean 'layer_latency_p95'?"),
        ("static,all,layer_latency_p95,nan,us", 2, "a finite number"),
        ("static,all,layer_latency_p95,-1,us", 2, "a finite number"),
        ("static,first,layer_latency_p95,1,us", 2, "a layer number or 'all'"),
        (",all,layer_latency_p95,1,us", 2, "a policy name"),
        ("static,all,layer_latency_p95,1", 2, "5 cells"),
        ("\nstatic,all,balance,1,1\nstatic,all,balance,2,1", 4, "first on line 3"),
    ],
)
def test_bad_rows_name_their_line(tmp_path: Path, row: str, line: int, message: str) -> None:
    path = write(tmp_path, "t.csv", "policy,layer,quantity,value,unit\n" + row + "\n")
    with pytest.raises(ConfigErrors) as caught:
        read_table(path)
    assert f"t.csv:{line}:" in str(caught.value)
    assert message in str(caught.value)


def test_all_bad_cells_are_reported_at_once(tmp_path: Path) -> None:
    text = "policy,layer,quantity,value,unit\na,x,nothing,b,s\na,all,balance,1,s\n"
    with pytest.raises(ConfigErrors) as caught:
        read_table(write(tmp_path, "t.csv", text))
    assert [error.path for error in caught.value.errors] == ["layer", "quantity", "value", "unit"]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("policy,layer,quantity,value", "the column 'unit'"),
        ("policy,layer,quantity,value,units", "did you mean 'unit'?"),
        ("policy,layer,quantity,value,unit,unit", "2 of it"),
    ],
)
def test_header_is_strict(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(ConfigErrors, match=message.replace("?", r"\?")):
        read_table(write(tmp_path, "t.csv", header + "\n"))


def test_empty_and_missing_tables(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors, match="an empty file"):
        read_table(write(tmp_path, "t.csv", ""))
    with pytest.raises(ConfigErrors, match="at least one figure"):
        read_table(write(tmp_path, "u.csv", "policy,layer,quantity,value,unit\n"))
    with pytest.raises(ConfigErrors, match="no such file"):
        read_table(tmp_path / "none.csv")


FUNCTION = """
import numpy as np

def mine(decisions, system, model):
    n = len(decisions[["seed", "batch"]].drop_duplicates())
    return {"compute": np.full(n, 1e-6), "total": np.full(n, 2e-6)}

def short(decisions, system, model):
    return {"totl": [1.0], "compute": [1.0, 2.0, 3.0]}
"""


def test_function_is_a_model(tmp_path: Path) -> None:
    write(tmp_path, "my_model.py", FUNCTION)
    model = load_analytic("my_model.py:mine", tmp_path)
    assert isinstance(model, FunctionModel)
    frame = layers_frame(model, SMALL, line_system(), TinyModel(), policy="static")
    assert frame["rung"].tolist() == [RUNG]
    assert frame["compute_fs"].tolist() == [10**9]
    assert frame["total_fs"].tolist() == [2 * 10**9]


def test_function_takes_parameters(tmp_path: Path) -> None:
    write(tmp_path, "m.py", "def f(decisions, system, model, *, scale):\n    return {'total': [scale * 1e-6]}\n")
    model = load_analytic({"function": "m.py:f", "params": {"scale": 3}}, tmp_path)
    frame = layers_frame(model, SMALL, line_system(), TinyModel(), policy="static")  # type: ignore[arg-type]
    assert frame["total_fs"].tolist() == [3 * 10**9]
    with pytest.raises(ConfigErrors, match="missing a required"):
        load_analytic("m.py:f", tmp_path)
    with pytest.raises(ConfigErrors, match="scal"):
        load_analytic({"function": "m.py:f", "params": {"scal": 3}}, tmp_path)


def test_rungs_of_models() -> None:
    assert analytic_rungs(["comoe", "hcrmap"]) == {"comoe": "analytic", "hcrmap": "analytic:hcrmap"}
    with pytest.raises(ValueError, match="different names"):
        analytic_rungs(["comoe", "comoe"])


def test_function_answers_are_checked(tmp_path: Path) -> None:
    write(tmp_path, "my_model.py", FUNCTION)
    model = load_analytic("my_model.py:short", tmp_path)
    with pytest.raises(ConfigErrors, match="did you mean 'total'") as caught:
        layers_frame(model, SMALL, line_system(), TinyModel(), policy="static")  # type: ignore[arg-type]
    assert "my_model.py:short" in str(caught.value)
    assert "expected the stage 'total', got none" in str(caught.value)
    assert "shape (1,), got (3,)" in str(caught.value)
    write(tmp_path, "fails.py", "def f(decisions, system, model):\n    return decisions['token']\n")
    with pytest.raises(ConfigErrors, match="KeyError: 'token'"):
        layers_frame(load_analytic("fails.py:f", tmp_path), SMALL, line_system(), TinyModel(), policy="static")  # type: ignore[arg-type]


def test_function_files_are_checked(tmp_path: Path) -> None:
    write(tmp_path, "broken.py", "def f(:\n")
    write(tmp_path, "raises.py", "raise RuntimeError('no')\n")
    write(tmp_path, "my_model.py", FUNCTION)
    for spec, message in [
        ("broken.py:f", "valid Python"),
        ("raises.py:f", "RuntimeError: no"),
        ("none.py:f", "no such file"),
        ("my_model.py:mime", "did you mean 'mine'"),
        ("my_model.py:2f", "path.py:function"),
    ]:
        with pytest.raises(ConfigErrors, match=message):
            load_analytic(spec, tmp_path)


def test_models_by_name() -> None:
    assert {"comoe", "comoe_reconstructed", "hcrmap"} <= set(model_names())
    assert isinstance(load_analytic("hcrmap"), HCRMap)
    assert isinstance(load_analytic("comoe"), CoMoE)
    chosen = load_analytic({"name": "hcrmap", "params": {"layer_time": "eq14"}})
    assert isinstance(chosen, HCRMap)
    assert chosen.parameters.choice("layer_time") == "eq14"
    assert chosen.parameters["layer_time"].source == "set by the user"
    # Two variants of one model stand side by side, each under a name that tells them apart.
    assert chosen.name == "hcrmap(layer_time=eq14)"
    names = [model.name for model in (load_analytic("hcrmap"), chosen)]
    assert analytic_rungs(names)[chosen.name] == "analytic:hcrmap(layer_time=eq14)"


def test_lists_of_models_are_checked_whole() -> None:
    found = load_all(["hcrmap", {"name": "hcrmap", "params": {"route": "cut_through"}}, "comoe"])
    assert list(found) == ["hcrmap", "hcrmap(route=cut_through)", "comoe"]
    with pytest.raises(ConfigErrors) as caught:
        load_all(["hcrmap", "hcrmp", "hcrmap"])
    assert len(caught.value.errors) == 2
    assert "'hcrmap' again" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hcrmp", "did you mean 'hcrmap'"),
        ({"name": "hcrmap", "params": {"layer_tim": "eq14"}}, "did you mean 'layer_time'"),
        ({"name": "hcrmap", "params": {"layer_time": "eq16"}}, "one of eq15, eq14"),
        ({"name": "hcrmap", "params": {"cores": "split", "N_core": 1.5}}, "a whole number of cores"),
        ({"name": "hcrmap", "params": {"N_core": 8}}, "none unless cores is 'split'"),
        ({"name": "comoe_reconstructed", "params": {"elsewhere": "extrapolate", "top_k": 4}}, "which alone reads it"),
        ({"name": "comoe", "params": {"overlap": 2}}, "from 0 to 1"),
        ({"name": "comoe", "params": {"overlap": True}}, "got True"),
        ({"tables": "x.csv"}, "a model's name"),
        (3, "a model's name"),
    ],
)
def test_bad_specs(spec: object, message: str) -> None:
    with pytest.raises(ConfigErrors, match=message):
        load_analytic(spec)


def test_layers_frame_is_sorted_and_complete() -> None:
    frame = pd.concat([SMALL.assign(layer=1), SMALL.assign(seed=2), SMALL], ignore_index=True).astype(np.int64)
    got = layers_frame(HCRMap(), frame, line_system(), TinyModel(), policy="static")
    assert got[["seed", "batch", "layer"]].to_numpy().tolist() == [[1, 0, 0], [1, 0, 1], [2, 0, 0]]
    assert got["total_fs"].tolist() == [15 * 10**15] * 3
    assert str(got["total_fs"].dtype) == "int64"
    assert "energy_J" in got.columns


def test_layers_frame_refuses_times_beyond_64_bits() -> None:
    slow = line_system(compute_flops=np.array([1e-5, 1e-5, 0.0]))
    with pytest.raises(ValueError, match="64-bit femtosecond range"):
        layers_frame(HCRMap(), SMALL, slow, TinyModel(), policy="static")


def test_quantity_vocabulary_is_consistent() -> None:
    for name in quantity_names():
        assert quantity(name).name == name
    with pytest.raises(KeyError):
        quantity("balance_total")
    with pytest.raises(KeyError):
        quantity("balance_mean")
    assert quantity("layer_latency_mean").from_unit(1.0, "ms") == 1e6
    assert isinstance(FigureTable("x", ()).policies(), list)
