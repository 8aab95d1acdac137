"""Rings in threads, and ranks as real processes driven over their control line as an agent does."""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from testbed.onhost.communication.connections import NEXT, PREVIOUS, PeerConnections
from testbed.onhost.communication.control import LeaveOrder
from testbed.onhost.communication.ring import Ring
from testbed.onhost.frames import Decoder, Message, encode

PATIENCE = 20.0
TOKEN = "a token of this run"
LOOPBACK = {"interface": None, "address": "127.0.0.1"}

T = TypeVar("T")


def connection() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a TCP connection over loopback, non-blocking."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    for end in (near, far):
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


def around(
    to_next: socket.socket, from_previous: socket.socket, generation: int, leave: LeaveOrder
) -> PeerConnections:
    """Return the connections of one rank of a ring."""
    return PeerConnections({NEXT: to_next, PREVIOUS: from_previous}, generation, leave)


class Rings:
    """All ranks of one generation in one process; `leave` holds one order for each."""

    def __init__(self, ranks: int, generations: Sequence[int] = ()) -> None:
        pairs = [connection() for _ in range(ranks)]
        self.leave = [LeaveOrder() for _ in range(ranks)]
        numbers = generations or [1] * ranks
        self.members = [
            Ring(r, ranks, around(pairs[r][0], pairs[r - 1][1], numbers[r], self.leave[r]))
            for r in range(ranks)
        ]

    def run(self, job: Callable[[Ring], T]) -> list[T]:
        """Run `job` on every rank at once and return what each returned."""
        with ThreadPoolExecutor(len(self.members)) as threads:
            return [f.result(PATIENCE) for f in [threads.submit(job, m) for m in self.members]]

    def close(self) -> None:
        for member, leave in zip(self.members, self.leave, strict=True):
            member.connections.close()
            leave.close()


@contextmanager
def open_rings(ranks: int, generations: Sequence[int] = ()) -> Iterator[Rings]:
    rings = Rings(ranks, generations)
    try:
        yield rings
    finally:
        rings.close()


class RankProcess:
    """One rank's process and everything it has said."""

    def __init__(self, arguments: Sequence[str], descriptors: Sequence[int]) -> None:
        self.line, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, *arguments, "--control", str(theirs.fileno())],
                pass_fds=[theirs.fileno(), *descriptors],
            )
        self.events: list[Message] = []
        self._unread: list[Message] = []
        self._decoder = Decoder()

    def close(self) -> None:
        self.line.close()
        self.process.kill()
        self.process.wait()

    def tell(self, do: str, **fields: Any) -> None:
        self.line.sendall(encode({"do": do, **fields}))

    def hear(self, event: str, patience: float = PATIENCE, **fields: Any) -> Message:
        """Return the next event of this kind with these fields, skipping those before it."""
        deadline = time.monotonic() + patience
        while True:
            while self._unread:
                message = self._unread.pop(0)
                if message["event"] == event and message.items() >= fields.items():
                    return message
            if not select.select([self.line], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no {event} {fields} after {self.events[-3:]}")
            self.listen()

    def listen(self) -> list[Message]:
        """Wait for what the rank says next, and return it."""
        data = self.line.recv(65536)
        if not data:
            raise AssertionError(f"the rank closed its line after {self.events[-3:]}")
        messages = self._decoder.feed(data)
        self.events += messages
        self._unread += messages
        return messages

    def of_kind(self, event: str) -> list[Message]:
        """Return what was heard so far of one kind."""
        return [message for message in self.events if message["event"] == event]


class Gang:
    """The ranks of one job; `members` are those of the newest generation.

    With a `directory` they write a checkpoint there before `every` so many steps. `hosts` are what
    their hosts are called, `without_fabric` those ranks that have no fabric port, and `own` how
    many ports each rank has for itself, on rails, of `beside` ranks a host. `each` are more options
    of every rank.
    """

    def __init__(
        self,
        kind: str,
        options: Mapping[str, Any],
        ranks: int,
        seed: int = 7,
        directory: Path | None = None,
        every: int = 1,
        hosts: Sequence[str] | None = None,
        without_fabric: Sequence[int] = (),
        own: int = 0,
        beside: int = 1,
        each: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.job: dict[str, Any] = {"kind": kind, "options": dict(options)}
        self._place: dict[str, Any] = {}
        if directory is not None:
            self.job["checkpoint"] = {"every": every, "keep": 3}
            self._place = {"history": "a", "checkpoints": {"directory": str(directory)}}
        self.seed, self.ranks = seed, ranks
        self._hosts, self._without_fabric = hosts or [None] * ranks, without_fabric
        self._own = [LOOPBACK] * own or None
        self._beside = [self._own] * beside if self._own else None
        self._each = each
        self._stack = ExitStack()
        self.members = [self.start() for _ in range(ranks)]
        self._ready = [self.configure(member, rank) for rank, member in enumerate(self.members)]

    def start(
        self,
        arguments: Sequence[str] = ("-m", "testbed.onhost.jobs.rank"),
        descriptors: Sequence[int] = (),
    ) -> RankProcess:
        member = RankProcess(arguments, descriptors)
        self._stack.callback(member.close)
        return member

    def configure(self, member: RankProcess, rank: int | None) -> Message:
        """Configure a rank, or a spare that has none, and return its word that it is ready."""
        options = self._each[rank] if self._each and rank is not None else {}
        fabric = None if rank in self._without_fabric else LOOPBACK
        member.tell(
            "configure",
            job={**self.job, "options": {**self.job["options"], **options}},
            rank=rank,
            ranks=self.ranks or 1,
            token=TOKEN,
            seed=self.seed,
            heartbeat=0.2,
            to_next=fabric,
            from_previous=fabric,
            own=self._own,
            beside=self._beside,
            **self._place,
        )
        return member.hear("ready")

    def replace(self, rank: int, host: str | None = None) -> None:
        """Put a spare in a rank's place, on a host; the old process lives on until the end."""
        spare = self.start()
        self._hosts = [host if n == rank else other for n, other in enumerate(self._hosts)]
        self._ready[rank] = self.configure(spare, None)
        self.members[rank] = spare

    @contextmanager
    def taken(self, rank: int, by: RankProcess) -> Iterator[None]:
        """Let another process have a rank's place for a while."""
        member, ready = self.members[rank], self._ready[rank]
        self.members[rank], self._ready[rank] = by, self.configure(by, rank)
        yield
        self.members[rank], self._ready[rank] = member, ready

    def described(self) -> list[dict[str, Any]]:
        """Return what members are told of each other."""
        keys = ("address", "port", "second", "local", "own", "beside")
        return [
            {"rank": rank, "host": host, **{key: ready.get(key) for key in keys}}
            for rank, (host, ready) in enumerate(zip(self._hosts, self._ready, strict=False))
        ]

    def join(
        self,
        generation: int,
        step: int = 0,
        restore: Mapping[str, int | str] | None = None,
        probe: bool = False,
        held: bool = False,
        absent: Sequence[int] = (),
        members: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Tell every member to join, except those that are absent."""
        members = self.described() if members is None else members
        for rank, member in enumerate(self.members):
            if rank in absent:
                continue
            member.tell(
                "join",
                generation=generation,
                rank=rank,
                members=list(members),
                step=step,
                restore=restore or {},
                probe=probe,
                held=held,
            )

    def drop(self, rank: int) -> None:
        """Go on with one member less; those after it move up."""
        del self.members[rank]
        del self._ready[rank]

    def tell(self, do: str, **fields: Any) -> None:
        for member in self.members:
            member.tell(do, **fields)

    def hear(self, event: str, **fields: Any) -> list[Message]:
        """Return the next such event of every member."""
        return [member.hear(event, **fields) for member in self.members]

    def close(self) -> None:
        self._stack.close()
