"""The controller's side: communicators, requests, and what they have rails do. Pure.

What a client does wrong ends its line with a reason, and so does waiting for longer than the limit;
who waits for a client whose line has ended is told by the end of its own. The authors' controller
ignores such messages, waits for ever, or aborts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from testbed.fabric.circuits import Matching
from testbed.opus.circuit_rails import CircuitRails
from testbed.opus.communicators import (
    Answered,
    Close,
    Communicator,
    Done,
    Effect,
    Repoint,
    Request,
    Send,
    SetWord,
)
from testbed.opus.word_rails import WordRails
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
)

LIMIT = 10.0
"""Seconds that a client waits for others, and a rail for its worker; shims wait as long."""


class ControllerSide:
    """The state of the controller; each method returns what has to be done."""

    def __init__(
        self, rails: WordRails | CircuitRails, nodes: Mapping[str, int], limit: float = LIMIT
    ) -> None:
        """Take the rails, and the number of the host at each address."""
        self._nodes = nodes
        self._limit = limit
        self.rails = rails
        self.answered: list[Answered] = []
        """What was answered, for the record; whoever records it empties the list."""
        self._addresses: dict[int, str] = {}
        self._groups: dict[str, Communicator] = {}
        self._made = 0
        self._requests: list[Request] = []
        self._last: dict[tuple[int, str, int], int] = {}
        """The last counter of a client, by communicator and number."""

    def start(self) -> list[SetWord | Repoint]:
        """Return what is to be done before clients connect: the first word of each rail."""
        return self.rails.start()

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
        lost = [request for request in self._requests if _is_lost(request, client)]
        waiting = {other for request in lost for other in request.asked}
        for request in lost:
            self._requests.remove(request)
            self.rails.withdraw(request)
        for group in self._groups.values():
            if client in group.members and not group.is_complete:
                waiting |= {*group.members}
        effects += self._carried(self.rails.left(client), now)
        self._forget(client)
        for other in sorted(waiting - {client}):
            effects += self.left(other, now, f"it waits with {name}, whose line ended: {why}")
        return effects

    def worker_done(self, rail: int, number: int, now: float) -> list[Effect]:
        """Have a rail's worker apply its word, or a change of circuits end: who asked is told.

        The authors' controller tells all members, of whom two others may wait for another pair.
        """
        return list(self._carried(self.rails.done(rail, number), now))

    def worker_failed(
        self, rail: int, why: str, now: float, number: int = 0, present: Matching = frozenset()
    ) -> list[Effect]:
        """Have a rail's worker, or a change of circuits, fail; who asked is told by its end.

        `present` are the circuits of the rail that are there then.
        """
        what, request, following = self.rails.failed(rail, number, present)
        effects: list[Effect] = []
        if request is not None:
            self._requests.remove(request)
            for client in request.asked:
                effects += self.left(client, now, f"{what}: {why}")
        return [*effects, *self._carried(following, now)]

    def wake_at(self) -> float | None:
        """Return when the first deadline is over, or None."""
        since = [group.since for group in self._groups.values() if not group.is_complete]
        since += [request.waits_since for request in self._requests if not request.is_sent]
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
            if not request.is_sent and now >= request.waits_since + self._limit:
                why = self._why_late(request)
                for client in [*request.asked]:
                    effects += self.left(client, now, why)
        return effects

    def _why_late(self, request: Request) -> str:
        if request.is_complete:
            return self.rails.waits_for(request)
        others = (c for c in request.group.members if c not in request.asked)
        return f"{', '.join(map(self._name, others))} did not ask with it"

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
        if not 0 <= said.rail < len(self.rails):
            raise Malformed(f"there is no rail {said.rail}")
        place = said.rail, self._nodes.get(self._addresses[client], -1)
        self.rails.admit(client, said, place)
        if (group := self._groups.get(said.id)) is None:
            self._made += 1
            group = Communicator(said.id, self._made, said.ranks, now)
            self._groups[said.id] = group
        if client in group.members:
            raise Malformed(f"{self._name(client)} has joined {said.id} already")
        if group.is_complete:
            raise Malformed(f"all {group.ranks} ranks of {said.id} have joined already")
        if group.ranks != said.ranks:
            raise Malformed(f"{said.id} has {group.ranks} ranks, not {said.ranks}")
        group.members[client] = place
        group.rail = said.rail
        if group.is_complete:
            domain = -1 if -1 in group.hosts else int(len(group.hosts) == 1)
            line = encode(CheckinAck(said.id, domain))
            yield from (Send(member, line) for member in group.members)

    def _ask(self, client: int, said: ConfigReq, now: float) -> Iterator[Effect]:
        group = self._groups.get(said.id)
        if group is None or client not in group.members or not group.is_complete:
            raise Malformed(f"{self._name(client)} has not checked in to {said.id}")
        stage_of(said)
        self._check_turn(client, said)
        request = next((one for one in self._requests if one.said == said), None)
        if request is None:
            request = Request(said, group, now)
        elif request.is_complete:
            raise Malformed(f"{self._name(client)} asks for a stage that is being made")
        gone = [member for member in group.members if member not in self._addresses]
        if group.ranks - len(gone) < request.needed:
            raise Malformed(f"client {gone[0]} of {said.id} has left, so it is never complete")
        self.rails.check(client, request)
        if not request.asked:
            self._requests.append(request)
        self._last[client, said.id, said.number] = said.counter
        request.asked.append(client)
        request.last = now
        yield from self._carried(self.rails.asks(client), now)
        if request.is_complete:
            yield from self._carried(self.rails.complete(request), now)

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

    def _carried(self, outcome: Iterable[Done | SetWord | Repoint], now: float) -> Iterator[Effect]:
        """Yield what rails have to do, and the answers to what they have done."""
        for one in outcome:
            if not isinstance(one, Done):
                yield one
                continue
            request = one.request
            self._requests.remove(request)
            self.answered.append(_answered(one, now))
            group = request.group
            line = encode(ConfigAck(request.said.id))
            asked = (client for client in group.members if client in request.asked)
            yield from (Send(client, line) for client in asked if client in self._addresses)

    def _forget(self, client: int) -> None:
        """Drop what a client that is gone has said, and communicators that nobody is in now."""
        self._last = {key: last for key, last in self._last.items() if key[0] != client}
        gone = [
            group
            for group in self._groups.values()
            if client in group.members
            and not (group.is_complete and any(one in self._addresses for one in group.members))
        ]
        for group in gone:
            del self._groups[group.id]
            self.rails.forget(group)

    def _name(self, client: int) -> str:
        return f"client {client} ({self._addresses.get(client, 'gone')})"


def _answered(done: Done, now: float) -> Answered:
    request = done.request
    group, count = request.group, len(request.asked)
    hosts = tuple(sorted(group.members[client][1] for client in request.asked))
    about = count, group.ranks, hosts, now - request.last
    return Answered(group.rail, request.said, *about, done.changed, done.move)


def _is_lost(request: Request, client: int) -> bool:
    """Tell whether nobody can answer a request any more once a client is gone."""
    members = request.asked if request.is_complete else request.group.members
    return not request.is_sent and client in members
