"""Rails of circuits: who joins which ranks, by the same rules as those of our own jobs. Pure.

A rank is the client that connects from a host with a local rank, which is its rail. A stage joins
the ranks that have asked for it, in the order of their hosts. Asking ends what a rank had on the
circuits before, and nothing goes that another still uses (`testbed.rails.rail`); the authors'
controller does not wait for those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from testbed.fabric.circuits import Circuit, Matching, Wiring, cross_connects
from testbed.opus.communicators import Communicator, Done, Place, Repoint, Request, SetWord
from testbed.opus.word_rails import Outcome
from testbed.opus.words import Comm, Malformed
from testbed.rails.rail import Effect, Move, Rail, RailState
from testbed.rails.stage import RankPorts, Stage

_NOBODY = Stage("", 0, ())
"""What circuits are removed for whose ranks are gone."""


class CircuitRails:
    """The circuits of all rails, and which clients are which ranks."""

    def __init__(self, hosts: Sequence[str], ports: RankPorts, rails: int, wiring: Wiring) -> None:
        """Take the hosts in the order of their addresses, and the ports of their ranks.

        A host has a rank on each rail, `rails` so many, and that on rail r of host h is number
        h × rails + r in `ports`.
        """
        self._hosts, self._wiring = hosts, wiring
        own = [[ports[n * rails + rail] for n in range(len(hosts))] for rail in range(rails)]
        self._lanes = [_Lane(hosts, one) for one in own]
        self._places: dict[int, Place] = {}
        """Of clients that have joined a communicator."""
        self._requests: dict[Stage, Request] = {}
        """What is complete and not carried out."""
        self._stages = 0

    def __len__(self) -> int:
        return len(self._lanes)

    def start(self) -> list[SetWord | Repoint]:
        """Return what is to be done before anybody asks: nothing."""
        return []

    def admit(self, client: int, said: Comm, place: Place) -> None:
        """Have a client join; raise Malformed where it cannot be a rank of its own on one rail."""
        rail, host = place
        if host < 0:
            raise Malformed(f"its address is that of none of {', '.join(self._hosts)}")
        name = f"local rank {rail} of {self._hosts[host]}"
        known = self._places.get(client, place)
        if known != place:
            raise Malformed(f"it joins as {name}, and has joined as local rank {known[0]}")
        if any(its == place for other, its in self._places.items() if other != client):
            raise Malformed(f"it joins as {name}, which another client is")
        self._places[client] = place

    def check(self, client: int, request: Request) -> None:
        """Raise Malformed where no circuits join those who ask with a client."""
        group, rails = request.group, {rail for rail, _ in request.group.members.values()}
        if len(group.hosts) == 1:
            return
        if len(rails) > 1:
            names = " and ".join(map(str, sorted(rails)))
            raise Malformed(f"the ranks of {group.id} are on rails {names}, which nothing joins")
        if len(request.asked) + 1 == request.needed:
            stage = self._stage(request, [*request.asked, client])
            try:
                cross_connects(self._lanes[group.rail].circuits(stage, group), self._wiring)
            except ValueError as error:
                ranks = ", ".join(self._hosts[host] for host in stage.ranks)
                raise Malformed(f"no circuits join the ranks on {ranks}: {error}") from None

    def asks(self, client: int) -> Outcome:
        """Have a client end its traffic in the stage before."""
        rail, host = self._places[client]
        lane = self._lanes[rail]
        return self._outcome(rail, lane.leave(host))

    def complete(self, request: Request) -> Outcome:
        """Have all ask who must; circuits that are lit are answered at once."""
        group = request.group
        if len(group.hosts) == 1:
            request.is_sent = True
            return [Done(request, False)]
        self._stages += 1
        stage = self._stage(request, request.asked)
        self._requests[stage] = request
        return self._outcome(group.rail, self._lanes[group.rail].ready(stage, group))

    def done(self, rail: int, number: int) -> Outcome:
        """Have a change of circuits end."""
        move, effects = self._lanes[rail].moved(number)
        return [*self._outcome(rail, effects, move), *self._sweep(rail)]

    def failed(
        self, rail: int, number: int, present: Matching
    ) -> tuple[str, Request | None, Outcome]:
        """Have a change fail; `present` are the circuits of the rail that are there."""
        move, effects = self._lanes[rail].failed(number, present)
        request = self._requests.pop(move.stage, None)
        what = f"the circuits of rail {rail} could not be changed"
        return what, request, [*self._outcome(rail, effects), *self._sweep(rail)]

    def withdraw(self, request: Request) -> None:
        """Forget a request for which nothing has been changed."""
        for stage, one in [*self._requests.items()]:
            if one is request:
                del self._requests[stage]
                self._lanes[request.group.rail].withdraw(stage)

    def waits_for(self, request: Request) -> str:
        """Say who keeps a complete request waiting."""
        (stage,) = (stage for stage, one in self._requests.items() if one is request)
        late = self._lanes[request.group.rail].late(stage)
        names = " and ".join(self._hosts[host] for host in late)
        return f"the ranks on {names} use circuits that must go for it, and have asked for no other"

    def left(self, client: int) -> Outcome:
        """Have a client be gone, and with it the circuits that lead to its rank."""
        place = self._places.pop(client, None)
        if place is None:
            return []
        rail, host = place
        return [*self._outcome(rail, self._lanes[rail].leave(host)), *self._sweep(rail)]

    def forget(self, group: Communicator) -> None:
        """Have a communicator be gone."""
        self._lanes[group.rail].forget(group)

    def _stage(self, request: Request, clients: Iterable[int]) -> Stage:
        hosts = (request.group.members[client][1] for client in clients)
        return Stage(request.group.name, self._stages, tuple(sorted(hosts)))

    def _sweep(self, rail: int) -> Outcome:
        """Return the removal of circuits that lead to ranks whose clients are gone."""
        present = {host for its, host in self._places.values() if its == rail}
        move = self._lanes[rail].swept(present)
        return [] if move is None else [Repoint(rail, move)]

    def _outcome(self, rail: int, effects: Iterable[Effect], made: Move | None = None) -> Outcome:
        """Return what follows from effects; those with a change are answers to the one `made`."""
        found: Outcome = []
        for effect in effects:
            request = self._requests.get(effect.stage)
            if request is not None:
                request.is_sent = True
            if isinstance(effect, Move):
                found.append(Repoint(rail, effect))
            elif request is not None:
                del self._requests[effect.stage]
                found.append(Done(request, effect.changed, made if effect.changed else None))
        return found


class _Lane:
    """One rail: its rules for the communicators that have asked on it, and its state."""

    def __init__(self, hosts: Sequence[str], ports: RankPorts) -> None:
        self._ports = ports
        self._host_at = {port: host for host, own in enumerate(ports) for port in own}
        self._groups: dict[str, tuple[int, ...]] = {}
        self._dead: set[str] = set()
        self._rules = Rail(ports, self._groups)
        self._state = RailState()
        self._kept: Matching = frozenset()
        """Circuits that lead to ranks that are gone, and could not be removed."""

    def circuits(self, stage: Stage, group: Communicator) -> Matching:
        """Return the circuits of a stage; raise ValueError where there can be none."""
        return Rail(self._ports, {group.name: tuple(sorted(group.hosts))}).circuits(stage)

    def leave(self, host: int) -> tuple[Effect, ...]:
        self._state, effects = self._rules.leave(self._state, host)
        return effects

    def ready(self, stage: Stage, group: Communicator) -> tuple[Effect, ...]:
        members = tuple(sorted(group.hosts))
        if stage.group not in self._groups:
            self._groups = {**self._groups, stage.group: members}
            self._rules = Rail(self._ports, self._groups)
            joined = {**self._state.joined, stage.group: frozenset(members)}
            self._state = replace(self._state, joined=joined)
        found: tuple[Effect, ...] = ()
        for host in stage.ranks:
            self._state, effects = self._rules.ready(self._state, host, stage)
            found += effects
        return found

    def late(self, stage: Stage) -> tuple[int, ...]:
        return self._rules.late(self._state, stage)

    def moved(self, number: int) -> tuple[Move, tuple[Effect, ...]]:
        move = self._state.moves[number]
        self._state, effects = self._rules.moved(self._state, number)
        return move, effects

    def failed(self, number: int, present: Matching) -> tuple[Move, tuple[Effect, ...]]:
        """Forget a change that was rolled back; what others change now is not counted as lit."""
        moves = dict(self._state.moves)
        move = moves.pop(number)
        if move.stage == _NOBODY:
            self._kept |= move.remove
        lit = present - {circuit for other in moves.values() for circuit in _touched(other)}
        state = replace(self._state, moves=moves, lit=lit)
        for host in move.stage.ranks:
            state, _ = self._rules.leave(replace(state, held=frozenset(state.ready)), host)
        self._state, effects = self._rules.hold(state, frozenset())
        return move, effects

    def withdraw(self, stage: Stage) -> None:
        ready = {one: ranks for one, ranks in self._state.ready.items() if one != stage}
        self._state = replace(self._state, ready=ready)

    def swept(self, present: set[int]) -> Move | None:
        """Return the removal of circuits with an end at a host that is not present."""
        state = self._state
        self._kept &= state.lit
        gone = frozenset(c for c in state.lit - self._kept if not self._hosts_of(c) <= present)
        if not gone:
            return None
        move = Move(state.commanded, _NOBODY, gone, frozenset())
        moves = {**state.moves, move.number: move}
        self._state = replace(state, lit=state.lit - gone, moves=moves, commanded=move.number + 1)
        return move

    def forget(self, group: Communicator) -> None:
        """Drop the communicators that are gone and that nothing of the state refers to."""
        self._dead |= {group.name} & self._groups.keys()
        state = self._state
        stages = [*state.using.values(), *state.ready, *(m.stage for m in state.moves.values())]
        gone = self._dead - {stage.group for stage in stages}
        if not gone:
            return
        self._dead -= gone
        self._groups = {name: own for name, own in self._groups.items() if name not in gone}
        self._rules = Rail(self._ports, self._groups)
        self._state = replace(
            state,
            joined={name: own for name, own in state.joined.items() if name not in gone},
            last={key: number for key, number in state.last.items() if key[1] not in gone},
        )

    def _hosts_of(self, circuit: Circuit) -> set[int]:
        return {self._host_at[end] for end in circuit.ends}


def _touched(move: Move) -> Matching:
    return move.remove | move.add
