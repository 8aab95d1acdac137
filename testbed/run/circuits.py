"""What joins hosts, made and proved: light, carrier and the identity of both ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import permutations

from testbed.bench.bench import Bench
from testbed.bench.link import Answer
from testbed.clock import Deadline
from testbed.errors import HostError, LabError
from testbed.fabric.circuits import Circuit, HostPort, Matching
from testbed.record.log import EventLog

_LIGHT_LIMIT = 5.0
"""Seconds that light, carrier and identity may take beyond the switch's own settle time."""


@dataclass(frozen=True, slots=True)
class LinkVerdict:
    """What both ends of one circuit found out about each other."""

    circuit: Circuit
    good: bool
    detail: str

    @property
    def hosts(self) -> frozenset[str]:
        """Return the hosts at the circuit's ends."""
        return frozenset(end.host for end in self.circuit.ends)


def verify_links(
    bench: Bench, circuits: frozenset[Circuit], log: EventLog, change: Callable[[], object]
) -> list[LinkVerdict]:
    """Make a change of circuits and ask, from both ends of each, who is at the other end.

    The questions are asked before the change, so that the first light already carries them.
    Blocks until all are answered or their limit is over; every good circuit is logged.
    """
    settle = max((s.capabilities.settle for s in bench.switches.values()), default=0.0)
    limit = settle + _LIGHT_LIMIT
    asked = [
        (circuit, near, _ask(bench, near, far, limit))
        for circuit in sorted(circuits)
        for near, far in (circuit.ends, circuit.ends[::-1])
    ]
    change()
    deadline = Deadline.after(limit + 1.0)
    return [_hear(circuit, near, answer, deadline, log) for circuit, near, answer in asked]


def verify_paths(bench: Bench, ports: Iterable[HostPort], log: EventLog) -> None:
    """Have every port on a packet switch ask every other who it is; raise LabError."""
    asked = [
        (near, far, _ask(bench, near, far, _LIGHT_LIMIT, direct=True))
        for near, far in permutations(sorted(ports), 2)
    ]
    deadline = Deadline.after(_LIGHT_LIMIT + 1.0)
    for near, far, answer in asked:
        verdict = _hear(Circuit.between(near, far), near, answer, deadline, log)
        if not verdict.good:
            raise LabError(
                f"{near} does not reach {far} through the packet switch: {verdict.detail}",
                hint="check both cables, and that the ports are in one VLAN",
            )


def _ask(
    bench: Bench, near: HostPort, far: HostPort, limit: float, *, direct: bool = False
) -> Future[Answer]:
    return bench.hosts[near.host].ask_identity(
        near.port, bench.hosts[far.host], far.port, limit=limit, direct=direct
    )


def _hear(
    circuit: Circuit, near: HostPort, answer: Future[Answer], deadline: Deadline, log: EventLog
) -> LinkVerdict:
    try:
        value = answer.result(deadline.left).value
    except (HostError, TimeoutError):
        return LinkVerdict(circuit, False, f"the agent of {near.host} does not answer")
    if value["good"]:
        log.append("link.good", str(circuit), host=near.host, mono=value["mono"])
        return LinkVerdict(circuit, True, "")
    seen = ", ".join(".".join(port) for port in value["seen"])
    detail = f"{seen} answered" if seen else "nobody answered at its other end"
    return LinkVerdict(circuit, False, detail)


def make_circuits(
    bench: Bench,
    wanted: Matching,
    log: EventLog,
    deadline: Deadline,
    verify: Matching | None = None,
) -> None:
    """Make a job's circuits and verify each from both ends, or only those of `verify`.

    Raise LabError for one that is dark.
    """
    verdicts = verify_links(
        bench,
        wanted if verify is None else verify,
        log,
        lambda: bench.fabric.change(wanted, "job", deadline),
    )
    for verdict in verdicts:
        if not verdict.good:
            raise LabError(
                f"{verdict.circuit} reads back but {verdict.detail}",
                hint="check its fibres, and that nobody else moves this switch",
            )
