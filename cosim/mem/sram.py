"""SRAM banks as data: clock, banks, ports, width and latency become a standard without rows, refresh or commands."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from cosim.config import units
from cosim.mem.problems import Problems, refuse
from cosim.mem.standard import Constraint, Organisation, Standard
from cosim.mem.standard_files import merged

_FILE_KEYS = ("schema", "kind", "standard", "sources", "presets", "extends")
_COUNTS = ("banks", "width_bytes", "access_bytes", "ports", "latency_cycles")
_ENERGIES = ("read_pJ_per_byte", "write_pJ_per_byte", "standby_mW")
_MOST = {"banks": 64, "width_bytes": 1 << 20, "access_bytes": 1 << 16, "ports": 8, "latency_cycles": 1 << 20}


class SramResolver:
    """Reads one preset of an SRAM file and finds everything that is wrong with it."""

    def __init__(self, path: Path, preset: str, values: str, overrides: Mapping[str, int]) -> None:
        self.path = path
        self.preset = preset
        self.values = values
        self.overrides = overrides
        self.problems = Problems(path.name)
        self.data = merged(path)
        self.provenance: dict[str, str] = {}
        self.assumed: list[str] = []

    def resolve(self) -> Standard:
        """The preset as a standard.

        Raises:
            ConfigErrors: every unknown key and every missing or impossible figure.
        """
        problems = self.problems
        problems.check_keys("", self.data, _FILE_KEYS)
        if self.data.get("schema") != 1:
            problems.add("schema", f"expected 1, got {self.data.get('schema')!r}")
        listed = self.data.get("presets")
        if not isinstance(listed, dict) or self.preset not in listed:
            problems.unknown("presets", self.preset, listed if isinstance(listed, dict) else (), "preset")
            problems.raise_if_any()
        if self.values != "standard":
            raise refuse(self.path.name, "values", f"SRAM has no values {self.values!r}")
        assert isinstance(listed, dict)
        entry: Mapping[str, Any] = listed[self.preset]
        where = f"presets.{self.preset}"
        problems.check_keys(where, entry, ("clock", "bank_bytes", *_COUNTS, *_ENERGIES))
        counts = {name: self.count(where, name, entry) for name in _COUNTS}
        for name, value in self.overrides.items():
            if name != "latency_cycles":
                problems.unknown("timing", name, ("latency_cycles",), "timing")
            elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
                problems.add(f"timing.{name}", f"expected a positive whole number of cycles, got {value!r}")
            else:
                counts[name] = value
                self.provenance[name] = "given by the user"
                self.assumed = [a for a in self.assumed if a != name]
        clock = self.quantity(where, "clock", entry, units.FREQUENCY)
        bank_bytes = int(self.quantity(where, "bank_bytes", entry, units.BYTES))
        energy = {name: self.energy(where, name, entry) for name in _ENERGIES}
        for name, value in (("access_bytes", counts["access_bytes"]), ("banks", counts["banks"])):
            if value & (value - 1):
                problems.add(f"{where}.{name}", f"expected a power of two, got {value}")
        rows = bank_bytes // counts["access_bytes"]
        if rows * counts["access_bytes"] != bank_bytes or rows < 1 or rows & (rows - 1):
            problems.add(
                f"{where}.bank_bytes",
                f"expected a power of two of accesses of {counts['access_bytes']} B, got {bank_bytes} B",
            )
        problems.raise_if_any()
        return self.standard(counts, Fraction(clock), rows, energy)

    def standard(self, counts: Mapping[str, int], clock: Fraction, rows: int, energy: Mapping[str, float]) -> Standard:
        access, width = counts["access_bytes"], counts["width_bytes"]
        organisation = Organisation(
            channels_per_stack=1,
            pseudo_channels=1,
            stack_ids=1,
            bank_groups=1,
            banks_per_group=counts["banks"],
            rows=rows,
            columns=1,
            dq_bits=access * 8,
            burst_length=1,
        )
        # what a stream on one port is tied by; an access that leaves a part of a cycle to the next is mostly this close
        gap = max(access // width, 1)
        pairs = [(a, b) for a in ("RD", "WR") for b in ("RD", "WR")]
        constraints = tuple(
            Constraint("bank port", "bank", a, b, gap, gap, counts["ports"], ("width_bytes", "ports")) for a, b in pairs
        )
        transfer = -(-access // width) - 1
        return Standard(
            name=str(self.data.get("standard", "SRAM")),
            kind="sram",
            preset=self.preset,
            values="standard",
            file=str(self.path),
            clock_hz=clock,
            channel_Bps=clock * width * counts["ports"] * counts["banks"],
            slots_per_cycle=1,
            shared_command_bus=False,
            command_ticks={"RD": 1, "WR": 1},
            rising_edge_only=(),
            organisation=organisation,
            timing={"latency_cycles": counts["latency_cycles"]},
            constraints=constraints,
            read_latency_cycles=counts["latency_cycles"] + transfer,
            write_latency_cycles=counts["latency_cycles"] + transfer,
            refresh_interval_cycles={},
            per_bank_order="",
            max_postponed_refreshes=0,
            energy={
                "act_pre_pJ": 0.0,
                "read_pJ_per_bit": energy["read_pJ_per_byte"] / 8,
                "write_pJ_per_bit": energy["write_pJ_per_byte"] / 8,
                "io_pJ_per_bit": 0.0,
                "refresh_all_pJ": 0.0,
                "refresh_bank_pJ": 0.0,
                "active_standby_mW": energy["standby_mW"],
                "precharge_standby_mW": energy["standby_mW"],
            },
            port_bytes=width,
            ports=counts["ports"],
            provenance=self.provenance,
            assumed=tuple(self.assumed),
        )

    def figure(self, where: str, name: str, entry: Mapping[str, Any]) -> object:
        """The value of one key, whose origin is remembered."""
        given = entry.get(name)
        if not isinstance(given, Mapping) or "value" not in given:
            self.problems.add(f"{where}.{name}", f"expected {{value, source or assumed}}, got {given!r}")
            return None
        self.problems.check_keys(f"{where}.{name}", given, ("value", "source", "assumed"))
        if "assumed" in given:
            self.provenance[name] = f"assumed: {given['assumed']}"
            self.assumed.append(name)
        elif given.get("source") in self.data.get("sources", {}):
            self.provenance[name] = str(self.data["sources"][given["source"]])
        else:
            self.problems.add(f"{where}.{name}", "has neither a source of this file nor a derivation")
        return given["value"]

    def count(self, where: str, name: str, entry: Mapping[str, Any]) -> int:
        value = self.figure(where, name, entry)
        if value is None:
            return 1
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST[name]:
            self.problems.add(f"{where}.{name}", f"expected a whole number from 1 to {_MOST[name]}, got {value!r}")
            return 1
        return value

    def energy(self, where: str, name: str, entry: Mapping[str, Any]) -> float:
        value = self.figure(where, name, entry)
        if value is None:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            self.problems.add(f"{where}.{name}", f"expected a number that is not negative, got {value!r}")
            return 0.0
        return float(value)

    def quantity(self, where: str, name: str, entry: Mapping[str, Any], dimension: units.Dimension) -> Fraction:
        value = self.figure(where, name, entry)
        if value is None:
            return Fraction(1)
        try:
            return Fraction(units.parse_quantity(value, dimension))
        except ValueError as error:
            self.problems.add(f"{where}.{name}", str(error))
            return Fraction(1)
