"""Groups whose ranks are processes of their own, over loopback."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from testbed.onhost.communication.connections import PeerConnections
from testbed.onhost.communication.control import LeaveOrder
from testbed.onhost.communication.group import Group
from tests.unit.onhost.rank_driver import connection

PATIENCE = 60.0
Job = Callable[..., Any]
"""A function of a module: given a group, the order to leave it, and more; what it returns."""


def in_processes(ranks: int, job: Job, *more: Any) -> list[Any]:
    """Run a job on every rank at once and return what each returned; raise what one raised."""
    ends: list[dict[int, socket.socket]] = [{} for _ in range(ranks)]
    for a in range(ranks):
        for b in range(a + 1, ranks):
            ends[a][b], ends[b][a] = connection()
    spawn = get_context("spawn")
    pipes = [spawn.Pipe(duplex=False) for _ in range(ranks)]
    members = [
        spawn.Process(target=_take_part, args=(rank, ends[rank], pipes[rank][1], job, more))
        for rank in range(ranks)
    ]
    try:
        for member in members:
            member.start()
        for line in (line for mine in ends for line in mine.values()):
            line.close()
        return [_heard(pipe) for pipe, _ in pipes]
    finally:
        for member, pipe in zip(members, pipes, strict=True):
            member.kill()
            member.join()
            for end in pipe:
                end.close()


def _take_part(
    rank: int, lines: Mapping[int, socket.socket], pipe: Connection, job: Job, more: tuple[Any, ...]
) -> None:
    leave = LeaveOrder()
    group = Group(rank, len(lines) + 1, PeerConnections(lines, 1, leave))
    try:
        pipe.send(job(group, leave, *more))
    except Exception as error:
        pipe.send(error)
    time.sleep(PATIENCE)  # until it is killed: its lines must not break before all are done


def _heard(pipe: Connection) -> Any:
    assert pipe.poll(PATIENCE), "a rank did not end"
    found = pipe.recv()
    if isinstance(found, Exception):
        raise found
    return found
