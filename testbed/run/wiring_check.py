"""Check that every fibre of a lab is connected as its file says, with light and datagrams.

One circuit at a time is lit and both its ends query each other's identity. A port whose circuits
stay silent is tried again with a port that is known to be good; then each possible swap of two
fibres is tried, as if the lab file said so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from testbed.bench.bench import Bench
from testbed.bench.fabric import Fabric
from testbed.clock import Deadline, now
from testbed.errors import Garbled, HostError, InstrumentError, LinkLost, NoReply
from testbed.fabric.circuits import Circuit, HostPort, Wiring
from testbed.fabric.fibre_search import FibreSearch, PortFinding
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.inbox import Inbox
from testbed.run.lab_check import CHANGE_LIMIT, LabCheck, run_lab_check
from testbed.run.run_leases import RunLeases
from testbed.schema import Lab

FRAMES = 200
"""Frames sent each way over a circuit that answers, to see whether it loses any."""

_LINK_LIMIT = 10.0
"""Seconds that carrier and first answer may take beyond the switch's settle time…"""
_PATIENCE = 4.0
"""… until a circuit has answered: then so many times what the slowest took, …"""
_LINK_LEAST = 0.25
"""… and so many seconds."""
_FRAMES_LIMIT = 2.0
_OWNER = "wiring"


@dataclass
class WiringCheck(LabCheck[PortFinding]):
    """The check of every host port that is wired to a switch; its hosts are open."""

    name: ClassVar[str] = "the check of the wiring"
    _slowest: float = 0.0
    _link_limit: float = _LINK_LIMIT
    _settle: float = 0.0

    def run(self) -> list[PortFinding]:
        """Light one circuit after the other and return a finding per port, in the file's order.

        Raise BusyError when another client's circuit uses a needed port, LabError once `end` was
        called.
        """
        switches = self.bench.switches.values()
        self._settle = max((s.capabilities.settle_max for s in switches), default=0)
        return FibreSearch(self.bench.lab.wiring(), self._carries, self._found).run()

    def _carries(self, circuit: Circuit, wiring: Wiring) -> dict[HostPort, float] | None:
        """Light one circuit; return the share of frames lost each way, None when it is silent.

        An error on the line to a switch proves nothing about a fibre: it is tried once more.
        """
        try:
            return self._lit(circuit, wiring)
        except (NoReply, LinkLost, Garbled) as error:
            self.log.append("note", str(circuit), text=f"{error}; it is tried once more")
            return self._lit(circuit, wiring)

    def _lit(self, circuit: Circuit, wiring: Wiring) -> dict[HostPort, float] | None:
        self.go_on()
        bench, record = self.bench, (self.journal, self.log)
        limits = bench.lab.light_limits()
        fabric = Fabric(bench.switches, wiring, circuit.ends, *record, bench.guard, limits)
        deadline = Deadline.after(CHANGE_LIMIT + self._settle)
        fabric.adopt({}, deadline)
        try:
            fabric.set_circuits(_OWNER, frozenset({circuit}), deadline)
            return self._losses(circuit)
        except (NoReply, LinkLost, Garbled):
            raise
        except InstrumentError as error:  # the switch itself sees no light there
            self.log.append("note", str(circuit), text=str(error))
            return None
        finally:
            fabric.restore(Deadline.after(CHANGE_LIMIT))

    def _losses(self, circuit: Circuit) -> dict[HostPort, float] | None:
        begin = now()
        asked = self._asked(circuit, self._settle + self._link_limit, first=True)
        if not all(answer["good"] for answer in asked.values()):
            return None
        self._slowest = max(self._slowest, now() - begin)
        self._link_limit = min(self._link_limit, _PATIENCE * self._slowest + _LINK_LEAST)
        counted = self._asked(circuit, _FRAMES_LIMIT, first=False)
        return {port: 1 - a["answered"] / a["asked"] for port, a in counted.items()}

    def _asked(
        self, circuit: Circuit, limit: float, *, first: bool
    ) -> dict[HostPort, Mapping[str, int]]:
        """Have both ends ask who is at the other; return their answers."""
        hosts, count = self.bench.hosts, 1_000_000 if first else FRAMES
        asked = {
            near: hosts[near.host].ask_identity(
                near.port, hosts[far.host], far.port, limit=limit, first=first, count=count
            )
            for near, far in circuit.directions
        }
        deadline = Deadline.after(limit + 1.0)
        answers = {}
        for port, answer in asked.items():
            try:
                answers[port] = answer.result(deadline.left).value
            except TimeoutError:
                raise HostError(port.host, "its agent does not answer") from None
        return answers

    def _found(self, finding: PortFinding) -> None:
        self.log.append("wiring.port", str(finding.port), state=finding.state, text=finding.text)
        self.tell(finding)


def run_wiring_check(
    lab: Lab,
    run: RunDirectory,
    log: EventLog,
    inbox: Inbox,
    run_leases: RunLeases,
    tell: Callable[[PortFinding], None],
) -> tuple[list[PortFinding], list[str]]:
    """Check the wiring of a lab; the result is that of `run_lab_check`."""

    def make(bench: Bench, journal: Journal) -> WiringCheck:
        return WiringCheck(bench, journal, log, tell)

    hosts = {port.host for port in lab.wiring()}
    return run_lab_check(make, lab, run, log, inbox, run_leases, hosts)
