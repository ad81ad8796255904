"""How busy each part of a machine was since the decision window began: the counters that policies read."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.policy.base import Pressure

if TYPE_CHECKING:
    from cosim.policy.residency import Residency
    from cosim.run.machine import Machine

__all__ = ["PressureMeter"]

_COUNTERS = ("compute_cycles", "bank_bytes", "link_work", "link_migration_work")


class PressureMeter:
    """Differences of a machine's counters between the start of the window and now, as shares of that time."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._start_fs = machine.now_fs
        self._start = self._counters()

    @property
    def window_fs(self) -> int:
        """Time since the window began."""
        return self._machine.now_fs - self._start_fs

    def read(self, residency: Residency) -> Pressure:
        """The pressure of the window so far; zero as long as no time has passed."""
        system = self._machine.system
        endpoints, links = len(system.endpoints), len(system.links)
        compute, bank = np.zeros(endpoints), np.zeros(endpoints)
        link, migration = np.zeros(links), np.zeros(links)
        elapsed_fs = self.window_fs
        if elapsed_fs > 0:
            counted = self._counters()
            done = {name: counted[name] - self._start[name] for name in _COUNTERS}
            seconds = Fraction(elapsed_fs, 10**15)
            for place in system.compute_endpoints:
                cycles = float(seconds * system.network_of(place).level.clock)
                compute[place.index] = done["compute_cycles"][place.index] / cycles
            for place in system.memory_endpoints:
                assert place.memory is not None
                bank[place.index] = done["bank_bytes"][place.index] / float(place.memory.peak_Bps * seconds)
            scale = self._link_scale(seconds)
            link, migration = done["link_work"] / scale, done["link_migration_work"] / scale
        return Pressure(
            compute, link, bank, residency.tier_used(endpoints), residency.migrating_bytes, migration, elapsed_fs
        )

    def close_window(self) -> None:
        """The next window begins now."""
        self._start_fs = self._machine.now_fs
        self._start = self._counters()

    def state(self) -> dict[str, list[int] | int]:
        """Where the window began, as plain JSON."""
        return {"start_fs": self._start_fs, **{name: self._start[name].tolist() for name in _COUNTERS}}

    def restore(self, state: dict[str, list[int] | int]) -> None:
        """Puts the meter into a state that :meth:`state` gave."""
        start = state["start_fs"]
        assert isinstance(start, int)
        self._start_fs = start
        self._start = {name: np.array(state[name], dtype=np.int64) for name in _COUNTERS}

    def _link_scale(self, seconds: Fraction) -> npt.NDArray[np.float64]:
        """Work of a link that is busy all the time: flits, or fs where links are reserved."""
        system = self._machine.system
        scale = np.full(len(system.links), float(seconds * 10**15))
        if self._machine.network_kind == "flit":
            for network in system.networks:
                scale[network.links] = float(seconds * network.level.clock)
        return scale

    def _counters(self) -> dict[str, npt.NDArray[np.int64]]:
        machine, system = self._machine, self._machine.system
        endpoints, links = len(system.endpoints), len(system.links)
        counted = {
            "compute_cycles": np.zeros(endpoints, dtype=np.int64),
            "bank_bytes": np.zeros(endpoints, dtype=np.int64),
            "link_work": np.zeros(links, dtype=np.int64),
            "link_migration_work": np.zeros(links, dtype=np.int64),
        }
        for place in system.compute_endpoints:
            counted["compute_cycles"][place.index] = machine.compute_statistics(place.index)["busy_cycles"]
        for place in system.memory_endpoints:
            memory = machine.memory_statistics(place.index)
            counted["bank_bytes"][place.index] = memory["read_bytes"] + memory["written_bytes"]
        if machine.network_kind == "flit":
            for network in system.networks:
                flits = machine.flit_statistics(network.index)["link_vc_flits"].reshape(-1, network.level.num_vcs)
                low = list(network.level.message_classes.by_name()["prefetch"].vcs)
                counted["link_work"][network.links] = flits.sum(axis=1)
                counted["link_migration_work"][network.links] = flits[:, low].sum(axis=1)
            return counted
        reserved = machine.link_statistics()
        carried = reserved["link_class_bytes"].reshape(-1, len(machine.classes))[:links]
        rate = np.array([float(network.link_bandwidth_Bps) for network in system.networks])
        per_byte = 10**15 / rate[system.links["network"]]
        counted["link_work"][:] = reserved["link_busy_fs"][:links]
        counted["link_migration_work"][:] = np.rint(carried[:, machine.classes["prefetch"]] * per_byte)
        return counted
