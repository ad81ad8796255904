"""Routing traces: load, check, describe, generate, save."""

from cosim.trace.fit import fitted
from cosim.trace.generate import zipf_markov
from cosim.trace.limits import ReadLimits
from cosim.trace.load import formats, load, save
from cosim.trace.options import ReadOptions, TraceAdapter
from cosim.trace.problems import TraceError
from cosim.trace.random import RandomStream, mix64
from cosim.trace.repair import Repairs
from cosim.trace.routing import PHASES, RoutingTrace, same_trace

__all__ = [
    "PHASES",
    "RandomStream",
    "ReadLimits",
    "ReadOptions",
    "Repairs",
    "RoutingTrace",
    "TraceAdapter",
    "TraceError",
    "fitted",
    "formats",
    "load",
    "mix64",
    "same_trace",
    "save",
    "zipf_markov",
]
