"""A host that is replaced with all its ranks: what of that is done, and who has whose state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed

from testbed.control import protocol
from testbed.control.failure_detection import Evidence
from testbed.control.policy import Situation
from testbed.fabric.circuits import HostPort


@dataclass(frozen=True, slots=True)
class Fencing:
    """The fence of a host that failed: a process is ended rank by rank, all else is of the host."""

    ranks: tuple[int, ...]
    means: protocol.Means
    left: tuple[protocol.Means, ...]
    """Those that are left to be tried, should this one fail."""
    fenced: int = 0
    """How many of the ranks are."""

    @property
    def next_rank(self) -> int | None:
        """Return the rank to be fenced next, one after the other; None once all are."""
        is_over = self.fenced == (len(self.ranks) if self.means == "process" else 1)
        return None if is_over else self.ranks[self.fenced]


@dataclass(frozen=True, slots=True)
class Repair:
    """A recovery in progress, until every rank has finished a step of the new generation."""

    fencing: Mapping[str, Fencing] = field(default_factory=dict)
    """By host that failed and is not fenced yet."""
    newcomers: frozenset[str] = frozenset()
    """The spares that take the places of hosts that failed."""
    without_state: frozenset[int] = frozenset()
    """Ranks that joined the generation before, and did not finish a step in it."""
    asked: frozenset[str] = frozenset()
    """The newcomers on which processes are prepared."""
    ready: Mapping[str, int] = field(default_factory=dict)
    """By newcomer, how many of its processes are ready."""
    has_left: bool = False
    """The survivors were told to leave."""
    left: Mapping[int, int] = field(default_factory=dict)
    """By rank that has left, the steps that it has committed."""
    silent: frozenset[int] = frozenset()
    """Ranks whose heartbeat is missed."""
    joined: bool = False
    finished: frozenset[int] = frozenset()

    def arriving(self, now: Situation) -> frozenset[int]:
        """Return the ranks on newcomers."""
        return frozenset(r for r, host in enumerate(now.hosts) if host in self.newcomers)

    def restored(self, now: Situation) -> frozenset[int]:
        """Return the ranks that get their state from another rank."""
        return self.arriving(now) | self.without_state


@dataclass(frozen=True, slots=True)
class State:
    """A job under the policy: its situation, the evidence of failures, and the repair under way."""

    now: Situation
    evidence: Evidence
    dark: Mapping[HostPort, str] = field(default_factory=dict)
    """By port that lost its light unbidden, and has not had any since, the host at the far end."""
    repair: Repair | None = None
    gave_up: bool = False

    @property
    def forming(self) -> Repair | None:
        """Return the repair whose generation is not ordered to form yet."""
        return None if self.repair is None or self.repair.joined else self.repair

    @property
    def present(self) -> Repair:
        """Return the repair to which a failure belongs: that which is forming, or a new one."""
        if self.forming or self.repair is None:
            return self.forming or Repair()
        return Repair(without_state=self.repair.restored(self.now) - self.repair.finished)


def neighbours(now: Situation, rank: int) -> tuple[int, ...]:
    """Return the ranks before and after a rank among its replicas, whom circuits join it with."""
    group = next((group for group in now.replicas if rank in group), (rank,))
    at = group.index(rank)
    beside = group[at - 1], group[(at + 1) % len(group)]
    return tuple(other for other in dict.fromkeys(beside) if other != rank)


def source(now: Situation, restored: frozenset[int], rank: int) -> int | None:
    """Return who can send a rank its state, where anybody can."""
    return next((other for other in neighbours(now, rank) if other not in restored), None)


def moved(now: Situation, victim: str, spare: str) -> Situation:
    """Return a situation in which a spare has taken the ranks of a host."""
    hosts = tuple(spare if host == victim else host for host in now.hosts)
    return changed(now, hosts=hosts, spares=tuple(one for one in now.spares if one != spare))


def with_newcomer(repair: Repair, victim: str, spare: str) -> Repair:
    """Return a repair with a spare in place of a host, which may be one that was to arrive."""
    ready = {host: count for host, count in repair.ready.items() if host != victim}
    newcomers = repair.newcomers - {victim} | {spare}
    return changed(repair, newcomers=newcomers, asked=repair.asked - {victim}, ready=ready)
