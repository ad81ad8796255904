"""DRAM standards as data: a YAML file becomes an organisation, timings in whole clocks and a list of constraints.

Everything the simulator needs is worked out here, so that the C++ core only sees integers: nanoseconds are rounded by
the file's rule, expressions are evaluated, lengths of multi-cycle commands are added, cycles become ticks (command
slots).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from cosim.mem.expressions import evaluate, names_in
from cosim.mem.problems import Problems, refuse
from cosim.mem.standard import (
    COLUMN_COMMANDS,
    COMMANDS,
    ROW_COMMANDS,
    SAME_BANK,
    SCOPES,
    Constraint,
    Organisation,
    Standard,
)
from cosim.mem.standard_files import merged

REFRESHES = ("all_bank", "per_bank", "same_bank")
VALUE_SETS = ("standard", "ramulator2.1")

_FILE_KEYS = (
    "schema",
    "standard",
    "sources",
    "rounding",
    "clock",
    "command_bus",
    "command_lengths",
    "rising_edge_only",
    "limits",
    "organisations",
    "bins",
    "presets",
    "latency",
    "refresh",
    "constraints",
    "more_constraints",
    "energy",
    "value_sets",
    "extends",
)
_ORGANISATION_KEYS = (
    "channels_per_stack",
    "pseudo_channels",
    "stack_ids",
    "bank_groups",
    "banks_per_group",
    "rows",
    "columns",
    "dq_bits",
    "burst_length",
)
_ENERGY_KEYS = (
    "act_pre_pJ",
    "read_pJ_per_bit",
    "write_pJ_per_bit",
    "io_pJ_per_bit",
    "refresh_all_pJ",
    "refresh_bank_pJ",
    "active_standby_mW",
    "precharge_standby_mW",
)


class DramResolver:
    """Reads one preset of a file and finds everything that is wrong with it."""

    def __init__(
        self, path: Path, preset: str, values: str, overrides: dict[str, int], organisation: str | None
    ) -> None:
        self.path = path
        self.preset = preset
        self.values = values
        self.overrides = overrides
        self.organisation_name = organisation
        self.problems = Problems(path.name)
        self.data = merged(path)
        self.provenance: dict[str, str] = {}
        self.assumed: list[str] = []

    def section(self, name: str, kind: type = dict) -> Any:
        value = self.data.get(name)
        if not isinstance(value, kind):
            got = "nothing" if value is None else type(value).__name__
            self.problems.add(name, f"expected a {kind.__name__}, got {got}")
            self.problems.raise_if_any()
        return value

    def resolve(self) -> Standard:
        problems = self.problems
        data = self.data
        problems.check_keys("", data, (*_FILE_KEYS, "kind"))
        if data.get("schema") != 1:
            problems.add("schema", f"expected 1, got {data.get('schema')!r}")
        if self.values not in VALUE_SETS:
            problems.unknown("values", self.values, VALUE_SETS, "value set")
        listed = self.section("presets")
        if self.preset not in listed:
            problems.unknown("presets", self.preset, listed, "preset")
        problems.raise_if_any()
        value_set = data.get("value_sets", {}).get(self.values, {})
        if self.values != "standard" and not value_set:
            raise refuse(self.path.name, "value_sets", f"this standard has no values {self.values!r}")
        problems.check_keys(f"value_sets.{self.values}", value_set, ("source", "timing", "per_bank_refresh"))

        entry = listed[self.preset]
        bin_name = str(entry.get("bin"))
        organisation_name = str(self.organisation_name or entry.get("organisation"))
        bins = self.section("bins")
        organisations = self.section("organisations")
        if bin_name not in bins:
            problems.unknown(f"presets.{self.preset}.bin", bin_name, bins, "bin")
        if organisation_name not in organisations:
            where = f"presets.{self.preset}.organisation" if self.organisation_name is None else "organisation"
            problems.unknown(where, organisation_name, organisations, "organisation")
        problems.raise_if_any()

        clock = self.section("clock")
        slots = int(clock.get("slots_per_ck", 0))
        per_ck = int(clock.get("data_rate_per_ck", 0))
        rounding = self.section("rounding").get("rule")
        if rounding != "ceil":
            problems.unknown("rounding.rule", rounding, ("ceil",), "rounding rule")
        organisation = self.organisation(organisation_name, organisations[organisation_name])
        rate = self.rate(f"bins.{bin_name}.rate", bins[bin_name].get("rate"))
        problems.raise_if_any()

        tck_ns = Fraction(per_ck * 1000) / rate
        timing = self.timings(bin_name, bins[bin_name], organisations[organisation_name], value_set, tck_ns)
        self.check_timing(timing, organisation, per_ck)
        problems.raise_if_any()

        lengths = {k: v for k, v in self.section("command_lengths").items() if k not in ("source", "assumed")}
        problems.check_keys("command_lengths", lengths, COMMANDS)
        ticks = {c: int(Fraction(str(lengths.get(c, 1))) * slots) for c in (*COMMANDS, SAME_BANK)}
        shared = self.section("command_bus").get("kind") == "shared"
        edges = tuple(self.section("rising_edge_only", list))
        for command in edges:
            if command not in COMMANDS:
                problems.unknown("rising_edge_only", command, COMMANDS, "command")
        constraints = self.constraints(timing, ticks, slots, shared)
        latency = self.section("latency")
        intervals = self.refresh_intervals(timing, organisation, value_set, tck_ns)
        limit = self.section("limits").get("max_postponed_refreshes", {})
        self.note("limits.max_postponed_refreshes", limit, {})
        latencies = {kind: self.latency(kind, latency.get(kind), timing) for kind in ("read", "write")}
        energy = self.energy()
        problems.raise_if_any()
        return Standard(
            name=str(data["standard"]),
            preset=self.preset,
            values=self.values,
            file=str(self.path),
            clock_hz=rate * 1_000_000 / per_ck,
            channel_Bps=rate * 1_000_000 * organisation.dq_bits * organisation.pseudo_channels / 8,
            slots_per_cycle=slots,
            shared_command_bus=shared,
            command_ticks=ticks,
            rising_edge_only=edges,
            organisation=organisation,
            timing=timing,
            constraints=constraints,
            read_latency_cycles=latencies["read"],
            write_latency_cycles=latencies["write"],
            refresh_interval_cycles=intervals,
            per_bank_order=str(value_set.get("per_bank_refresh", {}).get("order", "")),
            max_postponed_refreshes=int(limit.get("value", 0)),
            energy=energy,
            provenance=self.provenance,
            assumed=tuple(self.assumed),
        )

    def rate(self, where: str, text: object) -> Fraction:
        parts = str(text).split()
        if len(parts) != 2 or parts[1] != "MT/s":
            self.problems.add(where, f"expected a data rate such as '2000 MT/s', got {text!r}")
            return Fraction(1)
        return Fraction(parts[0])

    def organisation(self, name: str, entry: Mapping[str, Any]) -> Organisation:
        where = f"organisations.{name}"
        self.problems.check_keys(where, entry, (*_ORGANISATION_KEYS, "source", "assumed", "timing"))
        numbers: dict[str, int] = {}
        for key in _ORGANISATION_KEYS:
            value = entry.get(key)
            if not isinstance(value, int) or value < 1:
                self.problems.add(f"{where}.{key}", f"expected a positive whole number, got {value!r}")
                value = 1
            elif key not in ("burst_length", "channels_per_stack") and value & (value - 1):
                self.problems.add(f"{where}.{key}", f"expected a power of two, got {value}")
            numbers[key] = value
            self.note(f"{where}.{key}", entry, {})
        return Organisation(**numbers)

    def note(self, name: str, entry: Mapping[str, Any], default: Mapping[str, Any]) -> None:
        """Remembers where a figure is from; a figure without source or derivation is an error."""
        for origin in (entry, default):
            if "assumed" in origin:
                self.provenance[name] = f"assumed: {origin['assumed']}"
                self.assumed.append(name.rsplit(".", 1)[-1])
                return
            if "source" in origin:
                sources = self.data.get("sources", {})
                if origin["source"] not in sources:
                    self.problems.unknown(f"{name}.source", origin["source"], sources, "source")
                self.provenance[name] = str(sources.get(origin["source"], ""))
                return
        self.problems.add(name, "has neither a source nor a derivation (source: or assumed:)")

    def timings(
        self,
        bin_name: str,
        bin_entry: Mapping[str, Any],
        organisation: Mapping[str, Any],
        value_set: Mapping[str, Any],
        tck_ns: Fraction,
    ) -> dict[str, int]:
        problems = self.problems
        problems.check_keys(f"bins.{bin_name}", bin_entry, ("rate", "source", "assumed", "timing"))
        timing: dict[str, int] = {}
        layers = [
            (f"bins.{bin_name}.timing", bin_entry.get("timing", {}), bin_entry),
            ("organisation timing", organisation.get("timing", {}), organisation),
            (
                f"value_sets.{self.values}.timing.{bin_name}",
                value_set.get("timing", {}).get(bin_name, {}),
                value_set,
            ),
        ]
        for where, entries, default in layers:
            for name, entry in entries.items():
                figure = entry if isinstance(entry, dict) else {"nCK": entry}
                problems.check_keys(f"{where}.{name}", figure, ("nCK", "ns", "at_least", "source", "assumed"))
                if ("nCK" in figure) == ("ns" in figure):
                    problems.add(f"{where}.{name}", f"expected either nCK or ns, got {entry!r}")
                    continue
                given = figure.get("nCK", figure.get("ns"))
                if isinstance(given, bool) or not isinstance(given, (int, float)) or given <= 0:
                    problems.add(f"{where}.{name}", f"expected a positive number, got {given!r}")
                    continue
                if "nCK" in figure:
                    if not isinstance(given, int):
                        problems.add(f"{where}.{name}", f"nCK must be a whole number, got {given!r}")
                        continue
                    timing[name] = given
                else:
                    timing[name] = max(math.ceil(Fraction(str(given)) / tck_ns), int(figure.get("at_least", 1)))
                self.note(name, figure, default)
        for name, cycles in self.overrides.items():
            if name not in timing:
                problems.unknown("timing", name, timing, "timing")
            elif isinstance(cycles, bool) or not isinstance(cycles, int) or cycles < 1:
                problems.add(f"timing.{name}", f"expected a positive whole number of nCK, got {cycles!r}")
            else:
                timing[name] = cycles
                self.provenance[name] = "given by the user"
                self.assumed = [a for a in self.assumed if a != name]
        return timing

    def check_timing(self, timing: Mapping[str, int], organisation: Organisation, per_ck: int) -> None:
        """Contradictions between timings; each is an error that names the figures."""

        def at_least(name: str, total: str) -> None:
            if name not in timing:
                return
            try:
                least = evaluate(total, timing)
            except KeyError:
                return
            if timing[name] < least:
                self.problems.add(
                    f"timing.{name}", f"contradicts {total}: {name} = {timing[name]} nCK is less than {least} nCK"
                )

        at_least("nRC", "nRAS + nRP")
        at_least("nCCDL", "nCCDS")
        at_least("nRRDL", "nRRDS")
        at_least("nFAW", "nRRDS")
        at_least("nCCDS", "nBL")
        at_least("nCCDR", "nBL")
        at_least("nREFI", "nRFC")
        at_least("nREFIsb", "nRFCsb")
        if "nREFIpb" in timing and timing["nREFIpb"] * organisation.banks < timing.get("nRFCpb", 0):
            self.problems.add("timing.nREFIpb", "a bank would be refreshed again before its refresh has ended")
        if "nBL" in timing and timing["nBL"] * per_ck != organisation.burst_length:
            self.problems.add(
                "timing.nBL",
                f"a burst of {organisation.burst_length} beats takes {Fraction(organisation.burst_length, per_ck)} CK "
                f"at {per_ck} beats per CK, not {timing['nBL']}",
            )

    def constraints(
        self, timing: Mapping[str, int], ticks: Mapping[str, int], slots: int, shared: bool
    ) -> tuple[Constraint, ...]:
        problems = self.problems
        known = self.commands()
        found: list[Constraint] = []
        for number, rule in enumerate(self.section("constraints", list)):
            where = f"constraints[{number}]"
            problems.check_keys(where, rule, ("name", "scope", "from", "to", "value", "window", "values"))
            if rule.get("values", self.values) != self.values:
                continue
            if rule.get("scope") not in SCOPES:
                problems.unknown(f"{where}.scope", rule.get("scope"), SCOPES, "scope")
                continue
            unknown = [c for c in [*rule.get("from", []), *rule.get("to", [])] if c not in known]
            for command in unknown:
                problems.unknown(where, command, known, "command")
            if unknown:
                continue
            try:
                cycles = evaluate(rule.get("value", ""), timing)
            except KeyError as missing:
                problems.add(f"{where} ({rule.get('name')})", f"needs the timing {missing}, which no layer gives")
                continue
            except ValueError as error:
                problems.add(f"{where}.value", str(error))
                continue
            for start in rule["from"]:
                for to in rule["to"]:
                    shift = (ticks[start] - 1) - (ticks[to] - 1)
                    found.append(
                        Constraint(
                            name=str(rule.get("name", rule["value"])),
                            scope=rule["scope"],
                            start=start,
                            to=to,
                            cycles=cycles,
                            ticks=max(cycles * slots + shift, 0),
                            window=int(rule.get("window", 1)),
                            timings=names_in(str(rule["value"])),
                        )
                    )
        # a command keeps its bus for its length
        rows = tuple(c for c in ROW_COMMANDS if c in known)
        buses = [known] if shared else [rows, COLUMN_COMMANDS]
        for bus in buses:
            for start in bus:
                if ticks[start] > 1:
                    found.extend(Constraint("command bus", "channel", start, to, 0, ticks[start]) for to in bus)
        return tuple(found)

    def commands(self) -> tuple[str, ...]:
        """The commands of the file: those of the core, REFsb in the place of REFpb where it has same-bank refresh."""
        same_bank = "same_bank" in self.section("refresh") and self.values == "standard"
        return tuple(SAME_BANK if c == "REFpb" and same_bank else c for c in COMMANDS)

    def latency(self, kind: str, expression: object, timing: Mapping[str, int]) -> int:
        try:
            return evaluate(str(expression), timing)
        except KeyError as missing:
            self.problems.add(f"latency.{kind}", f"needs the timing {missing}, which no layer gives")
        except ValueError as error:
            self.problems.add(f"latency.{kind}", str(error))
        return 1

    def refresh_intervals(
        self, timing: Mapping[str, int], organisation: Organisation, value_set: Mapping[str, Any], tck_ns: Fraction
    ) -> dict[str, int]:
        intervals: dict[str, int] = {}
        for kind, name in self.section("refresh").items():
            if kind not in REFRESHES:
                self.problems.unknown("refresh", kind, REFRESHES, "refresh")
            elif kind == "same_bank" and self.values != "standard":
                continue  # ramulator2.1 has none
            elif name not in timing:
                self.problems.add(f"refresh.{kind}", f"needs the timing {name!r}, which no layer gives")
            else:
                intervals[kind] = timing[name]
        rule = value_set.get("per_bank_refresh", {})
        self.problems.check_keys(
            f"value_sets.{self.values}.per_bank_refresh", rule, ("interval", "divided_by", "order")
        )
        if rule.get("divided_by") == "all_banks_of_channel" and "nREFIpb" not in self.overrides:
            banks = organisation.banks * organisation.pseudo_channels
            intervals["per_bank"] = math.ceil(Fraction(timing[rule["interval"]], banks))
        return intervals

    def energy(self) -> dict[str, float] | None:
        entries = self.data.get("energy")
        if entries is None:
            return None
        self.problems.check_keys("energy", entries, _ENERGY_KEYS)
        out: dict[str, float] = {}
        for name in _ENERGY_KEYS:
            entry = entries.get(name, {})
            if not isinstance(entry, dict) or not isinstance(entry.get("value"), (int, float)):
                self.problems.add(f"energy.{name}", f"expected {{value, source or assumed}}, got {entry!r}")
                continue
            self.note(f"energy.{name}", entry, {})
            out[name] = float(entry["value"])
        return out
