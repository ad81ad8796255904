"""`cosim mem`: run request traces through a memory, show address maps and constraint tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from cosim.mem import AddressMap, Memory, MemoryRun


def _option_value(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"expected key=value, got {text!r}")
    return key, yaml.safe_load(value)


def memory_config(preset: str, options: tuple[str, ...]) -> dict[str, Any]:
    """A preset and ``key=value`` texts as `Memory` takes them; ``timing.NAME`` is a timing."""
    config: dict[str, Any] = {"preset": preset}
    for option in options:
        key, value = _option_value(option)
        if key.startswith("timing."):
            config.setdefault("timing", {})[key.removeprefix("timing.")] = value
        else:
            config[key] = value
    return config


def _memory_options(command: Callable[..., None]) -> Callable[..., None]:
    command = click.option(
        "-o",
        "--option",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        help="A key of the memory, such as refresh=all_bank or timing.nRCDRD=14.",
    )(command)
    return click.option("--preset", default="HBM2_2000", show_default=True, help="The standard and speed bin.")(command)


@click.group()
def mem() -> None:
    """Run memories by themselves and show address maps."""


@mem.command()
@click.argument("file", type=click.Path(path_type=Path))
@_memory_options
@click.option(
    "--requests", "requests_file", type=click.Path(path_type=Path), help="Write every request's times (CSV or Parquet)."
)
@click.option(
    "--commands", "commands_file", type=click.Path(path_type=Path), help="Write the command trace (CSV or Parquet)."
)
@click.option("--split", is_flag=True, help="Print where the latency went, part by part.")
def run(
    file: Path,
    preset: str,
    options: tuple[str, ...],
    requests_file: Path | None,
    commands_file: Path | None,
    split: bool,
) -> None:
    """Play the requests of FILE through a memory.

    FILE is a table (.csv, .parquet: arrive_cycle, op, and address [, size_bytes] or coordinates) or text: lines
    '[@cycle ]R|W pc sid bg bank row column', 'R|W address', Ramulator's 'R|W ch,pc[,sid],bg,bank,row,column' and
    'address R|W', or DRAMsim3's 'address READ|WRITE cycle'; '#' starts a comment.
    """
    from cosim.mem import Memory
    from cosim.mem.traces import read_trace

    memory = Memory(memory_config(preset, options))
    result = memory.run_requests(read_trace(file), commands=commands_file is not None or split)
    _print_run(memory, result)
    if split:
        _print_split(result)
    if requests_file is not None:
        _write(result.requests, requests_file)
    if commands_file is not None:
        _write(result.commands, commands_file)


def _write(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)


def _print_run(memory: Memory, result: MemoryRun) -> None:
    standard = memory.standard
    options = memory.options
    counts = result.counters
    classified = max(counts["row_hits"] + counts["row_misses"] + counts["row_conflicts"], 1)

    def share(name: str) -> str:
        return f"{counts[name]} ({100 * counts[name] / classified:.1f} %)"

    organisation = standard.organisation
    sram = standard.kind == "sram"
    if sram:
        parts = f"{organisation.banks} banks of {standard.ports} port(s) of {standard.port_bytes} B a cycle"
        rules = ""
    else:
        parts = f"{organisation.pseudo_channels} pseudo-channel(s)"
        rules = f", refresh {options.refresh}, page policy {options.page_policy}"
    click.echo(
        f"{standard.preset}, values {standard.values}: {options.channels} channel(s) of {parts}, "
        f"{organisation.access_bytes} B per burst, CK {float(standard.ck_hz) / 1e6:.6g} MHz{rules}"
    )
    used = 100 * result.bandwidth_GBps / result.peak_GBps
    reads = f"{result.read_latency_mean_cycles:.3f} CK = {result.read_latency_mean_ns:.3f} ns"
    names = {
        "ACT": "ACT",
        "PRE": "PREpb",
        "precharges_all": "PREab",
        "RD": "RD",
        "WR": "WR",
        "refreshes_all": "REFab",
        "refreshes_bank": "REFsb" if standard.refresh_set > 1 else "REFpb",
    }
    kinds = {
        "served_reads": "read",
        "served_writes": "written",
        "forwarded": "forwarded from the write queue",
        "coalesced": "absorbed",
    }
    served = ", ".join(f"{counts[key]} {text}" for key, text in kinds.items())
    lines = [
        ("time", f"{result.total_cycles} CK = {result.total_ns:.3f} ns"),
        ("bandwidth", f"{result.bandwidth_GBps:.4f} GB/s of {result.peak_GBps:.4f} GB/s ({used:.1f} %), 1 GB = 10^9 B"),
        ("bound by", _bound(result)),
        ("read latency", f"{reads} mean, accept to last beat (controller and DRAM; no PHY, no network)"),
        ("requests", f"{counts['asked']} bursts: {served}"),
    ]
    if not sram:
        lines += [
            ("row hits", share("row_hits")),
            ("row misses", share("row_misses")),
            ("row conflicts", share("row_conflicts")),
            ("commands", ", ".join(f"{counts[key]} {text}" for key, text in names.items())),
        ]
    if standard.energy is not None:
        energy = result.energy["energy_pJ"].sum()
        moved = int(result.banks["bytes"].sum()) * 8
        per_bit = f", {energy / moved:.3f} pJ/bit" if moved else ""
        lines.append(("energy", f"{energy / 1e3:.3f} nJ{per_bit}"))
        named = zip(result.energy["component"].tolist(), result.energy["energy_pJ"].tolist(), strict=True)
        lines.append(("", ", ".join(f"{component} {part / 1e3:.3f} nJ" for component, part in named if part)))
    if result.assumed:
        lines.append(("assumed", ", ".join(sorted(set(result.assumed)))))
    for name, text in lines:
        click.echo(f"{name:<14} {text}")


def _print_split(result: MemoryRun) -> None:
    parts = result.latency
    whole = parts.to_numpy().sum()
    standard = result.memory.standard
    ns = float(standard.tick_fs * standard.slots_per_cycle / 10**6)
    click.echo("latency of all requests, mean from accept to the last beat:")
    for name in parts.columns:
        mean = float(parts[name].mean())
        part = name.removesuffix("_cycles").replace("_", " ")
        share = 100 * float(parts[name].sum()) / whole if whole else 0.0
        click.echo(f"  {part:<14} {mean:.3f} CK = {mean * ns:.3f} ns ({share:.1f} %)")


def _bound(result: MemoryRun) -> str:
    names, shares = result.bounds["constraint"].tolist(), result.bounds["share"].tolist()
    told = ", ".join(f"{name} {100 * share:.0f} %" for name, share in zip(names, shares, strict=True))
    text = result.bound_by + (f" ({told})" if told else "")
    return text + (f"; assumed: {', '.join(result.bound_by_assumed)}" if result.bound_by_assumed else "")


@mem.command("map")
@_memory_options
@click.option(
    "--region", "regions", multiple=True, metavar="ADDRESS:SIZE", help="Say which banks a region lies in; repeatable."
)
@click.option("--bursts", type=click.IntRange(min=0), default=8, show_default=True, help="Bursts to draw from 0 on.")
@click.argument("addresses", nargs=-1)
def map_(
    preset: str, options: tuple[str, ...], regions: tuple[str, ...], bursts: int, addresses: tuple[str, ...]
) -> None:
    """Draw the interleaving: which address bits choose what, and where ADDRESSES (bytes; hexadecimal with 0x) lie.

    Regions that share no bank are isolated: a stream into one never closes a row of another.
    """
    from cosim.mem import Memory

    memory = Memory(memory_config(preset, options))
    address_map = memory.options.address_map
    _print_bits(address_map)
    strides = address_map.strides()
    for field, stride in sorted(strides.items(), key=lambda item: item[1]):
        click.echo(f"{field.replace('_', '-'):<16} {address_map.sizes[field]} of them, first changes after {stride} B")
    burst = address_map.access_bytes
    for number in range(min(bursts, address_map.capacity_bytes // burst)):
        click.echo(_placed(address_map, number * burst))
    for text in addresses:
        address = _byte_address(text, address_map.capacity_bytes)
        click.echo(f"{_placed(address_map, address)}, byte {address % burst} of the burst")
    _print_regions(address_map, regions)


def _print_bits(address_map: AddressMap) -> None:
    offset = address_map.access_bytes.bit_length() - 1
    click.echo(
        f"capacity {address_map.capacity_bytes} B, "
        f"{address_map.access_bytes} B per burst (address bits 0 to {offset - 1})"
    )
    words = address_map.description
    start = 0
    for i in range(1, len(words) + 1):
        if i == len(words) or words[i].rstrip("0123456789") != words[start].rstrip("0123456789") or "^" in words[i]:
            last = words[i - 1]
            text = words[start] if i - 1 == start else f"{words[start]} to {last}"
            bits = f"bit {start + offset}" if i - 1 == start else f"bits {start + offset} to {i - 1 + offset}"
            click.echo(f"{bits:<16} {text}")
            start = i


def _placed(address_map: AddressMap, address: int) -> str:
    where = ", ".join(f"{name} {value}" for name, value in address_map.decode(address).items())
    return f"{address:#x}: {where}"


def _byte_address(text: str, capacity: int) -> int:
    from cosim.config.errors import ConfigErrors

    try:
        address = int(text, 0)
    except ValueError:
        raise ConfigErrors.single("a byte address", text, path="ADDRESSES") from None
    if not 0 <= address < capacity:
        raise ConfigErrors.single(f"an address from 0 to {capacity - 1}", text, path="ADDRESSES")
    return address


def _print_regions(address_map: AddressMap, regions: tuple[str, ...]) -> None:
    from cosim.config import units
    from cosim.config.errors import ConfigErrors

    banks: dict[str, frozenset[tuple[int, ...]]] = {}
    for text in regions:
        start, colon, size = text.partition(":")
        if not colon:
            raise ConfigErrors.single("a region as ADDRESS:SIZE, such as 0x0:64MiB", text, path="--region")
        try:
            length = int(size) if size.isdigit() else int(units.parse_quantity(size, units.BYTES))
        except ValueError as error:
            raise ConfigErrors.single("a size such as 64 MiB", size, path="--region") from error
        banks[text] = address_map.banks_of(_byte_address(start, address_map.capacity_bytes), length)
        click.echo(f"region {text}: {len(banks[text])} banks, {length / len(banks[text]):.6g} B in each on average")
    names = list(banks)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            shared = len(banks[first] & banks[second])
            click.echo(
                f"{first} and {second}: " + (f"share {shared} banks" if shared else "isolated, no bank in common")
            )


@mem.command()
@_memory_options
def table(preset: str, options: tuple[str, ...]) -> None:
    """Print the constraint table: every ordered pair of commands with its minimum distance in command slots."""
    from cosim.mem import Memory

    memory = Memory(memory_config(preset, options))
    slots = memory.standard.slots_per_cycle
    click.echo(f"{memory.standard.preset}: minimum distance between first command cycles, in slots of 1/{slots} CK")
    for row in memory.standard.table():
        window = f" (window {row['window']})" if row["window"] != 1 else ""
        click.echo(f"{row['from']:<6} {row['to']:<6} {row['scope']:<15} {row['ticks']:>6}{window}  {row['names']}")


@mem.command()
@click.option("--cases", type=click.IntRange(min=1), default=100, show_default=True, help="Random memories to run.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of the first case.")
@click.option("--preset", help="One standard only.")
def soak(cases: int, seed: int, preset: str | None) -> None:
    """Check random memories under random requests: every constraint, refreshes in time, nothing lost or served twice.

    The last line counts requests and commands checked. A broken law is printed with the seed of its case; the exit
    status is then 1.
    """
    from cosim.mem.soak import soak as check

    totals: dict[str, list[int]] = {}
    broken = 0
    for number, checked in check(cases, seed, preset):
        counted = totals.setdefault(checked.preset, [0, 0, 0, 0])
        for at, value in enumerate((1, checked.requests, checked.commands, checked.refreshes)):
            counted[at] += value
        broken += bool(checked.broken)
        for text in checked.broken[:5]:
            click.echo(f"seed {number}, {checked.preset}: {text}", err=True)
    names = ("cases", "bursts", "commands", "refreshes")
    for name, counted in sorted(totals.items()):
        click.echo(f"{name:<14} " + ", ".join(f"{value} {what}" for value, what in zip(counted, names, strict=True)))
    sums = [sum(counted[at] for counted in totals.values()) for at in range(4)]
    told = ", ".join(f"{value} {what}" for value, what in zip(sums, names, strict=True))
    click.echo(f"{'checked':<14} {told}; {broken} cases broke a law")
    if broken:
        raise click.exceptions.Exit(1)
