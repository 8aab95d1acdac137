"""The ring of `allreduce` and `train`, and the ring as a schedule, in turn on lines of their own.

Over loopback, so that nothing shapes the lines and only the ranks' own work is compared.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Mapping
from itertools import chain
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np
import pytest

from testbed.collectives.rings import ring
from testbed.collectives.schedule import to_json
from testbed.onhost.communication.connections import NEXT, PREVIOUS, PeerConnections
from testbed.onhost.communication.control import LeaveOrder
from testbed.onhost.communication.group import Group
from testbed.onhost.communication.rank_schedule import RankSchedule
from testbed.onhost.communication.ring import Ring
from testbed.onhost.communication.sockets import prepare

RANKS = 4
LIMIT = 1.5
"""Times the ring's own time beyond which something is wrong."""

Span = tuple[float, float]


@pytest.mark.parametrize(("size", "times"), [(64 << 10, 300), (1 << 20, 200), (16 << 20, 25)])
def test_the_ring_as_a_schedule_beside_the_ring(size: int, times: int) -> None:
    spawn = get_context("spawn")
    lines: list[dict[int, socket.socket]] = [{} for _ in range(RANKS)]
    for a in range(RANKS):
        for b in range(a + 1, RANKS):
            lines[a][b], lines[b][a] = _connection()
    pairs = [_connection() for _ in range(RANKS)]
    pipes = [spawn.Pipe(duplex=False) for _ in range(RANKS)]
    members = [
        spawn.Process(
            target=_take_turns,
            args=(rank, lines[rank], (pairs[rank][0], pairs[rank - 1][1]), pipes[rank][1]),
            kwargs={"size": size, "times": times},
        )
        for rank in range(RANKS)
    ]
    for member in members:
        member.start()
    for line in (*(line for mine in lines for line in mine.values()), *chain(*pairs)):
        line.close()
    spans = [pipe.recv() for pipe, _ in pipes]
    for member, ends in zip(members, pipes, strict=True):
        member.kill()
        member.join()
        for end in ends:
            end.close()
    own, scheduled = (_median([mine[which] for mine in spans]) for which in (0, 1))
    print(
        f"\n{size >> 10} KiB: the ring {own * 1e3:.2f} ms, as a schedule {scheduled * 1e3:.2f} ms, "
        f"{scheduled / own:.2f} times as long"
    )
    assert scheduled / own < LIMIT


def _median(spans: list[list[Span]]) -> float:
    """Return the median time from the last rank's begin to the last one's end."""
    return statistics.median(
        max(end for _, end in turn) - max(begin for begin, _ in turn)
        for turn in zip(*spans, strict=True)
    )


def _take_turns(
    rank: int,
    lines: Mapping[int, socket.socket],
    pair: tuple[socket.socket, socket.socket],
    pipe: Connection,
    *,
    size: int,
    times: int,
) -> None:
    for line in (*lines.values(), *pair):
        prepare(line)
    leave = LeaveOrder()
    group = Group(rank, RANKS, PeerConnections(lines, 1, leave))
    around = Ring(rank, RANKS, PeerConnections({NEXT: pair[0], PREVIOUS: pair[1]}, 1, leave))
    program, vector = RankSchedule.of(to_json(ring(RANKS)), rank), np.zeros(size // 4, np.float32)
    spans: tuple[list[Span], list[Span]] = ([], [])
    for _ in range(times):
        for found, run in zip(
            spans, (around.all_reduce, lambda v: group.run(program, v)), strict=True
        ):
            group.barrier()
            begin = time.monotonic()
            run(vector)
            found.append((begin, time.monotonic()))
    pipe.send(spans)
    time.sleep(60)  # until it is killed: its lines must not break before all are done


def _connection() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    return near, far
