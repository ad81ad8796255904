"""The level of a system against the room of networks: same defaults, same limits, links that one VC can fill."""

from __future__ import annotations

import pytest

from cosim.config import ConfigErrors, load_hardware, parse_yaml, presets, validate
from cosim.config.schema_network import NetworkSpec
from cosim.noc.config import MOST_INPUT_VCS, NetworkConfig
from cosim.system import system as built

KEYS = set(NetworkSpec.model_fields) - {"topology", "routing", "vc_allocator", "sw_allocator", "link_latency"}
MESH = {"topology": {"kind": "mesh", "shape": [4, 4]}, "routing": "dor", "num_vcs": 4, "vc_buf_size": 8}


def accepted(keys: dict[str, object]) -> tuple[bool, bool]:
    """Whether the level and the room of networks take these keys."""
    verdicts = []
    for build in (NetworkSpec.model_validate, NetworkConfig.from_dict):
        try:
            build({**MESH, **keys})
        except ValueError:
            verdicts.append(False)
        else:
            verdicts.append(True)
    return verdicts[0], verdicts[1]


def test_same_defaults() -> None:
    ours, theirs = NetworkSpec.model_validate(MESH), NetworkConfig.from_dict(MESH)
    for key in KEYS - {"link_buffer_flits"}:
        assert getattr(ours, key) == getattr(theirs, key), key
    assert ours.link_depth_flits == theirs.link_buffer_flits
    assert {ours.link_latency} == set(theirs.link_latency)
    assert (ours.vc_allocator, ours.sw_allocator) == (theirs.vc_allocator, theirs.sw_allocator)
    assert built.MOST_INPUT_VCS == MOST_INPUT_VCS


@pytest.mark.parametrize("key", sorted(KEYS | {"link_latency"}))
@pytest.mark.parametrize("value", [-1, 0, 1, 2, 10, 33, 65_537, 100_001, 1_000_001, 1.0, "4", True])
def test_same_limits(key: str, value: object) -> None:
    if key == "num_vcs" and value == 33:
        return  # refused by both, by the ports of the router too
    ours, theirs = accepted({key: value})
    assert ours == theirs


def test_switch_traversal_takes_a_cycle() -> None:
    assert accepted({"st_final_delay": 0, "st_prepare_delay": 0}) == (False, False)
    assert accepted({"st_final_delay": 0, "st_prepare_delay": 1}) == (True, True)


@pytest.mark.parametrize("name", presets.names("hardware"))
def test_buffers_of_shipped_systems_cover_the_credit_loop(name: str) -> None:
    for level in load_hardware(name).spec.levels.values():
        assert level.link_depth_flits >= level.credit_loop_cycles


def test_credit_loop_as_measured() -> None:
    # booksim2 28f43299, X = 1: 6 cycles for link latency 1 and credit_delay 1, 5 without credit_delay, 8 for latency 2
    def loop(**keys: int) -> int:
        return NetworkSpec.model_validate({**MESH, **keys}).credit_loop_cycles

    assert (loop(), loop(credit_delay=0), loop(link_latency=2)) == (6, 5, 8)


def test_errors_of_a_level_name_its_keys() -> None:
    text = "topology: {kind: mesh, shape: [4, 4]}\nrouting: dor\nnum_vcs: 4\nvc_buf_size: 8\nst_final_delay: 0\n"
    with pytest.raises(ConfigErrors) as caught:
        validate(NetworkSpec, parse_yaml(text, "f.yaml"))
    assert str(caught.value) == (
        "f.yaml:5:17: st_final_delay: expected st_prepare_delay + st_final_delay of at least 1, got 0"
    )
