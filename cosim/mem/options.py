"""The configuration of a memory: checked keys, defaults that are stated, nothing silently ignored."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosim.config.errors import ConfigErrors
from cosim.mem.address_map import DEFAULT_MAP, AddressMap
from cosim.mem.problems import Problems, refuse
from cosim.mem.standard import Standard
from cosim.mem.standards import load_standard

REFRESH = ("none", "all_bank", "per_bank", "same_bank")
PAGE_POLICIES = ("open", "closed", "timeout")
SCHEDULERS = ("frfcfs",)
SKIPPING = ("on", "off")

_DEFAULTS: dict[str, Any] = {
    "preset": None,
    "organisation": None,
    "values": "standard",
    "standard_file": None,
    "channels": 1,
    "refresh": "none",
    "postponed_refreshes": 0,
    "page_policy": "open",
    "page_timeout": None,
    "scheduler": "frfcfs",
    "age_cap": None,
    "read_queue": 32,
    "write_queue": 32,
    "write_low_watermark": 0.2,
    "write_high_watermark": 0.8,
    "coalesce_writes": None,
    "address_map": DEFAULT_MAP,
    "timing": {},
    "skipping": "on",
}
AGE_CAP = 128
_NOT_OF_SRAM = (
    "organisation",
    "refresh",
    "postponed_refreshes",
    "page_policy",
    "page_timeout",
    "age_cap",
    "write_low_watermark",
    "write_high_watermark",
    "coalesce_writes",
)


@dataclass(frozen=True)
class MemoryOptions:
    """A checked configuration.

    Attributes:
        standard: the resolved standard.
        channels: independent channels; one of them has the standard's pseudo-channels.
        refresh: "none", "all_bank", "per_bank" or "same_bank".
        postponed_refreshes: refreshes that may be owed while requests wait.
        page_policy: "open", "closed" (auto-precharge with the last hit) or "timeout".
        page_timeout_cycles: CK without a column command after which "timeout" closes a row.
        age_cap: requests accepted later that may overtake an older one of its bank; 0 for any number.
        read_queue, write_queue: entries, per pseudo-channel (shared by both with values "ramulator2.1").
        write_low, write_high: watermarks in requests.
        coalesce_writes: whether a write to a queued address is absorbed.
        address_map: byte address to coordinate.
        skipping: whether stretches that come again are not simulated again; no result depends on it.
    """

    standard: Standard
    channels: int
    refresh: str
    postponed_refreshes: int
    page_policy: str
    page_timeout_cycles: int
    age_cap: int
    read_queue: int
    write_queue: int
    write_low: int
    write_high: int
    coalesce_writes: bool
    address_map: AddressMap
    skipping: bool = True
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def compatible(self) -> bool:
        """Whether the behaviour, not only the figures, is that of Ramulator 2.1."""
        return self.standard.values == "ramulator2.1"


def _whole(problems: Problems, name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        problems.add(name, f"expected a whole number from {least} to {most}, got {value!r}")
        return least
    return value


def _choice(problems: Problems, name: str, value: object, known: Sequence[str]) -> str:
    if value not in known:
        problems.unknown(name, value, known, "value")
        return known[0]
    return str(value)


def _watermark(problems: Problems, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        problems.add(name, f"expected a fraction of the write queue from 0 to 1, got {value!r}")
        return 0.5
    return float(value)


def read_options(config: Mapping[str, Any]) -> MemoryOptions:
    """Checks a configuration as `Memory` takes it.

    Raises:
        ConfigErrors: every error, one per line.
    """
    problems = Problems("memory")
    if not isinstance(config, Mapping):
        raise refuse("memory", "", f"expected a mapping of keys, got {type(config).__name__}")
    problems.check_keys("", config, _DEFAULTS)
    given = {**_DEFAULTS, **{k: v for k, v in config.items() if k in _DEFAULTS}}
    if given["preset"] is None:
        problems.add("preset", "is missing; expected the name of a preset such as 'HBM2_2000'")
    timing = given["timing"]
    if not isinstance(timing, Mapping):
        problems.add("timing", f"expected timings by name such as {{nRCDRD: 14}}, got {timing!r}")
        timing = {}
    channels = _whole(problems, "channels", given["channels"], 1, 4096)
    refresh = _choice(problems, "refresh", given["refresh"], REFRESH)
    policy = _choice(problems, "page_policy", given["page_policy"], PAGE_POLICIES)
    _choice(problems, "scheduler", given["scheduler"], SCHEDULERS)
    if isinstance(given["skipping"], bool):  # YAML reads a bare on and off as true and false
        given["skipping"] = "on" if given["skipping"] else "off"
    skipping = _choice(problems, "skipping", given["skipping"], SKIPPING)
    reads = _whole(problems, "read_queue", given["read_queue"], 1, 4096)
    writes = _whole(problems, "write_queue", given["write_queue"], 1, 4096)
    low = _watermark(problems, "write_low_watermark", given["write_low_watermark"])
    high = _watermark(problems, "write_high_watermark", given["write_high_watermark"])
    if low >= high:
        problems.add("write_low_watermark", f"must be below write_high_watermark, got {low} and {high}")
    # write mode starts above `high` of the queue and ends below `low` of it
    write_high = min(math.floor(high * writes) + 1, writes)
    write_low = min(max(math.ceil(low * writes) - 1, 0), write_high - 1)
    timeout = 0
    if policy == "timeout":
        if given["page_timeout"] is None:
            problems.add("page_timeout", "is missing; page_policy 'timeout' needs it (CK without a column command)")
        else:
            timeout = _whole(problems, "page_timeout", given["page_timeout"], 0, 1 << 24)
    elif given["page_timeout"] is not None:
        problems.add("page_timeout", f"is only read with page_policy 'timeout', not {policy!r}")
    compatible = given["values"] == "ramulator2.1"
    if compatible:
        for key in ("age_cap", "coalesce_writes"):
            if given[key] is not None:
                problems.add(key, "is fixed by values 'ramulator2.1'")
        if given["postponed_refreshes"] != 0:
            problems.add("postponed_refreshes", "is fixed by values 'ramulator2.1'")
        if policy != "open":
            problems.add("page_policy", "values 'ramulator2.1' has only 'open'")
    age_cap = (
        0
        if compatible
        else _whole(problems, "age_cap", AGE_CAP if given["age_cap"] is None else given["age_cap"], 0, 1 << 20)
    )
    coalesce = compatible if given["coalesce_writes"] is None else given["coalesce_writes"]
    if not isinstance(coalesce, bool):
        problems.add("coalesce_writes", f"expected true or false, got {coalesce!r}")
    if refresh == "none" and given["postponed_refreshes"] not in (0,):
        problems.add("postponed_refreshes", "is only read with a refresh, and refresh is 'none'")
    standard = _standard(given, timing, problems)
    if standard is None:
        problems.raise_if_any()
        raise AssertionError("a standard is missing without an error")
    if standard.kind == "sram":
        for key in _NOT_OF_SRAM:
            if given[key] != _DEFAULTS[key]:
                problems.add(key, "is not read by an SRAM: it has no rows, refresh or write mode")
    elif refresh != "none" and refresh not in standard.refresh_interval_cycles:
        problems.add(
            "refresh",
            f"{standard.name} has no {refresh} refresh here; it has {', '.join(standard.refresh_interval_cycles)}",
        )
    postponed = _whole(
        problems, "postponed_refreshes", given["postponed_refreshes"], 0, standard.max_postponed_refreshes
    )
    problems.raise_if_any()
    organisation = standard.organisation
    sizes = {
        "channel": channels,
        "pseudo_channel": organisation.pseudo_channels,
        "stack_id": organisation.stack_ids,
        "bank_group": organisation.bank_groups,
        "bank": organisation.banks_per_group,
        "row": organisation.rows,
        "column": organisation.columns,
    }
    if channels & (channels - 1):
        # addresses need a power of two of channels; coordinates do not
        sizes["channel"] = 1
    address_map = AddressMap.make(_mapped(given["address_map"]), sizes, organisation.access_bytes)
    return MemoryOptions(
        standard=standard,
        channels=channels,
        refresh=refresh,
        postponed_refreshes=postponed,
        page_policy=policy,
        page_timeout_cycles=timeout,
        age_cap=age_cap,
        read_queue=reads,
        write_queue=writes,
        write_low=write_low,
        write_high=write_high,
        coalesce_writes=bool(coalesce),
        address_map=address_map,
        skipping=skipping == "on",
        given=dict(config),
    )


def _standard(given: Mapping[str, Any], timing: Mapping[str, int], problems: Problems) -> Standard | None:
    if given["preset"] is None:
        return None
    file = given["standard_file"]
    try:
        organisation = given["organisation"]
        return load_standard(
            str(given["preset"]),
            str(given["values"]),
            timing,
            None if file is None else Path(file),
            None if organisation is None else str(organisation),
        )
    except ConfigErrors as errors:
        problems.found.extend(errors.errors)
        return None


def _mapped(spec: object) -> str | list[str]:
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Sequence):
        return [str(word) for word in spec]
    raise refuse("memory", "address_map", f"expected a name such as {DEFAULT_MAP!r} or a bit list, got {spec!r}")
