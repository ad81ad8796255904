"""Energy from command counts."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from cosim.mem.standard import Standard


def energy_frame(
    standard: Standard, counts: Mapping[str, int], total_ticks: int, open_ticks: int, pseudo_channels: int
) -> pd.DataFrame:
    """Energy by part.

    Args:
        standard: with the energies of one pseudo-channel.
        counts: ACT, RD, WR, refreshes_all, refreshes_bank over all pseudo-channels.
        total_ticks: length of the run.
        open_ticks: pseudo-channel ticks with a row open.
        pseudo_channels: how many there are in all.

    Returns:
        component, energy_pJ, assumed (whether a figure behind it has no public source).

    Raises:
        ValueError: the standard has no energy figures.
    """
    figures = standard.energy
    if figures is None:
        raise ValueError(f"{standard.file}: energy: {standard.name} has no public energy figures, so none are given")
    bits = standard.organisation.access_bytes * 8
    tick_ns = float(standard.tick_fs / 10**6)
    closed_ticks = total_ticks * pseudo_channels - open_ticks
    parts = [
        ("activate and precharge", figures["act_pre_pJ"] * counts["ACT"], ["act_pre_pJ"]),
        ("read", figures["read_pJ_per_bit"] * counts["RD"] * bits, ["read_pJ_per_bit"]),
        ("write", figures["write_pJ_per_bit"] * counts["WR"] * bits, ["write_pJ_per_bit"]),
        ("input and output", figures["io_pJ_per_bit"] * (counts["RD"] + counts["WR"]) * bits, ["io_pJ_per_bit"]),
        (
            "refresh",
            figures["refresh_all_pJ"] * counts["refreshes_all"] + figures["refresh_bank_pJ"] * counts["refreshes_bank"],
            ["refresh_all_pJ", "refresh_bank_pJ"],
        ),
        ("active standby", figures["active_standby_mW"] * open_ticks * tick_ns, ["active_standby_mW"]),
        ("precharge standby", figures["precharge_standby_mW"] * closed_ticks * tick_ns, ["precharge_standby_mW"]),
    ]
    rows = [(name, energy, any(f in standard.assumed for f in used)) for name, energy, used in parts]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=["component", "energy_pJ", "assumed"])
    return frame
