"""Groups in threads: every rank connected to every other, over loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from testbed.onhost.communication.connections import PeerConnections
from testbed.onhost.communication.control import LeaveOrder
from testbed.onhost.communication.group import Group
from tests.unit.onhost.rank_driver import PATIENCE, connection

T = TypeVar("T")


class Groups:
    """All ranks of one generation in one process; `leave` holds one order for each."""

    def __init__(self, ranks: int, generations: Sequence[int] = (), *, shared: bool = True) -> None:
        ends: list[dict] = [{} for _ in range(ranks)]
        for a in range(ranks):
            for b in range(a + 1, ranks):
                ends[a][b], ends[b][a] = connection()
        self.leave = [LeaveOrder() for _ in range(ranks)]
        numbers = generations or [1] * ranks
        self.members = [
            Group(
                rank,
                ranks,
                PeerConnections(ends[rank], numbers[rank], self.leave[rank]),
                shared=shared,
            )
            for rank in range(ranks)
        ]

    def run(self, job: Callable[[Group], T]) -> list[T]:
        """Run `job` on every rank at once and return what each returned."""
        with ThreadPoolExecutor(len(self.members)) as threads:
            return [f.result(PATIENCE) for f in [threads.submit(job, m) for m in self.members]]

    def close(self) -> None:
        for member, leave in zip(self.members, self.leave, strict=True):
            member.connections.close()
            leave.close()


@contextmanager
def open_groups(
    ranks: int, generations: Sequence[int] = (), *, shared: bool = True
) -> Iterator[Groups]:
    """Yield them; where ports are not `shared`, each peer has a line of its own."""
    groups = Groups(ranks, generations, shared=shared)
    try:
        yield groups
    finally:
        groups.close()
