"""`Memory`: requests in, the time of every one of them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim import _core
from cosim.mem.address_map import FIELDS
from cosim.mem.bounds import binding_constraints
from cosim.mem.energy import energy_frame
from cosim.mem.frames import request_columns
from cosim.mem.latency import first_bursts, latency_parts
from cosim.mem.options import MemoryOptions, read_options
from cosim.mem.plugin_options import plugin_errors, serve, split_plugin
from cosim.mem.standard import COMMANDS, SAME_BANK, Standard

_ROW_RESULTS = ("none", "hit", "miss", "conflict", "forwarded", "coalesced")
_EVENTS_BETWEEN_SIGNALS = 1 << 20


def channel_config(options: MemoryOptions, pseudo_channels: int | None = None) -> Any:
    """The core's configuration of one channel: every figure as a whole number of ticks.

    Args:
        options: the checked configuration.
        pseudo_channels: fewer than the standard has, for a model of a part of the channel.
    """
    standard = options.standard
    organisation = standard.organisation
    slots = standard.slots_per_cycle
    timing = standard.timing
    c = _core.MemChannelConfig()
    c.pseudo_channels = organisation.pseudo_channels if pseudo_channels is None else pseudo_channels
    c.stack_ids = organisation.stack_ids
    c.bank_groups = organisation.bank_groups
    c.banks_per_group = organisation.banks_per_group
    c.rows = organisation.rows
    c.columns = organisation.columns
    c.access_bytes = organisation.access_bytes
    c.slots_per_cycle = slots
    if standard.kind == "sram":
        c.kind = _core.MemKind.sram
        c.port_bytes = standard.port_bytes
        c.ports = standard.ports
        c.read_latency = c.write_latency = timing["latency_cycles"]
        c.read_queue = options.read_queue
        c.write_queue = options.write_queue
        c.write_high = options.write_high
        c.write_low = options.write_low
        return c
    c.shared_command_bus = standard.shared_command_bus
    c.rising_edge_only = [int(name in standard.rising_edge_only and slots == 2) for name in COMMANDS]
    for rule in standard.constraints:
        c.add_rule(
            getattr(_core.MemScope, rule.scope),
            standard.commands.index(rule.start),
            standard.commands.index(rule.to),
            rule.ticks,
            rule.window,
        )
    compatible = options.compatible
    c.read_latency = standard.read_latency_cycles * slots
    c.write_latency = 0 if compatible else standard.write_latency_cycles * slots
    c.precharge_ticks = timing["nRP"] * slots
    c.refresh_all_ticks = timing.get("nRFC", 0) * slots
    c.refresh_bank_ticks = timing.get("nRFCpb", timing.get("nRFCsb", 0)) * slots
    per_bank = options.refresh in ("per_bank", "same_bank")
    c.refresh = _core.MemRefresh.per_bank if per_bank else getattr(_core.MemRefresh, options.refresh)
    c.refresh_set = standard.refresh_set
    if options.refresh != "none":
        interval = standard.refresh_interval_cycles[options.refresh]
        if options.refresh == "per_bank" and standard.per_bank_order == "one_list":
            # one list holds the banks of every pseudo-channel modelled
            banks = organisation.banks * c.pseudo_channels
            if "nREFIpb" not in options.given.get("timing", {}):
                interval = -(-timing["nREFI"] // banks)
        c.refresh_interval = interval * slots
    c.postponed_refreshes = options.postponed_refreshes
    c.page_policy = getattr(_core.MemPagePolicy, options.page_policy)
    c.page_timeout = options.page_timeout_cycles * slots
    c.read_queue = options.read_queue
    c.write_queue = options.write_queue
    c.write_high = options.write_high
    c.write_low = options.write_low
    c.age_cap = options.age_cap
    c.slot_freed_at_act = compatible
    c.ties_by_arrival_tick = compatible
    c.refresh_blocks_channel = compatible
    c.reads_return_in_order = compatible
    c.shared_queues = compatible
    c.refresh_pairs_pseudo_channels = compatible and standard.per_bank_order == "paired"
    c.coalesce_writes = options.coalesce_writes
    return c


class Memory:
    """A memory of one or more channels at command level.

    Args:
        config: keys preset (a name such as "HBM2_2000"), values ("standard" or "ramulator2.1"), channels, refresh
            ("none", "all_bank", "per_bank", "same_bank"), postponed_refreshes, page_policy ("open", "closed",
            "timeout"), page_timeout (CK), scheduler ("frfcfs"), age_cap, read_queue, write_queue, write_low_watermark,
            write_high_watermark, coalesce_writes, address_map, timing (nCK by name), standard_file, skipping ("on",
            "off"); or plugin (and params), a controller of one's own, with preset, channels, organisation and
            address_map.

    Raises:
        ConfigErrors: unknown keys, impossible values, contradictory timings; all of them at once.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        rest, self.plugin = split_plugin(config)
        self.options: MemoryOptions = read_options(rest)
        self.standard: Standard = self.options.standard

    @property
    def peak_GBps(self) -> float:
        """Data rate of all channels, in 10^9 bytes per second."""
        return self.standard.peak_GBps * self.options.channels

    @property
    def capacity_bytes(self) -> int:
        return self.standard.organisation.channel_bytes * self.options.channels

    def core_config(self, pseudo_channels: int | None = None) -> Any:
        """As `channel_config`; the plug-in makes the channels where there is one."""
        config = channel_config(self.options, pseudo_channels)
        if self.plugin is not None:
            serve(self.plugin, self.options, config)
        return config

    def constraint_table(self) -> pd.DataFrame:
        """Every ordered pair of commands with its minimum distance: from, to, scope, ticks, window, names."""
        table: pd.DataFrame = pd.DataFrame(self.standard.table())
        return table

    def run_requests(self, frame: pd.DataFrame, commands: bool = False) -> MemoryRun:
        """Plays requests through an empty memory, starting at cycle 0.

        A row is offered at its arrive_cycle and accepted in row order, per pseudo-channel, as its queue has room; the
        controller sees it one command slot later. A row of several bursts is accepted burst by burst.

        Args:
            frame: arrive_cycle (CK), op ("R" or "W"), and address [, size_bytes] or coordinate columns (channel,
                pseudo_channel, stack_id, bank_group, bank, row, column; missing ones are 0).
            commands: whether the run keeps its command trace.

        Raises:
            ConfigErrors: missing columns, rows outside the memory, sizes that are no whole bursts.
            PluginError: a plug-in that broke its contract.
        """
        columns, by_address = request_columns(frame, self.options)
        # ramulator2.1 models as many pseudo-channels as it is told to; one nobody asks for is left out
        modelled = None
        if self.options.compatible and not by_address:
            modelled = int(columns["pseudo_channel"].max(initial=0)) + 1
        config = self.core_config(modelled)
        config.log_commands = commands
        address_map = None
        if by_address:
            mapping = self.options.address_map
            address_map = _core.MemAddressMap(mapping.core_sizes(), mapping.access_bytes, mapping.core_bits())
        with plugin_errors(self.plugin):
            replay = _core.MemReplay(config, self.options.channels, columns, address_map, self.options.skipping)
            while not replay.run(_EVENTS_BETWEEN_SIGNALS):  # signals are seen between the pieces
                pass
        for channel in range(self.options.channels):
            broken = replay.verify_conservation(channel)
            if broken:
                raise RuntimeError(f"memory channel {channel}: {broken}")
        return MemoryRun(self, frame, columns["op"], replay, config.pseudo_channels, commands)


def _categorical(codes: npt.NDArray[np.uint8], names: Sequence[str]) -> pd.Categorical[str]:
    return pd.Categorical.from_codes(codes.astype(np.int64), categories=pd.Index(list(names)))


class MemoryRun:
    """What `Memory.run_requests` found.

    Of a plug-in's memory what only our controller knows (banks, refreshes, energy, bounds) is a ValueError.

    Times in CK count from cycle 0; where a command slot is half a CK they may end in .5. Energies, counts and
    constraints cover the whole run.
    """

    def __init__(
        self,
        memory: Memory,
        frame: pd.DataFrame,
        ops: npt.NDArray[Any],
        replay: Any,
        pseudo_channels: int,
        with_commands: bool,
    ) -> None:
        self.memory = memory
        self._frame = frame
        self._ops = ops
        self._replay = replay
        self._pseudo_channels = pseudo_channels
        self._with_commands = with_commands

    def _of_our_controller(self, what: str) -> None:
        """Refuse what a plug-in does not tell."""
        if self.memory.plugin is not None:
            name = self.memory.plugin.description.name
            raise ValueError(f"the memory plug-in {name!r} does not tell {what}")

    def _cycles(self, ticks: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        slots = self.memory.standard.slots_per_cycle
        return ticks if slots == 1 else ticks / slots

    @cached_property
    def requests(self) -> pd.DataFrame:
        """The frame's rows with accept_cycle, issue_cycle, done_cycle (CK), done_fs and row_result.

        accept: the first burst enters its queue; issue: its column command; done: the last burst's last beat.
        row_result: "hit", "miss", "conflict", "forwarded" (from the write queue) or "coalesced", of the first burst.
        """
        out: pd.DataFrame = self._frame.copy()
        done = self._replay.done_tick()
        out["accept_cycle"] = self._cycles(self._replay.accept_tick())
        out["issue_cycle"] = self._cycles(self._replay.issue_tick())
        out["done_cycle"] = self._cycles(done)
        tick = self.memory.standard.tick_fs
        out["done_fs"] = done * tick.numerator // tick.denominator
        out["row_result"] = _categorical(self._replay.row_result(), _ROW_RESULTS)
        return out

    @cached_property
    def commands(self) -> pd.DataFrame:
        """The command trace: cycle, slot, command, channel, pseudo_channel, stack_id, bank_group, bank, row, column.

        Slots are half CK where the standard issues commands on both clock edges; -1 stands for all banks, for the bank
        groups of a same-bank refresh, or for a command without row or column.

        Raises:
            ValueError: the run was not asked to keep it.
        """
        if not self._with_commands:
            raise ValueError("this run kept no command trace; use run_requests(frame, commands=True)")
        raw = self._replay.commands()
        out = pd.DataFrame({"cycle": self._cycles(raw["tick"]), "slot": raw["tick"]})
        out["command"] = _categorical(raw["command"], self.memory.standard.commands)
        for name in FIELDS:
            out[name] = raw[name]
        out.loc[out["command"] == SAME_BANK, "bank_group"] = -1  # of every bank group
        ordered: pd.DataFrame = out.sort_values(["slot", "channel"], kind="stable", ignore_index=True)
        return ordered

    @cached_property
    def skipping(self) -> dict[str, int | str]:
        """What was not simulated because it had been before: no result depends on it.

        bursts: of the run; bursts_skipped: those taken from an equal stretch; why_not: empty, or why none was.
        """
        skipped = int(self._replay.skipped_bursts)
        why_not = ""
        if not self.memory.options.skipping:
            why_not = "skipping is off"
        elif self.memory.plugin is not None or self.memory.standard.kind == "sram":
            why_not = "this controller has no canonical form of its state"
        elif not self._replay.periodic:
            why_not = "the requests do not repeat themselves row by row"
        elif skipped == 0:
            why_not = "no state of the memory came again"
        return {"bursts": int(self._replay.finished_bursts), "bursts_skipped": skipped, "why_not": why_not}

    @property
    def total_cycles(self) -> int | float:
        """CK from cycle 0 to the last request's end."""
        ticks: int = self._replay.total_ticks
        slots = self.memory.standard.slots_per_cycle
        return ticks if slots == 1 else ticks / slots

    @property
    def total_ns(self) -> float:
        return float(self._replay.total_ticks * self.memory.standard.tick_fs / 10**6)

    @property
    def peak_GBps(self) -> float:
        """Data rate of all channels, in 10^9 bytes per second."""
        return self.memory.peak_GBps

    @property
    def bandwidth_GBps(self) -> float:
        """All bytes asked for, over the whole run."""
        return self._replay.bytes / self.total_ns if self._replay.total_ticks else 0.0

    @cached_property
    def read_latency_mean_cycles(self) -> float:
        """Mean of done minus accept over the reads, in CK; NaN without reads."""
        reads = self._ops == 0
        if not reads.any():
            return float("nan")
        ticks = int((self._replay.done_tick()[reads] - self._replay.accept_tick()[reads]).sum())
        return ticks / int(reads.sum()) / self.memory.standard.slots_per_cycle

    @property
    def read_latency_mean_ns(self) -> float:
        return self.read_latency_mean_cycles * float(
            self.memory.standard.tick_fs * self.memory.standard.slots_per_cycle / 10**6
        )

    @cached_property
    def latency(self) -> pd.DataFrame:
        """Where every request's time from accept to done went, in CK; the parts sum to it exactly.

        Columns queue_cycles, refresh_cycles, activate_cycles, column_cycles, bus_cycles, later_bursts_cycles: see
        `cosim.mem.latency.latency_parts`.

        Raises:
            ValueError: the run was not asked to keep its command trace.
        """
        standard = self.memory.standard
        issue, done = self._replay.issue_tick(), self._replay.done_tick()
        mapping = self.memory.options.address_map
        core = _core.MemAddressMap(mapping.core_sizes(), mapping.access_bytes, mapping.core_bits())
        placed = first_bursts(
            self._frame, self.commands, issue, mapping.decode, lambda c: int(core.encode([c[f] for f in FIELDS]))
        )
        placed["row_result"] = _categorical(self._replay.row_result(), _ROW_RESULTS)
        single = np.ones(len(done), bool)
        if "size_bytes" in self._frame.columns:
            single = self._frame["size_bytes"].to_numpy() == standard.organisation.access_bytes
        reach = np.where(self._ops == 0, standard.read_latency_cycles, standard.write_latency_cycles)
        reach = reach * standard.slots_per_cycle
        reach[placed["row_result"].isin(["forwarded", "coalesced"]).to_numpy()] = 0
        ticks = {
            "accept": self._replay.accept_tick(),
            "issue": issue,
            "first_done": np.where(single, done, np.minimum(done, issue + reach)),
            "done": done,
        }
        parts = latency_parts(placed, self.commands, ticks, standard)
        cycles = {f"{name}_cycles": self._cycles(parts[name].to_numpy()) for name in parts.columns}
        split: pd.DataFrame = pd.DataFrame(cycles, index=self._frame.index)
        return split

    @cached_property
    def banks(self) -> pd.DataFrame:
        """Per bank: bytes, commands, row results, busy cycles (from ACT to the end of the precharge, and refreshes)."""
        self._of_our_controller("figures by bank")
        organisation = self.memory.standard.organisation
        per_stack = organisation.bank_groups * organisation.banks_per_group
        parts: list[pd.DataFrame] = []
        for channel in range(self.memory.options.channels):
            columns = dict(self._replay.banks(channel))
            index = np.arange(len(columns["bytes"]))
            bank = index % organisation.banks
            where = {
                "channel": np.full(len(index), channel),
                "pseudo_channel": index // organisation.banks,
                "stack_id": bank // per_stack,
                "bank_group": bank // organisation.banks_per_group % organisation.bank_groups,
                "bank": bank % organisation.banks_per_group,
            }
            busy = columns.pop("busy_ticks")
            parts.append(pd.DataFrame({**where, **columns, "busy_cycles": self._cycles(busy)}))
        out: pd.DataFrame = pd.concat(parts, ignore_index=True)
        return out

    @cached_property
    def counters(self) -> dict[str, int]:
        """Totals over the channels: asked, served, forwarded, coalesced, refreshes, row results, commands."""
        total: dict[str, int] = {}
        for channel in range(self.memory.options.channels):
            for name, value in self._replay.counters(channel).items():
                if name == "most_postponed":
                    total[name] = max(total.get(name, 0), value)
                else:
                    total[name] = total.get(name, 0) + value
        if self.memory.plugin is not None:
            return {name: total[name] for name in ("asked", "served_reads", "served_writes", "cancelled")}
        for name in ("ACT", "PRE", "RD", "WR", "row_hits", "row_misses", "row_conflicts"):
            total[name] = int(self.banks[name].sum())
        return total

    @cached_property
    def refreshes(self) -> pd.DataFrame:
        """Refreshes per channel and pseudo-channel."""
        self._of_our_controller("refreshes")
        rows = [
            (channel, pc, self._replay.refreshes(channel, pc))
            for channel in range(self.memory.options.channels)
            for pc in range(self._pseudo_channels)
        ]
        counted: pd.DataFrame = pd.DataFrame(rows, columns=["channel", "pseudo_channel", "refreshes"])
        return counted

    @cached_property
    def energy(self) -> pd.DataFrame:
        """Energy by part, in pJ: component, energy_pJ, assumed.

        Raises:
            ValueError: the standard's file has no energy figures.
        """
        self._of_our_controller("energy")
        open_ticks = sum(self._replay.any_open_ticks(c) for c in range(self.memory.options.channels))
        return energy_frame(
            self.memory.standard,
            self.counters,
            self._replay.total_ticks,
            open_ticks,
            self._pseudo_channels * self.memory.options.channels,
        )

    @cached_property
    def bounds(self) -> pd.DataFrame:
        """The critical path through the last commands of the busiest channel: constraint, share."""
        self._of_our_controller("which constraint bounds it")
        busiest = max(
            range(self.memory.options.channels), key=lambda c: (self._replay.counters(c)["asked"], -c), default=0
        )
        raw = dict(self._replay.recent_commands(busiest))
        raw["command"] = [self.memory.standard.commands[i] for i in raw["command"]]
        raw["bank_group"] = np.where(np.array(raw["command"]) == SAME_BANK, -1, raw["bank_group"])
        booked = binding_constraints(raw, self.memory.standard)
        total = sum(booked.values())
        rows = [(name, ticks / total) for name, ticks in booked.items()] if total else []
        shares: pd.DataFrame = pd.DataFrame(rows, columns=["constraint", "share"])
        return shares

    @property
    def bound_by(self) -> str:
        """The constraint with the largest share of the critical path; "requests" when none held the memory back."""
        return "requests" if self.bounds.empty else str(self.bounds["constraint"].iloc[0])

    @property
    def assumed(self) -> tuple[str, ...]:
        """Figures without a public source that this memory uses."""
        return self.memory.standard.assumed

    @property
    def bound_by_assumed(self) -> tuple[str, ...]:
        """The figures without a public source that the constraint `bound_by` is made of; empty where it has sources."""
        standard = self.memory.standard
        used = {name for c in standard.constraints if c.name == self.bound_by for name in c.timings}
        return tuple(sorted(used & set(standard.assumed)))
