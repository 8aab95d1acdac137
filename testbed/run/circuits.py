"""Make circuits and verify them: light, carrier and the identity of both ends.

The circuits of a job are made before it starts, or while it runs: by a policy, or when all ranks
concerned have asked for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from testbed.bench.bench import Bench
from testbed.bench.link import Answer
from testbed.clock import Deadline, now
from testbed.errors import HostError, LabError, TestbedError
from testbed.fabric.circuits import Circuit, HostPort, Matching
from testbed.record.log import EventLog

JOB = "job"
"""The owner of the circuits of a run's job, whoever else has some."""

_LIGHT_LIMIT = 5.0
"""Seconds that light, carrier and identity may take beyond the switch's own settle time."""

_GRACE = 1.0
"""Seconds that an agent, which keeps the limit itself, gets to report that it is over."""

_REQUEST_LIMIT = 10.0
"""Seconds that the circuits which ranks ask for may take."""

_WORTH_ASKING = 0.01
"""Seconds that must be left for a question to be asked once more."""


@dataclass(frozen=True, slots=True)
class LinkVerdict:
    """The result of identifying one end of a circuit from the other end."""

    circuit: Circuit
    good: bool
    detail: str
    is_answered: bool = True
    """The agent that asked has reported an outcome."""


def verify_links(
    bench: Bench, circuits: frozenset[Circuit], log: EventLog, change: Callable[[], object]
) -> list[LinkVerdict]:
    """Change circuits, and identify both ends of each new circuit over the light itself.

    Identity queries are started before the change, so that the first light carries them. A query
    that expires during a slow change is repeated: the limit counts from the end of the change.
    Blocks until all are answered or that limit is over; every verified circuit is logged.
    """
    settle = max((s.capabilities.settle for s in bench.switches.values()), default=0.0)
    limit = settle + _LIGHT_LIMIT
    asked = [
        (circuit, near, far, _ask(bench, near, far, limit))
        for circuit in sorted(circuits)
        for near, far in circuit.directions
    ]
    change()
    deadline = Deadline.after(limit)

    def verdict(
        circuit: Circuit, near: HostPort, far: HostPort, answer: Future[Answer]
    ) -> LinkVerdict:
        found = _verdict(circuit, near, answer, deadline, log)
        while not found.good and found.is_answered and deadline.left > _WORTH_ASKING:
            answer = _ask(bench, near, far, deadline.left)
            found = _verdict(circuit, near, answer, deadline, log)
        return found

    return [verdict(*one) for one in asked]


def verify_paths(
    bench: Bench, ports: Iterable[HostPort], log: EventLog, deadline: Deadline
) -> None:
    """Identify each port on a packet switch from the next, and the first from the last.

    What a switch carries to and fro between neighbours it carries between all: ports in one VLAN
    with a third are so with each other. Every port asks once and answers once, however many are
    there. Raise LabError for one that does not reach the next.
    """
    row = sorted(ports)
    asked = [
        (near, far, _ask(bench, near, far, _LIGHT_LIMIT, direct=True))
        for near, far in zip(row, [*row[1:], *row[:1]], strict=True)
        if near != far
    ]
    limit = deadline.within(_LIGHT_LIMIT)
    for near, far, answer in asked:
        verdict = _verdict(Circuit.between(near, far), near, answer, limit, log)
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


def _verdict(
    circuit: Circuit, near: HostPort, answer: Future[Answer], deadline: Deadline, log: EventLog
) -> LinkVerdict:
    try:
        value = answer.result(deadline.left + _GRACE).value
    except (HostError, TimeoutError):
        detail = f"the agent of {near.host} does not answer"
        return LinkVerdict(circuit, False, detail, is_answered=False)
    if value["good"]:
        log.append("link.good", str(circuit), host=near.host, mono=value["mono"])
        return LinkVerdict(circuit, True, "")
    seen = ", ".join(".".join(port) for port in value["seen"])
    detail = f"{seen} answered" if seen else "no port answered at its other end"
    return LinkVerdict(circuit, False, detail)


def make_circuits(
    bench: Bench,
    wanted: Matching,
    log: EventLog,
    deadline: Deadline,
    verify: Matching | None = None,
) -> None:
    """Make a job's circuits and verify each from both ends, or only those in `verify`.

    Raise LabError for one that is dark.
    """
    change = partial(bench.fabric.set_circuits, JOB, wanted, deadline)
    for verdict in verify_links(bench, wanted if verify is None else verify, log, change):
        if not verdict.good:
            raise LabError(
                f"the switches report {verdict.circuit} as connected, but {verdict.detail}",
                hint="check its fibres, and that no other program moves this switch",
            )


# --- circuits that ranks ask for ---------------------------------------------------------


@dataclass(slots=True)
class CircuitRequests:
    """Circuit requests of one job's ranks; `circuits` are all that they may request, by number.

    A request counts when all ranks that it names have made it: each of them has then sent all its
    data over the circuits that will be removed.
    """

    bench: Bench
    log: EventLog
    circuits: Sequence[Matching]
    tell: Callable[[int, Mapping[str, Any]], object]
    """Sends a message to a rank."""
    failure: str = ""
    """Why a request could not be fulfilled, when one could not."""
    _asked: dict[tuple[int, int], set[int]] = field(default_factory=dict)

    def add(self, rank: int, said: Mapping[str, Any]) -> bool:
        """Add a rank's request; return whether all ranks that it names have made it now."""
        key = (said["generation"], said["number"])
        asked = self._asked.setdefault(key, set())
        asked.add(rank)
        if not asked >= set(said["of"]):
            return False
        del self._asked[key]
        return True

    def fulfil(self, said: Mapping[str, Any]) -> None:
        """Make the requested circuits and notify the ranks; blocks. `failure` has the error."""
        began, wanted = now(), self.circuits[said["circuits"]]
        fresh, limit = wanted - self.bench.fabric.owned.of(JOB), Deadline.after(_REQUEST_LIMIT)
        try:
            make_circuits(self.bench, wanted, self.log, limit, verify=fresh)
        except TestbedError as error:
            self.failure = f"circuits that the ranks asked for could not be made: {error}"
            return
        answer = {key: said[key] for key in ("generation", "number")}
        for rank in said["of"]:
            self.tell(rank, {"do": "lit", **answer})
        self.log.append("circuits.lit", seconds=now() - began, circuits=said["circuits"], **answer)
