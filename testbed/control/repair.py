"""A recovery in progress: which ranks are replaced, and how far that has come. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from testbed.control.failure_detection import Commands, Evidence
from testbed.control.policy import Situation
from testbed.control.protocol import CommandFailed, Leave, Means
from testbed.control.slices import joined_to_newcomer, spares_in_order
from testbed.fabric.circuits import Circuit, Matching
from testbed.fabric.topology import ring


@dataclass(frozen=True, slots=True)
class Replacement:
    """The replacement of one rank, whose host `victim` has failed."""

    victim: str
    fences: tuple[Means, ...] = ()
    """Those that are left to be tried, should the one that was commanded fail."""
    fenced: bool = False
    spare_ready: bool = False


@dataclass(frozen=True, slots=True)
class Repair:
    """A recovery in progress; without a replaced rank, it makes dark circuits again."""

    replaced: Mapping[int, Replacement] = field(default_factory=dict)
    """By rank, those whose hosts have failed."""
    without_state: frozenset[int] = frozenset()
    """Ranks that joined the generation before, and did not finish a step in it."""
    dark: Matching = frozenset()
    """Circuits that went dark between hosts that answer."""
    links_good: bool = False
    has_left: bool = False
    """The survivors were told to leave."""
    left: Mapping[int, int] = field(default_factory=dict)
    """By rank that has left, the steps that it has committed."""
    silent: frozenset[int] = frozenset()
    """Ranks whose heartbeat is missed."""
    failure: CommandFailed | None = None
    """Why circuits could not be made, while it is not known whether another host has failed."""
    joined: bool = False
    finished: frozenset[int] = frozenset()

    @property
    def is_fenced(self) -> bool:
        """Tell whether no victim can take part any more."""
        return all(one.fenced for one in self.replaced.values())

    @property
    def is_prepared(self) -> bool:
        """Tell whether a new generation can be formed once all survivors have left."""
        ready = all(one.spare_ready for one in self.replaced.values())
        return self.links_good and self.is_fenced and ready

    @property
    def restored(self) -> frozenset[int]:
        """Return the ranks that get their state from another rank."""
        return self.without_state | self.replaced.keys()

    def with_replacement(self, rank: int, one: Replacement) -> Repair:
        """Return the same repair with another state of the replacement of a rank."""
        return replace(self, replaced={**self.replaced, rank: one})

    def survivors(self, now: Situation) -> frozenset[int]:
        """Return the ranks whose hosts have not failed."""
        return frozenset(range(len(now.hosts))) - self.replaced.keys()

    def newcomers(self, now: Situation) -> dict[str, int]:
        """Return the rank of each spare host that takes a victim's place."""
        return {now.hosts[rank]: rank for rank in self.replaced}

    def unchanged(self, now: Situation) -> frozenset[Circuit]:
        """Return the circuits between survivors, which the repair does not touch."""
        new = self.newcomers(now)
        wanted = now.ring - self.dark
        return frozenset(circuit for circuit in wanted if not new.keys() & {*circuit.hosts})


@dataclass(frozen=True, slots=True)
class State:
    """A job under the policy: its situation, the evidence of failures, and the repair under way."""

    now: Situation
    evidence: Evidence
    repair: Repair | None = None
    gave_up: bool = False
    commanded: int = 0
    """The number of the circuits that were commanded last."""
    victims: tuple[str, ...] = ()
    """All hosts that have failed, in order."""

    def survivors_on(self, host: str) -> tuple[int, ...]:
        """Return the ranks on a host that are not being replaced."""
        repair = next_repair(self.repair)
        ranks = (rank for rank, name in enumerate(self.now.hosts) if name == host)
        return tuple(rank for rank in ranks if rank not in repair.replaced)

    @property
    def together(self) -> str:
        """Return the beginning of a reason that names all victims; empty where there is one."""
        names = " and ".join(self.victims)
        return f"{names} have failed: " if len(self.victims) > 1 else ""


def next_repair(repair: Repair | None) -> Repair:
    """Return the repair to which a failure belongs: the one under way, or else a new one."""
    if repair is None:
        return Repair()
    if not repair.joined:
        return repair
    return Repair(without_state=repair.restored - repair.finished)


def spliced(now: Situation, rank: int) -> Situation | None:
    """Return a situation in which a spare has taken a rank's place; None where none can.

    It is the first spare, or on a rack the nearest that has free fibres to the rank's neighbours.
    """
    if now.rack is None:
        return _with_spare(now, rank, now.spares[0]) if now.spares else None
    beside = [now.hosts[(rank + to) % len(now.hosts)] for to in (-1, 1)]
    for spare in spares_in_order(now.rack, beside, now.spares):
        then = _with_spare(now, rank, spare)
        routed = joined_to_newcomer(now.rack, ring(then.hosts, now.ports), now.routed, spare)
        if routed is not None:
            return replace(then, routed=routed)
    return None


def _with_spare(now: Situation, rank: int, spare: str) -> Situation:
    hosts = (*now.hosts[:rank], spare, *now.hosts[rank + 1 :])
    spares = tuple(other for other in now.spares if other != spare)
    return replace(now, hosts=hosts, spares=spares)


def leave(state: State) -> tuple[State, Commands]:
    """Command the survivors to leave the broken generation, unless that was done."""
    now, repair = state.now, state.repair
    if repair is None or repair.has_left:
        return state, ()
    command = Leave(repair.survivors(now), now.generation)
    return replace(state, repair=replace(repair, has_left=True)), (command,)


def without_spare(state: State, host: str) -> State:
    """Return the state without a spare host that has failed unused."""
    spares = tuple(spare for spare in state.now.spares if spare != host)
    return replace(state, now=replace(state.now, spares=spares))
