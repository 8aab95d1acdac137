"""All ranks of a mesh in threads of one process, connected over loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from testbed.onhost.communication.control import Control, LeaveOrder
from testbed.onhost.communication.mesh import Groups, MeshGroups
from testbed.onhost.communication.rank_identity import RankIdentity
from tests.unit.onhost.rank_driver import PATIENCE, TOKEN, connection

T = TypeVar("T")

_KEPT: list[socket.socket] = []
"""The agents' ends of control channels: a rank whose agent closes its end exits at once."""


def control() -> Control:
    """Return the control channel of a rank whose agent says nothing."""
    mine, theirs = socket.socketpair()
    _KEPT.append(theirs)
    return Control(mine)


@contextmanager
def open_meshes(groups: Groups, hosts: Sequence[str | None]) -> Iterator[list[MeshGroups]]:
    """Connect every rank to all others, in generation 1."""
    ranks = len(hosts)
    ends: list[dict[int, socket.socket]] = [{} for _ in hosts]
    for a in range(ranks):
        for b in range(a + 1, ranks):
            ends[a][b], ends[b][a] = connection()
    leave = LeaveOrder()
    meshes = [
        MeshGroups(
            RankIdentity(TOKEN, 1, rank, ranks),
            {name: next(g for g in every if rank in g) for name, every in groups.items()},
            ends[rank],
            leave,
            hosts,
        )
        for rank in range(ranks)
    ]
    try:
        yield meshes
    finally:
        for mesh in meshes:
            mesh.close()
        leave.close()


def at_once(job: Callable[[MeshGroups], T], meshes: Sequence[MeshGroups]) -> list[T]:
    """Run `job` on every rank at once and return what each returned."""
    with ThreadPoolExecutor(len(meshes)) as threads:
        return [f.result(PATIENCE) for f in [threads.submit(job, mesh) for mesh in meshes]]
