"""Transfers side by side in one thread: the only loop that sends, receives and waits.

A task is a generator that moves bytes. After each try it yields MOVED, or what it waits for.
"""

from __future__ import annotations

import select
import time
from collections.abc import Generator
from typing import Union

from ..errors import ProtocolError
from .connections import Peer, PeerConnections

MOVED = None
"""What a task yields that has moved something and can go on at once."""

BLOCKED = ()
"""What a task yields that can go on only once another task of the same run has moved something."""

Need = Union[None, float, tuple[()], tuple[Peer, int]]
"""What a task yields: MOVED, BLOCKED, an instant of the monotonic clock to wait for, or the peer
whose connection must become readable (POLLIN) or writable (POLLOUT)."""

Task = Generator[Need, None, None]


def run(connections: PeerConnections, *tasks: Task) -> None:
    """Run tasks until all have ended; raise what one of them or a connection raises.

    An order to leave is looked at after each turn of all tasks.
    """
    running = list(tasks)
    while running:
        needs: list[Need] = []
        moved = False
        for task in tuple(running):
            try:
                need = next(task)
            except StopIteration:
                running.remove(task)
                need = MOVED
            if need is MOVED:
                moved = True
            else:
                needs.append(need)
        if moved:
            connections.checkpoint()
        else:
            _wait(connections, needs)


def _wait(connections: PeerConnections, needs: list[Need]) -> None:
    instants = [need for need in needs if isinstance(need, float)]
    sockets = [need for need in needs if need and isinstance(need, tuple)]
    if not instants and not sockets:
        raise ProtocolError("each transfer of this rank waits for another one of this rank")
    connections.wait(
        [peer for peer, events in sockets if events == select.POLLIN],
        [peer for peer, events in sockets if events == select.POLLOUT],
        min(instants) if instants else None,
    )


def send_all(connections: PeerConnections, peer: Peer, data: bytes | memoryview) -> Task:
    """Send all of some bytes to a peer."""
    rest, need = memoryview(data), (peer, select.POLLOUT)
    while rest:
        count = connections.send(peer, rest)
        rest = rest[count:]
        if rest:
            yield MOVED if count else need


def receive_all(connections: PeerConnections, peer: Peer, room: bytearray | memoryview) -> Task:
    """Fill a room with the next bytes from a peer."""
    rest, need = memoryview(room), (peer, select.POLLIN)
    while rest:
        count = connections.receive(peer, rest)
        rest = rest[count:]
        if rest:
            yield MOVED if count else need


def sleep_until(instant: float) -> Task:
    """Wait for an instant of the monotonic clock."""
    while time.monotonic() < instant:
        yield instant
