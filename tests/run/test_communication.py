"""Communication on its own: messages and ring all-reduces over reserved links and over flits, and the fit of gamma."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from small_system import NS, line

from cosim.analytic.hda_moe_equations import ring_all_reduce_time_s
from cosim.analytic.quantities import COMPONENT_METRICS
from cosim.cli import main
from cosim.config.errors import ConfigErrors
from cosim.experiment import Experiment
from cosim.link import LinkSimulator
from cosim.policy.registry import make_policy
from cosim.run.communication import messages_fs, ring_all_reduce_fs
from cosim.run.components import check_components, component_frames
from cosim.run.error_map import ErrorMapOptions, simulate
from cosim.run.error_map import errors as relative
from cosim.run.gamma import GammaOptions, fits, sample
from cosim.run.layer_pass import PassCases
from cosim.run.placing import system_links
from cosim.run.setup import Setup
from cosim.system import open_experiment
from cosim.system.loading import load_system
from cosim.workload.collectives import ring_order


def column(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def test_messages_over_links_are_those_of_the_link_simulator() -> None:
    system = load_system("near-memory-4x8")
    draws = np.random.default_rng(3)
    source, destination = draws.integers(0, 32, 200), draws.integers(0, 32, 200)
    sizes = draws.integers(1, 5000, 200)
    alone = LinkSimulator(system_links(system)).run(source, destination, sizes)
    assert abs(messages_fs(system, "link", source, destination, sizes) - alone.makespan_fs) <= 1


def test_one_message_over_flits_by_hand() -> None:
    # seen at 1; three routers of 4 cycles, two links of 2, 3 for injection, ejection and reading, one further flit
    assert messages_fs(load_system(line()), "flit", column(0), column(2), column(100)) == 21 * NS
    assert messages_fs(load_system(line()), "flit", column(), column(), column()) == 0


def test_a_ring_of_two_by_hand() -> None:
    """Two steps each way; a step starts when the slice before has arrived: 1 + T(2, 2) cycles of 1 ns each."""
    system = load_system(line(3))
    step = 1 + 4 * 2 + 2 * (2 - 1) + 3 + 2 - 1
    # the first step is seen at 1 like every message; a later one at the cycle after the arrival before it
    assert ring_all_reduce_fs(system, "flit", 256, column(0, 1)) == 2 * step * NS


def test_a_ring_over_links_is_the_closed_form() -> None:
    """On a torus whose ring takes one link per step nothing is in the way: 2 (n - 1) size / (n BW), a few fs a step."""
    system = load_system("near-memory-torus-4x8")
    ring = ring_order(system_links(system).hops)
    assert int(system_links(system).hops[ring, np.roll(ring, -1)].sum()) == 32
    size = 1 << 20
    exact_fs = ring_all_reduce_time_s(size, 32, 50e9) * 1e15
    assert abs(ring_all_reduce_fs(system, "link", size, ring) - exact_fs) < 62 * 25
    # flits have headers (8 of 512 B), a router's latency each step, and bubbles between packets of one VC
    assert 1.016 * exact_fs < ring_all_reduce_fs(system, "flit", size, ring) < 1.3 * exact_fs


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 7), st.integers(1, 5), st.randoms(use_true_random=False))
def test_a_ring_visits_everyone_once(rows: int, columns: int, random: object) -> None:
    x, y = np.divmod(np.arange(rows * columns), columns)
    hops = np.abs(x[:, None] - x) + np.abs(y[:, None] - y)
    ring = ring_order(hops)
    assert sorted(ring.tolist()) == list(range(rows * columns))
    # no exchange of two links is left that helps: no longer than the rows one after the other and back
    assert int(hops[ring, np.roll(ring, -1)].sum()) <= 2 * rows * columns


def test_a_ring_needs_a_byte_for_everyone() -> None:
    with pytest.raises(ConfigErrors, match="at least a byte for each of 2"):
        ring_all_reduce_fs(load_system(line(3)), "flit", 1, column(0, 1))
    assert ring_all_reduce_fs(load_system(line(3)), "flit", 1, column(0)) == 0


def test_another_network_is_refused() -> None:
    with pytest.raises(ConfigErrors, match="flit"):
        messages_fs(load_system(line()), "flits", column(0), column(2), column(100))


def test_gamma_of_two_families() -> None:
    setup = Setup(open_experiment("hda-moe"))
    policies = [(name, make_policy(name, {})) for name in ("tensor_parallel", "expert_parallel")]
    options = GammaOptions(samples=3, tokens=(8, 16))
    drawn = sample(PassCases(setup, [("mesh", setup.system)], policies), options)
    again = sample(PassCases(setup, [("mesh", setup.system)], policies[1:]), options)
    # a policy's batches do not depend on the others
    assert drawn[drawn["policy"] == "expert_parallel"].reset_index(drop=True).equals(again)
    assert drawn["collective"].tolist() == ["ring all-reduce"] * 3 + ["transfers"] * 3
    assert drawn["tokens"].between(8, 16).all()
    assert (drawn["flit_s"] > drawn["link_s"]).all()  # headers, ports, pipelines
    rows = fits(drawn)
    assert [(row.policy, row.network) for row in rows] == [
        (policy, network) for policy in ("tensor_parallel", "expert_parallel") for network in ("link", "flit")
    ]
    # one pass of a ring over links takes (n - 1) / n of Eq. 4's limit, a little more where the ring is not closed
    assert rows[0].fit.gamma == pytest.approx(31 / 32, rel=0.02)


def test_errors_over_load_and_size() -> None:
    setup = Setup(open_experiment("hda-moe"))
    policies = [(name, make_policy(name, {})) for name in ("tensor_parallel", "expert_parallel")]
    options = ErrorMapOptions(tokens=(4, 16), token_bytes=(64, 2048), batches=2)
    passes = simulate(PassCases(setup, [("mesh", setup.system)], policies), options)
    assert len(passes) == 2 * 2 * 2 * 2
    # a batch's groups are the same at every size, so its messages are, and grow with it
    small, large = (passes[passes["token_bytes"] == size].reset_index(drop=True) for size in (64, 2048))
    assert small["messages"].equals(large["messages"])
    assert (small["sent_bytes"] * 32 == large["sent_bytes"]).all()
    found = relative(passes)
    for key, group in passes.groupby(["policy", "tokens", "token_bytes"]):
        by_hand = sum(group["link_s"]) / sum(group["flit_s"]) - 1
        row = found[(found["policy"] == key[0]) & (found["tokens"] == key[1]) & (found["token_bytes"] == key[2])]
        assert row["link_error"].item() == pytest.approx(by_hand)
        assert row["flit_s"].item() == pytest.approx(sum(group["flit_s"]) / 2)
    # headers, ports and pipelines weigh less on large messages
    rings = found[found["policy"] == "tensor_parallel"]
    for _, group in rings.groupby("tokens"):
        small_error, large_error = group.sort_values("token_bytes")["link_error"].abs()
        assert large_error < small_error


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (ErrorMapOptions(tokens=(10**7,)), "an evaluate part of at least 10000000 rows"),
        (ErrorMapOptions(token_bytes=(0,)), "at least one token, byte and batch"),
    ],
)
def test_errors_refuse(options: ErrorMapOptions, text: str) -> None:
    setup = Setup(open_experiment("hda-moe"))
    with pytest.raises(ConfigErrors, match=text):
        simulate(PassCases(setup, [("mesh", setup.system)], []), options)


def test_errors_from_the_command_line(tmp_path: Path) -> None:
    arguments = ["place", "errors", "hda-moe", "--policy", "expert_parallel", "--tokens", "4,8", "--token-bytes", "64"]
    result = CliRunner().invoke(main, [*arguments, "--batches", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "reserved links" in result.output
    assert len((tmp_path / "errors.csv").read_text().splitlines()) == 3
    assert (tmp_path / "errors.html").read_text().count("<figure") == 2
    wrong = CliRunner().invoke(main, ["place", "errors", "hda-moe", "--tokens", "8,8"])
    assert wrong.exit_code == 2
    assert "expected counts such as 8,32,128, each once" in wrong.output
    unknown = CliRunner().invoke(main, ["place", "errors", "hda-moe", "--policy", "hybird"])
    assert unknown.exit_code == 2
    assert "did you mean 'hybrid'?" in unknown.output


@pytest.mark.parametrize(
    ("options", "text"),
    [(GammaOptions(tokens=(9, 8)), "a range of tokens"), (GammaOptions(samples=2), "at least 3 samples")],
)
def test_gamma_refuses(options: GammaOptions, text: str) -> None:
    setup = Setup(open_experiment("hda-moe"))
    with pytest.raises(ConfigErrors, match=text):
        sample(PassCases(setup, [("mesh", setup.system)], []), options)


def test_gamma_from_the_command_line(tmp_path: Path) -> None:
    arguments = ["place", "gamma", "hda-moe", "--samples", "3", "--tokens", "16-32", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, [*arguments, "--policy", "expert_parallel"])
    assert result.exit_code == 0, result.output
    assert "near-memory-4x8" in result.output
    assert "gamma [95 % CI]" in result.output
    assert len((tmp_path / "gamma.csv").read_text().splitlines()) == 4
    page = (tmp_path / "gamma.html").read_text()
    assert page.count("<figure") == 2
    assert "reserved links" in page
    wrong = CliRunner().invoke(main, ["place", "gamma", "hda-moe", "--tokens", "many"])
    assert wrong.exit_code == 2
    assert "expected a range such as 256-638" in wrong.output


def test_the_fit_is_a_component_that_claims_may_speak_of() -> None:
    """Figures of `cosim place gamma` by policy and system, the same as the fit's own."""
    component = "communication: {systems: {mesh: near-memory-4x8}, policies: [expert_parallel], samples: 3, "
    overrides = [f"components={{{component}least_tokens: 8, most_tokens: 16}}}}", "companions=[]", "sweeps={}"]
    setup = Setup(open_experiment("hda-moe", overrides))
    check_components(setup.spec, setup)
    frame = component_frames(setup.spec, setup)["communication"]
    assert frame["subject"].tolist() == ["expert_parallel_on_mesh"]
    assert set(COMPONENT_METRICS["communication"]) == set(frame.columns) - {"subject"}
    cases = PassCases.of(setup, [("mesh", setup.system)], ["expert_parallel"], path="policies")
    drawn = sample(cases, GammaOptions(samples=3, tokens=(8, 16)))
    link, flit = (row.fit for row in fits(drawn))
    row = frame.iloc[0]
    assert (row["gamma_link"], row["gamma_low_flit"], row["r_squared_flit"]) == (
        link.gamma,
        flit.ci_low,
        flit.r_squared,
    )
    assert row["link_over_flit"] == pytest.approx(drawn["link_s"].sum() / drawn["flit_s"].sum())


@pytest.mark.parametrize(
    ("component", "text"),
    [
        ("systems: {}", "at least one system"),
        ("systems: {mesh: near-memory-4x8}, least_tokens: 9, most_tokens: 8", "at least least_tokens, which is 9"),
        ("systems: {mesh: near-memory-4x9}", "near-memory-4x8"),
        ("systems: {mesh: near-memory-4x8}, policies: [hybird]", "did you mean 'hybrid'"),
    ],
)
def test_a_wrong_component_is_refused(component: str, text: str) -> None:
    with pytest.raises(ConfigErrors, match=text):
        Experiment.load("hda-moe", [f"components={{communication: {{{component}}}}}", "companions=[]"]).check()
