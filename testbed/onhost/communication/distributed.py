"""Run schedules on torch.distributed, by its point-to-point operations or its own AllReduce.

Its backend is gloo, or nccl on hosts with GPUs, which was not tested. It uses the same ports as the
group, and ends with the generation. This is the only module that imports torch; it is imported only
for jobs that use it.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from ..errors import Left, PeerLost
from .communicator import chunk_bounds
from .control import LeaveOrder
from .group import Group
from .rank_schedule import Part, RankSchedule, ScheduleRecord

Vector = npt.NDArray[Any]

_FOR_EVER = timedelta(days=365)
"""For how long a silent rank is waited for: when to give it up is not for a library to decide."""

_STALE = 0.05
"""Seconds until an order to leave that was about an older generation is looked at once more."""


class Distributed:
    """The ranks of one generation, connected by torch.distributed besides their own connections.

    Left and PeerLost may come from any call; after either the object must not be used any more.
    """

    def __init__(self, group: Group, backend: str, leave: LeaveOrder) -> None:
        """Connect to all other ranks of the group, each of which calls this too."""
        self._group, self._leave = group, leave
        self._device = torch.device("cuda", 0) if backend == "nccl" else torch.device("cpu")
        if interface := group.connections.interface():
            os.environ["GLOO_SOCKET_IFNAME"] = interface
        others = _open_sockets()
        with self._breaking():
            dist.init_process_group(
                backend,
                store=self._store(),
                rank=group.rank,
                world_size=group.ranks,
                timeout=_FOR_EVER,
            )
        self._sockets = _open_sockets() - others
        self._ended, self._end = os.pipe()
        self._watch = threading.Thread(target=self._break_when_told, name="leave", daemon=True)
        self._watch.start()
        self.take(np.zeros(group.ranks, np.float32))
        try:
            self.all_reduce()  # what the library puts off until it is first used
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect; operations in progress on other ranks fail."""
        os.write(self._end, b"!")
        self._watch.join()
        os.close(self._ended)
        os.close(self._end)
        dist.destroy_process_group()

    def take(self, vector: Vector) -> None:
        """Set the contiguous vector to work on: in place, or on a copy on the GPU."""
        self._tensor = torch.from_numpy(vector).to(self._device)

    def give(self, vector: Vector) -> None:
        """Copy the result back into the vector that `take` was given."""
        if self._device.type != "cpu":
            vector[...] = self._tensor.cpu().numpy()

    def all_reduce(self) -> ScheduleRecord:
        """Replace the vector by its sum over the ranks, with the library's own AllReduce."""
        with self._breaking():
            dist.all_reduce(self._tensor)
            self._settle()
        return ScheduleRecord()

    def run(self, schedule: RankSchedule) -> ScheduleRecord:
        """Run this rank's part of a schedule on the vector, one round after the other."""
        bounds = chunk_bounds(self._tensor.numel(), schedule.chunks)
        rounds: dict[int, list[_Message]] = {}
        for is_sent, parts in ((True, schedule.sends), (False, schedule.receives)):
            for part in parts:
                start, stop = bounds[part.chunk][0], bounds[part.chunk + part.count - 1][1]
                if start < stop:
                    message = _Message(part, is_sent, self._tensor[start:stop])
                    rounds.setdefault(part.round, []).append(message)
        record = ScheduleRecord()
        for number in sorted(rounds):
            begin = time.monotonic()
            with self._breaking():
                works = dist.batch_isend_irecv([message.operation() for message in rounds[number]])
                for work in works:
                    work.wait()
                for message in rounds[number]:
                    record.sent += message.finish()
            record.note_round(number, begin, time.monotonic())
        with self._breaking():
            self._settle()
        return record

    def _settle(self) -> None:
        """Return when the device is done."""
        if self._device.type != "cpu":
            torch.cuda.synchronize(self._device)

    def _store(self) -> dist.Store:
        """Return where the ranks find each other: at the first one, on its port of the fabric."""
        group, number = self._group, np.zeros(1, np.int64)
        host = group.connections.address_of(None if group.rank == 0 else 0)
        if group.rank == 0:
            store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
            number[0] = store.port
            group.run(_from_the_first(group), number)
            return store
        group.run(_from_the_first(group), number)
        return dist.TCPStore(host, int(number[0]), is_master=False)

    def _break_when_told(self) -> None:
        """Break what is under way when the generation must be left, until the end.

        No library takes an order: `abort` of gloo does nothing. A connection that ends it notices.
        """
        poll = select.poll()
        for descriptor in (self._leave.fileno(), self._ended):
            poll.register(descriptor, select.POLLIN)
        while self._ended not in dict(poll.poll()):
            try:
                self._group.raise_if_left()
            except Left:
                for descriptor in self._sockets:
                    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
                        line.getpeername()  # a listener has none, and may not be shut
                        line.shutdown(socket.SHUT_RDWR)
                return
            time.sleep(_STALE)

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Tell what the library broke with in the words of a rank."""
        try:
            yield
        except RuntimeError as error:
            self._group.raise_if_left()
            raise PeerLost("other", str(error).splitlines()[0]) from error
        self._group.raise_if_left()


@dataclass
class _Message:
    """One send or receive of a round, and the elements that it is about."""

    part: Part
    is_sent: bool
    own: torch.Tensor

    def operation(self) -> dist.P2POp:
        """Return the send or receive operation for the library."""
        if self.is_sent:
            return dist.P2POp(dist.isend, self.own, self.part.peer)
        self.buffer = torch.empty_like(self.own)  # the same elements may be on their way out
        return dist.P2POp(dist.irecv, self.buffer, self.part.peer)

    def finish(self) -> int:
        """Apply the received data to our own elements; return the number of bytes sent."""
        if self.is_sent:
            return int(self.own.nbytes)
        if self.part.adds:
            self.own.add_(self.buffer)
        else:
            self.own.copy_(self.buffer)
        return 0


def _open_sockets() -> set[int]:
    """Return the descriptors of this process that are sockets."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing itself is closed by now
            if path.is_socket():
                found.add(int(path.name))
    return found


def _from_the_first(group: Group) -> RankSchedule:
    """Return a rank's part of handing one number from the first rank to all others."""
    if group.rank:
        return RankSchedule(1, (), (Part(group.rank - 1, 0, 0, 1, False),))
    others = range(1, group.ranks)
    return RankSchedule(1, tuple(Part(other - 1, other, 0, 1, False) for other in others), ())
