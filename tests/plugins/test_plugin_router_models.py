"""Router models in the network: the deflection router, a router with buffers, and models that misbehave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cosim import _core, noc
from cosim.config import ConfigErrors
from cosim.conformance import check_plugin
from cosim.conformance.request import CheckRequest
from cosim.plugins import PluginError, compile_c

LINE: dict[str, Any] = {"topology": {"kind": "mesh", "shape": [4]}, "num_vcs": 1, "vc_buf_size": 3}

# a router of a line of nodes with a queue per input; one flit leaves a cycle, the lowest port's first
SOURCE = """
#include <cosim/plugin/cosim_router_model.h>
#include <stdlib.h>
#include <string.h>
#define MOST 64u
typedef struct {
  const cosim_topology *t;
  uint32_t node;
  uint32_t room[4];        /* behind an output */
  cosim_flit queue[4][MOST]; /* per input */
  uint32_t count[4];
} router;
static int32_t create(const cosim_topology *t, uint32_t node, const char *p, cosim_router_info *info, void **self,
                      char *err, size_t cap) {
  (void)p; (void)err; (void)cap;
  router *r = calloc(1, sizeof *r);
  r->t = t;
  r->node = node;
  for (uint32_t i = 0; i < 4; ++i) r->room[i] = info->buffer_flits;
  *self = r;
  CREATED
  return COSIM_OK;
}
static void destroy(void *self) { free(self); }
static uint32_t way(const router *r, uint32_t dst) {
  const uint32_t to = r->t->ejection[dst] / r->t->max_ports;
  return to > r->node ? 0 : to < r->node ? 1 : r->t->ejection[dst] % r->t->max_ports;
}
static int32_t step(void *self, cosim_router_step *io) {
  router *r = self;
  const uint32_t ports = r->t->max_ports;
  for (uint32_t p = 0; p < ports; ++p) {
    if (io->credits[p] & 1) ++r->room[p];
    if (io->arrived_ports >> p & 1) r->queue[p][r->count[p]++] = io->arrived[p];
    if (io->waiting_ports >> p & 1 && r->count[p] < 2) {
      io->taken_ports |= (uint64_t)1 << p;
      r->queue[p][r->count[p]++] = io->waiting[p];
    }
  }
  STEPPED
  for (uint32_t p = 0; p < ports; ++p) {
    if (r->count[p] == 0) continue;
    io->next_event = io->cycle + 1;
    const uint32_t out = way(r, r->queue[p][0].dst);
    if (io->sent_ports != 0) continue;
    if (r->t->neighbor[r->node * ports + out] != COSIM_NO_LINK) {
      if (r->room[out] == 0) continue;
      --r->room[out];
    }
    io->sent[out] = r->queue[p][0];
    io->sent_ports |= (uint64_t)1 << out;
    if (r->t->ejection[r->node] % ports != p) io->freed[p] |= 1;
    memmove(r->queue[p], r->queue[p] + 1, (--r->count[p]) * sizeof(cosim_flit));
  }
  SENT
  return COSIM_OK;
}
static uint64_t save(const void *self, void *bytes, uint64_t cap) {
  const router *r = self;
  const uint64_t size = sizeof *r - offsetof(router, room);
  if (cap >= size) memcpy(bytes, r->room, size);
  return size;
}
static int32_t load(void *self, const void *bytes, uint64_t size) {
  memcpy(((router *)self)->room, bytes, size);
  return COSIM_OK;
}
static const cosim_router_model_v1 table = {
    .abi = COSIM_ROUTER_MODEL_ABI + MAJOR, .struct_size = sizeof table, .name = "line", .version = "1",
    .create = create, .destroy = destroy, .step = step, .save = save, .load = load};
const cosim_router_model_v1 *cosim_router_model_entry(uint32_t abi) { return abi ? &table : NULL; }
"""


def model(created: str = "", stepped: str = "", sent: str = "", major: str = "0") -> dict[str, str]:
    text = SOURCE.replace("CREATED", created).replace("STEPPED", stepped).replace("SENT", sent).replace("MAJOR", major)
    return {"plugin": str(compile_c(text))}


def frame(*rows: tuple[int, int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["create_cycle", "src", "dst", "size_flits"])


CROWD = frame(*((k // 2, s, (s + 1 + k) % 4, 1 + k % 3) for k in range(8) for s in range(4)))


def terms_add_up(packets: pd.DataFrame) -> bool:
    terms = ["source_queueing", "router", "link", "serialisation", "contention"]
    sums = packets[[f"{term}_cycles" for term in terms]].sum(axis=1)
    return bool((sums == packets["packet_latency_cycles"]).all() and (packets["contention_cycles"] >= 0).all())


def test_a_lone_packet_takes_what_the_pipeline_says() -> None:
    """One cycle a router, one a link, and three for the node's two channels and its reading."""
    net = noc.Network({**LINE, "router": model()})
    assert net.pipeline_cycles == 1
    out = net.run_packets(frame((0, 0, 3, 1), (100, 3, 1, 1), (200, 2, 2, 1)))
    assert out["packet_latency_cycles"].tolist() == [4 + 3 + 3, 3 + 2 + 3, 1 + 0 + 3]
    assert out["hops"].tolist() == [4, 3, 1]
    assert terms_add_up(out)


def test_a_router_with_buffers_delivers_everything_in_order() -> None:
    net = noc.Network({**LINE, "router": model()})
    run = net.packet_run(CROWD)
    assert terms_add_up(run.packets)
    assert run.flit_hops == run.links["flits"].sum() == int((run.packets["hops"] * CROWD["size_flits"]).sum())
    assert run.router_calls is not None
    assert net.packet_run(CROWD).packets.equals(run.packets)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"sent": "io->sent_ports |= 1ull << 60;"}, "sent to port 60; a router has 3 ports"),
        ({"sent": "io->sent[0].id = 12345; io->sent_ports |= 1;"}, "the flit of id 12345, which is not in this router"),
        ({"sent": "if (io->sent_ports & 1) { io->sent[1] = io->sent[0]; io->sent_ports |= 2; }"},
         "which is not in this router"),
        ({"sent": "for (int p = 0; p < 3; ++p) io->sent[p].vc = 1;"}, "on VC 1, expected one of its class, mask 1"),
        ({"stepped": "for (int p = 0; p < 4; ++p) r->room[p] = 9;"}, "on VC 0 without a credit"),
        ({"sent": "io->freed[0] |= 1; io->freed[1] |= 1;"}, "freed a slot of input port [01]"),
        ({"sent": "io->taken_ports |= 1;"}, "took a flit of port 0, at which none waits"),
        ({"sent": "io->next_event = io->cycle;"}, "asked for a call in cycle"),
        ({"created": "info->pipeline_cycles = 3;"}, "the router states a pipeline of 3 cycles"),
        ({"stepped": "if (io->cycle > 5) { io->next_event = io->cycle + 1; return COSIM_OK; }"},
         "no node has read a flit for 100000 cycles"),
        ({"stepped": "if (io->cycle > 5) return COSIM_E_INTERNAL;"}, "step returned the error -4"),
    ],
)  # fmt: skip
def test_what_breaks_the_contract_is_named(parts: dict[str, str], says: str) -> None:
    net = noc.Network({**LINE, "router": model(**parts)})
    with pytest.raises(PluginError, match=f"router model 'line': .*{says}"):
        net.run_packets(CROWD)


def test_a_router_that_keeps_its_flits_is_a_deadlock_that_names_them() -> None:
    net = noc.Network({**LINE, "router": model(stepped="if (io->cycle > 5) return COSIM_OK;")})
    with pytest.raises(_core.DeadlockError, match=r"no router wants to be called; \d+ flits in routers") as caught:
        net.run_packets(CROWD)
    assert "of packet 0 from node 0 to node 1" in str(caught.value) or " in router " in str(caught.value)


def test_what_a_model_refuses_or_states_wrongly() -> None:
    with pytest.raises(
        ConfigErrors, match="states other buffer_flits or pipeline_cycles for router 1 than for router 0"
    ):
        noc.Network({**LINE, "router": model(created="info->pipeline_cycles = node + 1;")}).run_packets(CROWD)
    with pytest.raises(ConfigErrors, match="refuses router 2: no reason given"):
        noc.Network({**LINE, "router": model(created="if (node == 2) return COSIM_E_CONFIG;")}).run_packets(CROWD)
    for key, value in {"routing": "up_down", "routing_delay": 0, "speculative": True, "compat": "booksim2"}.items():
        with pytest.raises(ConfigErrors, match=f"network.{key}: expected no such key beside a router model"):
            noc.Network({**LINE, key: value, "router": model()})
    with pytest.raises(ConfigErrors, match="built-in routers: what a router model does is not known beforehand"):
        noc.Network({**LINE, "router": model()}).check_deadlock()
    with pytest.raises(PluginError, match="this kind is written in C"):
        noc.Network({**LINE, "router": {"plugin": terms_add_up}})


def test_the_check_reports_a_crash_another_version_and_a_resumed_run() -> None:
    def outcomes(router: dict[str, str], *only: str) -> dict[str, str]:
        request = CheckRequest("routers", router["plugin"], {}, 500, LINE, only)
        return {o.name: f"{o.status}: {o.text}" for o in check_plugin(request, 60.0)}

    crash = outcomes(model(stepped="if (io->cycle > 5) return *(volatile int32_t *)0;"), "reachability", "determinism")
    assert "crashed with SIGSEGV" in crash["reachability"]
    assert "crashed with SIGSEGV" in crash["determinism"]
    newer = outcomes(model(major="(1u << 16)"))
    assert list(newer) == ["load"]
    assert "compiled with version 2.0 of cosim_router_model.h, expected 1.x" in newer["load"]
    good = outcomes(model(), "save_load", "determinism")
    assert good["save_load"].startswith("ok: a run of 160 packets, saved at cycle 100 and resumed, is the same")
    assert good["determinism"].startswith("ok")


def test_deflection_is_minimal_alone_and_delivers_all_under_load(examples: Path) -> None:
    router = {"plugin": str(examples / "deflection_router_model.c")}
    net = noc.Network({"topology": {"kind": "mesh", "shape": [4, 4]}, "router": router, "num_vcs": 1})
    pairs = [(1000 * (16 * s + d), s, d, 1) for s in range(16) for d in range(16)]
    alone = net.run_packets(frame(*pairs))
    distance = abs(alone["src"] % 4 - alone["dst"] % 4) + abs(alone["src"] // 4 - alone["dst"] // 4)
    assert alone["hops"].tolist() == (distance + 1).tolist()
    assert alone["packet_latency_cycles"].tolist() == (2 * distance + 4).tolist()
    light, heavy = (
        net.run_traffic("uniform", injection_rate=rate, packet_size_flits=2, warmup_cycles=200, measure_cycles=800)
        for rate in (0.05, 0.45)
    )
    assert light.stable
    assert light.hops_mean < heavy.hops_mean  # flits are deflected
    assert heavy.router_calls is not None
    torus = noc.Network({"topology": {"kind": "torus", "shape": [3, 3]}, "router": router, "num_vcs": 2})
    assert torus.run_traffic("tornado", injection_rate=0.3, warmup_cycles=100, measure_cycles=400).stable


def test_the_oldest_flit_is_what_keeps_deflection_alive(examples: Path) -> None:
    """All nodes send to one: with age every packet arrives, the other way round the oldest may wait for long."""
    rows = [(0, s, 5, 3) for s in range(16) for _ in range(6)]
    makespans = {}
    for youngest in (False, True):
        router = {"plugin": str(examples / "deflection_router_model.c"), "params": {"youngest_first": youngest}}
        net = noc.Network({"topology": {"kind": "mesh", "shape": [4, 4]}, "router": router})
        out = net.run_packets(frame(*rows))
        assert len(out) == 96
        makespans[youngest] = int(out["packet_latency_cycles"].max())
    assert makespans[False] >= 96 * 3  # one ejection port
