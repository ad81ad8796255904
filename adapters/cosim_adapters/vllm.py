"""vLLM: routed experts of requests, and the load windows of its expert-parallel load balancer (EPLB).

Requests (`enable_return_routed_experts`). vLLM 0.12 to 0.20 gives one array `routed_experts` `[rows, MoE layer, slot]`
for prompt and output together, without the last sampled token; from 0.21 on `prompt_routed_experts` and
`routed_experts` apart. Ids are logical; -1 marks positions served from the prefix cache; there are no gate weights.
Read are npz files as people save them, one a request (`routed_experts`, optional `prompt_routed_experts`,
`prompt_token_ids`, `output_token_ids`, `request_id`), a folder of such files, and the server's JSON responses. Layouts:
docs.vllm.ai/en/v0.21.0/training/routed_experts_replay, github.com/vllm-project/vllm pull request 28284.

Load windows: `expert_load_window` `[step, layer, physical expert]` with `physical_to_logical_map`
(`vllm/distributed/eplb/eplb_state.py`). Counts, so a trace is fitted to them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.arraytree import describe, open_tree, peek_tree
from cosim.trace.assemble import checked_map
from cosim.trace.jsondoc import integer_array, read_documents
from cosim.trace.options import FITTING, ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.recorded import from_arrays, from_counts
from cosim.trace.routing import PHASES, RoutingTrace
from cosim.trace.tensors import ArrayRef

_NPZ_KEYS = {"routed_experts", "prompt_routed_experts", "prompt_token_ids", "output_token_ids", "request_id"}
_RESPONSE = re.compile(rb'\s*(\[\s*)?\{(?s:.*?)"(prompt_)?routed_experts"\s*:\s*(\[|null)')
_MAX_FILES = 100_000


@dataclass(frozen=True)
class Request:
    """Rows of one request: ids `[row, layer, slot]`, position of the first row, prompt tokens if known."""

    ids: NDArray[Any]
    first: int
    prompt_tokens: int | None


def requests_trace(
    source: str, options: ReadOptions, requests: Sequence[Request], remarks: Sequence[str] = ()
) -> RoutingTrace:
    """The requests one after another.

    Raises:
        TraceError: when they differ in layers or slots.
    """
    if not requests:
        raise TraceError(source, ["no request with routing", *remarks])
    problems = Problems(source)
    tail = requests[0].ids.shape[1:]
    for number, request in enumerate(requests):
        if request.ids.shape[1:] != tail:
            problems.add(
                f"requests of different [layer, slot]: the first has {list(tail)}",
                f"request {number} has {list(request.ids.shape[1:])}",
            )
    problems.raise_if_any()
    lengths = [request.ids.shape[0] for request in requests]
    position = np.concatenate([np.arange(r.first, r.first + n) for r, n in zip(requests, lengths, strict=True)])
    phase = None
    if all(request.prompt_tokens is not None for request in requests):
        prompt = np.repeat([request.prompt_tokens or 0 for request in requests], lengths)
        phase = np.where(position < prompt, PHASES.index("prefill"), PHASES.index("decode")).astype(np.uint8)
    found = from_arrays(
        source,
        options,
        np.concatenate([request.ids for request in requests]),
        request=np.repeat(np.arange(len(requests)), lengths),
        position=position,
        phase=phase,
    )
    return replace(found, repairs=(*found.repairs, *remarks))


class VllmNpz:
    """Reader of npz files with `routed_experts`, one a request, and of folders of them."""

    name = "vllm_npz"
    description = "vLLM routed_experts, npz a request (0.12-0.20 whole, 0.21+ split), or a folder of them"

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for npz with `routed_experts`."""
        tree = peek_tree(path, head) if head.startswith(b"PK") else None
        return isinstance(tree, dict) and "routed_experts" in tree and tree.keys() <= _NPZ_KEYS

    def sniff_folder(self, path: Path) -> bool:
        """True for a folder whose first npz is one of these."""
        for file in sorted(path.glob("*.npz"))[:1]:
            with file.open("rb") as stream:
                return self.sniff(file, stream.read(4))
        return False

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads the requests in order of file name.

        Raises:
            TraceError: naming file and array.
        """
        files = sorted(path.glob("*.npz")) if path.is_dir() else [path]
        if len(files) > _MAX_FILES:
            raise TraceError(str(path), [f"{len(files)} files, at most {_MAX_FILES} are read"])
        return requests_trace(str(path), options, [_npz_request(file, options) for file in files])


def _npz_request(path: Path, options: ReadOptions) -> Request:
    tree = open_tree(path, options.limits)
    problems = Problems(str(path))
    if not isinstance(tree, dict) or not isinstance(tree.get("routed_experts"), ArrayRef):
        raise TraceError(str(path), [f"no array routed_experts; it holds {describe(tree)}"])
    for key in tree:
        if key not in _NPZ_KEYS:
            problems.add("an array nobody reads", repr(key))
    for key in ("routed_experts", "prompt_routed_experts"):
        if key in tree and (not tree[key].integers or tree[key].ndim != 3):
            problems.add(f"{key}: expected integers [row, layer, slot], got {tree[key]!r}")
    problems.raise_if_any()
    prompt = tree["prompt_token_ids"].size if "prompt_token_ids" in tree else None
    output = tree["output_token_ids"].size if "output_token_ids" in tree else None
    ids = tree["routed_experts"].read()
    before = tree["prompt_routed_experts"].read() if "prompt_routed_experts" in tree else None
    return joined_request(str(path), ids, before, prompt, output)


def joined_request(
    source: str, ids: NDArray[Any], before: NDArray[Any] | None, prompt: int | None, output: int | None
) -> Request:
    """The rows of a request from whole or split arrays and the numbers of its tokens.

    Raises:
        TraceError: when the rows fit neither layout.
    """
    rows = ids.shape[0]
    if before is not None:
        if prompt is not None and before.shape[0] != prompt:
            raise TraceError(source, [f"prompt_routed_experts: {before.shape[0]} rows for {prompt} prompt tokens"])
        if output is not None and rows not in (output, output - 1):
            raise TraceError(source, [f"routed_experts: {rows} rows for {output} output tokens (or one less)"])
        if before.shape[1:] != ids.shape[1:]:
            raise TraceError(
                source, [f"prompt and output have {list(before.shape[1:])} and {list(ids.shape[1:])} [layer, slot]"]
            )
        return Request(np.concatenate([before, ids]), 0, before.shape[0])
    if prompt is None or output is None:
        return Request(ids, 0, prompt)
    whole, generated = (prompt + output - 1, prompt + output), (output - 1, output)
    if rows in whole and (prompt or rows not in generated):
        return Request(ids, 0, prompt)
    if rows in generated:
        return Request(ids, prompt, prompt)
    raise TraceError(
        source,
        [
            f"routed_experts: {rows} rows; {prompt} prompt and {output} output tokens make {whole[0]} or {whole[1]} "
            f"(prompt and output together) or {generated[0]} or {generated[1]} (output alone)"
        ],
    )


class VllmJson:
    """Reader of the server's JSON responses: one, a list, or one a line."""

    name = "vllm_json"
    description = "vLLM server responses, JSON or JSON lines, with routed_experts in the choices"

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for an object or list that begins with `routed_experts` before long."""
        return _RESPONSE.match(head) is not None and b'"choices"' in head

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads all responses; a choice is a request, prompt rows belong to the first choice of a response.

        Raises:
            TraceError: naming the response and what is wrong in it.
        """
        source = str(path)
        problems = Problems(source)
        requests: list[Request] = []
        without = 0
        for place, response in read_documents(path, options.limits):
            choices = response.get("choices") if isinstance(response, dict) else None
            if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
                problems.add("expected a response with choices", place)
                continue
            usage = response.get("usage")
            stated = usage.get("prompt_tokens") if isinstance(usage, dict) else None
            for number, choice in enumerate(choices):
                if choice.get("routed_experts") is None:
                    without += 1
                    continue
                ids = integer_array(choice["routed_experts"], 3)
                prompt_rows = choice.get("prompt_routed_experts", response.get("prompt_routed_experts"))
                before = None if prompt_rows is None else integer_array(prompt_rows, 3)
                if ids is None or (prompt_rows is not None and before is None):
                    problems.add("routed_experts: expected integers [row][layer][slot]", f"{place}, choice {number}")
                    continue
                prompt = before.shape[0] if before is not None else stated if type(stated) is int else None
                if number == 0 and before is not None:
                    requests.append(joined_request(f"{source}: {place}", ids, before, None, None))
                else:
                    requests.append(Request(ids, prompt or 0, prompt))
        problems.raise_if_any()
        remarks = [f"{without} choices without routing (null: the request was pre-empted) left out"] * bool(without)
        return requests_trace(source, options, requests, remarks)


class VllmEplb:
    """Reader of EPLB load windows."""

    name = "vllm_eplb"
    description = "vLLM EPLB expert_load_window [step, layer, physical] with physical_to_logical_map: counts"
    reads = frozenset(FITTING) - {"select"}

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for a dictionary with a load window or the load of a pass."""
        tree = peek_tree(path, head)
        return isinstance(tree, dict) and ("expert_load_window" in tree or "expert_load_pass" in tree)

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Sums the window over its steps and fits a trace to the loads of the logical experts.

        Raises:
            TraceError: naming the array that does not fit.
        """
        source = str(path)
        tree = open_tree(path, options.limits)
        name = "expert_load_window" if "expert_load_window" in tree else "expert_load_pass"
        load, table = tree[name], tree.get("physical_to_logical_map")
        if not isinstance(load, ArrayRef) or load.ndim not in (2, 3) or load.dtype.kind not in "iuf":
            raise TraceError(source, [f"{name}: expected numbers [step, layer, physical], got {load!r:.60}"])
        counts = load.read()
        counts = counts.sum(axis=0) if counts.ndim == 3 else counts
        if table is None:
            raise TraceError(source, ["no physical_to_logical_map: the loads are of physical experts"])
        if not isinstance(table, ArrayRef) or table.shape != counts.shape or not table.integers:
            raise TraceError(source, [f"physical_to_logical_map: expected integers {list(counts.shape)}, got {table}"])
        return from_counts(source, options, logical_counts(counts, checked_map(table.read(), source), options))


def logical_counts(counts: NDArray[Any], table: NDArray[np.int64], options: ReadOptions) -> NDArray[Any]:
    """Counts of physical experts `[layer, physical]` added up by logical expert."""
    experts = max(options.experts or 0, int(table.max()) + 1)
    out = np.zeros((counts.shape[0], experts), dtype=counts.dtype)
    for layer in range(counts.shape[0]):
        np.add.at(out[layer], table[layer], counts[layer])
    return out


NPZ = VllmNpz()
JSON = VllmJson()
EPLB = VllmEplb()
