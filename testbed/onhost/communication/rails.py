"""A rank on rails: it says when it reaches and leaves stages, and waits for their circuits.

A stage is operations of the same ranks of a group with none of other ranks between them
(testbed/rails/stage.py). The ranks of a group are connected over the circuits of their ring, in a
first stage of it, or where it has matchings two at a time, in a stage of each two; a connection
stays open while its circuit is dark, and nothing is sent then.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..errors import Refused
from .connections import DROPPED, counted, interface_of, retransmitted
from .control import Control
from .group import Group
from .handshake import Address, connect_peers
from .matchings import Matching, Matchings, partner_in
from .mesh import PROBING, Groups, MeshGroups, members_of, path
from .rank_identity import RankIdentity
from .sockets import Port, discard
from .stages import Stage

LONGEST_WAIT = 90.0
"""Seconds after which a rank gives up waiting for circuits. The controller, which knows whom the
stage waits for, gives up before (LONGEST_WAIT in testbed/control/descriptors.py)."""


CONNECTING = -2
"""The place of the stage in which a group is connected; PROBING of the mesh is that of the next."""

OWN_STAGES = 2
"""Stages of each group before those of a job: it is connected in one, and probed in another."""


class RailStages:
    """What one rank says of its stages in one generation, and hears of their circuits."""

    def __init__(self, control: Control, generation: int, first: int = 0) -> None:
        """Take the number that the stages of each group begin with."""
        self._control, self._generation, self._first = control, generation, first

    def join(self, groups: Sequence[str]) -> None:
        """Say that this rank is ready for its groups, and wait until all others of them are.

        Raise Left, and Refused when some never are.
        """
        for group in groups:
            self._control.emit("group-joined", generation=self._generation, group=group)
        whole = self._control.whole
        self._wait(
            lambda: all(whole.get(group) == self._generation for group in groups),
            f"not all ranks of {' and '.join(groups)} have joined them",
        )

    def reached(self, stage: Stage) -> float:
        """Wait until the circuits of a stage are lit; return the instant, of the monotonic clock.

        Raise Left, and Refused when nobody answers.
        """
        stage = self._numbered(stage)
        self._control.emit("stage-reached", generation=self._generation, stage=stage)
        failed = f"nobody has made the circuits of {stage.group} {stage.number}"
        self._wait(lambda: self._is_lit(stage), failed)
        return time.monotonic()

    def left(self, stage: Stage, following: Optional[Stage]) -> None:
        """Say that this rank's traffic in a stage has ended, and which is next, where it knows."""
        stages: dict[str, Any] = {"stage": self._numbered(stage)}
        if following is not None:
            stages["following"] = self._numbered(following)
        self._control.emit("stage-left", generation=self._generation, **stages)

    def links(self, stage: Stage) -> list[Any]:
        """Return the ends of the circuits of a stage that is lit: rank and port, rank and port."""
        links: list[Any] = self._control.stages[stage.group, stage.ranks]["links"]
        return links

    def _wait(self, is_over: Callable[[], bool], failed: str) -> None:
        limit = time.monotonic() + LONGEST_WAIT

        def ends() -> bool:
            return is_over() or time.monotonic() >= limit

        self._control.wait_until(ends, self._generation, limit)
        if not is_over():
            raise Refused(f"{failed} within {LONGEST_WAIT:g} s")

    def _numbered(self, stage: Stage) -> Stage:
        return Stage(stage.group, self._first + stage.number, tuple(stage.ranks), stage.place)

    def _is_lit(self, stage: Stage) -> bool:
        lit = self._control.stages.get((stage.group, stage.ranks))
        return lit is not None and (lit["generation"], lit["number"]) >= (
            self._generation,
            stage.number,
        )


@dataclass(frozen=True)
class RailPorts:
    """The fabric ports of a rank on rails, and the listening socket on each."""

    ports: Sequence[Port]
    listeners: Sequence[socket.socket]


class RailMesh(MeshGroups):
    """The groups of a rank in a mesh, of which those on a rail need circuits.

    Every rank begins and ends the same dimensions in the same order.
    """

    @classmethod
    def connect_on_rails(
        cls,
        ports: RailPorts,
        local: socket.socket,
        reports: Mapping[int, Mapping[str, Any]],
        identity: RankIdentity,
        groups: Groups,
        control: Control,
        matchings: Matchings,
    ) -> RailMesh:
        """Connect to the ranks of all groups: by loopback in a host, else in stages of the group.

        `reports` are as in `connect`, with `own`: where each rank listens on each of its ports.
        Raise Left and Refused.
        """
        members = {name: members_of(identity.rank, every) for name, every in groups.items()}
        numbers = {name: list(every).index(members[name]) for name, every in groups.items()}
        stages = RailStages(control, identity.generation)
        hosts = [reports[rank]["host"] for rank in range(identity.ranks)]
        inside = {
            rank: path(identity.rank, rank, None, reports)
            for ranks in members.values()
            for rank in ranks
            if rank != identity.rank and hosts[rank] == hosts[identity.rank]
        }
        sockets = connect_peers((local,), inside, identity, control.leave)
        order = _StageOrder(identity.rank, members, numbers, hosts, matchings)
        routes: list[tuple[str, str]] = []
        try:
            stages.join([order.group(name) for name in order.on_rail])
            for name, joined in ((n, ranks) for n in order.on_rail for ranks in order.joined(n)):
                stage = order.begin(name, CONNECTING, joined)
                stages.reached(stage)
                found = _paths(stages.links(stage), ports, reports, identity.rank)
                sockets.update(connect_peers(ports.listeners, found, identity, control.leave))
                routes += [(port.interface or "", at[0]) for port, at in found.values()]
                stages.left(stage, None)
        except BaseException:
            for connection in sockets.values():
                discard(connection)
            raise
        mesh = cls(identity, members, sockets, control, order, hosts, ports.ports)
        mesh.routes = routes
        return mesh

    def __init__(
        self,
        identity: RankIdentity,
        members: Mapping[str, Sequence[int]],
        sockets: Mapping[int, socket.socket],
        control: Control,
        order: _StageOrder,
        hosts: Sequence[str],
        ports: Sequence[Port],
    ) -> None:
        super().__init__(identity, members, sockets, control.leave, hosts)
        self.ports = ports
        """This rank's fabric ports, by number."""
        self.routes: list[tuple[str, str]] = []
        """By which interface it reaches which address of another rank."""
        self._control, self._order = control, order
        self._stages = RailStages(control, identity.generation)
        self._present: dict[str, Stage] = {}
        """By dimension, the stage that this rank is in."""

    @property
    def stages(self) -> RailStages:
        """Return the client of the rails, for stages that the job itself numbers from 0 on."""
        return RailStages(self._control, self.generation, OWN_STAGES)

    def losses(self) -> dict[str, int]:
        """Return segments that were sent again, and frames that a fabric port dropped, so far."""
        connections = self._sockets.values()
        ports = {name for each in connections if (name := interface_of(each))}
        dropped = sum(sum(counted(name, *DROPPED)) for name in ports)
        return {"retransmitted": sum(map(retransmitted, connections)), "dropped": dropped}

    def joined(self, dimension: str) -> Sequence[Sequence[int]]:
        """Return the ranks that circuits join this one with at once: its group, or pair by pair."""
        return self._order.joined(dimension)

    def begin(
        self, dimension: str, place: int = 0, joined: Optional[Sequence[int]] = None
    ) -> float:
        """Wait for the circuits of this rank's group, then for its ranks; return when lit.

        Of a group that is `joined` pair by pair it is one pair, which waits for each other only.
        """
        lit, ranks = time.monotonic(), joined or self.members[dimension]
        if dimension in self._order.on_rail:
            stage = self._present[dimension] = self._order.begin(dimension, place, ranks)
            lit = self._stages.reached(stage)
        if joined is None:
            self.by_dimension[dimension].barrier()
        return lit

    def links(self, dimension: str) -> Iterator[Group]:
        """Yield this rank's group along a dimension, or each pair of it that has circuits."""
        if self.joined(dimension) == (self.members[dimension],):
            yield from super().links(dimension)
            return
        for ranks in self.joined(dimension):
            self.begin(dimension, PROBING, ranks)
            pair = self._group(ranks)
            pair.barrier()
            yield pair
            self.end(dimension)

    def end(
        self,
        dimension: str,
        upcoming: Iterable[str] = (),
        joined: Optional[Sequence[int]] = None,
    ) -> None:
        """Leave the circuits to others once all that was sent has arrived.

        `upcoming` are the dimensions that come next, and `joined` the ranks that are of the first.
        """
        if dimension in self._order.on_rail:
            self.by_dimension[dimension].connections.drain()
            following = next((name for name in upcoming if name in self._order.on_rail), None)
            then = None
            if following is not None:
                then = self._order.next(following, 0, joined or self.joined(following)[0])
            self._stages.left(self._present.pop(dimension), then)


class _StageOrder:
    """The stages of one rank in its groups on a rail, each of which is one operation."""

    def __init__(
        self,
        rank: int,
        members: Mapping[str, Sequence[int]],
        numbers: Mapping[str, int],
        hosts: Sequence[str],
        matchings: Matchings,
    ) -> None:
        self.on_rail = tuple(
            n for n, ranks in members.items() if len({hosts[r] for r in ranks}) > 1
        )
        """The dimensions along which this rank's group is on several hosts."""
        self._members, self._numbers = members, numbers
        self._joined = {
            name: tuple(_pairs(rank, ranks, matchings[name])) if name in matchings else (ranks,)
            for name, ranks in members.items()
        }
        self._begun: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def group(self, dimension: str) -> str:
        """Return the name of this rank's group along a dimension."""
        return f"{dimension}{self._numbers[dimension]}"

    def joined(self, dimension: str) -> Sequence[Sequence[int]]:
        """Return the ranks that circuits join this one with at once: its group, or pair by pair."""
        return self._joined[dimension]

    def next(self, dimension: str, place: int = 0, joined: Optional[Sequence[int]] = None) -> Stage:
        """Return the next stage of the group, or of the ranks of it that are joined."""
        ranks = tuple(self._members[dimension] if joined is None else joined)
        return Stage(self.group(dimension), self._begun[dimension, ranks], ranks, place)

    def begin(self, dimension: str, place: int, joined: Sequence[int]) -> Stage:
        """Return the next stage of the ranks that are joined, which has begun now."""
        stage = self.next(dimension, place, joined)
        self._begun[dimension, stage.ranks] += 1
        return stage


def _pairs(
    rank: int, members: Sequence[int], matchings: Sequence[Matching]
) -> Iterator[tuple[int, int]]:
    """Yield a rank with whom it meets in each matching of its group, in the order of the group."""
    own = members.index(rank)
    for matching in matchings:
        other = partner_in(matching, own)
        if other is not None:
            yield members[min(own, other)], members[max(own, other)]


def _paths(
    links: Sequence[tuple[Sequence[int], Sequence[int]]],
    ports: RailPorts,
    reports: Mapping[int, Mapping[str, Any]],
    rank: int,
) -> dict[int, tuple[Port, Address]]:
    """Return by which port a rank reaches each other that circuits join it with, and where.

    Of several circuits to one rank it is the first.
    """
    paths: dict[int, tuple[Port, Address]] = {}
    for link in links:
        for (own, port), (other, far) in (link, link[::-1]):
            if own == rank and other not in paths:
                paths[other] = ports.ports[port], tuple(reports[other]["own"][far])
    return paths
