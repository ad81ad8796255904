"""``cosim noc``: networks by themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cosim.cli.noc_hotspot import hotspot
from cosim.cli.options import out_option, override_option
from cosim.cli.text_table import aligned

if TYPE_CHECKING:
    import pandas as pd

    from cosim.noc import Network, PacketResult, TrafficResult
    from cosim.noc.run_file import NetworkRun
    from cosim.noc.sweep import Sweep, SweepPoint
    from cosim.report.tables import TextTable

__all__ = ["network_title", "noc"]

TOP_LINKS = 8


@click.group()
def noc() -> None:
    """Run, sweep and check networks by themselves."""


noc.add_command(hotspot)


@noc.command()
@click.argument("reference", metavar="NAME|FILE")
@override_option
@out_option
def run(reference: str, overrides: tuple[str, ...], out: Path | None) -> None:
    """Run the traffic of a network experiment and print loads, latencies and the busiest links.

    NAME is a shipped experiment (noc-mesh8); FILE is YAML with the keys network and traffic.
    """
    from cosim.noc import DeadlockError
    from cosim.noc.run_file import load

    experiment = load(reference, overrides)
    try:
        if experiment.packets is not None:
            packets = experiment.network.packet_run(experiment.packets)
            lines, metrics = _packet_report(experiment.network, packets), _packet_metrics(packets)
            links, rows = packets.links, packets.packets
        else:
            traffic = experiment.network.run_traffic(**experiment.traffic)
            lines, metrics = _traffic_report(experiment, traffic), _traffic_metrics(traffic)
            links, rows = traffic.links, None
    except DeadlockError as problem:
        # the routing that the user chose allows it: the input is wrong
        raise click.ClickException(str(problem)) from problem
    click.echo("\n".join([network_title(experiment.network), "", *lines, "", *_busiest(links)]))
    if out is not None:
        _write(out, experiment, metrics, links, rows)
        click.echo(f"\nwritten to {out}")


@noc.command()
@click.argument("reference", metavar="[NAME|FILE]", required=False)
@override_option
def check(reference: str | None, overrides: tuple[str, ...]) -> None:
    """Prove that a network's routing cannot deadlock, or name a cycle of waits.

    NAME or FILE as for `run`; only its network is read. Without one every topology is checked with every routing it
    takes. Exit status 2 when a network is not proved free of deadlock.
    """
    from cosim.noc import Network
    from cosim.noc.combinations import combinations
    from cosim.noc.run_file import load_network

    if reference is not None:
        network = load_network(reference, overrides)
        found = network.check_deadlock()
        click.echo(f"{network_title(network)}\n{found}")
        free = found.deadlock_free
    elif overrides:
        raise click.ClickException("-o changes a file: name one")
    else:
        free = True
        for kind, routing, description in combinations():
            found = Network(description).check_deadlock()
            free = free and found.deadlock_free
            click.echo(f"{kind:<16} {routing:<22} {found}")
    if not free:
        raise click.exceptions.Exit(2)


@noc.command()
@click.argument("reference", metavar="NAME|FILE")
@override_option
@out_option
@click.option(
    "--width", type=click.FloatRange(min=0, max=1, min_open=True, max_open=True), default=0.01, show_default=True,
    help="Bisection ends when a bracket is this share of its upper end wide.",
)  # fmt: skip
@click.option("--points", type=click.IntRange(min=0), default=8, show_default=True, help="Further runs on the curve.")
def sweep(reference: str, overrides: tuple[str, ...], out: Path | None, width: float, points: int) -> None:
    """Find zero-load latency, knee and saturation of a network by running it at loads of its own choice.

    NAME or FILE as for `run`; the traffic's injection_rate is replaced. Saturation is the load at which the mean packet
    latency is three times that without contention, the knee where it is twice that. With --out the runs are written to
    sweep.csv as they end, and a sweep of the same file goes on from there; sweep.html draws the curve.
    """
    from cosim.noc.run_file import load
    from cosim.noc.sweep import sweep as run_sweep
    from cosim.noc.sweep_directory import SweepDirectory

    experiment = load(reference, overrides)
    if experiment.packets is not None:
        raise click.ClickException(f"{reference}: a sweep needs traffic with a pattern, not a list of packets")
    arguments = {key: value for key, value in experiment.traffic.items() if key != "injection_rate"}
    pattern = arguments.pop("pattern")
    arguments.setdefault("max_drain_cycles", arguments.get("measure_cycles", 10_000))
    directory = None if out is None else SweepDirectory(out, experiment.resolved)
    known = {} if directory is None else directory.known

    def report(point: SweepPoint) -> None:
        if directory is not None:
            directory.add(point)
        state = "" if point.stable else ", not stable"
        click.echo(
            f"{point.injection_rate:.5f}: accepted {point.accepted_rate:.4f}, packet latency "
            f"{point.packet_latency_mean_cycles:.2f} cycles{state}",
            err=True,
        )

    found = run_sweep(
        experiment.network, pattern, relative_width=width, curve_points=points, known=known, report=report, **arguments
    )
    name = pattern if isinstance(pattern, str) else str(pattern["kind"])
    title = (
        f"{name} traffic of {arguments.get('packet_size_flits', 1)}-flit packets on {network_title(experiment.network)}"
    )
    facts, table = _sweep_facts(found), _sweep_table(found)
    rows = [tuple(table.header), *table.rows]
    named = [f"{key}: {value}" for key, value in facts]
    click.echo("\n".join([title, "", *aligned(rows, words_last=True), "", *named]))
    if directory is not None:
        from cosim.report.figures.latency_load import draw
        from cosim.report.figures_page import PageInfo, PageSection, render

        marks = {"knee": found.knee_rate, "saturation": found.saturation_rate}
        curves = draw(found.frame, found.zero_load_latency_cycles, marks)
        info = PageInfo("noc sweep", reference, title, tuple(facts), ("config.resolved.yaml", "repeats it"))
        sections = (
            PageSection("curves", "Latency and throughput against load", (curves,)),
            PageSection("runs", "Runs", tables=(table,)),
        )
        directory.finish(found, render(info, sections))
        click.echo(f"\nwritten to {out}")


def _sweep_facts(found: Sweep) -> list[tuple[str, str]]:
    def rate(value: float, between: tuple[float, float]) -> str:
        if value != value:
            return f"above {between[1]:.4f} flits/node/cycle, the largest load offered"
        return f"{value:.4f} flits/node/cycle (between {between[0]:.5f} and {between[1]:.5f})"

    return [
        ("latency without contention", f"{found.zero_load_latency_cycles:.2f} cycles"),
        ("knee (twice that latency)", rate(found.knee_rate, found.knee_between)),
        ("saturation (three times)", rate(found.saturation_rate, found.saturation_between)),
        ("largest accepted load", f"{found.largest_accepted_rate:.4f} flits/node/cycle"),
    ]


def _sweep_table(found: Sweep) -> TextTable:
    from cosim.report.tables import TextTable

    header = ("offered", "accepted", "packet latency", "95 % interval", "network latency", "P99", "stable")
    rows = []
    for p in found.points:
        half = p.packet_latency_mean_half_width_cycles
        rows.append(
            (
                f"{p.injection_rate:.5f}",
                f"{p.accepted_rate:.4f}",
                f"{p.packet_latency_mean_cycles:.2f}",
                f"± {half:.2f}" if half == half else "-",
                f"{p.network_latency_mean_cycles:.2f}",
                f"{p.packet_latency_p99_cycles}",
                "yes" if p.stable else "no",
            )
        )
    return TextTable("Every run: loads in flits per node and cycle, latencies in cycles", header, tuple(rows), (), 1)


def network_title(network: Network) -> str:
    """A network in one line."""
    config = network.config
    topology = config.topology
    shape = " x ".join(map(str, getattr(topology, "shape", ())))
    where = f"{shape} {topology.kind}" if shape else f"{topology.kind} of {topology.router_count()} routers"
    model = network.plugins.get("router")
    routing = f"{config.routing_name} routing" if model is None else f"routers of {model.name} {model.version}"
    return (
        f"{where}, {network.nodes} nodes, {routing}, "
        f"{config.num_vcs} VCs x {config.vc_buf_size} flits, router pipeline {network.pipeline_cycles} cycles"
    )


def _latency_rows(
    network: Network, mean: Mapping[str, float], zero_load: tuple[str, str, str] | None = None
) -> list[tuple[str, str, str]]:
    """Rows of the latency terms and what they sum to; `mean` by the names of `LatencyTerms` and of the results."""
    depth = network.pipeline_cycles
    meanings = {
        "packet_latency": ("packet latency, mean", "cycles, from creation"),
        "source_queueing": ("  source queueing", "cycles"),
        "router": ("  routers", f"cycles = {depth} x hops"),
        "link": ("  links", "cycles"),
        "serialisation": ("  serialisation", "cycles"),
        "contention": ("  contention", "cycles"),
        "retry": ("  retry", "cycles that links took to send flits again"),
        "session_wait": ("  session wait", "cycles"),
        "reduction_wait": ("  reduction wait", "cycles at reduction units, for the others of a sum"),
        "network_latency": ("network latency, mean", "cycles, from the head's injection"),
    }
    if not network.config.has_sessions:
        del meanings["session_wait"]
    if network.config.retry is None:
        del meanings["retry"]
    if not network.config.has_reductions:
        del meanings["reduction_wait"]
    rows = [(name, f"{mean[key]:.2f}", unit) for key, (name, unit) in meanings.items()]
    if zero_load is not None:
        rows.insert(1, zero_load)
    return [*rows, ("hops, mean", f"{mean['hops']:.4f}", "routers")]


def _traffic_report(experiment: NetworkRun, r: TrafficResult) -> list[str]:
    from cosim.noc.network import TERMINAL_CYCLES

    network, traffic = experiment.network, experiment.traffic
    size = int(traffic.get("packet_size_flits", 1))
    terms = {key.removesuffix("_mean_cycles"): value for key, value in vars(r.terms).items()}
    links = r.terms.link_mean_cycles - TERMINAL_CYCLES
    formula = network.zero_load_latency_cycles(r.hops_mean, links, size)
    depth = network.pipeline_cycles
    pattern = traffic["pattern"]
    name = pattern if isinstance(pattern, str) else pattern["kind"]
    state = "stable" if r.stable else "NOT stable: sources fell behind the offered load or packets were left"
    means = {
        **terms,
        "packet_latency": r.packet_latency_mean_cycles,
        "network_latency": r.network_latency_mean_cycles,
        "hops": r.hops_mean,
    }
    at_zero_load = f"cycles = {depth} x {r.hops_mean:.3f} hops + {links:.3f} links + 3 + {size - 1}"
    rows = [
        ("offered load", f"{r.offered_rate:.4f}", "flits/node/cycle"),
        ("injected load", f"{r.injected_rate:.4f}", "flits/node/cycle"),
        ("accepted load", f"{r.accepted_rate:.4f}", "flits/node/cycle"),
        ("accepted load, least node", f"{r.accepted_rate_least_node:.4f}", "flits/node/cycle"),
        *_latency_rows(network, means, ("  at zero load", f"{formula:.2f}", at_zero_load)),
        ("packet latency, P50", f"{r.packet_latency_p50_cycles}", "cycles"),
        ("packet latency, P95", f"{r.packet_latency_p95_cycles}", "cycles"),
        ("packet latency, P99", f"{r.packet_latency_p99_cycles}", "cycles"),
        ("packet latency, largest", f"{r.packet_latency_max_cycles}", "cycles"),
        ("flit latency, mean", f"{r.flit_latency_mean_cycles:.2f}", "cycles, from each flit's injection"),
        ("measured packets", f"{r.measured_packets}", f"packets of {size} flits"),
        ("undrained packets", f"{r.undrained_packets}", "packets"),
        ("work", f"{r.flit_hops}", f"flit-hops in {r.end_cycle + 1} cycles"),
        *_change_rows(r),
        *_cost_rows(network, r),
        ("core memory", f"{r.core_bytes / 2**20:.2f}", "MiB"),
    ]
    rows += _retry_rows(r.links)
    return [f"{name} traffic: {state}", *aligned(rows, words_last=True)]


def _packet_report(network: Network, r: PacketResult) -> list[str]:
    columns = [column for column in r.packets.columns if column.endswith("_cycles")]
    sent = r.packets[r.packets["eject_cycle"] >= 0]
    means = {column.removesuffix("_cycles"): float(sent[column].mean()) for column in columns}
    rows = [
        ("packets", f"{len(r.packets)}", "packets"),
        ("makespan", f"{r.makespan_cycles}", "cycles, to the last packet's arrival"),
        *_latency_rows(network, {**means, "hops": float(sent["hops"].mean())}),
        ("work", f"{r.flit_hops}", "flit-hops"),
        *_session_rows(r),
        *_reduction_rows(r),
        *_change_rows(r),
        *_cost_rows(network, r),
        ("core memory", f"{r.core_bytes / 2**20:.2f}", "MiB"),
    ]
    rows += _retry_rows(r.links)
    return ["packets from a file", *aligned(rows, words_last=True)]


def _retry_rows(links: pd.DataFrame) -> list[tuple[str, str, str]]:
    if "retries" not in links.columns:
        return []
    over = links[links["kind"] == "link"]
    cycles = int(over["retry_cycles"].sum())
    return [
        ("retries", f"{int(over['retries'].sum())}", f"transmissions of flits that failed; links lost {cycles} cycles")
    ]


def _session_rows(r: PacketResult) -> list[tuple[str, str, str]]:
    if r.sessions is None:
        return []
    held = int((r.sessions["return_cycle"] - r.sessions["detach_cycle"]).sum())
    return [
        (
            "sessions",
            f"{len(r.sessions)}",
            f"of {int(r.sessions['packets'].sum())} packets, links taken for {held} cycles",
        ),
        ("refused packets", f"{r.refused_packets}", "by the session arbiter"),
        ("work of sessions", f"{r.session_flit_hops}", "flits on links and into nodes"),
    ]


def _reduction_rows(r: PacketResult) -> list[tuple[str, str, str]]:
    if r.reductions is None or r.reduction_units is None:
        return []
    units = r.reduction_units
    held = f"of {int(units['parts'].sum())} packets; a unit held at most {int(units['most_open'].max())} at once"
    return [
        ("reductions", f"{len(r.reductions)}", "sums at nodes"),
        ("sums in routers", f"{int(units['sums'].sum())}", held),
    ]


def _change_rows(r: TrafficResult | PacketResult) -> list[tuple[str, str, str]]:
    if r.route_changes is None:
        return []
    changes = r.route_changes.itertuples()
    times = ", ".join(f"{c.changed_cycle} (links failed at {c.at_cycle})" for c in changes)
    return [("route changes", f"{len(r.route_changes)}", f"at cycle {times}" if times else "links did not fail yet")]


def _cost_rows(network: Network, r: TrafficResult | PacketResult) -> list[tuple[str, str, str]]:
    """How often plug-ins were called, of those that are counted."""
    rows = []
    who, cost = network.plugins.get("routing"), r.routing_cost
    if who is not None and cost is not None:
        text = f"calls for {cost.heads} heads ({cost.share:.4f} a head) of {who.name} {who.version}, a {who.origin}"
        rows.append(("routing plug-in", f"{cost.calls}", text))
    who = network.plugins.get("router")
    if who is not None and r.router_calls is not None:
        share = r.router_calls / max(r.flit_hops, 1)
        text = f"calls ({share:.4f} a flit-hop) of {who.name} {who.version}, a {who.origin}"
        rows.append(("router model", f"{r.router_calls}", text))
    return rows


def _busiest(links: pd.DataFrame) -> list[str]:
    sums = ["flits", "utilisation", "no_credit_cycles", "lost_switch_cycles", "busy_vc_cycles", "lost_vc_cycles"]
    total = links.groupby(["router", "port", "kind", "to"], sort=True)[sums].sum().reset_index()
    top = total.sort_values(["flits", "router", "port"], ascending=[False, True, True]).head(TOP_LINKS)
    rows = [("output", "flits", "utilisation", "no credit", "lost switch", "busy VC", "lost VC", "")]
    for row in top.itertuples():
        target = {"link": f"router {row.to}", "ejection": f"node {row.to}"}.get(row.kind, "reduction unit")
        rows.append(
            (
                f"router {row.router} -> {target}",
                f"{row.flits}",
                f"{100 * row.utilisation:.1f} %",
                f"{row.no_credit_cycles}",
                f"{row.lost_switch_cycles}",
                f"{row.busy_vc_cycles}",
                f"{row.lost_vc_cycles}",
                "",
            )
        )
    title = f"busiest {len(rows) - 1} outputs (stalls in cycles that flits or heads waited for them)"
    return [title, *aligned(rows, words_last=True)]


def _traffic_metrics(r: TrafficResult) -> list[dict[str, Any]]:
    units = {"rate": "flits/node/cycle", "cycles": "cycles", "hops_mean": "routers", "packets": "packets"}
    rows = []
    for key in (field.name for field in dataclasses.fields(r)):
        value = getattr(r, key)
        if key in ("link_counters", "terms", "stable", "core_bytes", "routing_cost", "router_calls", "route_changes"):
            continue
        unit = next((text for word, text in units.items() if word in key), "flit-hops" if key == "flit_hops" else "")
        rows.append({"metric": key, "unit": unit, "value": value})
    rows += [{"metric": key, "unit": "cycles", "value": value} for key, value in vars(r.terms).items()]
    rows.append({"metric": "stable", "unit": "", "value": r.stable})
    return rows + _cost_metrics(r)


def _cost_metrics(r: TrafficResult | PacketResult) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    if r.routing_cost is not None:
        rows.append({"metric": "routing_heads", "unit": "heads", "value": r.routing_cost.heads})
        rows.append({"metric": "routing_calls", "unit": "calls", "value": r.routing_cost.calls})
    if r.router_calls is not None:
        rows.append({"metric": "router_calls", "unit": "calls", "value": r.router_calls})
    return rows


def _packet_metrics(r: PacketResult) -> list[dict[str, Any]]:
    means = ("packet_latency_cycles", "network_latency_cycles", "hops")
    sent = r.packets[r.packets["eject_cycle"] >= 0]
    counted = [] if r.sessions is None else [("sessions", len(r.sessions)), ("refused_packets", r.refused_packets)]
    return [
        {"metric": "makespan_cycles", "unit": "cycles", "value": r.makespan_cycles},
        {"metric": "flit_hops", "unit": "flit-hops", "value": r.flit_hops},
        *(
            {
                "metric": f"{key}_mean" if key == "hops" else key.replace("_cycles", "_mean_cycles"),
                "unit": "routers" if key == "hops" else "cycles",
                "value": float(sent[key].mean()),
            }
            for key in means
        ),
        *({"metric": key, "unit": key.removeprefix("refused_"), "value": value} for key, value in counted),
        *_cost_metrics(r),
    ]


def _write(
    out: Path,
    experiment: NetworkRun,
    metrics: list[dict[str, Any]],
    links: pd.DataFrame,
    packets: pd.DataFrame | None,
) -> None:
    from cosim.config.dump import dump_yaml
    from cosim.report.directory import RunDirectory, json_bytes

    with RunDirectory(out, dump_yaml(experiment.resolved)) as directory:
        directory.write_bytes("metrics.json", json_bytes({"schema": 1, "rows": metrics}))
        links.to_parquet(out / "links.parquet", index=False)
        if packets is not None:
            packets.to_parquet(out / "packets.parquet", index=False)
        plugins = experiment.network.plugins
        extra = {key: plugin.provenance() for key, plugin in plugins.items()}
        hashes = {plugin.name: plugin.sha256 for plugin in plugins.values()}
        seeds = [] if packets is not None else [int(experiment.traffic.get("seed", 1))]
        directory.write_provenance(seeds, hashes, extra)
