"""The groups of a rank in a mesh: one along each dimension, each with a communicator of its own.

Two ranks are in one group at most, so that no connection serves two of them. Ranks on one host
reach each other by loopback, all others by the fabric.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

from ..errors import Refused
from .connections import Peer, PeerConnections
from .control import LeaveOrder
from .group import Group
from .handshake import Address, connect_peers
from .rank_identity import RankIdentity
from .sockets import LOOPBACK, Port, discard
from .stages import Stages

PROBING = -1
"""The place of what is outside of any iteration: that links are probed."""

Groups = Mapping[str, Sequence[Sequence[int]]]
"""By dimension, all groups along it: the ranks of each, in the order of their coordinates."""


class MeshGroups:
    """All ranks of one generation, each connected to those that it shares a group with.

    `by_dimension` are the communicators of this rank's groups, in which ranks are numbered from 0,
    and `members` the ranks of these. `hosts` are those of all ranks, None where that is not known.
    """

    def __init__(
        self,
        identity: RankIdentity,
        members: Mapping[str, Sequence[int]],
        sockets: Mapping[int, socket.socket],
        leave: LeaveOrder,
        hosts: Sequence[Optional[str]] = (),
    ) -> None:
        self.hosts = hosts or [None] * identity.ranks
        self.rank, self.ranks = identity.rank, identity.ranks
        self.generation = identity.generation
        self.members = members
        self._leave, self._sockets = leave, sockets
        self.by_dimension = {name: self._group(ranks) for name, ranks in members.items()}

    @classmethod
    def connect(
        cls,
        listeners: Sequence[socket.socket],
        port: Optional[Port],
        reports: Mapping[int, Mapping[str, Any]],
        identity: RankIdentity,
        groups: Groups,
        leave: LeaveOrder,
    ) -> MeshGroups:
        """Connect to the ranks of all groups, from a fabric port where there is one.

        `reports` say of each rank its `host` and where it listens: `address` and `port` on the
        fabric, or on loopback without a fabric port, and `local` on loopback. Raise Refused where
        two ranks of a group have no way to each other, and Left.
        """
        members = {name: members_of(identity.rank, every) for name, every in groups.items()}
        peers = {rank for ranks in members.values() for rank in ranks} - {identity.rank}
        paths = {rank: path(identity.rank, rank, port, reports) for rank in sorted(peers)}
        hosts = [reports[rank].get("host") for rank in range(identity.ranks)]
        sockets = connect_peers(listeners, paths, identity, leave)
        return cls(identity, members, sockets, leave, hosts)

    @property
    def stages(self) -> Optional[Stages]:
        """Return what is told of stages; None where ranks reach each other at any time."""
        return None

    def losses(self) -> dict[str, int]:
        """Return what was lost on the way since the connections were made; only rails count it."""
        return {}

    def barrier(self) -> None:
        """Return when every rank of the mesh has called this."""
        for group in self.by_dimension.values():
            group.barrier()

    def joined(self, dimension: str) -> Sequence[Sequence[int]]:
        """Return the ranks that this one reaches at once along a dimension: all of its group."""
        return (self.members[dimension],)

    def begin(
        self, dimension: str, place: int = 0, joined: Optional[Sequence[int]] = None
    ) -> Optional[float]:
        """Wait until all ranks of the mesh begin an operation along a dimension.

        On rails return since when this rank has its circuits, and wait for its group only, or for
        nobody where circuits join two of it; `place` is which of the group's stages in an iteration
        begins.
        """
        self.barrier()
        return None

    def end(
        self,
        dimension: str,
        upcoming: Iterable[str] = (),
        joined: Optional[Sequence[int]] = None,
    ) -> None:
        """Note that an operation has ended, and the dimensions of the next ones; do nothing."""

    def links(self, dimension: str) -> Iterator[Group]:
        """Yield this rank's group along a dimension while its links can be probed."""
        self.begin(dimension, PROBING)
        yield self.by_dimension[dimension]
        self.end(dimension)

    def raise_if_left(self) -> None:
        """Raise Left when this generation must be left."""
        self._leave.check(self.generation)

    def close(self) -> None:
        """Close every connection and discard unsent data."""
        for connection in self._sockets.values():
            discard(connection)

    def _group(self, ranks: Sequence[int]) -> Group:
        sockets = {n: self._sockets[r] for n, r in enumerate(ranks) if r in self._sockets}
        names: dict[Peer, str] = {number: f"rank {rank}" for number, rank in enumerate(ranks)}
        beside = {f"rank {rank}": s for rank, s in self._sockets.items() if rank not in ranks}
        connections = PeerConnections(sockets, self.generation, self._leave, names, beside)
        around = len(sockets) < len(ranks) - 1  # circuits join neighbours only
        return Group(ranks.index(self.rank), len(ranks), connections, around=around)


def members_of(rank: int, groups: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return the group that a rank is in; raise Refused where it is in none."""
    for group in groups:
        if rank in group:
            return group
    raise Refused(f"rank {rank} is in none of the groups {list(groups)}")


def path(
    rank: int, other: int, port: Optional[Port], reports: Mapping[int, Mapping[str, Any]]
) -> tuple[Port, Address]:
    """Return the port by which a rank reaches another one, and where that listens.

    Ranks on one host use loopback. Raise Refused where one of them has no port to the other.
    """
    mine, theirs = reports[rank], reports[other]
    if mine.get("host") is not None and mine.get("host") == theirs.get("host"):
        return LOOPBACK, tuple(theirs["local"])
    address = theirs["address"], theirs["port"]
    if port is None or address == tuple(theirs.get("local") or ()):
        where = " and ".join(f"rank {r} on {reports[r].get('host')}" for r in (rank, other))
        raise Refused(f"{where} need each other, and one of them has no fabric port")
    return port, address
