"""All ranks of a mesh in threads of one process, connected over loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from testbed.onhost.communication.control import Control, LeaveOrder
from testbed.onhost.communication.mesh import Groups, MeshGroups
from testbed.onhost.communication.rank_identity import RankIdentity
from testbed.onhost.errors import Left
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
    leave = [LeaveOrder() for _ in hosts]
    meshes = [
        MeshGroups(
            RankIdentity(TOKEN, 1, rank, ranks),
            {name: next(g for g in every if rank in g) for name, every in groups.items()},
            ends[rank],
            leave[rank],
            hosts,
        )
        for rank in range(ranks)
    ]
    try:
        yield meshes
    finally:
        for mesh in meshes:
            mesh.close()
        for order in leave:
            order.close()


def at_once(job: Callable[[MeshGroups], T], meshes: Sequence[MeshGroups]) -> list[T]:
    """Run `job` on every rank at once and return what each returned.

    When one of them fails, the others leave; raise what it raised.
    """

    def run(mesh: MeshGroups) -> T:
        try:
            return job(mesh)
        except BaseException:
            for other in meshes:
                other._leave.give(mesh.generation)
            raise

    with ThreadPoolExecutor(len(meshes)) as threads:
        running = [threads.submit(run, mesh) for mesh in meshes]
        wait(running, PATIENCE)
        failed = [one.exception() for one in running if one.done() and one.exception()]
        if failed:
            raise next((e for e in failed if not isinstance(e, Left)), failed[0])
        return [one.result(0) for one in running]
