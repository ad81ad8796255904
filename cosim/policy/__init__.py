"""Policies: where replicas live, what is prefetched, and which replica serves which tokens."""

from cosim.policy.base import (
    ActionKind,
    GateState,
    Outcome,
    Policy,
    PreBroadcast,
    Prefetch,
    PrefetchState,
    Pressure,
    Profile,
    ResidencyAction,
    Revoke,
    RoutedEvent,
    WindowState,
)
from cosim.policy.directory import DIRECTORY, HOST, NEAR_MEMORY, Directory, ExpertPart, PlacedReplica, Placement
from cosim.policy.registry import make_policy, policy_names

__all__ = [
    "DIRECTORY",
    "HOST",
    "NEAR_MEMORY",
    "ActionKind",
    "Directory",
    "ExpertPart",
    "GateState",
    "Outcome",
    "PlacedReplica",
    "Placement",
    "Policy",
    "PreBroadcast",
    "Prefetch",
    "PrefetchState",
    "Pressure",
    "Profile",
    "ResidencyAction",
    "Revoke",
    "RoutedEvent",
    "WindowState",
    "make_policy",
    "policy_names",
]
