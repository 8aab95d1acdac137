"""Make circuits and verify them: light, carrier and the identity of both ends.

The circuits of a job are made before it starts, or while it runs, as controllers command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial

from testbed.bench.bench import Bench
from testbed.bench.link import Answer
from testbed.clock import Deadline
from testbed.errors import HostError, LabError
from testbed.fabric.circuits import Circuit, HostPort, Matching
from testbed.fabric.owners import Owned
from testbed.record.log import EventLog

_LIGHT_LIMIT = 5.0
"""Seconds that light, carrier and identity may take beyond the switch's own settle time…"""

_LIGHT_SHARE = 1.25
"""… or so many for each circuit: those of many hosts of a twin come one after the other."""

_INTERVAL = 0.001
"""Seconds from one question of an end to the next…"""
_AT_ONCE = 4
"""… while so few circuits are made together; for each more the pause is as much longer."""

_GRACE = 1.0
"""Seconds that an agent, which keeps the limit itself, gets to report that it is over."""

_LOOK = 0.1
"""Seconds between two looks whether an answer is wanted still."""

_WORTH_ASKING = 0.01
"""Seconds that must be left for a question to be asked once more."""


def _always(circuit: Circuit) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class LinkVerdict:
    """The result of identifying one end of a circuit from the other end."""

    circuit: Circuit
    good: bool
    detail: str
    is_answered: bool = True
    """The agent that asked has reported an outcome."""


def verify_links(
    bench: Bench,
    circuits: frozenset[Circuit],
    log: EventLog,
    change: Callable[[], object],
    *,
    ends_that_ask: int = 2,
    light: float = _LIGHT_LIMIT,
    interval: float = _INTERVAL,
    is_wanted: Callable[[Circuit], bool] = _always,
) -> list[LinkVerdict]:
    """Change circuits, and identify both ends of each new circuit over the light itself.

    Identity queries are started before there is light, so that the first carries them: before the
    change, or after it where its switches answer before their mirrors stand. A query that expires
    during a slow change is repeated: the limit counts from the end of the change.
    Blocks until all are answered or that limit is over; every verified circuit is logged. Where one
    end asks, its question has passed one direction and the answer the other; both ends say when
    each of them has its link. `light` is how many seconds the links may take to come up, `interval`
    those from one question of an end to the next. An answer is waited for while its circuit
    `is_wanted`.
    """
    limit = light + max((s.capabilities.settle for s in bench.switches.values()), default=0.0)
    is_over_before_light = bench.fabric.settles_unseen
    if is_over_before_light:
        change()
    asked = [
        (circuit, near, far, _ask(bench, near, far, limit, interval))
        for circuit in sorted(circuits)
        for near, far in circuit.directions[:ends_that_ask]
    ]
    if not is_over_before_light:
        change()
    deadline = Deadline.after(limit)

    def verdict(
        circuit: Circuit, near: HostPort, far: HostPort, answer: Future[Answer]
    ) -> LinkVerdict:
        found = _verdict(circuit, near, answer, deadline, log, is_wanted)
        while not found.good and found.is_answered and deadline.left > _WORTH_ASKING:
            answer = _ask(bench, near, far, deadline.left, interval)
            found = _verdict(circuit, near, answer, deadline, log, is_wanted)
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
    bench: Bench,
    near: HostPort,
    far: HostPort,
    limit: float,
    interval: float = _INTERVAL,
    *,
    direct: bool = False,
) -> Future[Answer]:
    ends = bench.hosts.get(near.host), bench.hosts.get(far.host)
    if ends[0] is None or ends[1] is None:  # it was given up, as another recovery's victim
        gone: Future[Answer] = Future()
        gone.set_exception(HostError(near.host if ends[0] is None else far.host, "is given up"))
        return gone
    far_end = ends[1], far.port
    return ends[0].ask_identity(near.port, *far_end, limit=limit, interval=interval, direct=direct)


def _verdict(
    circuit: Circuit,
    near: HostPort,
    answer: Future[Answer],
    deadline: Deadline,
    log: EventLog,
    is_wanted: Callable[[Circuit], bool] = _always,
) -> LinkVerdict:
    try:
        while not (wait([answer], min(_LOOK, deadline.left + _GRACE)).done):
            if not is_wanted(circuit):
                detail = "it was given up before an answer came"
                return LinkVerdict(circuit, False, detail, is_answered=False)
            if not deadline.left:
                break
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


def make_all_circuits(bench: Bench, wanted: Owned, log: EventLog, deadline: Deadline) -> None:
    """Make the circuits of every job, as `make_circuits` does; what no job wants goes first."""
    fabric = bench.fabric
    for owner in fabric.owned.owners:
        mine = fabric.owned.of(owner)
        kept = mine & wanted.get(owner, frozenset())
        if kept != mine and len(wanted.keys() | {owner}) > 1:
            fabric.set_circuits(owner, kept, deadline)
    for owner, circuits in wanted.items():
        make_circuits(bench, owner, circuits, log, deadline)


def make_circuits(
    bench: Bench, owner: str, wanted: Matching, log: EventLog, deadline: Deadline
) -> None:
    """Make a job's circuits and verify each from both ends; raise LabError for one that is dark."""
    change = partial(bench.fabric.set_circuits, owner, wanted, deadline)
    light = max(_LIGHT_LIMIT, len(wanted) * _LIGHT_SHARE)
    make_identified(bench, wanted, log, change, light=light, interval=paced(wanted))


def paced(circuits: Matching) -> float:
    """Return the seconds between two questions over each of some circuits that are made at once.

    Those of many ports would take the processor of a twin from what makes the circuits.
    """
    return _INTERVAL * max(1, len(circuits) - _AT_ONCE)


def make_identified(
    bench: Bench,
    circuits: Matching,
    log: EventLog,
    change: Callable[[], object],
    *,
    ends_that_ask: int = 2,
    light: float = _LIGHT_LIMIT,
    interval: float = _INTERVAL,
    is_wanted: Callable[[Circuit], bool] = _always,
) -> None:
    """Change circuits as `verify_links` does; raise LabError for a new one that is not good."""
    ask = partial(verify_links, ends_that_ask=ends_that_ask, light=light, interval=interval)
    verify = partial(ask, is_wanted=is_wanted)
    for verdict in verify(bench, circuits, log, change):
        if not verdict.good:
            raise LabError(
                f"the switches report {verdict.circuit} as connected, but {verdict.detail}",
                hint="check its fibres, and that no other program moves this switch",
            )
