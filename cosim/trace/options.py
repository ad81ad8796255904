"""What the caller states about a file that the file itself does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Protocol

from cosim.trace.limits import ReadLimits
from cosim.trace.routing import RoutingTrace

ROUTERS = ("softmax", "topk_softmax", "sigmoid", "deepseek_v3")
"""How router logits become a choice; see `cosim.trace.routers`."""


@dataclass(frozen=True)
class ReadOptions:
    """Statements and limits given to a reader.

    Attributes:
        experts: experts per layer of the model, where the file does not say (a file that says otherwise is an error).
        phase: `prefill` or `decode` for all rows, where the file does not say.
        provenance: where the file does not say; `recorded` is assumed of other people's recordings.
        limits: what the file may ask of the reader.
        padding: an id that fills what was not routed: it becomes -1 (empty).
        physical_map: file with a map physical → logical expert `[layer, physical]`, for ids that name replicas.
        top_k: experts per token, where the file does not say.
        router: one of `ROUTERS`, for files that hold router logits.
        bias: file with the bias `[layer, expert]` that is added to the scores for the choice (`deepseek_v3`).
        groups: groups of experts and groups a token may choose from (`deepseek_v3`).
        routed_scaling: factor on the gate weights (`deepseek_v3`).
        sequences: sequences in the batch, where rows are `[batch * position]` or `[position * batch]`.
        select: which of several recordings in one file.
        fit_requests, fit_positions, fit_seed: size and seed of the trace that is fitted to counts.
    """

    experts: int | None = None
    phase: str | None = None
    provenance: str | None = None
    limits: ReadLimits = field(default_factory=ReadLimits)
    padding: int | None = None
    physical_map: Path | None = None
    top_k: int | None = None
    router: str | None = None
    bias: Path | None = None
    groups: tuple[int, int] | None = None
    routed_scaling: float | None = None
    sequences: int | None = None
    select: str | None = None
    fit_requests: int | None = None
    fit_positions: int | None = None
    fit_seed: int | None = None

    def given(self) -> list[str]:
        """Names of the statements that only some readers read and that were made."""
        return [name for name in SPECIAL if getattr(self, name) is not None]


EVERY_READER = ("experts", "phase", "provenance", "limits", "padding", "physical_map")
"""Options every reader reads."""
SPECIAL = tuple(entry.name for entry in fields(ReadOptions) if entry.name not in EVERY_READER)
"""Options that a reader must say it reads (`TraceAdapter.reads`), else giving them is an error."""
FITTING = ("top_k", "select", "fit_requests", "fit_positions", "fit_seed")
"""What a reader of counts reads."""
OPTION_HELP: Mapping[str, str] = {
    "padding": "Expert id that fills what was not routed (255, 0, …): made empty.",
    "physical_map": "File with the map physical -> logical expert [layer, physical], for ids that name replicas.",
    "top_k": "Experts per token, if the file does not say.",
    "router": f"How router logits become a choice: {', '.join(ROUTERS)}.",
    "bias": "File with the router's selection bias [layer, expert] (deepseek_v3).",
    "groups": "N:M, a token chooses from M of N groups of experts (deepseek_v3).",
    "routed_scaling": "Factor on the gate weights (deepseek_v3).",
    "sequences": "Sequences in the batch whose rows lie in one flat axis.",
    "select": "Which recording of a file that holds several.",
    "fit_requests": "Requests of the trace fitted to counts.",
    "fit_positions": "Tokens of each of them.",
    "fit_seed": "Seed of the trace fitted to counts.",
}


class TraceAdapter(Protocol):
    """What an entry point of the group `cosim.trace_adapters` names: a reader of one outside format.

    Two attributes are optional: `reads`, names of the special options it reads (`SPECIAL`), and `sniff_folder(path)`,
    True if a folder is surely a recording in this format, which `read` then takes.
    """

    name: str
    """What `format=` calls it."""
    description: str
    """One line: whose format, which layout."""

    def sniff(self, path: Path, head: bytes) -> bool:
        """True if the file is surely in this format; `head` is its first 64 KiB. Never raises."""
        ...

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads the file.

        Raises:
            TraceError: naming file and place of everything that is wrong.
        """
        ...
