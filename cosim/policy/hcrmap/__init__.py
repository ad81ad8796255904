"""HCRMap: pressure-aware residency of hot experts on two timescales."""

from cosim.policy.hcrmap.policy import HCRMap

__all__ = ["HCRMap"]
