"""The level of a system: described as networks by themselves are, links that one VC can fill."""

from __future__ import annotations

import pytest

from cosim.config import ConfigErrors, load_hardware, parse_yaml, presets, validate
from cosim.config.schema_network import LevelSpec, NetworkConfig, NetworkSpec

MESH = {"topology": {"kind": "mesh", "shape": [4, 4]}, "routing": "dor", "num_vcs": 4, "vc_buf_size": 8}


def test_a_level_and_a_network_by_itself_have_one_description() -> None:
    """The keys they share are the same, save what a level must name or takes no plug-in for."""
    named = {"topology", "routing", "num_vcs", "vc_buf_size", "link_latency", "vc_allocator", "sw_allocator"}
    for key in set(NetworkSpec.model_fields) - named:
        assert LevelSpec.model_fields[key] is NetworkConfig.model_fields[key] or (
            repr(LevelSpec.model_fields[key]) == repr(NetworkConfig.model_fields[key])
        ), key
    for key in ("num_vcs", "vc_buf_size", "routing", "topology"):
        assert LevelSpec.model_fields[key].is_required(), key


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
