"""Whether a routing can deadlock: what the channel-dependency graph of a network says."""

from __future__ import annotations

from dataclasses import dataclass

from cosim import _core

__all__ = ["DeadlockCheck", "check_deadlock"]


@dataclass(frozen=True)
class DeadlockCheck:
    """A proof, or a cycle of waits.

    Attributes:
        deadlock_free: whether freedom from deadlock is proved.
        proof: ``acyclic`` (no cycle of channel dependencies; Dally and Seitz 1987), ``escape`` (cycles among adaptive
            VCs, every packet may always take an escape VC; Duato 1993), ``none``.
        channels: VCs of links that packets use.
        dependencies: pairs of them of which a packet in the first may wait for the second.
        cycle: (from router, to router, VC) of each channel of a cycle, each waiting for the next and the last for the
            first; empty with proof ``acyclic``.
        problem: a packet that the routing leaves without a way; empty when there is none.
    """

    deadlock_free: bool
    proof: str
    channels: int
    dependencies: int
    cycle: tuple[tuple[int, int, int], ...]
    problem: str

    def __str__(self) -> str:
        size = f"{self.channels} channels, {self.dependencies} dependencies"
        if self.problem:
            return f"broken: {self.problem}"
        if self.proof == "acyclic":
            return f"deadlock-free: no cycle of channel dependencies ({size})"
        cycle = " -> ".join(f"{a}>{b} VC {vc}" for a, b, vc in self.cycle)
        if self.proof == "escape":
            return f"deadlock-free: adaptive VCs wait in cycles, an escape VC is always open ({size}); a cycle: {cycle}"
        return f"may deadlock: a cycle of {len(self.cycle)} channels, router>router and VC ({size}): {cycle} -> again"


def check_deadlock(spec: _core.NetworkSpec) -> DeadlockCheck:
    """What the core finds about `spec`."""
    report = spec.check_dependencies()
    return DeadlockCheck(
        deadlock_free=report.proof != _core.DeadlockProof.none and not report.problem,
        proof=report.proof.name,
        channels=report.channels,
        dependencies=report.dependencies,
        cycle=tuple((c.from_router, c.to_router, c.vc) for c in report.cycle),
        problem=report.problem,
    )
