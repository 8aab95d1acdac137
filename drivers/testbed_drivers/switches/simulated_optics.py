"""The simulated light in an optical switch: mirrors, shutters, losses and receivers.

A circuit is dark while its mirror moves. Light loses a decibel or two on its way, more through an
attenuator; a circuit carries packets when its output power is enough for the receiver behind it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from threading import RLock

from testbed.bench.sites import SwitchSite

FLOOR = -50.0
"""dBm below which a power monitor sees nothing."""
_DIM_LOSS = 30.0


class SimulatedOptics:
    """Simulated mirrors from ingress to egress ports, and the light that they pass.

    All methods but `refresh` run under the far end's lock. `site.lit` is called with the lock held,
    so it gets changes in order and must not call back.
    """

    def __init__(self, site: SwitchSite, lock: RLock) -> None:
        self.site = site
        self._lock = lock
        self._loss: dict[tuple[int, int], float] = {}
        self._mirrors: dict[int, int] = {}
        self._settling: dict[int, object] = {}
        self._shut: set[int] = set()
        self._failed: set[int] = set()
        self._dim: set[int] = set()
        self._lit: dict[int, int] = {}
        self._destroyed: set[int] = set()
        """The egress ports whose receiver got more light than it withstands."""

    def shut(self, ports: Iterable[int]) -> None:
        """Close the shutters of ports."""
        self._shut.update(ports)
        self._show()

    def unshut(self, ports: Iterable[int]) -> None:
        """Open the shutters of ports."""
        self._shut.difference_update(ports)
        self._show()

    def is_shut(self, port: int) -> bool:
        """Return whether a port's shutter is closed."""
        return port in self._shut

    def has_failed(self, port: int) -> bool:
        """Return whether a port is marked as failed."""
        return port in self._failed

    def power(self, port: int) -> float | None:
        """Return the reading of a port's power monitor in dBm; None below its floor."""
        enters = port in self.site.ingress
        return _seen(self.site.launched(port) if enters else self._leaves(port))

    def refresh(self) -> None:
        """Recompute the light after a change of the sources or of the fibres."""
        with self._lock:
            self._show()

    def _show(self) -> None:
        """Tell the site what carries light, when that changed."""
        passing = self._ways(self._passing())
        if self.site.max_dbm:
            passing = {i: e for i, e in passing.items() if self._withstands(i, e)}
        lit = {i: e for i, e in passing.items() if self._is_enough(i, e)}
        if lit != self._lit:
            self._lit = lit
            self.site.lit(dict(lit))

    def _passing(self) -> dict[int, int]:
        """Return the circuits whose mirrors stand still and whose shutters are open."""
        dark = self._shut | self._failed
        still = {i: e for i, e in self._mirrors.items() if i not in self._settling}
        return {i: e for i, e in still.items() if not dark & {i, e}} if dark else still

    def _ways(self, circuits: Mapping[int, int]) -> dict[int, int]:
        """Return from where to where light goes through circuits, at this site."""
        back = {e: i for i, e in circuits.items()} if self.site.both_ways else {}
        return {**circuits, **back}

    def _level(self, ingress: int, egress: int) -> float | None:
        launched = self.site.launched(ingress)
        if launched is None:
            return None
        path = (min(ingress, egress), max(ingress, egress))
        if path not in self._loss:
            self._loss[path] = random.Random(f"{self.site.seed} {path}").uniform(0.6, 1.6)
        return launched - self._loss[path] - (_DIM_LOSS if {ingress, egress} & self._dim else 0.0)

    def _leaving(self, egress: int) -> float | None:
        with self._lock:
            return _seen(self._leaves(egress))

    def _leaves(self, port: int) -> float | None:
        """Return the light that leaves at a port, in dBm; None when it is dark."""
        ways = self._ways(self._passing())
        source = next((i for i, e in ways.items() if e == port), None)
        return None if source is None else self._level(source, port)

    def _withstands(self, ingress: int, egress: int) -> bool:
        """Tell whether the receiver of a circuit is whole; once it got too much, it never is."""
        level, most = self._level(ingress, egress), self.site.max_dbm.get(egress)
        if level is not None and most is not None and egress not in self._destroyed:
            arrives = level - self.site.beyond(egress)
            if arrives > most:
                self._destroyed.add(egress)
                self.site.destroyed(egress, arrives)
        return egress not in self._destroyed

    def _is_enough(self, ingress: int, egress: int) -> bool:
        # A dark input is no matter of the switch: the circuit stands, whatever lights it.
        level = self._level(ingress, egress)
        return level is None or level - self.site.beyond(egress) >= self.site.sensitivity


def _seen(level: float | None) -> float | None:
    """Return what a monitor sees of a level; None below its floor."""
    return level if level is not None and level > FLOOR else None
