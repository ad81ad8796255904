"""Systems and models: what an experiment's hardware is made of, as plain tables."""

from cosim.system.experiment import LoadedExperiment, load_system, open_experiment
from cosim.system.models import ModelSpec, model, model_names
from cosim.system.system import Endpoint, System, Tier

__all__ = [
    "Endpoint",
    "LoadedExperiment",
    "ModelSpec",
    "System",
    "Tier",
    "load_system",
    "model",
    "model_names",
    "open_experiment",
]
