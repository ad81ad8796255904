"""Whether a plug-in keeps its contract: checks by kind, run in a process of their own."""

from cosim.conformance.runner import Outcome, check_plugin

__all__ = ["Outcome", "check_plugin"]
