"""Monitor the light at receivers with a limit for as long as a run has circuits.

A plan is checked against the light known when it is made. A source may be switched on or get
stronger later: so the light is measured periodically, and a circuit with too much light is removed
and ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from testbed.bench.fabric import Fabric
from testbed.clock import Deadline
from testbed.errors import LabError, TestbedError
from testbed.fabric.circuits import HostPort
from testbed.record.log import EventLog
from testbed.run.twin_control import TwinControl
from testbed.schema import Lab

EACH = 1.0
"""Seconds between two looks."""
_LOOK_LIMIT = 0.5
_DARKEN_LIMIT = 10.0


@dataclass(eq=False)
class LightWatch:
    """Monitors the light in a fabric until `end`; does nothing if no receiver has a limit.

    `stop` is called with the error that must end the run.
    """

    fabric: Fabric
    log: EventLog
    stop: Callable[[TestbedError], None]
    each: float = EACH
    _is_blind: bool = False
    _thread: Thread | None = None

    def __post_init__(self) -> None:
        """Begin to look, where there is a limit."""
        self._over = Event()
        if self.fabric.has_limited:
            self._thread = Thread(target=self._watch, name="light", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Stop monitoring, after a measurement in progress has ended. Safe to call twice."""
        self._over.set()
        if self._thread:
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            try:
                if self._look():
                    return
                self._is_blind = False
            except TestbedError as problem:
                self._note(problem)
            self._over.wait(self.each)

    def _note(self, problem: TestbedError) -> None:
        """Say that nothing could be measured, once until it can be again."""
        if not self._is_blind:
            text = f"the light of receivers with a limit cannot be measured: {problem}"
            with suppress(TestbedError):  # a full disk is reported by what must keep a record
                self.log.append("note", "light", text=text)
        self._is_blind = True

    def _look(self) -> bool:
        """Look once; tell whether there was too much light, which ends the run."""
        found = self.fabric.overloads(Deadline.after(_LOOK_LIMIT))
        if not found:
            return False
        taken = "its circuit was taken down"
        try:
            found = self.fabric.darken_overloads(Deadline.after(_DARKEN_LIMIT))
        except TestbedError as error:
            taken = f"its circuit could not be taken down: {error}"
        if not found:  # the circuit had gone already
            return False
        self.stop(LabError(f"{'; '.join(found.values())}; {taken}", hint=_SETTLES))
        for cross, text in found.items():
            self.log.append("light.excess", str(cross), text=text)
        return True


_SETTLES = "correct `launch` in the lab file, or put an attenuator into the fibre"


class Receivers:
    """The receivers of a lab in its twin, which reports receivers destroyed by too much light.

    The twin computes what arrives at every receiver, independently of switches and plans.
    """

    def __init__(self, lab: Lab, twin: TwinControl | None, log: EventLog) -> None:
        """Take the lab and its twin; None on hardware, which does not report it."""
        self._max_dbm = {
            str(HostPort(name, key)): port.max_dbm
            for name, host in lab.hosts.items()
            for key, port in host.ports.items()
            if port.max_dbm is not None
        }
        self._twin = twin
        self._log = log
        self._known: set[str] = set()

    def refuse_destroyed(self, hosts: Iterable[str]) -> None:
        """Raise LabError if a receiver of these hosts is already destroyed."""
        for one in self._new():
            self._known.add(one["port"])
            if HostPort.parse(one["port"]).host in hosts:
                raise LabError(
                    f"the receiver of {one['port']} was destroyed in this twin by "
                    f"{one['dbm']:.1f} dBm: it receives nothing any more",
                    hint="take the twin down and up again",
                )

    def note(self) -> None:
        """Log every receiver that was destroyed since; raise LabError if there is one."""
        new = self._new()
        for one in new:
            port, at = one["port"], one["at"]
            self._known.add(port)
            most = self._max_dbm[port]
            self._log.append("receiver.destroyed", port, at=at, dbm=one["dbm"], max_dbm=most)
        if new:
            raise LabError(
                f"the receiver of {new[0]['port']} was destroyed: it got {new[0]['dbm']:.1f} dBm "
                f"and withstands {self._max_dbm[new[0]['port']]:g} dBm"
            )

    def _new(self) -> list[Mapping[str, Any]]:
        if self._twin is None or not self._max_dbm:
            return []
        return [one for one in self._twin.destroyed() if one["port"] not in self._known]
