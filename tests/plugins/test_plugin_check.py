"""`cosim plugins new`, `show` and `check`: projects that pass, plug-ins that crash, lie, hang or are too new."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cosim.cli import main
from cosim.conformance import check_plugin
from cosim.conformance.request import CheckRequest
from cosim.noc import Network
from cosim.plugins import compile_c, include_dir
from cosim.plugins.headers import header
from cosim.plugins.registry import find

SMALL = {"topology": {"kind": "mesh", "shape": [3, 3]}, "num_vcs": 2}

SOURCE = """
#include <cosim/plugin/cosim_router.h>
static int32_t create(const cosim_topology *t, const char *p, void **self, char *err, size_t cap) {
  (void)p; (void)err; (void)cap;
  *self = (void *)(uintptr_t)t;
  return COSIM_OK;
}
static void destroy(void *self) { (void)self; }
static int32_t route(void *self, const cosim_route_req *q, const cosim_router_view *v, cosim_candidate *out,
                     uint32_t n) {
  const cosim_topology *t = self;
  (void)v; (void)n; (void)t; (void)out; (void)q;
  BODY
}
static const cosim_router_v1 table = {
    .abi = COSIM_ROUTER_ABI + MAJOR, .struct_size = sizeof table, .name = "bad", .version = "1", .caps = CAPS,
    .create = create, .destroy = destroy, .route = route};
const cosim_router_v1 *cosim_router_entry(uint32_t abi) { return abi ? &table : NULL; }
"""
CRASH = "return *(volatile int32_t *)0;"
LIE = "out[0] = (cosim_candidate){99, 0, UINT64_MAX}; return 1;"
STALL = "return 0;"
CIRCLE = """
  for (uint32_t p = 0; p < t->max_ports; ++p)
    if (t->neighbor[q->node * t->max_ports + p] != COSIM_NO_LINK) {
      out[0] = (cosim_candidate){p, 0, UINT64_MAX};
      break;
    }
  return 1;
"""
HANG = "for (volatile int i = 0; i < 1; i = 0) {} return 0;"


def outcomes(body: str, major: str = "0") -> dict[str, str]:
    source = SOURCE.replace("BODY", body).replace("MAJOR", major).replace("CAPS", "COSIM_CAP_STATELESS")
    request = CheckRequest("routing", str(compile_c(source)), {}, 1000, SMALL, ("reachability", "deadlock"))
    return {o.name: f"{o.status}: {o.text}" for o in check_plugin(request, 60.0)}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (CRASH, "failed: the process of the check crashed with SIGSEGV"),
        (LIE, "failed: routing function 'bad': candidate 0 asks for port 99, expected a port below 5"),
        (STALL, "failed: the network is deadlocked"),
        (CIRCLE, "failed: routing function 'bad': the packet has visited 1024 routers and never arrives"),
    ],
)
def test_a_plug_in_that_crashes_lies_or_never_progresses_is_named(body: str, text: str) -> None:
    found = outcomes(body)
    assert found["load"].startswith("ok: bad 1, shared object, ABI 1.0")
    assert found["reachability"].startswith(text)
    assert found["deadlock"].startswith("failed")  # every check has its turn, whatever the one before did


def test_one_that_never_returns_is_stopped() -> None:
    source = SOURCE.replace("BODY", HANG).replace("MAJOR", "0").replace("CAPS", "0")
    request = CheckRequest("routing", str(compile_c(source)), {}, 1000, SMALL, ("reachability",))
    found = iter(check_plugin(request, timeout_seconds=15.0))
    assert next(found).status == "ok"
    stopped = next(found)
    assert (stopped.name, stopped.status) == ("reachability", "failed")
    assert "gave no answer in 15 s" in stopped.text


def test_another_major_version_is_refused() -> None:
    found = outcomes(STALL, major="(1u << 16)")
    assert list(found) == ["load"]
    assert "compiled with version 2.0 of cosim_router.h, expected 1.x" in found["load"]


def test_a_routing_that_can_deadlock_is_caught(examples: Path) -> None:
    request = CheckRequest("routing", str(examples / "deadlock_router.c"), {}, 1000, SMALL, ("deadlock",))
    found = {o.name: o for o in check_plugin(request)}
    assert found["deadlock"].status == "failed"
    assert found["deadlock"].text.startswith("may deadlock: a cycle of ")


def small_network(folder: Path) -> str:
    path = folder / "network.yaml"
    path.write_text("network: {topology: {kind: mesh, shape: [3, 3]}, num_vcs: 2}\n")
    return str(path)


def cosim(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plugins", *arguments])


@pytest.mark.parametrize(
    ("kind", "language", "example", "checks"),
    [
        ("router", "c", "table", 8),
        ("router", "c", "adaptive", 8),
        ("router", "python", "adaptive", 8),
        ("arbiter", "c", "oldest", 7),
        ("router_model", "c", "deflection", 7),
        ("memory", "c", "fixed", 7),
        ("memory", "python", "fixed", 7),
    ],
)
def test_a_new_project_builds_and_passes(kind: str, language: str, example: str, checks: int, tmp_path: Path) -> None:
    written = cosim("new", "mine", "--kind", kind, "--lang", language, "--example", example, "--into", str(tmp_path))
    assert written.exit_code == 0, written.output
    root = tmp_path / "mine"
    named = re.search(r"^mine = \"mine:(\w+)\"$", (root / "pyproject.toml").read_text(), re.MULTILINE)
    assert named is not None
    if language == "c":
        subprocess.run(["make", "-s", "-C", str(root)], check=True)
        reference = str(root / "mine.so")
    else:
        reference = f"{root / 'mine' / '__init__.py'}:{named[1]}"
    network = small_network(tmp_path)
    checked = cosim("check", reference, "--packets", "2000", "--network", network)
    assert checked.exit_code == 0, checked.output
    assert len(checked.stdout.splitlines()) == checks
    assert "failed" not in checked.stdout
    assert cosim("new", "mine", "--into", str(tmp_path)).exit_code == 2  # it is there already


@pytest.mark.parametrize(
    ("kind", "language", "group"),
    [("router", "c", "routing"), ("router", "python", "routing"), ("topology", "python", "topologies")],
)
def test_a_new_project_installs_and_is_found_by_its_entry_point(
    kind: str, language: str, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"mine_{kind}_{language}"  # modules of one name would be one in this process
    assert cosim("new", name, "--kind", kind, "--lang", language, "--into", str(tmp_path)).exit_code == 0
    site = tmp_path / "site"
    install = ["install", "-q", "--no-build-isolation", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", *install, str(tmp_path / name)], check=True)
    monkeypatch.syspath_prepend(str(site))
    found = find(group, name)
    assert (found.distribution, found.version) == (name.replace("_", "-"), "1.0")
    keys = {"routing": {"plugin": name}, **SMALL} if kind == "router" else {"topology": {"plugin": name}}
    result = Network(keys).run_traffic("uniform", injection_rate=0.05, warmup_cycles=100, measure_cycles=200)
    assert result.stable
    assert f"[{name.replace('_', '-')} 1.0]" in cosim("list", group).stdout


def test_show_tells_parameters_and_a_failed_check_is_status_2(examples: Path, tmp_path: Path) -> None:
    shown = cosim("show", str(examples / "adaptive_router.c"))
    assert shown.exit_code == 0, shown.output
    assert "ABI 1.0, capabilities: stateless" in shown.stdout
    assert "  bias_flits: default 0 flits; free slots by which" in shown.stdout
    assert "  latency_cycles: default 30 CK" in cosim("show", str(examples / "fixed_memory.c")).stdout
    network = small_network(tmp_path)
    failed = cosim("check", str(examples / "deadlock_router.c"), "--only", "deadlock", "--network", network)
    assert failed.exit_code == 2
    assert "failed" in failed.stdout
    assert "failed 1 of its checks" in failed.stderr


@pytest.mark.parametrize("standard", [("cc", "-std=c11", "c"), ("c++", "-std=c++20", "c++")])
def test_the_headers_compile_alone_and_together_as_c_and_cxx(standard: tuple[str, str, str]) -> None:
    compiler, flag, language = standard
    names = sorted(path.name for path in header("cosim_router.h").parent.glob("*.h"))
    assert names == [
        "cosim_arbiter.h", "cosim_memory.h", "cosim_params.h", "cosim_router.h", "cosim_router_model.h",
    ]  # fmt: skip
    source = "".join(f"#include <cosim/plugin/{name}>\n" for name in names) + "int main(void) { return 0; }\n"
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
    command = [compiler, flag, *warnings, f"-I{include_dir()}", "-fsyntax-only", "-x", language, "-"]
    subprocess.run(command, input=source, text=True, check=True)
