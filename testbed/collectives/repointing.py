"""Which circuits a schedule needs in which round, on a switch with a few ports per host.

A lit circuit stays until one of its ports is needed for another circuit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from testbed.collectives.schedule import Pair, Schedule

End = tuple[int, int]
"""A rank, and the number of one of its ports."""
Joint = tuple[End, End]
"""A circuit between two ranks, the lower one first."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive rounds, from `first` up to but not including `behind`, with the same circuits."""

    first: int
    behind: int
    circuits: frozenset[Joint]

    def of(self, schedule: Schedule) -> Schedule:
        """Return the schedule of these rounds alone."""
        return replace(schedule, rounds=schedule.rounds[self.first : self.behind])


def ring_joints(ranks: int) -> frozenset[Joint]:
    """Return the circuits of a ring: port 1 of each rank leads to port 0 of the next."""
    ends = [((rank, 1), ((rank + 1) % ranks, 0)) for rank in range(ranks if ranks > 1 else 0)]
    return frozenset(joint(*pair) for pair in ends)


def joint(one: End, other: End) -> Joint:
    """Return the circuit between two ends."""
    return (one, other) if one < other else (other, one)


def pair_of(circuit: Joint) -> Pair:
    """Return the ranks that a circuit joins."""
    return circuit[0][0], circuit[1][0]


def stages(schedule: Schedule, lit: Iterable[Joint], ports: int = 2) -> tuple[Stage, ...]:
    """Return the stages of a schedule; the switch is re-pointed between stages.

    `lit` are the circuits at the beginning; it is re-pointed before the first stage too unless they
    suffice. A rank gives up the circuit whose next use is farthest away. Raise ValueError where a
    round needs more ports.
    """
    now, found = frozenset(lit), [Stage(0, 0, frozenset(lit))]
    for number, step in enumerate(schedule.rounds):
        wanted = set(step.pairs)
        if wanted - {pair_of(circuit) for circuit in now}:
            now = _repointed(now, wanted, ports, _next_use(schedule, number))
            found.append(Stage(number, number, now))
        found[-1] = replace(found[-1], behind=number + 1)
    return tuple(stage for stage in found if stage.behind > stage.first)


def changes(found: Iterable[Stage], lit: Iterable[Joint]) -> tuple[int, ...]:
    """Return the rounds before which the switch is re-pointed."""
    before, rounds = frozenset(lit), []
    for stage in found:
        if stage.circuits != before:
            rounds.append(stage.first)
        before = stage.circuits
    return tuple(rounds)


def _next_use(schedule: Schedule, number: int) -> Callable[[Pair], float]:
    """Return what says in which round, from `number` on, a pair talks next; infinity for never."""
    uses: dict[Pair, float] = {}
    for later in range(len(schedule.rounds) - 1, number - 1, -1):
        uses.update(dict.fromkeys(schedule.rounds[later].pairs, later))
    return lambda pair: uses.get(pair, math.inf)


def _repointed(
    lit: frozenset[Joint], wanted: set[Pair], ports: int, next_use: Callable[[Pair], float]
) -> frozenset[Joint]:
    """Return the circuits after a change: those wanted, and of the others what can stay."""
    kept = {pair_of(circuit): circuit for circuit in sorted(lit) if pair_of(circuit) in wanted}
    taken = {end for circuit in kept.values() for end in circuit}
    leads_to = {end: pair_of(circuit) for circuit in lit for end in circuit}

    def most_idle(rank: int) -> End:
        free = [(rank, port) for port in range(ports) if (rank, port) not in taken]
        if not free:
            raise ValueError(f"rank {rank} needs more circuits at once than its {ports} ports")
        return max(free, key=lambda end: next_use(leads_to[end]) if end in leads_to else math.inf)

    for pair in sorted(wanted - kept.keys()):
        circuit = joint(most_idle(pair[0]), most_idle(pair[1]))
        kept[pair] = circuit
        taken |= set(circuit)
    return frozenset(kept.values()) | {c for c in lit if taken.isdisjoint(c)}
