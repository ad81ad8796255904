"""Arbiter plug-ins in the network: against a built-in allocator, and when they misbehave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cosim import noc
from cosim.config import ConfigErrors
from cosim.conformance import check_plugin
from cosim.conformance.request import CheckRequest
from cosim.plugins import PluginError, compile_c

MESH: dict[str, Any] = {"topology": {"kind": "mesh", "shape": [4, 4]}, "num_vcs": 3}

SOURCE = """
#include <cosim/plugin/cosim_arbiter.h>
#include <stdlib.h>
#include <string.h>
typedef struct { uint32_t inputs, outputs; uint8_t *next_output, *next_input; } state;
static int32_t create(const cosim_arbiter_config *c, const char *p, void **self, char *err, size_t cap) {
  (void)p; (void)err; (void)cap;
  state *s = malloc(sizeof *s);
  s->inputs = c->n_inputs;
  s->outputs = c->n_outputs;
  s->next_output = calloc((size_t)c->n_nodes * c->n_inputs, 1);
  s->next_input = calloc((size_t)c->n_nodes * c->n_outputs, 1);
  *self = s;
  return COSIM_OK;
}
static void destroy(void *self) {
  state *s = self;
  free(s->next_output);
  free(s->next_input);
  free(s);
}
static uint32_t behind(uint32_t at, uint32_t next, uint32_t size) { return (at + size - next) % size; }
static int32_t arbitrate(void *self, const cosim_arbitration *a, uint8_t *grants) {
  state *s = self;
  const cosim_arbiter_request *q = a->requests;
  uint8_t *next_output = s->next_output + (size_t)a->node * s->inputs;
  uint8_t *next_input = s->next_input + (size_t)a->node * s->outputs;
  uint32_t forward[64];
  memset(forward, 255, sizeof forward);
  (void)behind; (void)q; (void)next_output; (void)next_input; (void)grants;
  BODY
}
static const cosim_arbiter_v1 table = {
    .abi = COSIM_ARBITER_ABI + MAJOR, .struct_size = sizeof table, .name = "mine", .version = "1",
    .create = create, .destroy = destroy, .arbitrate = arbitrate};
const cosim_arbiter_v1 *cosim_arbiter_entry(uint32_t abi) { return abi ? &table : NULL; }
"""
INPUT_FIRST = """
  for (uint32_t i = 0; i < a->n_requests; ++i) {
    uint32_t *f = &forward[q[i].input];
    if (*f == UINT32_MAX || behind(q[i].output, next_output[q[i].input], s->outputs) <
                            behind(q[*f].output, next_output[q[i].input], s->outputs)) *f = i;
  }
  for (uint32_t o = 0; o < s->outputs; ++o) {
    uint32_t best = UINT32_MAX;
    for (uint32_t in = 0; in < s->inputs; ++in) {
      const uint32_t f = forward[in];
      if (f == UINT32_MAX || q[f].output != o) continue;
      if (best == UINT32_MAX || behind(in, next_input[o], s->inputs) < behind(q[best].input, next_input[o], s->inputs))
        best = f;
    }
    if (best == UINT32_MAX) continue;
    grants[best] = 1;
    next_input[o] = (uint8_t)((q[best].input + 1) % s->inputs);
    next_output[q[best].input] = (uint8_t)((o + 1) % s->outputs);
  }
  return COSIM_OK;
"""


def arbiter(body: str, major: str = "0") -> str:
    return str(compile_c(SOURCE.replace("BODY", body).replace("MAJOR", major)))


def busy() -> pd.DataFrame:
    rows = [(k // 3, s, (5 * s + 3 * k) % 16, 1 + k % 4) for k in range(12) for s in range(16)]
    return pd.DataFrame(rows, columns=["create_cycle", "src", "dst", "size_flits"])


@pytest.mark.parametrize("stages", [("vc_allocator",), ("sw_allocator",), ("vc_allocator", "sw_allocator")])
def test_a_separable_allocator_in_c_is_the_built_in_one(stages: tuple[str, ...]) -> None:
    built_in = {"vc_allocator": "separable_input_first", "sw_allocator": "separable_input_first"}
    own = noc.Network({**MESH, **built_in}).run_packets(busy())
    mine = {**built_in, **{key: {"plugin": arbiter(INPUT_FIRST)} for key in stages}}
    net = noc.Network({**MESH, **mine})
    assert net.run_packets(busy()).equals(own)
    assert {key: d.name for key, d in net.plugins.items()} == dict.fromkeys(stages, "mine")
    assert not noc.Network(MESH).run_packets(busy()).equals(own)  # the comparison can fail


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("grants[0] = 7; return 0;", "arbitrate wrote 7 for request 0, expected 0 or 1"),
        ("return COSIM_E_INTERNAL;", "arbitrate returned the error -4"),
        ("memset(grants, 1, a->n_requests); return 0;", "granted input"),
        ("return 0;", "requests stand, and nothing was granted for 100000 cycles"),
    ],
)
def test_what_is_no_matching_of_requests_is_named(body: str, says: str) -> None:
    net = noc.Network({**MESH, "vc_allocator": {"plugin": arbiter(body)}})
    with pytest.raises(PluginError, match=f"arbiter plug-in 'mine': .*{says}.*VC allocation of router"):
        net.run_packets(busy())


def test_an_output_granted_twice_is_named() -> None:
    twice = "uint64_t in = 0; for (uint32_t i = 0; i < a->n_requests; ++i) if (!(in >> q[i].input & 1)) {"
    net = noc.Network(
        {**MESH, "sw_allocator": {"plugin": arbiter(twice + "in |= 1ull << q[i].input; grants[i] = 1; } return 0;")}}
    )
    with pytest.raises(PluginError, match=r"granted output \d+ twice \(switch allocation of router"):
        net.run_packets(busy())


def test_one_that_crashes_or_is_too_new_is_reported_by_the_check(examples: Path) -> None:
    small = {"topology": {"kind": "mesh", "shape": [3, 3]}, "num_vcs": 2}
    crash = arbiter("return *(volatile int32_t *)0;")
    found = {o.name: o for o in check_plugin(CheckRequest("arbiters", crash, {}, 1000, small, ("reachability",)))}
    assert "crashed with SIGSEGV" in found["reachability"].text
    newer = arbiter("return 0;", major="(1u << 16)")
    load = list(check_plugin(CheckRequest("arbiters", newer, {}, 1000, small)))
    assert [o.name for o in load] == ["load"]
    assert "compiled with version 2.0 of cosim_arbiter.h, expected 1.x" in load[0].text
    with pytest.raises(PluginError, match="is of kind arbiters, expected kind routing"):
        noc.Network({**MESH, "routing": {"plugin": str(examples / "oldest_arbiter.c")}})


def test_the_oldest_packet_goes_first(examples: Path) -> None:
    """Two flows into one node: the packet that was created first wins every conflict."""
    plugin = {"plugin": str(examples / "oldest_arbiter.c")}
    net = noc.Network({"topology": {"kind": "mesh", "shape": [3]}, "num_vcs": 1, "sw_allocator": plugin,
                       "vc_allocator": plugin})  # fmt: skip
    rows = [(10, 0, 1, 4), (9, 2, 1, 4), (40, 0, 1, 4), (41, 2, 1, 4)]
    out = net.run_packets(pd.DataFrame(rows, columns=["create_cycle", "src", "dst", "size_flits"]))
    first = [out["eject_cycle"][1] < out["eject_cycle"][0], out["eject_cycle"][2] < out["eject_cycle"][3]]
    assert first == [True, True]
    with pytest.raises(ConfigErrors, match="by_clas"):
        noc.Network({**MESH, "vc_allocator": {**plugin, "params": {"by_clas": True}}})
    with pytest.raises(ConfigErrors, match="a plugin that they are for"):
        noc.Network({**MESH, "vc_allocator": {"name": "islip", "params": {"by_class": True}}})
