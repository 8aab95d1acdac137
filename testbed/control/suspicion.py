"""From lost carriers to a verdict: is a host dead, or is only a circuit dark?

A host whose power is cut says nothing; its neighbours lose their carrier, and so would they if its
fibres were pulled. What tells the two apart is whether the host still answers on the management
side, so both hosts of a circuit are asked as soon as it goes dark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from testbed.control.words import CarrierLost, Command, HostAnswered, HostSilent, ProbeHost
from testbed.fabric.circuits import Circuit, HostPort, Matching

_PATIENT = 20
"""How many probe limits a host gets that has lost only some of its circuits."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was noticed since all was well."""

    circuits: Matching
    probe_limit: float
    dark: frozenset[HostPort] = frozenset()
    """Ports that their own hosts report dark."""
    probed: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()
    silent: tuple[str, ...] = ()
    """Hosts that did not answer a probe, once for every probe since their last answer."""

    @classmethod
    def none(cls, circuits: Matching, probe_limit: float) -> Evidence:
        """Return the evidence of a fabric in which all is well."""
        return cls(circuits, probe_limit)

    def with_(
        self, observation: CarrierLost | HostAnswered | HostSilent
    ) -> tuple[Evidence, tuple[Command, ...]]:
        """Return the evidence with one observation more, and the probes that it calls for."""
        match observation:
            case CarrierLost(port):
                return self._with_dark(port)
            case HostAnswered(host):
                silent = tuple(other for other in self.silent if other != host)
                return replace(self, answered=self.answered | {host}, silent=silent), ()
            case HostSilent(host) if self._far_ends(host):
                return self._with_silent(host)
        return self, ()  # a host of another time: it was probed before the circuits changed

    def _with_dark(self, port: HostPort) -> tuple[Evidence, tuple[Command, ...]]:
        ends = {e.host for c in self.circuits if port in c.ends for e in c.ends}
        fresh = ends - self.probed
        after = replace(self, dark=self.dark | {port}, probed=self.probed | fresh)
        return after, tuple(ProbeHost(host, self.probe_limit) for host in sorted(fresh))

    def _with_silent(self, host: str) -> tuple[Evidence, tuple[Command, ...]]:
        after = replace(self, silent=(*self.silent, host))
        again = after.silent.count(host) == 1 and not after.is_cut_off(host)
        return after, (ProbeHost(host, self.probe_limit * _PATIENT),) if again else ()

    @property
    def dead_host(self) -> str | None:
        """Return a host that is dead: cut off and silent, or silent for long."""
        for host in dict.fromkeys(self.silent):
            if self.is_cut_off(host) or self.silent.count(host) > 1:
                return host
        return None

    @property
    def dark_between_living(self) -> frozenset[Circuit]:
        """Return dark circuits whose hosts both answered a probe.

        That a host reported the darkness is no proof: it may have been its last word.
        """
        return frozenset(
            circuit
            for circuit in self.circuits
            if self.dark & set(circuit.ends)
            and all(end.host in self.answered for end in circuit.ends)
        )

    def is_cut_off(self, host: str) -> bool:
        """Tell whether every circuit of a host is dark at its far end."""
        far = self._far_ends(host)
        return bool(far) and far <= self.dark

    def _far_ends(self, host: str) -> frozenset[HostPort]:
        return frozenset(
            end
            for circuit in self.circuits
            if host in {end.host for end in circuit.ends}
            for end in circuit.ends
            if end.host != host
        )
