"""Systems and models: what an experiment's hardware is made of, as plain tables."""

from cosim.system.endpoints import Endpoint
from cosim.system.loading import LoadedExperiment, load_system, open_experiment
from cosim.system.models import ModelSpec, model, model_names
from cosim.system.networks import Gateway, Network
from cosim.system.routes import Routes
from cosim.system.system import System
from cosim.system.tiers import Tier

__all__ = [
    "Endpoint",
    "Gateway",
    "LoadedExperiment",
    "ModelSpec",
    "Network",
    "Routes",
    "System",
    "Tier",
    "load_system",
    "model",
    "model_names",
    "open_experiment",
]
