"""Faults of the services and of a line, for a program that has them; each is taken back again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable
from multiprocessing import get_context

from testbed.clock import Deadline
from testbed.errors import LabError
from testbed.propius import control_pb2 as messages
from testbed.propius.calls import Calls
from testbed.propius.processes import ServiceProcess
from testbed.propius.redis_process import RedisProcess
from testbed.propius.store import Store
from testbed.tenancy.jobs import SILENCE, Phase

DEAD_S = 1.0
"""How long what was killed is dead."""
_LOOK_EVERY = 0.05
_HEARD_S = 20.0
"""How long all others may take to be heard."""


class AdvancedClock:
    """The time of day, which processes that share it can be told to be later than it is."""

    def __init__(self) -> None:
        self._by = get_context("spawn").Value("d", 0.0)

    def __call__(self) -> float:
        """Return seconds since 1970, and by how much the clock was advanced."""
        return time.time() + float(self._by.value)

    def advance(self, seconds: float) -> None:
        """Have it later from now on."""
        with self._by.get_lock():
            self._by.value += seconds


def restart(victims: Iterable[ServiceProcess | RedisProcess]) -> None:
    """Kill all at once, and start them again a second later."""
    victims = list(victims)
    for victim in victims:
        victim.kill()
    time.sleep(DEAD_S)
    for victim in victims:
        victim.start()
    for victim in victims:
        if isinstance(victim, ServiceProcess):
            assert victim.address


def silence(jobs: Calls, store: Store, clock: AdvancedClock, demand: int) -> None:
    """Have a job ask for more clients than there are and never be heard again, until it is pruned.

    The 1 800 s after which it is are not waited for: the services' clock is advanced twice, by half
    of them, and in between all others are heard. LabError if they are not, or it is not pruned.
    """
    name = "silent"
    jobs("Register", messages.Registration(job=name, rounds=1, demand=demand))
    jobs("Request", messages.RoundRequest(job=name, round=1, demand=demand))
    _wait("a client of a silent job", lambda: any(j.id == name and j.members for j in store.jobs()))
    clock.advance(SILENCE / 2)
    at = clock()
    _wait(
        "a word of everybody else",
        lambda: (
            all(job.heard >= at for job in store.jobs() if job.id != name and not job.is_over)
            and all(client.heard >= at for client in store.clients())
        ),
    )
    clock.advance(SILENCE / 2)
    _wait(
        "the pruning of a silent job",
        lambda: any(job.id == name and job.phase is Phase.PRUNED for job in store.jobs()),
    )


def cut_line(interface: str, seconds: float) -> None:
    """Take an interface of this host down for so long; give it back with routes and neighbours."""
    routes = _ip("-4", "route", "show", "dev", interface).splitlines()
    neighbours = _ip("neigh", "show", "dev", interface, "nud", "permanent").splitlines()
    _ip("link", "set", "dev", interface, "down")
    try:
        time.sleep(seconds)
    finally:
        _ip("link", "set", "dev", interface, "up")
        for neighbour in neighbours:
            address, how, hardware, *_ = neighbour.split()
            _ip("neigh", "replace", address, how, hardware, "nud", "permanent", "dev", interface)
        for route in routes:
            _ip("route", "replace", *route.split(), "dev", interface)


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise LabError(
            f"`ip {' '.join(words)}` failed: {done.stderr.strip()}",
            hint="it takes a twin, or the right to set up the network of this host",
        )
    return done.stdout


def _wait(what: str, is_there: Callable[[], bool]) -> None:
    deadline = Deadline.after(_HEARD_S)
    while not is_there():
        if deadline.passed:
            raise LabError(
                f"waited for {what} for {_HEARD_S:g} s in vain", hint="is it overloaded?"
            )
        time.sleep(_LOOK_EVERY)
