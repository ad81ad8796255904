"""Model presets and user model files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosim.config import presets
from cosim.config.load import load_model
from cosim.config.schema_model import ModelSpec

__all__ = ["ModelSpec", "model", "model_names"]


def model_names() -> list[str]:
    """The shipped models, sorted."""
    return presets.names("models")


def model(reference: str | Mapping[str, Any] | ModelSpec) -> ModelSpec:
    """A model by shipped name, by the path of a user's YAML file, or as a mapping; a ``ModelSpec`` is passed on.

    Raises:
        ConfigErrors: every error of the file.
    """
    return reference if isinstance(reference, ModelSpec) else load_model(reference).spec
