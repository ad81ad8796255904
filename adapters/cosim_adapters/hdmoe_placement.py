"""HD-MoE's placement files (github.com/angerybob/HD-MoE, ``results/**/arrays_*.npz``), one layer or all layers a file.

Layout: ``arr1`` P ``[layer, expert, node]`` and ``arr2`` the map ``[node, row, column]`` of one layer; re-packed files
hold ``P`` and ``mapping`` ``[layer, node, row, column]`` of all layers. A map has a one where a logical node stands.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.config.errors import ConfigError, ConfigErrors
from cosim.placement.shares import ExpertShares, mapping_problem
from cosim.trace.archive import Archive
from cosim.trace.limits import ReadLimits

__all__ = ["read_placement"]


def read_placement(path: str | os.PathLike[str], *, mapping: bool = True) -> ExpertShares:
    """Reads a re-packed placement file.

    A grid position (row, column) of the source becomes endpoint row + rows · column: the source routes along rows
    first, dimension-order routing here along dimension 0.

    Args:
        path: the npz file.
        mapping: whether to read the map as well. Files of the compute-only baseline map one node of each group and
            leave the maps of the others all zero; their shares can be read with ``mapping=False``.

    Raises:
        ConfigErrors: an array that is missing or of another shape, shares that do not sum to one, a node of which the
            map is all zero, a map that is not a permutation; each names the layer.
        cosim.trace.TraceError: a file that is no npz.
    """
    source = str(path)
    with Archive(Path(path), ReadLimits()) as archive:
        wanted = ("P", "mapping") if mapping else ("P",)
        missing = [name for name in wanted if name not in archive.members]
        if missing:
            found = ", ".join(sorted(archive.members)) or "none"
            raise ConfigErrors.single(f"the arrays {' and '.join(wanted)}", found, file=source)
        shares = np.asarray(archive.read_as("P", np.float64))
        grid = np.asarray(archive.read_as("mapping", np.int64)) if mapping else None
    # the solver left zeros of both signs
    shares = shares + 0.0
    return ExpertShares(shares, None if grid is None else _endpoints(grid, shares.shape, source), source)


def _endpoints(grid: NDArray[np.int64], shape: tuple[int, ...], source: str) -> NDArray[np.int64]:
    if grid.ndim != 4 or len(shape) != 3 or grid.shape[:2] != (shape[0], shape[2]):
        raise ConfigErrors.single(
            "a map [layer, node, row, column] of the layers and nodes of P",
            f"{list(grid.shape)} beside {list(shape)}",
            file=source,
            path="mapping",
        )
    layers, nodes, rows, columns = grid.shape
    errors = []
    result = np.full((layers, nodes), -1, dtype=np.int64)
    for layer in range(layers):
        placed = grid[layer].reshape(nodes, rows * columns)
        empty = np.flatnonzero(~placed.any(axis=1))
        if len(empty):
            shown = ", ".join(map(str, empty[:8])) + (" ..." if len(empty) > 8 else "")
            got = f"all zero for {len(empty)} of {nodes} nodes: {shown}"
            errors.append(ConfigError(source, None, None, f"layer {layer}, mapping", "a place for every node", got))
            continue
        several = np.flatnonzero(placed.sum(axis=1) != 1)
        if len(several) or int(placed.min()) < 0:
            node = int(several[0]) if len(several) else int(np.argwhere(placed < 0)[0, 0])
            got = f"{int(placed[node].sum())} at node {node}"
            errors.append(ConfigError(source, None, None, f"layer {layer}, mapping", "one place for each node", got))
            continue
        cell = placed.argmax(axis=1)
        result[layer] = cell // columns + rows * (cell % columns)
        problem = mapping_problem(result[layer])
        if problem:
            errors.append(
                ConfigError(source, None, None, f"layer {layer}, mapping", f"a permutation of {nodes} nodes", problem)
            )
    if errors:
        raise ConfigErrors(errors)
    return result
