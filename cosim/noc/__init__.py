"""Flit-level networks: describe one, run traffic on it, read latencies, loads and stall causes."""

from cosim._core import DeadlockError
from cosim.config.schema_network import NetworkConfig
from cosim.noc.network import Network
from cosim.noc.results import LatencyTerms, PacketResult, TrafficResult

__all__ = ["DeadlockError", "LatencyTerms", "Network", "NetworkConfig", "PacketResult", "TrafficResult"]
