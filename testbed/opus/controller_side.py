"""The controller's side: communicators, requests, and the word of each rail. Pure.

What a client does wrong ends its line with a reason, and so does waiting for longer than the limit;
who waits for a client whose line has ended is told by the end of its own. The authors' controller
ignores such messages, waits for ever, or aborts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from testbed.opus.words import (
    CheckinAck,
    Comm,
    ConfigAck,
    ConfigReq,
    Malformed,
    Message,
    encode,
    parse,
    stage_of,
    word_after,
)

LIMIT = 10.0
"""Seconds that a client waits for others, and a rail for its worker; shims wait as long."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a line to a client."""

    client: int
    line: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """End the line of a client, and record why."""

    client: int
    why: str


@dataclass(frozen=True, slots=True)
class SetWord:
    """Have the worker of a rail apply a word; `worker_done` or `worker_failed` follows."""

    rail: int
    word: int


Effect = Send | Close | SetWord


@dataclass(slots=True)
class _Group:
    """A communicator; `rail` is that of the last rank that joined, as with the authors."""

    ranks: int
    since: float
    members: list[int] = field(default_factory=list)
    rail: int = 0

    @property
    def is_complete(self) -> bool:
        return len(self.members) == self.ranks


@dataclass(slots=True, eq=False)
class _Request:
    """What clients have asked for, all with the same number and counter."""

    said: ConfigReq
    group: _Group
    since: float
    asked: list[int] = field(default_factory=list)
    is_sent: bool = False

    @property
    def needed(self) -> int:
        return self.group.ranks if self.said.pair is None else min(2, self.group.ranks)


class ControllerSide:
    """The state of the controller; each method returns what has to be done."""

    def __init__(self, rails: int, nodes: Sequence[str], limit: float = LIMIT) -> None:
        """Take the number of rails, and the addresses of the hosts, one for each."""
        self._nodes = {address: number for number, address in enumerate(nodes)}
        self._limit = limit
        self.words = [0] * rails
        """Of each rail, what its worker has applied last."""
        self._addresses: dict[int, str] = {}
        self._groups: dict[str, _Group] = {}
        self._requests: list[_Request] = []
        self._last: dict[tuple[int, str, int], int] = {}
        """The last counter of a client, by communicator and number."""
        self._queues: list[list[_Request]] = [[] for _ in range(rails)]
        """Of each rail the requests whose words are to be applied; that of the first is."""

    def start(self) -> list[Effect]:
        """Return the first word of each rail."""
        return [SetWord(rail, 0) for rail in range(len(self.words))]

    def connected(self, client: int, address: str) -> None:
        """Add a client, by the address that it connects from."""
        self._addresses[client] = address

    def received(self, client: int, line: bytes, now: float) -> list[Effect]:
        """Take a line of a client; what comes after its end is dropped."""
        if client not in self._addresses:
            return []
        try:
            return list(self._taken(client, parse(line), now))
        except Malformed as error:
            return self.left(client, now, str(error))

    def left(self, client: int, now: float, why: str = "it ended its line") -> list[Effect]:
        """Have a client's line end, by itself or because it did something wrong.

        Whoever waits with it for the same thing is not kept waiting.
        """
        if client not in self._addresses:
            return []
        name = self._name(client)
        del self._addresses[client]
        effects: list[Effect] = [Close(client, why)]
        lost = [r for r in self._requests if client in r.group.members and not r.is_sent]
        waiting = {other for request in lost for other in request.asked}
        self._requests = [request for request in self._requests if request not in lost]
        for group in self._groups.values():
            if client in group.members and not group.is_complete:
                waiting |= {*group.members}
        self._forget(client)
        for other in sorted(waiting - {client}):
            effects += self.left(other, now, f"it waits with {name}, whose line ended: {why}")
        return effects

    def worker_done(self, rail: int, word: int, now: float) -> list[Effect]:
        """Have a rail's worker apply its word; who asked for it is told.

        The authors' controller tells all members, of whom two others may wait for another pair.
        """
        self.words[rail] = word
        if not self._queues[rail]:
            return []  # the word at the start
        request = self._taken_from(rail)
        line = encode(ConfigAck(request.said.id))
        asked = (client for client in request.group.members if client in request.asked)
        told = [Send(client, line) for client in asked if client in self._addresses]
        return [*told, *self._next_word(rail)]

    def worker_failed(self, rail: int, why: str, now: float) -> list[Effect]:
        """Have a rail's worker fail; who asked for the word is told by the end of its line."""
        if not self._queues[rail]:
            return []
        effects: list[Effect] = []
        for client in self._taken_from(rail).asked:
            effects += self.left(client, now, f"the worker of rail {rail} failed: {why}")
        return [*effects, *self._next_word(rail)]

    def wake_at(self) -> float | None:
        """Return when the first deadline is over, or None."""
        since = [group.since for group in self._groups.values() if not group.is_complete]
        since += [request.since for request in self._requests if not request.is_sent]
        return min(since) + self._limit if since else None

    def expire(self, now: float) -> list[Effect]:
        """End the lines of clients that have waited for too long, and name whom they wait for."""
        effects: list[Effect] = []
        for group in [*self._groups.values()]:
            if not group.is_complete and now >= group.since + self._limit:
                absent = group.ranks - len(group.members)
                why = f"{absent} of {group.ranks} ranks of its communicator have not checked in"
                for client in [*group.members]:
                    effects += self.left(client, now, why)
        for request in [*self._requests]:
            if not request.is_sent and now >= request.since + self._limit:
                others = (c for c in request.group.members if c not in request.asked)
                names = ", ".join(map(self._name, others))
                for client in [*request.asked]:
                    effects += self.left(client, now, f"{names} did not ask with it")
        return effects

    # --- messages -------------------------------------------------------------------------------

    def _taken(self, client: int, message: Message, now: float) -> Iterator[Effect]:
        match message:
            case Comm():
                yield from self._join(client, message, now)
            case ConfigReq():
                yield from self._ask(client, message, now)
            case _:
                raise Malformed(f"a client does not send {type(message).__name__}")

    def _join(self, client: int, said: Comm, now: float) -> Iterator[Effect]:
        if said.ranks < 1:
            raise Malformed(f"a communicator of {said.ranks} ranks")
        if not 0 <= said.rail < len(self.words):
            raise Malformed(f"there is no rail {said.rail}")
        group = self._groups.setdefault(said.id, _Group(said.ranks, now))
        if client in group.members:
            raise Malformed(f"{self._name(client)} has joined {said.id} already")
        if group.is_complete:
            raise Malformed(f"all {group.ranks} ranks of {said.id} have joined already")
        if group.ranks != said.ranks:
            raise Malformed(f"{said.id} has {group.ranks} ranks, not {said.ranks}")
        group.members.append(client)
        group.rail = said.rail
        if group.is_complete:
            line = encode(CheckinAck(said.id, self._domain(group)))
            yield from (Send(member, line) for member in group.members)

    def _domain(self, group: _Group) -> int:
        nodes = {self._nodes.get(self._addresses[client], -1) for client in group.members}
        return -1 if -1 in nodes else int(len(nodes) == 1)

    def _ask(self, client: int, said: ConfigReq, now: float) -> Iterator[Effect]:
        group = self._groups.get(said.id)
        if group is None or client not in group.members or not group.is_complete:
            raise Malformed(f"{self._name(client)} has not checked in to {said.id}")
        stage_of(said)
        self._check_turn(client, said)
        request = next((one for one in self._requests if one.said == said), None)
        if request is None:
            request = _Request(said, group, now)
        elif request.is_sent:
            raise Malformed(f"{self._name(client)} asks for a stage that is being made")
        gone = [member for member in group.members if member not in self._addresses]
        if group.ranks - len(gone) < request.needed:
            raise Malformed(f"client {gone[0]} of {said.id} has left, so it is never complete")
        if not request.asked:
            self._requests.append(request)
        self._last[client, said.id, said.number] = said.counter
        request.asked.append(client)
        if len(request.asked) == request.needed:
            request.is_sent = True
            self._queues[group.rail].append(request)
            if len(self._queues[group.rail]) == 1:
                yield from self._next_word(group.rail)

    def _check_turn(self, client: int, said: ConfigReq) -> None:
        """Raise Malformed unless a client may ask for this now, and others can ask for the same.

        A client has one request at a time, so who waits with another counter would wait for ever.
        """
        name, last = self._name(client), self._last.get((client, said.id, said.number), -1)
        if said.counter <= last:
            raise Malformed(f"{name} asks with counter {said.counter} after {last}")
        for other in self._requests:
            if client in other.asked:
                raise Malformed(f"{name} asks for two stages at once")
            if other.said.id != said.id or other.said == said:
                continue
            if said.counter == other.said.counter or said.number == other.said.number:
                asked = f"asks with number {said.number} and counter {said.counter}"
                theirs = f"with {other.said.number} and {other.said.counter}"
                raise Malformed(f"{name} {asked}, {self._name(other.asked[0])} {theirs}")

    def _taken_from(self, rail: int) -> _Request:
        """Return the request whose word a rail's worker had, which is over."""
        request = self._queues[rail].pop(0)
        self._requests.remove(request)
        return request

    def _forget(self, client: int) -> None:
        """Drop what a client that is gone has said, and communicators that nobody is in now."""
        self._last = {key: last for key, last in self._last.items() if key[0] != client}
        self._groups = {
            id_: group
            for id_, group in self._groups.items()
            if client not in group.members
            or (group.is_complete and any(one in self._addresses for one in group.members))
        }

    def _next_word(self, rail: int) -> list[Effect]:
        """Return the word of the first request that waits for a rail, if there is one."""
        if not self._queues[rail]:
            return []
        return [SetWord(rail, word_after(self.words[rail], self._queues[rail][0].said))]

    def _name(self, client: int) -> str:
        return f"client {client} ({self._addresses.get(client, 'gone')})"
