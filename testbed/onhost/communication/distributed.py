"""Run schedules on torch.distributed, by its point-to-point operations or its own AllReduce.

Its backend is gloo, or nccl on hosts with GPUs, which was not tested. It uses the same ports as the
group, or as the circuits of two ranks, and ends with the generation. This is the only module that
imports torch; it is imported only for jobs that use it.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import threading
import time
from abc import ABC, abstractmethod
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
from .communicator import Communicator, chunk_bounds
from .connections import NEXT, PREVIOUS
from .control import Control, LeaveOrder
from .group import Group
from .rank_schedule import Part, RankSchedule, ScheduleRecord
from .ring import Ring
from .two_rings import SHARED

Vector = npt.NDArray[Any]

_FOR_EVER = timedelta(days=365)
"""For how long a silent rank is waited for: when to give it up is not for a library to decide."""

_STALE = 0.05
"""Seconds until an order to leave that was about an older generation is looked at once more."""


class Library(ABC):
    """The ranks of one generation, connected by torch.distributed besides their own connections.

    Left and PeerLost may come from any call; after either the object must not be used any more.
    """

    def __init__(self, group: Communicator, leave: LeaveOrder, device: str = "cpu") -> None:
        """Connect to all other ranks of the group, each of which calls this too."""
        self._group, self._leave, self._device = group, leave, torch.device(device)
        self._is_broken = False
        self._others = _open_sockets()
        with self._breaking():
            self._open(self._store())
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
        self._shut()

    @abstractmethod
    def all_reduce(self) -> ScheduleRecord:
        """Replace the vector by its sum over the ranks, with the library's own AllReduce."""

    @abstractmethod
    def _open(self, store: dist.Store) -> None:
        """Connect to the other ranks, which meet at a store."""

    @abstractmethod
    def _shut(self) -> None:
        """Release what was opened."""

    def take(self, vector: Vector) -> None:
        """Set the contiguous vector to work on: in place, or on a copy on the GPU."""
        self._tensor = torch.from_numpy(vector).to(self._device)

    def give(self, vector: Vector) -> None:
        """Copy the result back into the vector that `take` was given."""
        if self._device.type != "cpu":
            vector[...] = self._tensor.cpu().numpy()

    def _settle(self) -> None:
        """Return when the device is done."""
        if self._device.type != "cpu":
            torch.cuda.synchronize(self._device)

    def _store(self) -> dist.Store:
        """Return where the ranks find each other: at the first one, on its port of the fabric."""
        host, is_first = self._address_of_the_first(), self._group.rank == 0
        number = np.zeros(1, np.int64)
        if is_first:
            store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
            number[0] = store.port
        self._hand_on(number)
        return store if is_first else dist.TCPStore(host, int(number[0]), is_master=False)

    @abstractmethod
    def _address_of_the_first(self) -> str:
        """Return the address of the first rank's port, as this rank reaches it."""

    @abstractmethod
    def _hand_on(self, number: Vector) -> None:
        """Hand one number from the first rank to all others."""

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
                self._break()
                return
            time.sleep(_STALE)

    def _break(self) -> None:
        """Break all connections of the library."""
        for descriptor in _open_sockets() - self._others:
            with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
                line.getpeername()  # a listener has none, and may not be shut
                line.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Tell what the library broke with in the words of a rank."""
        try:
            yield
        except RuntimeError as error:
            self._is_broken = True
            self._group.raise_if_left()
            raise PeerLost("other", str(error).splitlines()[0]) from error
        self._group.raise_if_left()


class Distributed(Library):
    """The ranks of a group, each connected with all others; it runs schedules, too."""

    def __init__(self, group: Group, backend: str, leave: LeaveOrder) -> None:
        """Connect to all other ranks of the group, each of which calls this too."""
        self._all, self._backend = group, backend
        if interface := group.connections.interface():
            os.environ["GLOO_SOCKET_IFNAME"] = interface
        super().__init__(group, leave, "cuda:0" if backend == "nccl" else "cpu")

    def all_reduce(self) -> ScheduleRecord:
        """Replace the vector by its sum over the ranks, with the library's own AllReduce."""
        with self._breaking():
            dist.all_reduce(self._tensor)
            self._settle()
        return ScheduleRecord()

    def _open(self, store: dist.Store) -> None:
        rank, ranks = self._group.rank, self._group.ranks
        dist.init_process_group(
            self._backend, store=store, rank=rank, world_size=ranks, timeout=_FOR_EVER
        )

    def _shut(self) -> None:
        dist.destroy_process_group()

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

    def _address_of_the_first(self) -> str:
        return self._all.connections.address_of(None if self._all.rank == 0 else 0)

    def _hand_on(self, number: Vector) -> None:
        self._all.run(_from_the_first(self._all), number)


class PairOfRanks(Library):
    """Two ranks that circuits join: gloo has a device for each, and long sums are split over all.

    So a slice with both ports of its servers redirected to each other sums as over one line of
    twice the rate (Morphlux, arXiv 2508.03674, section 6.1, which names both to NCCL).
    """

    def __init__(self, ring: Ring, control: Control, circuits: int) -> None:
        """Connect to the other rank over so many circuits; each rank calls this.

        gloo binds its sockets to no port, so the agent is asked for routes over them.
        """
        self._ring = ring
        # A port of the first leads to that of the other which comes from the one before it.
        both = [NEXT, PREVIOUS] if ring.rank == 0 else [PREVIOUS, NEXT]
        lines = ring.connections
        over = [(lines.interface(peer), lines.address_of(peer)) for peer in both[:circuits]]
        self._interfaces = [interface for interface, _ in over]
        if all(self._interfaces):
            control.prefer_routes(ring.generation, over)
            ring.barrier()
        super().__init__(ring, control.leave)

    def all_reduce(self) -> ScheduleRecord:
        """Replace the vector by its sum over both ranks; long ones in a part for each circuit."""
        count = len(self._groups) if self._tensor.nbytes >= SHARED else 1
        parts = chunk_bounds(self._tensor.numel(), count)
        with self._breaking():
            works = [
                group.allreduce([self._tensor[start:stop]])
                for group, (start, stop) in zip(self._groups, parts)  # noqa: B905 - Python 3.9
            ]
            self._await(works)
        return ScheduleRecord()

    def _await(self, works: list[dist.Work]) -> None:
        """Wait for operations, or until the generation must be left.

        An operation of gloo whose connection breaks while it sends may not notice that.
        """
        self._is_broken = True
        for work in works:
            work.get_future().add_done_callback(lambda _: os.write(self._tell, b"!"))
        poll, left = select.poll(), len(works)
        poll.register(self._told, select.POLLIN)
        poll.register(self._leave, select.POLLIN)
        while left:
            ready = dict(poll.poll())
            if self._told in ready:
                left -= len(os.read(self._told, left))
            else:
                self._leave.clear()
                self._group.raise_if_left()
        for work in works:
            work.wait()
        self._is_broken = False

    def _open(self, store: dist.Store) -> None:
        gloo, self._groups = dist.ProcessGroupGloo, []
        self._told, self._tell = os.pipe()
        for number, interface in enumerate(self._interfaces):
            options = gloo._Options()
            options._timeout, options._threads = _FOR_EVER, 1
            named = {"interface": interface} if interface else {"hostname": "127.0.0.1"}
            options._devices = [gloo.create_device(**named)]
            meet = dist.PrefixStore(str(number), store)
            self._groups.append(gloo(meet, self._group.rank, self._group.ranks, options))

    def _shut(self) -> None:
        """Release the groups; one with an operation that waits for ever would wait for that.

        It is never released, nor is what the operation says its end to.
        """
        if self._is_broken:
            self._break()
            for group in self._groups:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
        else:
            os.close(self._told)
            os.close(self._tell)
        self._groups = []

    def _address_of_the_first(self) -> str:
        return self._ring.connections.address_of(None if self._ring.rank == 0 else PREVIOUS)

    def _hand_on(self, number: Vector) -> None:
        if self._ring.rank == 0:
            self._ring.send_state(number.view(np.uint8).data)
        else:
            self._ring.receive_state(number.view(np.uint8).data)


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
