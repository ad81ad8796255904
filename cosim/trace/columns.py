"""Which column of a CSV or Parquet table means what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cosim.trace.problems import Problems, did_you_mean

_NUMBERED = re.compile(r"(expert|weight)_(0|[1-9]\d{0,3})")
_PLAIN = ("request", "position", "token", "layer", "phase", "domain")
_OTHER_NAMES = {
    "prompt_id": "request",
    "request_id": "request",
    "req_id": "request",
    "layer_id": "layer",
    "layer_idx": "layer",
    "token_id": "token",
    "token_idx": "position",
    "topk_ids": "experts",
    "selected_experts": "experts",
    "router_scores": "weights",
    "topk_weights": "weights",
}


@dataclass(frozen=True)
class Columns:
    """Columns of a table with one row per token and layer.

    Attributes:
        place: (`request`, `position`) or (`token`,).
        experts: names of the id columns, in slot order; one name if it is a list column.
        weights: likewise, or empty.
        lists: True if experts and weights are list columns.
        phase, domain, scores: True if there is such a column.
    """

    place: tuple[str, ...]
    experts: tuple[str, ...]
    weights: tuple[str, ...]
    lists: bool
    phase: bool
    domain: bool
    scores: bool


def resolve(names: Sequence[str], problems: Problems, *, lists: bool) -> Columns:
    """The meaning of the column names; what is missing, unknown or there twice goes to `problems`.

    Args:
        names: column names in file order.
        problems: collector; the result is only good when nothing was added.
        lists: True where the format can hold lists (`experts`, `weights`, `scores` columns).
    """
    known = (*_PLAIN, *(("experts", "weights", "scores") if lists else ()), "expert_0", "weight_0")
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.add("a column that occurs twice", repr(name))
    numbered: dict[str, list[int]] = {"expert": [], "weight": []}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match:
            numbered[match[1]].append(int(match[2]))
        elif name not in known:
            other = _OTHER_NAMES.get(name)
            hint = f" (here that is called {other!r})" if other in known else did_you_mean(name, known)
            problems.add("an unknown column", f"{name!r}{hint}")
    for kind, numbers in numbered.items():
        if sorted(numbers) != list(range(len(numbers))):
            problems.add(f"columns {kind}_*: expected {kind}_0 to {kind}_{len(numbers) - 1}, got {sorted(numbers)}")
    slots, weights = len(numbered["expert"]), len(numbered["weight"])
    as_lists = "experts" in names
    if as_lists and (slots or weights):
        problems.add("experts beside expert_0 …, expected one or the other")
    if not as_lists and not slots:
        problems.add(f"missing column: expert_0{' or experts' if lists else ''}")
    if weights and weights != slots:
        problems.add(f"{weights} weight columns for {slots} expert columns")
    place = ("request", "position") if "request" in names or "position" in names else ("token",)
    for name in (*place, "layer"):
        if name not in names:
            alternative = " (or request and position)" if name == "token" else ""
            problems.add(f"missing column: {name}{alternative}")
    if "token" in names and place != ("token",):
        problems.add("token beside request and position, expected one or the other")
    return Columns(
        place=place,
        experts=("experts",) if as_lists else tuple(f"expert_{n}" for n in range(slots)),
        weights=(("weights",) if "weights" in names else ())
        if as_lists
        else tuple(f"weight_{n}" for n in range(weights)),
        lists=as_lists,
        phase="phase" in names,
        domain="domain" in names,
        scores="scores" in names,
    )
