"""Run several transfers concurrently in one thread: the only loop that sends and receives.

A task is a generator that moves bytes. After each attempt it yields MOVED, or the condition that it
waits for.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Generator

from .connections import MOVED, Need, Peer, PeerConnections

Task = Generator[Need, None, None]

_ENDED: Need = ("ended", 0)


def run(connections: PeerConnections, *tasks: Task) -> None:
    """Run tasks until all have ended; raise the error of a task or a connection.

    An order to leave is checked after each turn of all tasks.
    """
    running = list(tasks)
    while running:
        needs = [next(task, _ENDED) for task in running]
        if _ENDED in needs:
            running = [task for task, need in zip(running, needs) if need is not _ENDED]  # noqa: B905 - Python 3.9
        elif MOVED not in needs:
            connections.wait(needs)
            continue
        connections.raise_if_left()


def send_all(connections: PeerConnections, peer: Peer, data: bytes | memoryview) -> Task:
    """Send all bytes of `data` to a peer."""
    return _move_all(connections.send, (peer, select.POLLOUT), memoryview(data))


def receive_all(connections: PeerConnections, peer: Peer, buffer: bytearray | memoryview) -> Task:
    """Fill a buffer with the next bytes from a peer."""
    return _move_all(connections.receive, (peer, select.POLLIN), memoryview(buffer))


def _move_all(
    move: Callable[[Peer, memoryview], int], need: tuple[Peer, int], rest: memoryview
) -> Task:
    while rest:
        count = move(need[0], rest)
        rest = rest[count:]
        if rest:
            yield MOVED if count else need


def sleep_until(instant: float) -> Task:
    """Wait for an instant of the monotonic clock."""
    while time.monotonic() < instant:
        yield instant
