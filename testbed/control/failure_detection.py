"""Detect failed hosts from lost carriers, unanswered probes and ended connections.

A host whose power is cut sends nothing; its neighbours lose their carrier, as they do when its
fibres are pulled, or the switch restarts. The difference is whether the host answers on the
management network, so both hosts of a circuit are probed as soon as it goes dark.

One unanswered probe proves nothing: a connection through a jump host, or a busy host, may be slow.
A host is dead if its outlet is off; or if it did not answer two probes, or its agent's connection
ended, and its own circuits and no others are dark at their far ends. Another host that does not
answer for long counts as unreachable, but only if all others answer: else the network may be
broken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from testbed.control.fence_order import Failure
from testbed.control.protocol import (
    AgentLost,
    CarrierLost,
    Command,
    HostAnswered,
    HostOff,
    HostSilent,
    ProbeHost,
)
from testbed.fabric.circuits import Circuit, HostPort, Matching

_PATIENCE = 20
"""How many probe limits a host gets that did not answer within one."""

HostObservation = CarrierLost | HostAnswered | HostSilent | HostOff | AgentLost
Commands = tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class HostFailure:
    """A host that has failed, the kind of failure, and the reason as text."""

    host: str
    failure: Failure
    because: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was observed of the hosts of a job since it last ran without failures.

    A host that does not answer a probe within `probe_limit` seconds is probed once more.
    """

    hosts: tuple[str, ...]
    circuits: Matching
    probe_limit: float
    dark: frozenset[HostPort] = frozenset()
    """Ports whose own hosts report them dark."""
    probed: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()
    silent: tuple[str, ...] = ()
    """Hosts that did not answer a probe, once for every probe since their last answer."""
    lost: frozenset[str] = frozenset()
    """Hosts whose agent's connection ended."""
    off: str = ""
    """A host whose outlet is off."""

    def after(self, observation: HostObservation) -> tuple[Evidence, Commands]:
        """Return the evidence with one more observation, and the probes that it calls for."""
        match observation:
            case CarrierLost(port):
                return self._with_dark(port)
            case HostAnswered(host):
                silent = tuple(other for other in self.silent if other != host)
                return replace(self, answered=self.answered | {host}, silent=silent), ()
            case AgentLost(host) if host in self.hosts:
                return replace(self, lost=self.lost | {host})._probe_again(self.hosts)
            case HostOff(host) if host in self.hosts:
                return replace(self, off=host), ()
            case HostSilent(host) if host in self.hosts:
                return self._with_silent(host)
        return self, ()  # a host that has left the job: it was probed before the circuits changed

    def _with_dark(self, port: HostPort) -> tuple[Evidence, Commands]:
        asked = {host for c in self.circuits if port in c.ends for host in c.hosts}
        fresh = asked - self.probed
        after = replace(self, dark=self.dark | {port}, probed=self.probed | fresh)
        return after, self._probes(fresh, 1)

    def _with_silent(self, host: str) -> tuple[Evidence, Commands]:
        after = replace(self, silent=(*self.silent, host), answered=self.answered - {host})
        times = after.silent.count(host)
        if host in self.lost or times > 2:
            return after, ()
        if times == 1:
            return after, self._probes([host], _PATIENCE)
        return after._probe_again(other for other in self.hosts if other not in after.silent)

    def _probe_again(self, hosts: Iterable[str]) -> tuple[Evidence, Commands]:
        """Probe hosts again, whatever they answered before: is the network to them there?"""
        asked = frozenset(hosts)
        after = replace(self, probed=self.probed | asked, answered=self.answered - asked)
        return after, self._probes(asked, _PATIENCE)

    def _probes(self, hosts: Iterable[str], patience: int) -> Commands:
        return tuple(ProbeHost(host, self.probe_limit * patience) for host in sorted(hosts))

    @property
    def failed(self) -> HostFailure | None:
        """Return the one host that has failed; None while none has, or several may have."""
        if len(self.unreachable) != 1:
            return None
        host = self.unreachable[0]
        if host == self.off:
            return HostFailure(host, "off", f"the outlet of {host} is off")
        if self.is_dead(host):
            return HostFailure(host, "dead", f"{host} went dark and does not answer")
        if not self.answered >= {*self.hosts} - {host}:
            return None
        because = f"the agent of {host} is gone" if host in self.lost else f"{host} is silent"
        return HostFailure(host, "unreachable", because)

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Return the hosts that are off, or answered no probe within its limit."""
        return tuple(
            host
            for host in self.hosts
            if host in self.lost or host == self.off or self.silent.count(host) > 1
        )

    def is_dead(self, host: str) -> bool:
        """Tell whether a host is silent, and all of its circuits and no others are dark."""
        far = {e for c in self.circuits if host in c.hosts for e in c.ends if e.host != host}
        elsewhere = any(self.dark & set(c.ends) for c in self.circuits if host not in c.hosts)
        return host in self.unreachable and bool(far) and far <= self.dark and not elsewhere

    @property
    def dark_between_answering_hosts(self) -> frozenset[Circuit]:
        """Return the dark circuits whose two hosts have answered, once all probed hosts have.

        A host that reported a dark port may have failed right after that, so it is probed too.
        """
        if not self.probed <= self.answered:
            return frozenset()
        return frozenset(c for c in self.circuits if self.dark & set(c.ends))
