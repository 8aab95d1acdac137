"""What one rank of a mesh communicates in its groups, every value verified.

Each operation is noted with its times, and those on a rail are told to `stages`, which may have
circuits made for them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import numpy as np

from ..communication.communicator import chunk_bounds
from ..communication.matchings import Matching, Matchings, partner_in
from ..communication.mesh import Groups, MeshGroups
from ..communication.messages import Array, Messages
from ..communication.rank_schedule import RankSchedule
from ..communication.stages import Stages
from .stages import NoStages, StageOrder
from .state import Numbers
from .verified_sum import VerifiedVector


class Operation(NamedTuple):
    """One rank's part of an operation; times are those of its monotonic clock."""

    group: str
    number: int
    """What all its ranks give it, and no other operation of the group has."""
    name: str
    """Its name in nccl-tests."""
    ranks: tuple[int, ...]
    """Those that have circuits for it together: all of the group, or two of them."""
    begin: float
    """When the rank came to it."""
    lit: float
    """When the rank knew that it has its circuits; `begin` where it needs none."""
    end: float
    bytes: int
    """What the rank sent, openings included."""
    waits: str
    """Whom the rank waited for: `all`, nobody (`send`), or the rank that sends (`receive`)."""


@dataclass(frozen=True)
class _Place:
    """A rank's group along one dimension."""

    dimension: str
    name: str
    members: tuple[int, ...]
    rank: int
    """The rank's number in it."""
    is_on_rail: bool
    partners: tuple[Optional[int], ...] = ()
    """Whom the rank meets in each matching of the group; None where it pauses."""


class Operations:
    """The operations of one rank in one generation.

    `to` and `source` are numbers in the group, from 0. A group of one has nothing to do. Left,
    PeerLost and Corrupt may come from any call.
    """

    def __init__(
        self,
        mesh: MeshGroups,
        groups: Groups,
        schedules: Mapping[str, Any],
        stages: Optional[Stages],
        matchings: Optional[Matchings] = None,
    ) -> None:
        """Take by dimension all groups along it, and the schedule that sums in them.

        `matchings` are those in which each two ranks of such a group meet once. Without `stages`
        every rank reaches every other at any time, as on a packet switch.
        """
        self._mesh = mesh
        self._places = {
            name: _place(mesh, name, groups, (matchings or {}).get(name, ())) for name in groups
        }
        self._schedules = {
            name: RankSchedule.of(plan, self._places[name].rank) for name, plan in schedules.items()
        }
        self._chunks = {name: plan["chunks"] for name, plan in schedules.items()}
        self._messages = {
            name: Messages(mesh.by_dimension[name].connections, place.members)
            for name, place in self._places.items()
        }
        self._order = StageOrder(stages or NoStages())
        self._drains = stages is not None
        self._vectors: dict[tuple[str, int], VerifiedVector] = {}
        self._turns: Counter[tuple[str, int, int]] = Counter()
        self._exchanged: Counter[str] = Counter()
        """Exchanges between all ranks of the group along each dimension, so far."""
        self._done: list[Operation] = []

    @property
    def groups(self) -> dict[str, list[int]]:
        """Return this rank's groups of more than one rank, by name."""
        places = self._places.values()
        return {place.name: list(place.members) for place in places if len(place.members) > 1}

    def all_reduce(self, dimension: str, values: Numbers) -> Optional[Operation]:
        """Replace contiguous float32 values by their sums over the group along a dimension.

        Return what was done; None where the mesh has no such dimension, or the group no other rank.
        """
        place = self._places.get(dimension)
        if place is None or len(place.members) == 1:
            return None
        key = dimension, values.size
        sums = self._vectors.get(key)
        if sums is None:
            ranks = len(place.members)
            sums = VerifiedVector(values.size, ranks, self._chunks[dimension])
            self._vectors[key] = sums
        flat, turn = values.reshape(-1), self._turns[place.name, 0, 0]
        sums.fill(flat, turn, place.rank)
        group, schedule = self._mesh.by_dimension[dimension], self._schedules[dimension]

        def run() -> int:
            return group.run(schedule, sums.vector).sent

        done = self._run(place, "all_reduce", "all", run)
        sums.verify(turn)
        for start, part in sums.places:
            flat[start : start + len(part)] = part
        return done

    def send(self, dimension: str, to: int, array: Array) -> None:
        """Send a contiguous array to one rank of the group along a dimension."""
        place, messages = self._places[dimension], self._messages[dimension]

        def run() -> int:
            return messages.send(to, array)

        self._run(place, "sendrecv", "send", run, (place.rank, to))

    def receive(self, dimension: str, source: int, array: Array) -> None:
        """Fill a contiguous array with the next message from one rank of the group."""
        place, messages = self._places[dimension], self._messages[dimension]

        def run() -> int:
            messages.receive(source, array)
            return 0

        self._run(place, "sendrecv", "receive", run, (source, place.rank))

    def all_to_all(
        self, dimension: str, blocks: Sequence[Array], lengths: Optional[Sequence[int]]
    ) -> list[Array]:
        """Give each rank of the group along a dimension a block of rows; return those given to us.

        Two ranks exchange theirs at a time, in one matching of the group after the other; every
        second time in the opposite order, so that it begins with the circuits that are lit.
        `lengths` are the rows that come from each rank, where they are known. Blocks are in the
        order of the group, have as many columns, and our own stays here.
        """
        place = self._places.get(dimension)
        if place is None or len(place.members) == 1:
            return list(blocks)
        partners = place.partners[:: -1 if self._exchanged[dimension] % 2 else 1]
        self._exchanged[dimension] += 1
        found = list(blocks)
        for other in partners:
            if other is not None:
                length = None if lengths is None else lengths[other]
                found[other] = self._swap(place, other, blocks[other], length)
        return found

    def sum_directly(self, dimension: str, values: Array) -> None:
        """Replace a flat vector by its sum over the group along a dimension, the same bits on all.

        Each rank adds up one part, in the order of the group, and gives it to all others: two
        exchanges between all ranks, of as many bytes as a ring takes.
        """
        place = self._places.get(dimension)
        if place is None or len(place.members) == 1:
            return
        bounds = chunk_bounds(values.size, len(place.members))
        parts = [values[start:stop, None] for start, stop in bounds]
        own = len(parts[place.rank])
        first, *others = self.all_to_all(dimension, parts, [own] * len(parts))
        total = first.copy()
        for each in others:
            total += each
        lengths = [len(part) for part in parts]
        for part, summed in zip(  # noqa: B905 - Python 3.9
            parts, self.all_to_all(dimension, [total] * len(parts), lengths)
        ):
            part[:] = summed

    def _swap(self, place: _Place, other: int, block: Array, length: Optional[int]) -> Array:
        """Exchange blocks of rows with one rank of a group; `length` is how many come, if known."""
        messages = self._messages[place.dimension]
        found = block[:0]

        def run() -> int:
            nonlocal found
            sent = 0
            if length is None:
                sent += messages.send(other, np.array([len(block)], np.int64))
            # A message of nothing is none.
            sent += messages.send(other, np.ascontiguousarray(block)) if block.size else 0
            rows = np.array([-1 if length is None else length], np.int64)
            if length is None:
                messages.receive(other, rows)
            found = np.empty((int(rows[0]), *block.shape[1:]), block.dtype)
            if found.size:
                messages.receive(other, found)
            return sent

        edge = min(place.rank, other), max(place.rank, other)
        ranks = place.members[edge[0]], place.members[edge[1]]
        self._run(place, "alltoall", "all", run, edge, ranks)
        return found

    def end_iteration(self) -> list[Operation]:
        """Begin the next iteration; return the operations of this one, in order."""
        self._order.end_iteration()
        done, self._done = self._done, []
        return done

    def _run(
        self,
        place: _Place,
        operation: str,
        waits: str,
        run: Callable[[], int],
        edge: tuple[int, int] = (0, 0),
        ranks: tuple[int, ...] = (),
    ) -> Operation:
        """Run an operation of a group, or of some `ranks` of it, and note it.

        Its number is made of the turn of its `edge`: who sends to whom, (0, 0) where all do. A
        pipeline has the circuits of all its neighbours in one stage: which of them has traffic with
        which changes with each micro-batch.
        """
        begin = lit = time.monotonic()
        ranks = ranks or place.members
        if place.is_on_rail:
            lit = self._begin(place, ranks)
        sent = run()
        end, count, (source, to) = time.monotonic(), len(place.members), edge
        turn = self._turns[place.name, source, to]
        self._turns[place.name, source, to] += 1
        number = (turn * count + source) * count + to
        done = Operation(place.name, number, operation, ranks, begin, lit, end, sent, waits)
        self._done.append(done)
        if place.is_on_rail:
            self._order.after()
        return done

    def _begin(self, place: _Place, ranks: tuple[int, ...]) -> float:
        key = place.name, ranks
        if not self._drains:
            return self._order.before(key)
        return self._order.before(key, self._mesh.by_dimension[place.dimension].connections.drain)


def _place(
    mesh: MeshGroups, dimension: str, groups: Groups, matchings: Sequence[Matching]
) -> _Place:
    """Return a rank's group along a dimension; a rail is the ranks with one number on their hosts.

    A group whose ranks are all on one rail is on it, others are on none: those inside a host need
    no circuits.
    """
    members = tuple(mesh.members[dimension])
    number = [tuple(group) for group in groups[dimension]].index(members)
    hosts = mesh.hosts
    local = {
        rank: sum(hosts[other] == hosts[rank] is not None for other in range(rank))
        for rank in members
    }
    is_on_rail = len(members) > 1 and len(set(local.values())) == 1
    own = members.index(mesh.rank)
    partners = tuple(partner_in(matching, own) for matching in matchings)
    return _Place(dimension, f"{dimension}{number}", members, own, is_on_rail, partners)
