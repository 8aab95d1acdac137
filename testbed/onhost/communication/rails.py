"""A rank on rails: it says when it reaches and leaves stages, and waits for their circuits.

A stage is operations of the same ranks of a group with none of other ranks between them
(testbed/rails/stage.py). The ranks of a group are connected over the circuits of their ring, in a
first stage of it, or where it has matchings two at a time, in a stage of each two; a connection
stays open while its circuit is dark, and nothing is sent then.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Optional

from ..errors import Refused
from .connections import DROPPED, Peer, counted, interface_of, retransmitted
from .control import Control
from .group import Group
from .handshake import Address, Sockets, connect_peers
from .matchings import Matchings
from .mesh import PROBING, Groups, MeshGroups, members_of, path
from .rail_paths import RailPorts, forwarded_path, paths
from .rank_identity import RankIdentity
from .sockets import Port, discard
from .stage_order import StageOrder
from .stages import Stage

LONGEST_WAIT = 90.0
"""Seconds after which a rank gives up waiting for circuits. The controller, which knows whom the
stage waits for, gives up before (LONGEST_WAIT in testbed/control/descriptors.py)."""


CONNECTING = -2
"""The place of the stage in which a group is connected; PROBING of the mesh is that of the next."""

FORWARDED = -3
"""The place of the stage in which a group is connected over another rail (testbed/rails/routing.py)
by way of which it may be forwarded."""

OWN_STAGES = 2
"""Stages of each group before those of a job: it is connected in one, and probed in another."""


class RailStages:
    """What one rank says of its stages in one generation, and hears of their circuits."""

    def __init__(
        self,
        control: Control,
        generation: int,
        first: int = 0,
        on_lit: Optional[Callable[[Stage], None]] = None,
    ) -> None:
        """Take the number that the stages of each group begin with, and what is told of lit ones.

        It is called in the thread of the rank, before it goes on.
        """
        self._control, self._generation, self._first = control, generation, first
        self._on_lit = on_lit

    def join(self, groups: Sequence[str]) -> None:
        """Say that this rank is ready for its groups, and wait until all others of them are.

        Raise Left, and Refused when some never are.
        """
        for group in groups:
            self._control.emit("group-joined", generation=self._generation, group=group)
        whole = self._control.whole
        self._wait(
            lambda: all(
                whole.get(group, {}).get("generation") == self._generation for group in groups
            ),
            f"not all ranks of {' and '.join(groups)} have joined them",
        )

    def may_be_forwarded(self, group: str) -> bool:
        """Tell of a group that all have joined whether it may use circuits of another rail."""
        return bool(self._control.whole[group].get("forwarded"))

    def reached(self, stage: Stage) -> float:
        """Wait until the circuits of a stage are lit; return the instant, of the monotonic clock.

        Raise Left, and Refused when nobody answers.
        """
        stage = self._numbered(stage)
        self._control.emit("stage-reached", generation=self._generation, stage=stage)
        failed = f"nobody has made the circuits of {stage.group} {stage.number}"
        self._wait(lambda: self._is_lit(stage), failed)
        if self._on_lit is not None:
            self._on_lit(stage)
        return time.monotonic()

    def left(self, stage: Stage, following: Optional[Stage]) -> None:
        """Say that this rank's traffic in a stage has ended, and which is next, where it knows."""
        stages: dict[str, Any] = {"stage": self._numbered(stage)}
        if following is not None:
            stages["following"] = self._numbered(following)
        self._control.emit("stage-left", generation=self._generation, **stages)

    @contextmanager
    def during(self, stage: Stage) -> Iterator[list[Any]]:
        """Have the circuits of a stage lit in a block; yield their ends, as `links`."""
        self.reached(stage)
        yield self.links(stage)
        self.left(stage, None)

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
        here = [rank for rank, host in enumerate(hosts) if host == hosts[identity.rank]]
        inside = _paths_inside(identity.rank, members.values(), here, reports)
        sockets = connect_peers((local,), inside, identity, control.leave)
        order = StageOrder(identity.rank, members, numbers, hosts, matchings)
        forwarded, routes = dict[str, Sockets](), list[tuple[str, str]]()
        try:
            stages.join([order.group(name) for name in order.on_rail])
            for name, joined in ((n, ranks) for n in order.on_rail for ranks in order.joined(n)):
                with stages.during(order.begin(name, CONNECTING, joined)) as links:
                    found = paths(links, ports, reports, identity.rank)
                    sockets.update(connect_peers(ports.listeners, found, identity, control.leave))
                routes += [(port.interface or "", at[0]) for port, at in found.values()]
            for name in order.on_rail:
                if stages.may_be_forwarded(order.group(name)):
                    stage = order.begin(name, FORWARDED, members[name])
                    with stages.during(stage) as links:
                        over, found = forwarded_path(links, ports, reports, identity.rank, stage)
                        listeners = over.listeners
                        forwarded[name] = connect_peers(listeners, found, identity, control.leave)
        except BaseException:
            for connection in (*sockets.values(), *_all(forwarded)):
                discard(connection)
            raise
        mesh = cls(identity, members, sockets, control, order, hosts, ports.ports, forwarded)
        mesh.routes = routes
        return mesh

    def __init__(
        self,
        identity: RankIdentity,
        members: Mapping[str, Sequence[int]],
        sockets: Mapping[int, socket.socket],
        control: Control,
        order: StageOrder,
        hosts: Sequence[str],
        ports: Sequence[Port],
        forwarded: Mapping[str, Mapping[int, socket.socket]],
    ) -> None:
        super().__init__(identity, members, sockets, control.leave, hosts)
        self._forwarded = forwarded
        """By dimension, the connections over another rail, by rank."""
        self._is_away = dict.fromkeys(forwarded, False)
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
        own = OWN_STAGES + self.may_be_forwarded  # a group was connected once more
        return RailStages(self._control, self.generation, own, self._use)

    @property
    def may_be_forwarded(self) -> bool:
        """Tell whether groups of this rank may use circuits of another rail."""
        return bool(self._forwarded)

    def losses(self) -> dict[str, int]:
        """Return segments that were sent again, and frames that a fabric port dropped, so far."""
        connections = (*self._sockets.values(), *_all(self._forwarded))
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
            self._use(stage)
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

    def _use(self, stage: Stage) -> None:
        """Use the connections over the circuits of a stage: its own, or those of other ranks."""
        for dimension, is_away in self._is_away.items():
            if self._order.group(dimension) != stage.group:
                continue
            goes_away = all(r != self.rank for link in self._stages.links(stage) for r, _ in link)
            if goes_away != is_away:
                self._is_away[dimension] = goes_away
                of_ranks = self._forwarded[dimension] if goes_away else self._sockets
                members = enumerate(self.members[dimension])
                sockets: dict[Peer, socket.socket] = {}
                sockets |= {n: of_ranks[rank] for n, rank in members if rank != self.rank}
                self.by_dimension[dimension].connections.switch(sockets)

    def close(self) -> None:
        """Close every connection and discard unsent data."""
        super().close()
        for connection in _all(self._forwarded):
            discard(connection)

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


def _paths_inside(
    rank: int,
    members: Iterable[Sequence[int]],
    here: Sequence[int],
    reports: Mapping[int, Mapping[str, Any]],
) -> dict[int, tuple[Port, Address]]:
    """Return how a rank reaches those of its groups that are on its host, as the ranks `here`."""
    others = {other for ranks in members for other in ranks if other != rank and other in here}
    return {other: path(rank, other, None, reports) for other in sorted(others)}


def _all(forwarded: Mapping[str, Mapping[int, socket.socket]]) -> Iterator[socket.socket]:
    for of_ranks in forwarded.values():
        yield from of_ranks.values()
