# ruff: noqa: E501  (golden error texts are long lines)
"""The schemas: golden error texts, all errors at once, shipped files valid, resolved files load to the same spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config import (
    ConfigErrors,
    load_experiment,
    load_hardware,
    load_model,
    parse_yaml,
    presets,
    resolved_yaml,
    validate,
)
from cosim.config.schema_experiment import ExperimentSpec
from cosim.config.schema_hardware import HardwareSpec
from cosim.config.schema_model import ModelSpec
from cosim.config.schema_network import MESSAGE_CLASSES, MessageClasses, default_message_classes
from cosim.config.spec import IndexSet

HARDWARE = """\
levels: {package: {topology: {kind: mesh, shape: [4, 4]}, routing: dor, num_vcs: 4, vc_buf_size: 8, flit_width: 64 B, clock: 1 GHz}}
endpoints:
  expert: {at: {package: all}, compute: {rate: 4 TFLOP/s, efficiency: 0.8}, tile: 16 KiB, expert_buffer: 256 KiB}
  memory: {at: {package: [1, 7]}, memory: {preset: HBM2_2000, channels: 2}, read_return_slots: 64}
tiers: {hbm: {on: memory, capacity: 1 GiB}}
"""


def findings(text: str, schema: type[Any] = HardwareSpec) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        validate(schema, parse_yaml(text, "f.yaml"))
    return [str(error) for error in caught.value.errors]


def changed(old: str, new: str) -> list[str]:
    assert HARDWARE.count(old) == 1
    return findings(HARDWARE.replace(old, new))


def test_the_base_of_these_tests_is_valid() -> None:
    spec = validate(HardwareSpec, parse_yaml(HARDWARE))
    level = spec.levels["package"]
    assert (level.flit_width, level.clock, level.routing_delay) == (64, 10**9, 1)
    assert spec.endpoints["expert"].compute is not None
    assert spec.endpoints["expert"].compute.effective_rate() == 3_200_000_000_000
    assert [endpoint.kind for endpoint in spec.endpoints.values()] == ["compute", "memory"]


def test_all_errors_at_once_with_place_and_fix() -> None:
    text = """\
levels: {package: {topology: {kind: mehs, shape: [4, 4]}, routing: dorr, num_vsc: 4, vc_buf_size: 8, flit_width: 64 b, clock: 1, link_latency: 0}}
endpoints:
  expert:  {at: {package: all}, ports: 1, compute: {rate: 4 TFLOPS, efficiency: 1.8}, tile: 16 KiB, expert_buffer: 256 KiB}
  memory:  {at: {packge: [1, 7, 8, 17]}, memory: {preset: HBM2_2000, channels: two}, read_return_slots: 64}
tiers:     {hbm: {on: memroy, capacity: 1 GiB}}
assumed: [compute.rte]
"""
    assert findings(text) == [
        "f.yaml:1:19: levels.package: expected the key 'num_vcs', got no such key",
        "f.yaml:1:37: levels.package.topology.kind: expected one of mesh, torus, ring, crossbar, fully_connected, fat_tree, pod_fat_tree, graph,"
        " got 'mehs'; did you mean 'mesh'?",
        "f.yaml:1:68: levels.package.routing: expected one of dor, dateline, nca, odd_even, west_first, min_adaptive, direct,"
        " up_down, layered_shortest_path, table, got 'dorr'; did you mean 'dor'?",
        "f.yaml:1:74: levels.package.num_vsc: expected a key of the schema, got the unknown key 'num_vsc'; did you mean"
        " 'num_vcs'?",
        "f.yaml:1:114: levels.package.flit_width: expected a size in bytes with its unit, such as '64 KiB', got '64 b', a"
        " size in bits; a byte has 8 bits: write '8 B' if that is meant",
        "f.yaml:1:127: levels.package.clock: expected a frequency with its unit, such as '1 GHz', got the bare number 1;"
        " add the unit, for example '1 GHz'",
        "f.yaml:1:144: levels.package.link_latency: expected a number of at least 1, got 0",
        "f.yaml:3:59: endpoints.expert.compute.rate: expected a rate of operations with its unit, such as '4 TFLOP/s',"
        " got '4 TFLOPS', whose unit is not known; did you mean '4 TFLOP/s'?",
        "f.yaml:3:81: endpoints.expert.compute.efficiency: expected a number of at most 1.0, got 1.8",
        "f.yaml:4:26: endpoints.memory.at.packge: expected 'package' (a level), got 'packge'; did you mean 'package'?",
        "f.yaml:4:80: endpoints.memory.memory.channels: expected an integer, got 'two'",
        "f.yaml:5:23: tiers.hbm.on: expected an endpoint with memory (memory), got 'memroy'; did you mean 'memory'?",
        "f.yaml:6:11: assumed.0: expected a key of this file, or its last parts, got 'compute.rte'; did you mean"
        " 'compute.rate'?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: mesh", "kind: package", "f.yaml:1:37: levels.package.topology.kind: expected one of mesh, torus, ring, crossbar, fully_connected, fat_tree, pod_fat_tree, graph, got 'package'; this kind is not supported yet"),
        ("kind: mesh", "kind: torus", "f.yaml:1:69: levels.package.routing: expected one of dateline, up_down, layered_shortest_path, table, got 'dor'"),
        ("shape: [4, 4]", "shape: []", "f.yaml:1:50: levels.package.topology.shape: expected at least 1 of them, got 0"),
        ("shape: [4, 4]", "shape: [4, 0]", "f.yaml:1:54: levels.package.topology.shape.1: expected a number of at least 1, got 0"),
        ("shape: [4, 4]", "shape: 4", "f.yaml:1:50: levels.package.topology.shape: expected a list, got 4"),
        ("shape: [4, 4]", "shpe: [4, 4]", "f.yaml:1:30: levels.package.topology: expected the key 'shape', got no such key"),
        ("{kind: mesh, shape: [4, 4]}", "mesh", "f.yaml:1:30: levels.package.topology: expected a mapping with 'kind' (one of mesh, torus, ring, crossbar, fully_connected, fat_tree, pod_fat_tree, graph), got 'mesh'"),
        ("num_vcs: 4", "num_vcs: 2", "f.yaml:1:82: levels.package.num_vcs: expected at least 3 VCs, one for each of the message classes token, weight, prefetch, got 2; or write message_classes out"),
        ("num_vcs: 4", "num_vcs: 4.0", "f.yaml:1:82: levels.package.num_vcs: expected an integer, got 4.0"),
        ("num_vcs: 4", "num_vcs: true", "f.yaml:1:82: levels.package.num_vcs: expected an integer, got true"),
        ("all}, compute", "16}, compute", "f.yaml:3:26: endpoints.expert.at.package: expected routers of level 'package', which has 0 to 15, got router 16"),
        ("[1, 7]", "'3-99'", "f.yaml:4:26: endpoints.memory.at.package: expected routers of level 'package', which has 0 to 15, got router 16-99"),
        ("[1, 7]", "[7, 1, 7]", "f.yaml:4:26: endpoints.memory.at.package: expected each index once, got index 7 twice in [7, 1, 7]"),
        ("[1, 7]", "7-1", "f.yaml:4:26: endpoints.memory.at.package: expected a range that runs upwards, got '7-1'; did you mean '1-7'?"),
        ("[1, 7]", "some", "f.yaml:4:26: endpoints.memory.at.package: expected indices such as 5, '0-63', '0-3,8-11', [0, 2] or all, got 'some'"),
        ("tile: 16 KiB", "tile: 1 MiB", "f.yaml:3:83: endpoints.expert.tile: expected at most the expert_buffer of 256 KiB, got 1 MiB"),
        ("tile: 16 KiB", "tile: 0 B", "f.yaml:3:83: endpoints.expert.tile: expected a size in bytes above zero, got '0 B'"),
        ("tile: 16 KiB, ", "", "f.yaml:3:11: endpoints.expert: expected the key 'tile' beside 'compute', got no such key"),
        (", read_return_slots: 64", "", "f.yaml:4:11: endpoints.memory: expected the key 'read_return_slots' beside 'memory', got no such key"),
        ("read_return_slots: 64", "read_return_slots: 64, tile: 1 B", "f.yaml:4:106: endpoints.memory.tile: expected no 'tile' without 'compute', which alone reads it, got it"),
        ("on: memory", "on: expert", "f.yaml:5:19: tiers.hbm.on: expected an endpoint with memory (memory), got 'expert', which has no memory"),
        ("tiers:", "assumed: [tile, tile]\ntiers:", "f.yaml:5:17: assumed.1: expected each key once, got 'tile' again"),
        ("tiers:", "energy: {link: 0.5 pJ/B, operation: 1 pJ/FLOP}\ntiers:", "f.yaml:5:16: energy.link: expected an energy per bit with its unit, such as '0.5 pJ/b', got '0.5 pJ/B', an energy per byte"),
        ("tiers:", "a b: 1\ntiers:", "f.yaml:5:1: a b: expected one of the keys name, levels, endpoints, gateways, tiers, energy, power_cap, assumed, got the unknown key 'a b'"),
        ("  memory: {at", "  me mory: {at", "f.yaml:4:3: endpoints.me mory: expected a name of letters, digits, '_' and '-', got 'me mory'"),
    ],
)  # fmt: skip
def test_hardware_refusals(old: str, new: str, message: str) -> None:
    assert message in changed(old, new)


def test_checks_over_several_keys_run_beside_a_wrong_value() -> None:
    found = changed(
        "rate: 4 TFLOP/s, efficiency: 0.8}, tile: 16 KiB",
        "rate: 4, efficiency: 0.8}, tile: 1 MiB, read_return_slots: 2",
    )
    assert [text.split(": ")[1] for text in found] == [
        "endpoints.expert.compute.rate",
        "endpoints.expert.tile",
        "endpoints.expert.read_return_slots",
    ]


CHIP = "chip: {topology: {kind: mesh, shape: [2]}, routing: dor, num_vcs: 4, vc_buf_size: 8, flit_width: 64 B, clock: 1 GHz%s}"
BUFFER = "buffer: {token: 1 KiB, weight: 1 KiB, prefetch: 1 KiB}, synchroniser_cycles: 2"


def levels(gateways: str, count: str = "") -> list[str]:
    """Findings of the sample with a second level `chip` and these gateways; places cut off."""
    text = HARDWARE.replace("clock: 1 GHz}}", "clock: 1 GHz}, " + CHIP % count + "}")
    return [error.partition(": ")[2] for error in findings(text.replace("tiers:", f"gateways: {{{gateways}}}\ntiers:"))]


@pytest.mark.parametrize(
    ("gateways", "count", "expected"),
    [
        ("", "", "levels.chip: expected a gateway that joins it to the other levels, got none; write gateways: {NAME: {between: [chip, package], ...}}"),
        ("g: {}", "", "gateways.g: expected the key 'between', got no such key"),
        ("g: {between: [chip, pakage], at: {chip: 0, pakage: 0}, %s}", "", "gateways.g.between.1: expected one of package, chip (a level), got 'pakage'; did you mean 'package'?"),
        ("g: {between: [chip, chip], at: {chip: 0}, %s}", "", "gateways.g.between: expected two different levels, got 'chip' twice"),
        ("g: {between: [chip, package], at: {chip: 0}, %s}", "", "gateways.g.at: expected routers of level 'package', got none"),
        ("g: {between: [chip, package], at: {chip: 2, package: 0}, %s}", "", "gateways.g.at.chip: expected routers of level 'chip', which has 0 to 1, got router 2"),
        ("g: {between: [chip, package], at: {chip: 0, package: 0}, ports: {chp: 2}, %s}", "", "gateways.g.ports.chp: expected one of chip, package, got 'chp'; did you mean 'chip'?"),
        ("g: {between: [chip, package], at: {chip: 0, package: 0}, allow_bottleneck: true, %s}", "", "gateways.g.allow_bottleneck: expected none without a bandwidth, against which ports are held, got it"),
        ("g: {between: [package, chip], at: {chip: 0, package: 0}, %s}", ", count: 2", "levels.chip.count: expected one network at the root of the levels, got 2 of them, which nothing joins"),
        ("g: {between: [chip, package], at: {chip: 0, package: 0}, %s}, h: {between: [package, chip], at: {chip: 0, package: 0}, %s}", "", "gateways: expected levels that form a tree, got a cycle over chip, package"),
    ],
)  # fmt: skip
def test_levels_that_do_not_fit(gateways: str, count: str, expected: str) -> None:
    assert levels(gateways.replace("%s", BUFFER), count)[0] == expected


def test_instances_of_a_level_that_is_one_network() -> None:
    assert [error.partition(": ")[2] for error in changed("memory: {at", "memory: {instances: 0, at")] == [
        "endpoints.memory.instances: expected no such key: its level is one network (no 'count' above 1), got it"
    ]


def test_both_compute_and_memory() -> None:
    assert changed(
        "read_return_slots: 64",
        "read_return_slots: 64, compute: {rate: 1 FLOP/s, efficiency: 1}, tile: 1 B, expert_buffer: 1 B",
    ) == [
        "f.yaml:4:43: endpoints.memory.memory: expected compute or memory, got both; make two endpoints that sit at the same"
        " routers"
    ]


CLASSES = "message_classes: {{token: {{vcs: [{t}], waits_for: [{tw}]}}, weight: {{vcs: [{w}], waits_for: [{ww}]}}, prefetch: {{vcs: [{p}]}}}}"


def with_classes(**parts: str) -> str:
    default = {"t": "1", "tw": "weight", "w": "2", "ww": "", "p": "3"}
    return HARDWARE.replace("clock: 1 GHz", "clock: 1 GHz, " + CLASSES.format(**{**default, **parts}))


def test_message_classes() -> None:
    spec = validate(HardwareSpec, parse_yaml(with_classes(p="0")))
    assert spec.levels["package"].message_classes.prefetch.vcs == (0,)
    assert [line.split(": ", 2)[2] for line in findings(with_classes(ww="token"))] == [
        "expected a graph of waits without a cycle, got a cycle over token, weight"
    ]
    assert [line.split(": ", 2)[1:] for line in findings(with_classes(t="2"))] == [
        [
            "levels.package.message_classes.token.vcs",
            "expected VCs that 'weight' does not use: one waits for the other, got the shared VCs 2",
        ]
    ]
    assert [line.split(": ", 2)[2] for line in findings(with_classes(p="2"))] == [
        "expected VCs that 'prefetch' does not use, got the shared VCs 2"
    ]
    assert "expected a VC below num_vcs = 4, got 4" in findings(with_classes(p="4"))[0]
    assert "expected one of token, weight, prefetch, got 'wait'" in findings(with_classes(tw="wait"))[0]


@given(st.integers(len(MESSAGE_CLASSES), 64))
def test_default_classes_use_every_vc_once(num_vcs: int) -> None:
    classes = MessageClasses.model_validate(default_message_classes(num_vcs)).by_name()
    assert sorted(vc for spec in classes.values() for vc in spec.vcs) == list(range(num_vcs))


def test_default_classes_need_three_vcs() -> None:
    with pytest.raises(ValueError, match="need 3 VCs"):
        default_message_classes(2)


EXPERIMENT: dict[str, Any] = {
    "trace": {"file": "t.npz", "profile": {"requests": "0-63"}, "evaluate": {"requests": "64-127"}},
    "workload": {
        "model": "own-byte-moe",
        "mode": "decode",
        "batch_tokens": 32,
        "batches": 8,
        "layers": "all",
        "scope": "routed",
    },
    "system": "package-4x4",
    "policies": ["static"],
    "rungs": ["link", "flit"],
    "seeds": [1, 2],
}


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An experiment as a mapping whose relative files exist in the current folder."""
    (tmp_path / "t.npz").write_bytes(b"")
    (tmp_path / "f.py").write_text("")
    monkeypatch.chdir(tmp_path)
    return EXPERIMENT


def refusals(base: dict[str, Any], *options: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        load_experiment(base, options)
    return [str(error) for error in caught.value.errors]


def test_experiment_resolves_and_loads_again(experiment: dict[str, Any], tmp_path: Path) -> None:
    options = [
        "system.levels.package.num_vcs=6",
        "workload.model.hidden=256",
        "analytic=[comoe, f.py:figures]",
        "rungs=[analytic, flit]",
    ]
    spec = load_experiment(experiment, options).spec
    assert spec.system.levels["package"].num_vcs == 6
    assert spec.system.name == "package-4x4"
    assert spec.workload.model.hidden == 256
    assert spec.trace.file == str(tmp_path / "t.npz")
    assert spec.analytic[1].function == f"{tmp_path / 'f.py'}:figures"
    resolved = tmp_path / "elsewhere" / "config.resolved.yaml"
    resolved.parent.mkdir()
    resolved.write_text(resolved_yaml(spec))
    again = load_experiment(str(resolved)).spec
    assert again == spec.model_copy(update={"name": "config.resolved"})
    assert resolved_yaml(load_experiment(again.model_dump(mode="json", exclude_none=True)).spec) == resolved_yaml(again)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("workload.scope=model", "workload: expected the key 'full_model' beside scope 'model', got no such key"),
        ("workload.mode=decod", "workload.mode: expected one of decode, prefill, random, sequential, got 'decod'; did you mean 'decode'?"),
        ("workload.chunk_tokens=8", "workload.chunk_tokens: expected none with mode 'decode': only prefill cuts prompts, got it"),
        ("workload.layers=0-8", "workload.layers: expected MoE layers of the model, which has 0 to 7, got layer 8"),
        ("workload.model=mixtral", "workload.model: expected a path, or a shipped name of configs/models"),
        ("workload.model.hiden=3", "workload.model.hiden: expected a key of the schema, got the unknown key 'hiden'; did you mean 'hidden'?"),
        ("trace.profile=orakel", "trace.profile: expected one of oracle, none, or a mapping such as {requests: 0-63}, got 'orakel'; did you mean 'oracle'?"),
        ("trace.evaluate.requests=60-70", "trace.evaluate.requests: expected a part that shares nothing with the profile, got '60-70' beside the profile's '0-63'; write 'profile: oracle' if the policies are to see what is evaluated"),
        ("trace.evaluate=all", "trace.evaluate: expected a part that shares nothing with the profile, got all; write 'profile: oracle' if the policies are to see what is evaluated"),
        ("trace.evaluate={rows: 0-9}", "trace.evaluate: expected profile and evaluate by the same of requests and rows, got one by each"),
        ("trace.evaluate={}", "trace.evaluate: expected one of the keys requests (by request) and rows (by time, in recorded order), got neither"),
        ("trace.file=u.npz", "trace.file: expected a file, got 'u.npz', which does not exist; did you mean 't.npz'?"),
        ("trace.file=sampel", "trace.file: expected a path, or a shipped name of configs/traces"),
        ("policies=[static, static]", "policies.1: expected each policy once, got 'static' again; give it a label of its own"),
        ("policies=[]", "policies: expected at least 1 of them, got 0"),
        ("policies=static", "policies: expected a list, got 'static'"),
        ("policies=[3]", "policies.0: expected a policy's name, or a mapping with name and params, got 3"),
        ("policies=[g.py:Mine]", "policies.0: expected a file, got 'g.py', which does not exist"),
        ("rungs=[flit, flits]", "rungs.1: expected one of analytic, link, flit, link+command, flit+rate, got 'flits'; did you mean 'flit'?"),
        ("rungs=[flit, flit]", "rungs.1: expected each of them once, got 'flit' again"),
        ("rungs=[analytic]", "expected the key 'analytic' with models for the rung 'analytic', got no such key"),
        ("analytic=[comoe]", "analytic: expected the rung 'analytic' in rungs, which alone reads these, got no such rung"),
        ("analytic=[{table: a.csv}]", "analytic.0.table: expected a file, got 'a.csv', which does not exist"),
        ("analytic=[{}]", "analytic.0: expected one of the keys name, function and table, got none of them"),
        ("skipping=true", "skipping: expected one of on, off, got true"),
        ("sampling=10", "sampling: expected none, or a mapping such as {fraction: 0.25, seed: 1}, got 10"),
        ("seeds=[1, 1]", "seeds.1: expected each of them once, got 1 again"),
        ("seeds=[-1]", "seeds.0: expected a number of at least 0, got -1"),
        ("seeds=[9223372036854775808]", "seeds.0: expected a number below 9223372036854775808, got 9223372036854775808"),
        ("limits.max_estimated_hours=.inf", "limits.max_estimated_hours: expected a finite number, got inf"),
        ("limits.hours=3", "limits.hours: expected one of the keys max_estimated_hours, got the unknown key 'hours'"),
        ("claims=nothing", "claims: expected a path, or a shipped name of configs/claims"),
        ("system=package", "system: expected a path, or a shipped name of configs/hardware ("),
        ("system.levels.package.clock=1", "system.levels.package.clock: expected a frequency with its unit, such as '1 GHz', got the bare number 1"),
        ("system={}", "system: expected the key 'levels', got no such key"),
        ("seeds.5=1", "expected a position from 0 to 2, got 'seeds.5'"),
        ("seeds.x=1", "expected a position from 0 to 2, got 'seeds.x'"),
        ("seeds", "expected key.path=value, got 'seeds'"),
        ("=1", "expected key.path=value, got '=1'"),
        ("seeds=[1", "expected valid YAML"),
    ],
)  # fmt: skip
def test_experiment_refusals_point_at_the_option(experiment: dict[str, Any], option: str, message: str) -> None:
    texts = refusals(experiment, option)
    assert any(text.split("': ", 1)[-1].startswith(message) or text.startswith(message) for text in texts), texts
    if "expected the key '" not in message:  # what is missing stands at no option
        assert any(text.startswith(f"option '-o {option}'") for text in texts)


def test_errors_of_the_files_an_experiment_names_come_along(tmp_path: Path) -> None:
    (tmp_path / "hw.yaml").write_text(HARDWARE.replace("64 B", "64 b"))
    (tmp_path / "model.yaml").write_text("layers: 2\nlayers: 3\n")
    file = tmp_path / "e.yaml"
    file.write_text(
        "trace: {file: t.npz, profile: none, evaluate: all}\n"
        "workload: {model: model.yaml, mode: decode, batch_tokens: 0, batches: 1, layers: all, scope: routed}\n"
        "system: hw.yaml\npolicies: [static]\nrungs: [flit]\nseeds: [1]\nsed: 1\n"
    )
    with pytest.raises(ConfigErrors) as caught:
        load_experiment(str(file))
    places = [(Path(error.file or "").name, error.line, error.path) for error in caught.value.errors]
    assert sorted(places) == [
        ("e.yaml", 1, "trace.file"),
        ("e.yaml", 2, "workload.batch_tokens"),
        ("e.yaml", 7, "sed"),
        ("hw.yaml", 1, "system.levels.package.flit_width"),
        ("model.yaml", 2, "layers"),
    ]


def test_unknown_names() -> None:
    with pytest.raises(ConfigErrors, match=r"configs/hardware \(.*\), got 'package-4x5'; did you mean 'package-4x4'\?"):
        load_hardware("package-4x5")
    with pytest.raises(ConfigErrors, match=r"expected a file, got 'quickstart\.yml', which does not exist"):
        load_experiment("quickstart.yml")


@pytest.mark.parametrize("name", presets.names("hardware"))
def test_shipped_hardware_is_valid_and_resolves(name: str) -> None:
    spec = load_hardware(name).spec
    assert validate(HardwareSpec, parse_yaml(resolved_yaml(spec))) == spec


@pytest.mark.parametrize("name", presets.names("models"))
def test_shipped_models_are_valid_and_resolve(name: str) -> None:
    spec = load_model(name).spec
    assert spec.name == name
    assert validate(ModelSpec, parse_yaml(resolved_yaml(spec))) == spec


RECORDINGS = ("hda-moe-gpt-oss", "hda-moe-mixtral")
"""Experiments on public recordings that are not shipped: a user names the file."""


@pytest.mark.parametrize("name", RECORDINGS)
def test_an_experiment_on_a_recording_asks_for_it(name: str) -> None:
    with pytest.raises(ConfigErrors, match=r"trace.file: expected a file, got '.*npz', which does not exist"):
        load_experiment(name)


@pytest.mark.parametrize("name", presets.names("experiments"))
def test_shipped_experiments_fit_the_schema(name: str) -> None:
    spec = load_experiment(name, ["trace.file=sample"] if name in RECORDINGS else []).spec
    assert validate(ExperimentSpec, parse_yaml(resolved_yaml(spec))) == spec


index_lists = st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True)


@settings(deadline=None, max_examples=100)
@given(first=index_lists, second=index_lists)
def test_index_sets(first: list[int], second: list[int]) -> None:
    one, two = IndexSet.parse(first), IndexSet.parse(second)
    assert one.indices(41) == sorted(first)
    assert IndexSet.parse(str(one)) == one
    assert one.overlaps(two) == bool(set(first) & set(second))
    assert [index in one for index in range(41)] == [index in first for index in range(41)]
    outside = {index for low, high in one.beyond(20) for index in range(low, high + 1)}
    assert outside == {index for index in first if index >= 20}
    assert (one == two) == (set(first) == set(second))


sizes = st.integers(1, 2**40).map(lambda count: f"{count} B")


@settings(deadline=None, max_examples=60)
@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    vcs=st.integers(4, 16),
    flit=st.integers(8, 512),
    clock=st.fractions(min_value=1, max_value=10**6, max_denominator=1000),
    efficiency=st.floats(0.01, 1),
    buffer=st.integers(1, 2**40),
    tile_share=st.integers(1, 1000),
    capacity=sizes,
    timing=st.dictionaries(st.sampled_from(["nRCDRD", "nRP", "nRAS"]), st.integers(0, 100)),
    data=st.data(),
)
def test_resolved_hardware_loads_to_the_identical_spec(
    shape: list[int], vcs: int, flit: int, clock: Any, efficiency: float, buffer: int, tile_share: int, capacity: str,
    timing: dict[str, int], data: st.DataObject,
) -> None:  # fmt: skip
    routers = 1
    for size in shape:
        routers *= size
    at = data.draw(st.lists(st.integers(0, routers - 1), min_size=1, unique=True))
    spec = load_hardware(
        {
            "levels": {"package": {"topology": {"kind": "mesh", "shape": shape}, "routing": "dor", "num_vcs": vcs,
                                   "vc_buf_size": 8, "flit_width": f"{flit} B", "clock": f"{clock} MHz"}},
            "endpoints": {
                "expert": {"at": {"package": "all"}, "compute": {"rate": "3 TOP/s", "efficiency": efficiency},
                           "tile": f"{max(1, buffer // tile_share)} B", "expert_buffer": f"{buffer} B"},
                "memory": {"at": {"package": at}, "memory": {"preset": "HBM2_2000", "channels": 1, "timing": timing},
                           "read_return_slots": 3},
            },
            "tiers": {"on": {"on": "memory", "capacity": capacity}},
            "assumed": ["compute.rate", "tile"],
        }
    ).spec  # fmt: skip
    assert validate(HardwareSpec, parse_yaml(resolved_yaml(spec))) == spec
