"""Keeps a transition graph up to date from the layers that a policy sees being routed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.policy.base import Policy, Profile, RoutedEvent
from cosim.policy.transition_graph import TransitionGraph

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec

__all__ = ["GraphParams", "TransitionObserver"]


class GraphParams(Policy.Params):
    """Parameters of the transition graph; seed 003 prints the first (section 6.1), the others are assumed.

    successors: kept per node, with 16-bit counts. smoothing: E eps of Eq. 2, pseudo-transitions of a node together; one
    (Perks, "Some observations on inverse probability", J. Inst. Actuaries 73, 1947).
    graph_window_batches: the sliding window; "tens to hundreds of batches" is the section's slow time scale.
    """

    successors: Annotated[int, Field(ge=1)] = 8
    smoothing: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    graph_window_batches: Annotated[int, Field(ge=2)] = 64


class TransitionObserver:
    """A graph that learns from a profile, then from every pair of consecutive layers of a batch."""

    def __init__(self, params: GraphParams, model: ModelSpec, profile: Profile) -> None:
        layers, experts = profile.counts.shape
        self.graph = TransitionGraph(
            layers,
            experts,
            model.top_k,
            successors=params.successors,
            smoothing=params.smoothing / experts,
            half_window=params.graph_window_batches // 2,
        )
        self.graph.learn(profile.transitions)
        self._last: tuple[int, int, npt.NDArray[np.integer]] | None = None

    def see(self, event: RoutedEvent) -> None:
        """Counts the transitions from the layer seen before, if this is the next one of the same batch."""
        if self._last is not None:
            batch, layer, ids = self._last
            if batch == event.batch and layer + 1 == event.layer and len(ids) == len(event.ids):
                self.graph.observe(layer, ids, event.ids)
        self._last = (event.batch, event.layer, event.ids)

    def follows(self, event: RoutedEvent) -> bool:
        """Whether the layer that runs next is the one that the graph predicts from this one."""
        return event.next_batch == event.batch and event.next_layer == event.layer + 1

    def save(self) -> dict[str, object]:
        """Graph and last layer as plain JSON."""
        last = None if self._last is None else [self._last[0], self._last[1], self._last[2].tolist()]
        return {"graph": self.graph.save(), "last": last}

    def load(self, state: Mapping[str, object]) -> None:
        """Takes what :meth:`save` gave."""
        graph, last = state["graph"], state["last"]
        assert isinstance(graph, Mapping)
        self.graph.load(graph)
        if last is None:
            self._last = None
            return
        assert isinstance(last, list)
        batch, layer, ids = last
        self._last = (int(batch), int(layer), np.array(ids, dtype=np.int64))
