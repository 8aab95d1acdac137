"""The receivers of a twin that too much light has destroyed, as the twin reports them.

The twin computes what arrives at every receiver, independently of switches and plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from testbed.errors import LabError
from testbed.fabric.circuits import HostPort
from testbed.record.log import EventLog
from testbed.run.twin_control import TwinControl
from testbed.schema import Lab


class Receivers:
    """The receivers of a lab as its twin has them; it is asked where one has a limit only."""

    def __init__(self, lab: Lab, twin: TwinControl | None, log: EventLog) -> None:
        """Take the lab and its twin; None on hardware, which does not report it."""
        self._bears = {
            str(HostPort(name, key)): port.max_dbm
            for name, host in lab.hosts.items()
            for key, port in host.ports.items()
            if port.max_dbm is not None
        }
        self._twin = twin
        self._log = log
        self._known: set[str] = set()

    def refuse_destroyed(self, hosts: Iterable[str]) -> None:
        """Raise LabError when a receiver of these hosts was destroyed before; know the others."""
        for one in self._new():
            self._known.add(one["port"])
            if HostPort.parse(one["port"]).host in hosts:
                raise LabError(
                    f"the receiver of {one['port']} was destroyed in this twin by "
                    f"{one['dbm']:.1f} dBm: it receives nothing any more",
                    hint="take the twin down and up again",
                )

    def note(self) -> None:
        """Write down every receiver that was destroyed since; raise LabError when one was."""
        new = self._new()
        for one in new:
            port, at = one["port"], one["at"]
            self._known.add(port)
            most = self._bears[port]
            self._log.append("receiver.destroyed", port, at=at, dbm=one["dbm"], max_dbm=most)
        if new:
            raise LabError(
                f"the receiver of {new[0]['port']} was destroyed: it got {new[0]['dbm']:.1f} dBm "
                f"and bears {self._bears[new[0]['port']]:g} dBm"
            )

    def _new(self) -> list[Mapping[str, Any]]:
        if self._twin is None or not self._bears:
            return []
        return [one for one in self._twin.destroyed() if one["port"] not in self._known]
