"""A small network that scores state–action pairs: numpy only, kept as a plain npz file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigErrors

__all__ = ["QNetwork"]

Floats = npt.NDArray[np.float64]
_NAMES = ("w1", "b1", "w2", "b2", "w3", "b3")


@dataclass
class QNetwork:
    """Two hidden layers with rectifiers and one output.

    Attributes:
        weights: w1 (features, hidden), b1, w2 (hidden, hidden), b2, w3 (hidden, 1), b3.
    """

    weights: list[Floats]

    @classmethod
    def fresh(cls, features: int, hidden: int, generator: np.random.Generator) -> QNetwork:
        """Normal weights of variance 2 / inputs, zero biases; a last layer of small weights."""
        sizes = [features, hidden, hidden, 1]
        weights: list[Floats] = []
        for number, (inputs, outputs) in enumerate(pairwise(sizes)):
            scale = np.sqrt(2 / inputs) if number < 2 else 0.01
            weights += [generator.normal(0, scale, (inputs, outputs)), np.zeros(outputs)]
        return cls(weights)

    def copy(self) -> QNetwork:
        """A network of the same weights."""
        return QNetwork([part.copy() for part in self.weights])

    def values(self, features: Floats) -> Floats:
        """Value of every pair, shape (pairs,)."""
        w1, b1, w2, b2, w3, b3 = self.weights
        hidden = np.maximum(np.maximum(features @ w1 + b1, 0) @ w2 + b2, 0)
        values: Floats = (hidden @ w3 + b3)[:, 0]
        return values

    def gradients(self, features: Floats, targets: Floats) -> tuple[list[Floats], float]:
        """Gradients of the mean squared distance from ``targets``, and that distance."""
        w1, b1, w2, b2, w3, b3 = self.weights
        first = np.maximum(features @ w1 + b1, 0)
        second = np.maximum(first @ w2 + b2, 0)
        error = (second @ w3 + b3)[:, 0] - targets
        out = (2 / len(targets) * error)[:, np.newaxis]
        back2 = (out @ w3.T) * (second > 0)
        back1 = (back2 @ w2.T) * (first > 0)
        parts = [
            features.T @ back1,
            back1.sum(axis=0),
            first.T @ back2,
            back2.sum(axis=0),
            second.T @ out,
            out.sum(axis=0),
        ]
        return parts, float((error**2).mean())

    def save(self, path: str | os.PathLike[str], **notes: str) -> None:
        """Writes weights and notes (plain texts) as an npz file."""
        arrays = {name: part.astype(np.float32) for name, part in zip(_NAMES, self.weights, strict=True)}
        np.savez(path, **arrays, **{f"note_{key}": np.array(text) for key, text in notes.items()})  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | os.PathLike[str], features: int) -> QNetwork:
        """Reads what :meth:`save` wrote; nothing in the file is executed.

        Raises:
            ConfigErrors: no such file, or none of weights for that many features.
        """
        file = Path(path)
        if not file.is_file():
            raise ConfigErrors.single("a checkpoint of 'cosim train'", f"no file {str(path)!r}", path="checkpoint")
        try:
            with np.load(file, allow_pickle=False) as archive:
                weights = [archive[name].astype(np.float64) for name in _NAMES]
        except (KeyError, ValueError, OSError) as problem:
            raise ConfigErrors.single("a checkpoint of 'cosim train'", str(problem), path="checkpoint") from None
        if weights[0].shape[0] != features:
            raise ConfigErrors.single(
                f"a checkpoint for {features} features", f"one for {weights[0].shape[0]}", path="checkpoint"
            )
        return cls(weights)
