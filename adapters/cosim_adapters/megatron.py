"""Megatron-Core: what `RouterReplay.get_recorded_data()` returns, saved by torch.save.

A list with one index tensor `[token, slot]` per MoE layer in order of construction (`megatron/core/transformer/moe/
router_replay.py`, 0.16). Tokens are sequence-first, `[position, sequence]` flattened: state the number of sequences,
and request and position are known. There are no weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cosim.trace.arraytree import describe, open_tree, peek_tree
from cosim.trace.options import ReadOptions
from cosim.trace.problems import TraceError
from cosim.trace.recorded import flat_positions, from_arrays
from cosim.trace.routing import RoutingTrace
from cosim.trace.tensors import ArrayRef


class RouterReplay:
    """Reader of recorded index tensors."""

    name = "megatron_replay"
    description = "Megatron-Core RouterReplay.get_recorded_data(): a list of [token, slot] per MoE layer (.pt)"
    reads = frozenset({"sequences"})

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for a list of two-dimensional integer tensors of one shape."""
        return _is_replay(peek_tree(path, head))

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads the layers; with `sequences` the rows are put sequence by sequence.

        Raises:
            TraceError: when the layers differ, or the rows are not those of so many sequences.
        """
        source = str(path)
        tree = open_tree(path, options.limits)
        if not _is_replay(tree):
            raise TraceError(
                source, [f"no list of integer [token, slot] tensors of one shape; it holds {describe(tree)}"]
            )
        ids = np.stack([layer.read() for layer in tree], axis=1)
        order, request, position = flat_positions(ids.shape[0], options, source, sequence_first=True)
        if order is not None:
            ids = ids[order]
        return from_arrays(source, options, ids, request=request, position=position)


def _is_replay(tree: Any) -> bool:
    return (
        isinstance(tree, (list, tuple))
        and bool(tree)
        and all(isinstance(layer, ArrayRef) and layer.integers and layer.ndim == 2 for layer in tree)
        and len({layer.shape for layer in tree}) == 1
    )


ADAPTER = RouterReplay()
