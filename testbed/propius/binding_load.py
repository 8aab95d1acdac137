"""Jobs and many clients at once, to see who is bound: what clients were told, whom rounds had."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any

from testbed.errors import LabError
from testbed.propius import control_pb2 as messages
from testbed.propius.balancer import SERVICE as CLIENTS
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.participant import Participant
from testbed.propius.rpc import Caller, calling
from testbed.tenancy.attributes import Attributes, Constraints
from testbed.tenancy.jobs import Phase
from testbed.tenancy.replies import Reply
from testbed.tenancy.traces import Population, generate

_LOOK_EVERY = 0.02
_ONE_MORE = 0.1
"""How often a client that is bound accepts once more, which must be refused."""
_PUBLIC = {"ram": 4.0}

Members = Mapping[tuple[str, int], set[str]]
"""By job and round, names of clients."""


class JobLoad:
    """Jobs that ask for round after round, each as soon as the one before it has its clients.

    They take turns to have one of the `levels` of public constraints.
    """

    def __init__(
        self, job_manager: str, jobs: int, demand: int, levels: Sequence[Constraints] = ((),)
    ) -> None:
        self._at = job_manager
        self._levels = {f"job {number}": levels[number % len(levels)] for number in range(jobs)}
        self._demand = demand
        self.had: dict[tuple[str, int], set[str]] = {}
        """By job and round, the clients that the control plane says are bound to it."""

    @property
    def bound(self) -> int:
        """Return how many clients were bound so far, in all rounds."""
        return sum(map(len, list(self.had.values())))

    @property
    def beyond(self) -> int:
        """Return how many clients were bound that no job had asked for."""
        return sum(max(0, len(clients) - self._demand) for clients in list(self.had.values()))

    def run(self, over: Event) -> None:
        """Run all jobs until `over` is set."""
        with ThreadPoolExecutor(len(self._levels)) as pool:
            list(pool.map(lambda name: self._run(name, over), self._levels))

    def _run(self, name: str, over: Event) -> None:
        with calling(self._at, DESCRIPTOR.services_by_name["JobManager"]) as jobs:
            level = dict(self._levels[name])
            asked = messages.Registration(
                job=name, public_constraints=level, rounds=9, demand=self._demand
            )
            assert jobs("Register", asked).reply == Reply.OK
            number = 0
            while not over.is_set():
                number += 1
                wanted = messages.RoundRequest(job=name, round=number, demand=self._demand)
                assert jobs("Request", wanted).reply == Reply.OK
                while self._look(jobs, name, number) != Phase.EXECUTING:
                    if over.wait(_LOOK_EVERY):
                        break
            jobs("EndRequest", messages.JobRound(job=name, round=number))
            self._look(jobs, name, number)

    def _look(self, jobs: Caller, name: str, number: int) -> str:
        """Note whom a round has, and return its phase."""
        state = jobs("Hear", messages.JobName(job=name))
        self.had[name, number] = set(state.members)
        return str(state.phase)


@dataclass
class Findings:
    """What clients were told."""

    told: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    """By job and round, those that were told that they are bound to it."""
    answers: Counter[Reply] = field(default_factory=Counter)
    """Acceptances by their answer."""
    tried_twice: int = 0
    """Acceptances of clients that were bound already."""
    bound_twice: int = 0
    """Those of them that were answered with `ok`."""
    lost: int = 0
    """Messages without an answer."""

    @property
    def accepts(self) -> int:
        """Return how many acceptances were answered."""
        return self.answers.total()

    def fields(self) -> dict[str, Any]:
        """Return what JSON can carry."""
        return {
            "told": [[job, round, sorted(names)] for (job, round), names in self.told.items()],
            "answers": dict(self.answers),
            "counts": [self.tried_twice, self.bound_twice, self.lost],
        }

    def add(self, fields: Mapping[str, Any]) -> None:
        """Add what others found, as `fields` gave it."""
        for job, round, names in fields["told"]:
            self.told[job, round] |= set(names)
        self.answers.update({Reply(name): count for name, count in fields["answers"].items()})
        tried, bound, lost = fields["counts"]
        self.tried_twice += tried
        self.bound_twice += bound
        self.lost += lost


class ClientLoad:
    """Threads with clients of their own that seek, accept and are released at once.

    All have the same attributes, or `drawn` ones, as in the traces of the simulation, by the name.
    """

    def __init__(
        self, balancer: str, name: str, threads: int, of_each: int, *, drawn: bool = False
    ) -> None:
        self._at = balancer
        self._threads = [
            [f"{name} {thread}.{number}" for number in range(of_each)] for thread in range(threads)
        ]
        self._attributes = _attributes(name, self._threads, drawn)
        self._lock = Lock()
        self.found = Findings()

    def run(self, over: Event) -> None:
        """Run all clients until `over` is set; then ask for each what it was not told."""
        with ThreadPoolExecutor(len(self._threads)) as pool:
            list(pool.map(lambda names: self._run(names, over), self._threads))

    def _run(self, names: Sequence[str], over: Event) -> None:
        rng, had = random.Random(" ".join(names)), self._attributes
        with calling(self._at, CLIENTS) as managers:
            mine = {name: Participant(managers, name, had[name], {}, 1.0) for name in names}
            while not over.is_set():
                name = rng.choice(names)
                try:
                    self._take_part(managers, name, mine[name], rng.random() < _ONE_MORE)
                except LabError:
                    with self._lock:
                        self.found.lost += 1
                with self._lock:
                    self.found.answers.update(mine[name].refused)
                mine[name].refused.clear()
            for name in names:
                self._hear_the_rest(managers, name)

    def _take_part(self, managers: Caller, name: str, client: Participant, one_more: bool) -> None:
        offer = client.seek()
        if offer is None:
            return
        with self._lock:
            self.found.answers[Reply.OK] += 1
            self.found.told[offer.job, offer.round].add(name)
            latest = next(reversed(self.found.told))
        if one_more and latest[0] != offer.job:
            self._accept_once_more(managers, name, latest)
        client.release(offer)

    def _accept_once_more(self, managers: Caller, name: str, latest: tuple[str, int]) -> None:
        """Accept for a client that is bound to another job."""
        job, round = latest
        answer = managers("Accept", messages.Acceptance(client=name, job=job, round=round))
        with self._lock:
            self.found.tried_twice += 1
            self.found.bound_twice += answer.reply == Reply.OK

    def _hear_the_rest(self, managers: Caller, name: str) -> None:
        """Ask what came of an acceptance whose answer was lost."""
        asked = messages.Presence(client=name, attributes=self._attributes[name], speed=1.0)
        found = managers("CheckIn", asked)
        if found.reply == Reply.BOUND:
            with self._lock:
                self.found.told[found.job, found.round].add(name)


def _attributes(
    name: str, threads: Sequence[Sequence[str]], drawn: bool
) -> Mapping[str, Attributes]:
    clients = [client for names in threads for client in names]
    if not drawn:
        return dict.fromkeys(clients, _PUBLIC)
    seed = int.from_bytes(name.encode(), "big")
    devices = generate(Population(len(clients)), seed).clients
    return {client: device.attributes for client, device in zip(clients, devices, strict=True)}


def told_otherwise(told: Members, had: Members) -> int:
    """Return how many bindings only the client, or only the control plane, knows of."""
    return sum(len(told.get(each, set()) ^ had.get(each, set())) for each in {*told, *had})
