"""Detect failed hosts from lost carriers, unanswered probes and ended connections.

A host whose power is cut sends nothing; its neighbours lose their carrier, as they do when its
fibres are pulled, or the switch restarts. The difference is whether the host answers on the
management network, so both hosts of a circuit are probed as soon as it goes dark.

One unanswered probe proves nothing: a connection through a jump host, or a busy host, may be slow.
A host is dead if its outlet is off; or if it did not answer two probes, or its agent's connection
ended, and its own circuits and no others are dark at their far ends. Several hosts are dead where
that holds for all of them together: a rack may have lost its power. Another host that does not
answer for long counts as unreachable, but only if all others answer: else the network may be
broken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

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

    all_hosts: tuple[str, ...]
    all_circuits: Matching
    probe_limit: float
    dark: frozenset[HostPort] = frozenset()
    """Ports whose own hosts report them dark."""
    probed: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()
    silent: tuple[str, ...] = ()
    """Hosts that did not answer a probe, once for every probe since their last answer."""
    lost: frozenset[str] = frozenset()
    """Hosts whose agent's connection ended."""
    off: frozenset[str] = frozenset()
    """Hosts whose outlets are off."""
    left_out: frozenset[str] = frozenset()
    """Hosts of which, and of whose circuits, no more is observed."""
    dropped: Matching = frozenset()
    """Further circuits of which no more is observed."""
    probe_number: int = field(default=0, compare=False)
    """The number of the probes that were sent last."""
    latest_probes: Mapping[str, int] = field(default_factory=dict, compare=False)
    """By host the number of its latest probe; late answers to earlier ones do not count."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that are observed."""
        if not self.left_out:
            return self.all_hosts
        return tuple(host for host in self.all_hosts if host not in self.left_out)

    @property
    def circuits(self) -> Matching:
        """Return the circuits that are observed."""
        if not (self.left_out or self.dropped):
            return self.all_circuits
        return self.all_circuits - _at(self.left_out, self.all_circuits) - self.dropped

    def after(self, observation: HostObservation) -> tuple[Evidence, Commands]:
        """Return the evidence with one more observation, and the probes that it calls for."""
        match observation:
            case CarrierLost(port):
                return self._with_dark(port)
            case HostAnswered(host, number) if number and number < self.latest_probes.get(host, 0):
                return self, ()
            case HostAnswered(host):
                silent = tuple(other for other in self.silent if other != host)
                return replace(self, answered=self.answered | {host}, silent=silent), ()
            case AgentLost(host) if host in self.hosts:
                return replace(self, lost=self.lost | {host})._probe_again(self.hosts)
            case HostOff(host) if host in self.hosts:
                return replace(self, off=self.off | {host}), ()
            case HostSilent(host) if host in self.hosts:
                return self._with_silent(host)
        return self, ()  # a host that has left the job: it was probed before the circuits changed

    def _with_dark(self, port: HostPort) -> tuple[Evidence, Commands]:
        broken = [circuit for circuit in _at({port.host}, self.circuits) if port in circuit.ends]
        fresh = {host for circuit in broken for host in circuit.hosts} - self.probed
        # What a host answered before another of its circuits went dark says nothing about that.
        for circuit in broken:
            fresh |= frozenset() if self.dark & {*circuit.ends} else circuit.hosts & self.answered
        return replace(self, dark=self.dark | {port}).probe(fresh)

    def _with_silent(self, host: str) -> tuple[Evidence, Commands]:
        after = replace(self, silent=(*self.silent, host), answered=self.answered - {host})
        times = after.silent.count(host)
        if host in self.lost or times > 2:
            return after, ()
        if times == 1:
            return after.probe([host], _PATIENCE)
        return after._probe_again(other for other in self.hosts if other not in after.silent)

    def probe_all(self) -> tuple[Evidence, Commands]:
        """Probe all hosts: did something fail because one of them has?"""
        return self._probe_again(self.hosts)

    def _probe_again(self, hosts: Iterable[str]) -> tuple[Evidence, Commands]:
        """Probe hosts again, whatever they answered before: is the network to them there?

        Where all that do not answer are known to have failed, it is.
        """
        if self.off or self._are_dead(self.unreachable):
            return self, ()
        return self.probe(hosts, _PATIENCE)

    def probe(self, hosts: Iterable[str], patience: int = 1) -> tuple[Evidence, Commands]:
        """Probe some hosts anew, whose earlier answers do not count any more.

        Each has `patience` times the probe limit to answer.
        """
        asked, number, limit = frozenset(hosts), self.probe_number + 1, self.probe_limit * patience
        if not asked:
            return self, ()
        after = replace(
            self,
            probed=self.probed | asked,
            answered=self.answered - asked,
            probe_number=number,
            latest_probes={**self.latest_probes, **dict.fromkeys(asked, number)},
        )
        return after, tuple(ProbeHost(host, limit, number) for host in sorted(asked))

    def among(self, hosts: tuple[str, ...], circuits: Matching) -> Evidence:
        """Return what of this is known of some of the hosts, and of circuits that they keep."""
        there = frozenset(hosts)
        ends = {end for circuit in self._dark(circuits) for end in circuit.ends}
        return Evidence(
            *(hosts, circuits, self.probe_limit, self.dark & ends),
            *(self.probed & there, self.answered & there),
            tuple(host for host in self.silent if host in there),
            *(self.lost & there, self.off & there),
            probe_number=self.probe_number,
            latest_probes=self.latest_probes,
        )

    def without(self, hosts: Collection[str], circuits: Matching) -> Evidence:
        """Return what is known of all others than some hosts, their circuits, and some more.

        A decision waits for this: who is left of a thousand is found out when it is asked for.
        """
        gone = self.left_out.union(hosts)
        after = replace(
            self,
            left_out=gone,
            dropped=self.dropped | circuits,
            probed=self.probed - gone,
            answered=self.answered - gone,
            silent=tuple(host for host in self.silent if host not in gone),
            lost=self.lost - gone,
            off=self.off - gone,
        )
        if not self.dark:
            return after
        ends = {end for circuit in after._dark(after.circuits) for end in circuit.ends}
        return replace(after, dark=self.dark & ends)

    @property
    def failed(self) -> tuple[HostFailure, ...]:
        """Return the hosts that have failed; none while it is not known which."""
        if self.off:
            reason = "the outlet of {} is off"
            return tuple(HostFailure(h, "off", reason.format(h)) for h in sorted(self.off))
        gone = self.unreachable
        if self._are_dead(gone):
            reason = "{} went dark and does not answer"
            return tuple(HostFailure(host, "dead", reason.format(host)) for host in gone)
        if len(gone) != 1 or not self.answered >= {*self.hosts} - {*gone}:
            return ()
        (host,) = gone
        because = f"the agent of {host} is gone" if host in self.lost else f"{host} is silent"
        return (HostFailure(host, "unreachable", because),)

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Return the hosts that are off, or answered no probe within its limit."""
        gone = self.lost | self.off | {h for h in self.silent if self.silent.count(h) > 1}
        return tuple(host for host in self.hosts if host in gone) if gone else ()

    @property
    def inexplicable(self) -> tuple[str, ...]:
        """Return several unreachable hosts, once all others have answered and none is dead.

        What an agent reports of its carriers comes before it answers, so nothing more is to come.
        """
        gone = self.unreachable
        is_known = len(gone) > 1 and self.answered >= {*self.hosts} - {*gone}
        return gone if is_known and not self.failed else ()

    def _are_dead(self, gone: tuple[str, ...]) -> bool:
        """Tell whether all circuits of some hosts and no others are dark at their far ends."""
        if not gone or not self.dark:
            return False
        theirs = _at(gone, self.circuits)
        far = {end for c in theirs for end in c.ends if end.host not in gone}
        return bool(far) and far <= self.dark and self._dark(self.circuits) <= theirs

    def _dark(self, circuits: Matching) -> frozenset[Circuit]:
        """Return the circuits with a dark end."""
        near = _at({end.host for end in self.dark}, circuits)
        return frozenset(c for c in near if self.dark & {*c.ends})

    @property
    def is_open(self) -> bool:
        """Tell whether a host was probed that has not answered yet."""
        return not self.probed <= self.answered

    @property
    def dark_between_answering_hosts(self) -> frozenset[Circuit]:
        """Return the dark circuits whose two hosts have answered, once all probed hosts have.

        A host that reported a dark port may have failed right after that, so it is probed too.
        """
        if self.is_open:
            return frozenset()
        return self._dark(self.circuits)


def _at(hosts: Collection[str], circuits: Matching) -> frozenset[Circuit]:
    """Return the circuits with an end on one of some hosts.

    To compare the names of hosts takes less time than to compare, or hash, the ports of a thousand.
    """
    return frozenset(c for c in circuits if c.a.host in hosts or c.b.host in hosts)
