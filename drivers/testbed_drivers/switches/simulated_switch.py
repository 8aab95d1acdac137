"""A simulated optical switch as its dialect commands it: circuits, read-back, faults."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from threading import RLock

from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.armed_faults import ArmedFault, ArmedFaults
from testbed_drivers.dialects.far_end import DEVICE_FAULTS
from testbed_drivers.switches.simulated_optics import SimulatedOptics

FAULTS = {
    **DEVICE_FAULTS,
    "partial": "does the first half of a list of circuits and reports no error",
    "misrouted": "connects `port` to the next free egress port and reads that back",
    "dim": "connects `port` and reads it back as done, but 30 dB are lost on the way",
    "failed": "accepts a change of `port`, but flags it as failed and keeps it dark",
    "slow": "takes ten times as long to settle",
    "vanish": "drops a new circuit of `port` by itself after `delay` seconds",
    "lag": "reads back what was there `delay` seconds ago",
    "flap": "reads back what is there, and what was there `delay` seconds ago, in turn",
    "swept": "takes down, with a change, a circuit that was not named",
    "meddled": "at once: another client takes down the circuit of `port`",
    "restart": "at once: loses power for a moment and comes back as its boot mode says",
    "restart-wrong": "at once: the same, and comes back with circuits that it did not have",
}
"""What the inside of a switch can do wrong."""

_HISTORY = 64
"""Changes that a late read-back can be late by."""
_LONGEST = 4.0
"""Times the settle time that the slowest move takes when moves differ."""


class SimulatedSwitch(SimulatedOptics):
    """A simulated optical switch, between the dialect of a far end and the simulated light.

    All methods but `refresh` and `change_by_other_client` run under the far end's lock.
    """

    def __init__(self, site: SwitchSite, faults: ArmedFaults, lock: RLock) -> None:
        super().__init__(site, lock)
        self.commanded: dict[int, int] = {}
        """What a read-back of commands shows."""
        self._faults = faults
        self._chance = random.Random(site.seed)
        self._aimed_by: dict[int, int] = {}
        """By egress port, the ingress port whose mirror was aimed at it last."""
        self._history: deque[tuple[float, dict[int, int]]] = deque([(-inf, {})], _HISTORY)
        """What a read-back showed from when on, newest last."""
        self._is_others_turn = False
        site.look_again = self.refresh
        site.leaving = self._leaving

    def read_back(self) -> dict[int, int]:
        """Return the state that clients read back, which a fault may delay."""
        if late := self._faults.strikes("lag"):
            return self._shown_before(late.delay)
        if late := self._faults.strikes("flap"):
            self._is_others_turn = not self._is_others_turn
            return self._shown_before(late.delay if self._is_others_turn else 0.0)
        return dict(self.commanded)

    def _shown_before(self, seconds: float) -> dict[int, int]:
        until = self.site.scheduler.now() - seconds
        oldest = self._history[0][1]
        shown = (rows for since, rows in reversed(self._history) if since <= until)
        return dict(next(shown, oldest))

    def in_use(self, pairs: Mapping[int, int]) -> dict[int, int]:
        """Return the ports for which a list is refused, as another pair uses them, by ingress.

        Empty at a site whose switch does not refuse.
        """
        return self._occupied(pairs) if self.site.conflict == "refuse" else {}

    def _occupied(self, pairs: Mapping[int, int]) -> dict[int, int]:
        used = {**self.commanded, **{e: i for i, e in self.commanded.items()}}
        if used.keys().isdisjoint((*pairs, *pairs.values())):
            return {}  # as most lists, and they are long
        taken: dict[int, int] = {}
        for ingress, egress in pairs.items():
            for port, other in ((ingress, egress), (egress, ingress)):
                if used.get(port, other) != other:
                    taken.setdefault(ingress, port)
        return taken

    def connect(self, pairs: Mapping[int, int]) -> None:
        """Point mirrors; each circuit carries light once its mirror has settled."""
        new = {i: e for i, e in pairs.items() if self.commanded.get(i) != e}
        if self.site.conflict == "ignore":
            occupied = self._occupied(new)
            new = {i: e for i, e in new.items() if i not in occupied}
        elif self.site.conflict == "move":
            self._make_way(new)
        accepted = self._done_of(new)
        for ingress in sorted(self._struck("misrouted", accepted)):
            accepted[ingress] = self._missed(ingress, accepted)
        self.commanded.update(accepted)
        moving = _without(accepted, self._struck("lie", accepted))
        self._aim(moving)
        self._move(moving)
        self._sweep(new)
        self._show()

    def _missed(self, ingress: int, accepted: Mapping[int, int]) -> int:
        """Return the next free egress port for a circuit; of one side, one above its ingress."""
        taken = {*self.commanded.values(), *accepted.values(), *self.commanded, *accepted}
        free = (port for port in self.site.egress - taken if port > ingress)
        return min(free, default=accepted[ingress])

    def _make_way(self, pairs: Mapping[int, int]) -> None:
        """Take down what is in the way of new circuits."""
        wanted = {*pairs, *pairs.values()}
        self._drop([i for i, e in self.commanded.items() if {i, e} & wanted])

    def disconnect(self, pairs: Mapping[int, int]) -> None:
        """Remove circuits; do nothing for those that do not exist."""
        present = {i: e for i, e in pairs.items() if self.commanded.get(i) == e}
        done = self._done_of(present)
        lying = self._struck("lie", done)
        for ingress in lying:
            del self.commanded[ingress]
        self._drop(done.keys() - lying)
        self._sweep(present)
        self._show()

    def _sweep(self, pairs: Mapping[int, int]) -> None:
        """Take down a circuit of another client with a change, where a fault says so."""
        others = [ingress for ingress in sorted(self.commanded) if ingress not in pairs]
        if others and pairs and self._strikes("swept", *pairs, *pairs.values()):
            self._drop(others[-1:])

    def unsteady(self) -> dict[int, str]:
        """Return the circuits that are not steady: `moving` or `failed`, by ingress."""
        words = dict.fromkeys(self._settling.keys() & self.commanded.keys(), "moving")
        failed = {i for i, e in self.commanded.items() if self._failed & {i, e}}
        return words | dict.fromkeys(failed, "failed")

    def restart(self, circuits: Mapping[int, int]) -> None:
        """Simulate a power cycle that ends with these circuits and all shutters open."""
        self._darken(list(self._mirrors))
        self.commanded.clear()
        self._shut.clear()
        self._show()
        self.connect(circuits)

    def change_by_other_client(self, fault: ArmedFault) -> None:
        """Remove the circuit of a port, as an operator at another console would."""
        with self._lock:
            there = {i: e for i, e in self.commanded.items() if fault.port in (None, i, e)}
            self._drop(there)
            self._show()

    def at_once(
        self,
        hang_up: Callable[[], None],
        remembered: Callable[[], Mapping[int, int]] | None = None,
    ) -> dict[str, Callable[[ArmedFault], None]]:
        """Return the actions of faults that take effect when they are armed, by name.

        `remembered` are the circuits that are kept over a loss of power, by default those of a new
        device; `hang_up` closes the connections of all clients.
        """

        def restart(circuits: Mapping[int, int]) -> None:
            with self._lock:
                self.restart(circuits)
            hang_up()

        return {
            "meddled": self.change_by_other_client,
            "restart": lambda _: restart((remembered or self._new)()),
            "restart-wrong": lambda _: restart(self.crossed()),
        }

    def _new(self) -> Mapping[int, int]:
        """Return the circuits of a box whose power comes for the first time."""
        return {}

    def crossed(self) -> Mapping[int, int]:
        """Return the circuits with their egress ports rotated: a state that no client ordered."""
        rows = sorted(self.commanded.items())
        egress = [e for _, e in rows]
        return dict(zip((i for i, _ in rows), egress[1:] + egress[:1], strict=True))

    def _aim(self, circuits: Mapping[int, int]) -> None:
        """Point the mirrors of circuits, which are in the read-back already."""
        self._failed |= self._struck("failed", circuits)
        self._vanish_later(circuits)
        for ingress, egress in circuits.items():
            before = self._aimed_by.get(egress, ingress)
            if self._mirrors.get(before) == egress:
                del self._mirrors[before]
            self._aimed_by[egress] = ingress
        self._mirrors.update(circuits)
        self._dim = self._dim - circuits.keys() | self._struck("dim", circuits)

    def _vanish_later(self, circuits: Mapping[int, int]) -> None:
        for ingress, fault in self._striking("vanish", circuits).items():
            drop = partial(self.change_by_other_client, ArmedFault("", port=ingress))
            self.site.scheduler.call_at(self.site.scheduler.now() + fault.delay, drop)

    def _move(self, circuits: Mapping[int, int]) -> None:
        """Let mirrors settle; those that take equally long do so at one instant."""
        slow = self._struck("slow", circuits)
        together: dict[float, list[int]] = {}
        for ingress in circuits:
            seconds = self._settle_time() * (10 if ingress in slow else 1)
            together.setdefault(seconds, []).append(ingress)
        begin = self.site.scheduler.now()
        for seconds, ports in together.items():
            move = object()
            self._settling.update(dict.fromkeys(ports, move))
            self.site.scheduler.call_at(begin + seconds, partial(self._settled, ports, move))

    def _settle_time(self) -> float:
        if not self.site.spread:
            return self.site.settle
        drawn = self._chance.lognormvariate(0.0, self.site.spread)
        return self.site.settle * min(_LONGEST, drawn)

    def _settled(self, ports: Iterable[int], move: object) -> None:
        """End a move, where no later one has begun since."""
        with self._lock:
            for ingress in ports:
                if self._settling.get(ingress) is move:
                    del self._settling[ingress]
            self._show()

    def _drop(self, ports: Iterable[int]) -> None:
        """End the circuits of some ingress ports, in the read-back and in light."""
        for ingress in ports:
            del self.commanded[ingress]
        self._darken(ports)

    def _darken(self, ports: Iterable[int]) -> None:
        for ingress in ports:
            self._mirrors.pop(ingress, None)
            self._settling.pop(ingress, None)
        self._failed.difference_update(ports)

    def _show(self) -> None:
        self._note()
        super()._show()

    def _note(self) -> None:
        """Remember since when a read-back shows what it shows."""
        if self._history[-1][1] != self.commanded:
            self._history.append((self.site.scheduler.now(), dict(self.commanded)))

    def _done_of(self, pairs: dict[int, int]) -> dict[int, int]:
        """Return the part of a list that is carried out."""
        if len(pairs) > 1 and self._strikes("partial", *pairs, *pairs.values()):
            pairs = dict(sorted(pairs.items())[: len(pairs) // 2])
        return _without(pairs, self._struck("stuck", pairs))

    def _struck(self, name: str, circuits: Mapping[int, int]) -> set[int]:
        """Return the ingress ports of those circuits that a fault strikes."""
        return set(self._striking(name, circuits))

    def _striking(self, name: str, circuits: Mapping[int, int]) -> dict[int, ArmedFault]:
        """Return the faults of a name that strike some circuits, by ingress."""
        if not self._faults.are_armed:  # as nearly always, and 128 circuits are many to ask for
            return {}
        asked = ((i, self._faults.strikes(name, "", i, e)) for i, e in circuits.items())
        return {ingress: fault for ingress, fault in asked if fault}

    def _strikes(self, name: str, *ports: int) -> bool:
        return self._faults.strikes(name, "", *ports) is not None


def _without(circuits: dict[int, int], some: set[int]) -> dict[int, int]:
    return {i: e for i, e in circuits.items() if i not in some} if some else circuits
