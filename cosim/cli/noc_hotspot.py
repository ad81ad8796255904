"""``cosim noc hotspot``: one hot node, n helpers, four ways to bring them its weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cosim.cli.options import out_option, override_option

if TYPE_CHECKING:
    import pandas as pd

    from cosim.noc.hotspot import Hotspot

__all__ = ["hotspot"]

PUBLISHED = {"router": "63.2 %", "link": "", "serialisation": "", "waiting": "7.8 %"}
"""3D-MoE: shares of the average flit latency in its hotspot collaboration benchmark."""


@click.command()
@click.argument("reference", metavar="[NAME|FILE]", default="noc-hotspot")
@override_option
@out_option
def hotspot(reference: str, overrides: tuple[str, ...], out: Path | None) -> None:
    """Bring a hot node's weight tile to n helpers: by unicasts, multicasts, a session of links, and ideally.

    NAME is a shipped benchmark (noc-hotspot); FILE is YAML with the keys network and hotspot. Prints when the last
    helper has the tile, and how the latency of the packets splits into routers, links, serialisation and waiting.
    """
    from cosim.noc.hotspot import load, run

    file, resolved = load(reference, overrides)
    found = run(file, resolved)
    click.echo("\n".join(_report(found)))
    if out is not None:
        _write(out, found)
        click.echo(f"\nwritten to {out}")


def _report(found: Hotspot) -> list[str]:
    from cosim.cli.noc import network_title
    from cosim.cli.text_table import aligned

    spec = found.resolved["hotspot"]
    header = ("helpers", "tile", "scheme", "last helper", "of unicast", "of ideal", "flits on links")
    rows: list[tuple[str, ...]] = [header]
    for row in found.frame.to_dict("records"):
        rows.append(
            (
                f"{row['helpers']}",
                _bytes(row["tile_bytes"]),
                row["scheme"],
                f"{row['completion_cycles']}",
                f"{row['speed_up']:.2f} x",
                f"{row['over_ideal']:.3f}",
                f"{row['link_flits']}",
            )
        )
    shares = found.frame.dropna(subset=["router_share"])
    shares = shares[shares["tile_bytes"] == shares["tile_bytes"].max()]
    split = _split([("helpers", "scheme", "packet")], shares)
    lines = [
        network_title(found.network),
        f"hot node {spec['hot']}, cycles until the last helper has the whole tile",
        "",
    ]
    lines += aligned(rows, 3)
    lines += [
        "",
        "network latency of the largest tile's packets, from the head's leaving to the tail's reading",
        "",
    ]
    lines += aligned(split, 3)
    if len(found.sizes):
        lines += ["", "the same for unicasts of other sizes, beside 3D-MoE's published shares of flit latency", ""]
        published = ("", "3D-MoE", "", "", *PUBLISHED.values())
        lines += aligned([*_split([("helpers", "scheme", "packet")], found.sizes), published], 3)
    return lines


def _split(header: list[tuple[str, str, str]], frame: pd.DataFrame) -> list[tuple[str, ...]]:
    from cosim.noc.hotspot import SHARES

    rows: list[tuple[str, ...]] = [(*header[0], "cycles, mean", *SHARES)]
    for row in frame.to_dict("records"):
        parts = [f"{100 * row[f'{part}_share']:.1f} %" for part in SHARES]
        packet = f"{row['packet_flits']} flits"
        rows.append((f"{row['helpers']}", row["scheme"], packet, f"{row['network_latency_mean_cycles']:.2f}", *parts))
    return rows


def _bytes(size: int) -> str:
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} B"


def _write(out: Path, found: Hotspot) -> None:
    import math

    from cosim.config.dump import dump_yaml
    from cosim.report.directory import RunDirectory, json_bytes

    keys = ["scheme", "helpers", "tile_bytes", "packet_flits"]
    rows: list[dict[str, Any]] = []
    for record in found.frame.to_dict("records"):
        for name, value in record.items():
            if name in keys:
                continue
            unit = "" if name in ("speed_up", "over_ideal") or str(name).endswith("_share") else "cycles"
            unit = {"packets": "packets", "link_flits": "flits"}.get(str(name), unit)
            missing = value is None or (isinstance(value, float) and math.isnan(value))
            rows.append(
                {
                    **{key: record[key] for key in keys},
                    "metric": name,
                    "unit": unit,
                    "value": None if missing else value,
                }
            )
    with RunDirectory(out, dump_yaml(found.resolved)) as directory:
        directory.write_bytes("metrics.json", json_bytes({"schema": 1, "rows": rows}))
        found.frame.to_parquet(out / "hotspot.parquet", index=False)
        directory.write_provenance([], {})
