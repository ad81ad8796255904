"""What every command that reads a routing trace takes: the file's statements, its repairs and its limits."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cosim.trace import ReadLimits, Repairs, RoutingTrace, formats, load
from cosim.trace.options import OPTION_HELP, ROUTERS
from cosim.trace.routing import PHASES

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["load_trace", "reader_options"]

_REPAIR_HELP = {
    "one_copy": "The rows are this many equal copies: keep the first.",
    "sequence_first": "Rows are [position, sequence] flattened, of this many sequences: reorder them.",
    "drop_warm_up": "Leave out rows of profile runs and warm-up.",
    "drop_empty_rows": "Leave out rows without an expert.",
    "drop_incomplete_requests": "Leave out requests with missing positions.",
    "moe_layers": "Decoder layers to keep: 3-60, or 1,3,5.",
    "first_moe_layer": "Decoder layer of the first recorded layer.",
    "drop_empty_slots": "Leave out slots that no row uses.",
    "sort_slots": "Put slots in order of weight.",
    "normalise_weights": "Make the gate weights of a token and layer sum to 1.",
}


class _Numbers(click.ParamType[tuple[int, ...]]):
    name = "range"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> tuple[int, ...]:
        numbers: list[int] = []
        for part in str(value).split(","):
            low, dash, high = part.partition("-")
            if not low.isdigit() or (dash and not high.isdigit()) or len(part) > 16:
                self.fail(f"expected numbers and ranges such as 3-60 or 1,3,5, got {value!r}", param, context)
            numbers.extend(range(int(low), int(high or low) + 1))
        return tuple(numbers)


class _Groups(click.ParamType[tuple[int, int]]):
    name = "groups"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> tuple[int, int]:
        groups, colon, chosen = str(value).partition(":")
        if not colon or not groups.isdigit() or not chosen.isdigit():
            self.fail(f"expected groups:chosen such as 8:4, got {value!r}", param, context)
        return int(groups), int(chosen)


def _statement_type(name: str) -> Any:
    if name in ("bias", "physical_map"):
        return click.Path(path_type=Path, dir_okay=False)
    if name == "groups":
        return _Groups()
    if name == "router":
        return click.Choice(ROUTERS)
    return {"routed_scaling": float, "select": str}.get(name, int)


def reader_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that reads a trace."""
    for entry in reversed(fields(Repairs)):
        flag = f"--{entry.name.replace('_', '-')}"
        kind: Any = _Numbers() if entry.name == "moe_layers" else int
        text = "Repair. " + _REPAIR_HELP[entry.name]
        if entry.default is False:
            command = click.option(flag, is_flag=True, help=text)(command)
        else:
            command = click.option(flag, type=kind, help=text)(command)
    for name, text in reversed(list(OPTION_HELP.items())):
        command = click.option(f"--{name.replace('_', '-')}", type=_statement_type(name), help=text)(command)
    for option in (
        click.option("--max-gib", type=click.FloatRange(min=0, min_open=True), help="Unpacked size to accept, in GiB."),
        click.option("--scores", type=click.Path(path_type=Path), help="npz with router scores of some requests."),
        click.option("--provenance", help="recorded, synthetic or fitted(SOURCE), if the file does not say."),
        click.option("--phase", type=click.Choice(PHASES), help="Phase of all rows, if the file does not say."),
        click.option("--experts", type=click.IntRange(min=1), help="Experts per layer, if the file does not say."),
        click.option("--format", "format_", help=f"Force a reader: {', '.join(formats())}."),
    ):
        command = option(command)
    return command


def load_trace(file: str, format_: str | None, max_gib: float | None, **statements: Any) -> RoutingTrace:
    """The trace that the options of `reader_options` ask for."""
    limits = ReadLimits()
    if max_gib is not None:
        decoded = int(max_gib * 2**30)
        limits = ReadLimits(max_decoded_bytes=decoded, free_bytes=decoded)
    repairs = Repairs(**{entry.name: statements.pop(entry.name) for entry in fields(Repairs)})
    return load(file, format_, limits=limits, repairs=repairs, **statements)
