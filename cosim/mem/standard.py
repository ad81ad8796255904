"""One resolved memory: an organisation, timings in whole clocks, a constraint table, energies, and their origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

COMMANDS = ("ACT", "PREpb", "PREab", "RD", "WR", "RDA", "WRA", "REFab", "REFpb")
SCOPES = ("channel", "pseudo_channel", "stack_id", "other_stack_id", "bank_group", "bank")
SAME_BANK = "REFsb"  # a per-bank refresh of one bank in every bank group; the core knows it as REFpb of a set
ROW_COMMANDS = ("ACT", "PREpb", "PREab", "REFab", "REFpb", SAME_BANK)
COLUMN_COMMANDS = ("RD", "WR", "RDA", "WRA")


@dataclass(frozen=True)
class Constraint:
    """`to` waits at least `ticks` after the `window`-th last `start` in the same scope, between first command cycles.

    `cycles` is the figure of the standard in CK, before the lengths of the two commands are taken into account.
    """

    name: str
    scope: str
    start: str
    to: str
    cycles: int
    ticks: int
    window: int = 1
    timings: tuple[str, ...] = ()  # the names its value is made of


@dataclass(frozen=True)
class Organisation:
    """Levels of one channel; a column is a burst index."""

    channels_per_stack: int
    pseudo_channels: int
    stack_ids: int
    bank_groups: int
    banks_per_group: int
    rows: int
    columns: int
    dq_bits: int
    burst_length: int

    @property
    def access_bytes(self) -> int:
        """Bytes of one burst on one pseudo-channel."""
        return self.dq_bits * self.burst_length // 8

    @property
    def banks(self) -> int:
        """Banks of one pseudo-channel, all stack ids together."""
        return self.stack_ids * self.bank_groups * self.banks_per_group

    @property
    def channel_bytes(self) -> int:
        return self.pseudo_channels * self.banks * self.rows * self.columns * self.access_bytes


@dataclass(frozen=True)
class Standard:
    """One preset of a standard, resolved: whole clocks, a constraint table, energies, and where each figure is from."""

    name: str
    preset: str
    values: str
    file: str
    clock_hz: Fraction
    channel_Bps: Fraction
    slots_per_cycle: int
    shared_command_bus: bool
    command_ticks: Mapping[str, int]
    rising_edge_only: tuple[str, ...]
    organisation: Organisation
    timing: Mapping[str, int]  # nCK
    constraints: tuple[Constraint, ...]
    read_latency_cycles: int
    write_latency_cycles: int
    refresh_interval_cycles: Mapping[str, int]  # all_bank, per_bank, same_bank: what the standard offers
    per_bank_order: str
    max_postponed_refreshes: int
    energy: Mapping[str, float] | None
    kind: str = "dram"  # or "sram"
    port_bytes: int = 0  # SRAM: bytes a port moves in a cycle
    ports: int = 0  # SRAM: ports of a bank
    provenance: Mapping[str, str] = field(repr=False, default_factory=dict)
    assumed: tuple[str, ...] = ()

    @property
    def ck_hz(self) -> Fraction:
        """Frequency of CK."""
        return self.clock_hz

    @property
    def tick_fs(self) -> Fraction:
        """Length of one tick (command slot) in femtoseconds."""
        return Fraction(10**15) / (self.ck_hz * self.slots_per_cycle)

    @property
    def peak_GBps(self) -> float:
        """Data rate of one channel, all its pseudo-channels (or SRAM banks) together."""
        return float(self.channel_Bps / 10**9)

    @property
    def burst_cycles(self) -> int:
        """CK of one burst on the data bus; 0 for SRAM."""
        return self.timing.get("nBL", 0)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of this standard, in the order of the core; one that refreshes the same bank of every group is
        called REFsb."""
        return tuple(SAME_BANK if c == "REFpb" and self.refresh_set > 1 else c for c in COMMANDS)

    @property
    def refresh_set(self) -> int:
        """Banks that one per-bank refresh takes: 1, or with same-bank refresh one of every bank group."""
        return self.organisation.bank_groups if "same_bank" in self.refresh_interval_cycles else 1

    @property
    def activate_to_read_cycles(self) -> int:
        """CK from ACT to RD of the same bank; 0 where there are no rows."""
        return max((c.cycles for c in self.constraints if (c.start, c.to, c.scope) == ("ACT", "RD", "bank")), default=0)

    def table(self) -> list[dict[str, object]]:
        """Every ordered pair of commands with its minimum distance in ticks per scope; 0 where there is none.

        Returns:
            rows {from, to, scope, ticks, window, names}; a pair without any constraint has one row with scope "none".
        """
        rows: list[dict[str, object]] = []
        for start in self.commands:
            for to in self.commands:
                found = [c for c in self.constraints if c.start == start and c.to == to]
                if not found:
                    rows.append({"from": start, "to": to, "scope": "none", "ticks": 0, "window": 1, "names": ""})
                for scope, window in sorted({(c.scope, c.window) for c in found}):
                    same = [c for c in found if c.scope == scope and c.window == window]
                    ticks = max(c.ticks for c in same)
                    names = "/".join(sorted({c.name for c in same if c.ticks == ticks}))
                    rows.append(
                        {"from": start, "to": to, "scope": scope, "ticks": ticks, "window": window, "names": names}
                    )
        return rows
