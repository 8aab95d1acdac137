"""Fence hosts that have failed, by the means that a policy chose and no others."""

from __future__ import annotations

from testbed.bench.bench import Bench
from testbed.bench.permission import FENCE
from testbed.clock import Deadline
from testbed.control.protocol import Fence, Fenced, FenceFailed
from testbed.errors import TestbedError
from testbed.record.log import EventLog
from testbed.run.places import Place

_LIMIT = 10.0
_AGENT_LIMIT = 5.0
"""Seconds in which a host must start a new agent, where the one it had is not there any more."""


class Fencing:
    """The fenced hosts of one recovery, and the means used for each."""

    def __init__(self, bench: Bench, log: EventLog) -> None:
        self._bench = bench
        self._log = log
        self.hosts: set[str] = set()
        """The hosts that are fenced."""

    def apply(self, fence: Fence, slot: int) -> Fenced | FenceFailed:
        """Fence the rank in a slot; return once it is verified that it can no longer take part."""
        try:
            evidence = self._apply(fence, slot, Deadline.after(_LIMIT))
        except TestbedError as error:
            reason = f"{fence.means}: {error}"
            self._log.append("note", fence.host, text=f"it is not fenced by {reason}")
            return FenceFailed(fence.host, reason)
        self.hosts.add(fence.host)
        self._log.append(
            "recovery.fenced", fence.host, rank=fence.rank, by=fence.means, means=evidence
        )
        return Fenced(fence.host)

    def _apply(self, fence: Fence, slot: int, deadline: Deadline) -> str:
        """Fence a host by these means; return the evidence in words."""
        host, power = fence.host, self._bench.power
        match fence.means:
            case "none":
                self._bench.drop_host(host)
                return f"outlet {power.outlet(host)} reads off"
            case "power":
                power.cut(host, deadline, FENCE)
                self._bench.drop_host(host)
                return f"outlet {power.outlet(host)} is off"
            case "network":
                self._isolate(host, deadline)
                return "it has no circuit"
            case "process":
                return self._end_processes(Place(host, slot), deadline)

    def _isolate(self, host: str, deadline: Deadline) -> None:
        """Take a host's circuits down; its agent ends its rank, and itself, with its connection."""
        self._bench.guard.fence(host, "network")
        self._bench.fabric.take_down(lambda circuit: host in circuit.hosts, deadline, FENCE)
        self._bench.drop_host(host)

    def _end_processes(self, place: Place, deadline: Deadline) -> str:
        """End a rank by its host's agent, or, where that is lost, by a new one that ends both."""
        host, slot = place
        self._bench.guard.fence(host, "process")
        agent = self._bench.hosts.get(host)
        if agent and not agent.link.is_over:
            agent.end_rank(slot, deadline)
            return "its process is gone"
        self._bench.drop_host(host)
        self._bench.reap(host, deadline.within(_AGENT_LIMIT))
        return "a new agent there found none of its processes left"
