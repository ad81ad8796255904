"""`cosim noc hotspot`: the shipped benchmark, its exact split, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from cosim.cli import main
from cosim.config.errors import ConfigErrors
from cosim.noc.hotspot import SHARES, load, nearest, run

SMALL = ("hotspot.helpers=[3, 15]", "hotspot.tiles=[2 KiB]", "hotspot.packet_sizes=[1]")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["noc", "hotspot", *arguments], standalone_mode=True)


def test_schemes_are_ordered_and_their_split_is_exact() -> None:
    found = run(*load("noc-hotspot", SMALL))
    assert nearest(found.network, 5)[:4] == [1, 4, 6, 9]
    for _, cases in found.frame.groupby("helpers"):
        times = cases.set_index("scheme")["completion_cycles"]
        assert times["unicast"] > times["multicast"] > times["cmn"] > times["ideal"]
    shares = found.frame.dropna(subset=["router_share"])[[f"{part}_share" for part in SHARES]]
    assert shares.sum(axis=1).tolist() == pytest.approx([1.0] * len(shares), abs=1e-12)
    # 2 KiB behind headers of 8 B: 17 packets of 4 flits, and one of a flit for the last 8 B
    cmn = found.frame[(found.frame["scheme"] == "cmn") & (found.frame["helpers"] == 15)].iloc[0]
    assert cmn["packets"] == 18
    # set-up 4, 69 flits, the farthest of the 15 helpers is 5 routers and 4 links away, read 3 later
    assert cmn["completion_cycles"] == 4 + 69 - 1 + 5 + 4 + 3
    assert cmn["link_flits"] == 15 * 69
    assert cmn["waiting_share"] == 0.0


def test_the_command_prints_the_table_and_writes_the_same_bytes_again(tmp_path: Path) -> None:
    options = [part for option in SMALL for part in ("-o", option)]
    for name in ("a", "b"):
        result = call(*options, "--out", str(tmp_path / name))
        assert result.exit_code == 0, result.output
    for part in ("4 x 4 mesh", "of ideal", "3D-MoE", "63.2 %", "7.8 %"):
        assert part in result.output
    for file in ("metrics.json", "config.resolved.yaml"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    rows = json.loads((tmp_path / "a" / "metrics.json").read_text())["rows"]
    assert {row["metric"] for row in rows} >= {"completion_cycles", "speed_up", "router_share"}
    assert len(pd.read_parquet(tmp_path / "a" / "hotspot.parquet")) == 8


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("hotspot.hot=16", "a node from 0 to 15"),
        ("hotspot.helpers=[16]", "at most 15 helpers"),
        ("hotspot.packet_flits=9", "at most 8 flits, the smallest VC"),
        ("hotspot.header_bytes=200 B", "packets larger than a header of 200 B"),
        ("network.classes.cmn={vcs: [1]}", "`session: true`"),
        ("hotspot.helper=[1]", "hotspot.helper"),
    ],
)
def test_what_does_not_fit_is_refused(option: str, says: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load("noc-hotspot", [option])
    assert says in str(caught.value)
