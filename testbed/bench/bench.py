"""The lab, opened: what a plan needs of it, ready to be used, and given back piece by piece."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, TypeVar

from testbed.bench.contracts import Identity, OpticalSwitch, PowerUnit
from testbed.bench.fabric import Fabric
from testbed.bench.host import BenchHost
from testbed.bench.link import Listener
from testbed.clock import Deadline
from testbed.errors import UsageError
from testbed.fabric.circuits import HostPort
from testbed.plugins import kind
from testbed.record.journal import Journal
from testbed.record.locks import InstrumentLock
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.record.transcript import Transcript
from testbed.schema import Lab, Outlet

_T = TypeVar("_T")
_R = TypeVar("_R")


class Bench:
    """A lab's instruments and hosts, as far as one run uses them.

    `listener` hears every event of every agent, in the thread of that agent's link.
    """

    fabric: Fabric

    def __init__(
        self, lab: Lab, run: RunDirectory, journal: Journal, log: EventLog, listener: Listener
    ) -> None:
        self.lab = lab
        self.hosts: dict[str, BenchHost] = {}
        self.switches: dict[str, OpticalSwitch] = {}
        self.power: dict[str, PowerUnit] = {}
        self._run = run
        self._journal = journal
        self._log = log
        self._listener = listener
        self._token = secrets.token_hex(16)
        self._locks: list[InstrumentLock] = []
        self._transcripts: dict[str, Transcript] = {}

    @property
    def token(self) -> str:
        """Return the run's secret, by which its agents and ranks know each other."""
        return self._token

    def open_instruments(
        self, switches: Iterable[str], power: Iterable[str], deadline: Deadline
    ) -> None:
        """Lock, open and identify instruments, side by side; the fabric is there afterwards.

        Raise BusyError when another run holds one, InstrumentError when one does not answer.
        """
        wanted = [*sorted(switches), *sorted(power)]
        for name in wanted:
            self._locks.append(InstrumentLock(name, self._resource(name), self._run.id))
            self._transcripts[name] = Transcript(self._run.wire(name), name)
        for name in wanted:
            self._make(name)
        opened = side_by_side(lambda name: self._instrument(name).open(deadline), wanted)
        for name, identity in opened.items():
            self._announce(name, identity)

    def open_fabric(self, ports: Iterable[HostPort]) -> None:
        """Make the one door to the fabric, for the given host ports."""
        self.fabric = Fabric(self.switches, self.lab.wiring(), ports, self._journal, self._log)

    def open_hosts(self, names: Iterable[str], deadline: Deadline) -> None:
        """Start the agents of hosts and set up their networks, side by side."""
        side_by_side(lambda name: self._start_agent(name, deadline), list(names))
        side_by_side(lambda name: self._set_up(name, deadline), list(names))

    def open_host(self, name: str, deadline: Deadline) -> None:
        """Start one host's agent and set up its network."""
        self._start_agent(name, deadline)
        self._set_up(name, deadline)

    def outlet(self, host: str) -> Outlet:
        """Return the outlet that feeds a host; raise UsageError when the lab names none."""
        outlet = self.lab.hosts[host].power
        if outlet is None:
            raise UsageError(f"{host} has no power unit", hint="add `power:` to it in the lab file")
        return outlet

    def close_instruments(self) -> None:
        """Close lines and transcripts and give back the locks; light and outlets stay."""
        for instrument in [*self.switches.values(), *self.power.values()]:
            instrument.close()
        for transcript in self._transcripts.values():
            transcript.close()
        while self._locks:
            self._locks.pop().release()

    def _start_agent(self, name: str, deadline: Deadline) -> None:
        host = BenchHost(name, self.lab.hosts[name], self._listener, deadline)
        self.hosts[name] = host

    def _set_up(self, name: str, deadline: Deadline) -> None:
        host = self.hosts[name]
        others = [other for other in self.hosts.values() if other.name != name]
        peers = {a: h for other in others for a, h in other.hardware_addresses().items()}
        changes = host.set_up_network(peers, self._token, deadline)
        self._log.append("host.ready", name, network_changes=changes, **host.facts)

    def _resource(self, name: str) -> str:
        section: Mapping[str, Any] = {**self.lab.switches, **self.lab.power}
        resource: str = section[name].resource
        return resource

    def _make(self, name: str) -> None:
        tracer = self._transcripts[name]
        if name in self.lab.switches:
            s = self.lab.switches[name]
            make = kind("drivers", s.driver).load()
            self.switches[name] = make(name, s.resource, s.ports, s.identity, s.options, tracer)
        else:
            unit = self.lab.power[name]
            make = kind("drivers", unit.driver).load()
            self.power[name] = make(name, unit.resource, unit.identity, unit.options, tracer)

    def _instrument(self, name: str) -> OpticalSwitch | PowerUnit:
        return self.switches[name] if name in self.switches else self.power[name]

    def _announce(self, name: str, identity: Identity) -> None:
        data = asdict(identity)
        if name in self.switches:
            data["settle"] = self.switches[name].capabilities.settle
        self._log.append("instrument.ready", name, **data)


def side_by_side(action: Callable[[_T], _R], items: list[_T]) -> dict[_T, _R]:
    """Do something to every item at once; return the results, or raise the first error.

    All have ended when it returns or raises.
    """
    with ThreadPoolExecutor(max(1, len(items))) as pool:
        futures = {item: pool.submit(action, item) for item in items}
    return {item: future.result() for item, future in futures.items()}
