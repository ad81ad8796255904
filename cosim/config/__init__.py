"""Configuration: YAML with places, units, overrides, schemas, and errors that name file, line, column and fix.

``load_experiment``, ``load_hardware`` and ``load_model`` are the ways in; other files use ``load_yaml`` (or
``parse_yaml``), ``apply_overrides`` and ``validate`` with a schema of their own derived from ``Spec``.
"""

from cosim.config.errors import ConfigError, ConfigErrors
from cosim.config.load import Loaded, load_experiment, load_hardware, load_model, resolved_yaml
from cosim.config.loader import Document, load_yaml, parse_yaml
from cosim.config.overrides import apply_overrides
from cosim.config.spec import Spec
from cosim.config.validate import validate

__all__ = [
    "ConfigError",
    "ConfigErrors",
    "Document",
    "Loaded",
    "Spec",
    "apply_overrides",
    "load_experiment",
    "load_hardware",
    "load_model",
    "load_yaml",
    "parse_yaml",
    "resolved_yaml",
    "validate",
]
