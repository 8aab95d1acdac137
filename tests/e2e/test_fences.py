"""Fences and lost leases on the twin: what its hosts and its light did, whatever our record says.

A host that loses power loses its first process, and a host that has it again has another one.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path

import pytest

from tests.e2e.commandline import ROOT, SMALL_MODEL, CommandLine, Started
from tests.e2e.running_twin import RunningTwin

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

HOSTS = [f"h{number}" for number in range(6)]
MEANS = ("power", "network", "process")
PERMITTED = [some for count in range(4) for some in combinations(MEANS, count)]
KINDS = ("power-cut", "rank-kill", "rank-freeze", "agent")
ONE = [*SMALL_MODEL, "-S", "variants={only-one: {}}", "-S", "checks={}"]
TAKE = Path(__file__).parent / "inside" / "take_port.py"
JOIN = (
    "import sys\nfrom testbed.twin import registry\n"
    "sys.exit(registry.find(sys.argv[1]).sandbox.run(sys.argv[2:]))\n"
)
COURSES = 20
IN_FLIGHT = 1.0
"""Seconds that an order which was on its way already may take to be carried out."""


def _alive(process: tuple[int, str]) -> bool:
    pid, born = process
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19] == born
    except OSError:
        return False


class PowerWatch:
    """Sees from the kernel which host loses power."""

    def __init__(self, twin: RunningTwin) -> None:
        self._twin = twin
        self.lost: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._first = {host: self._init(host) for host in HOSTS}
        self._thread.start()

    def _init(self, host: str) -> tuple[int, str]:
        pid = self._twin._init(host)
        return pid, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]

    def _watch(self) -> None:
        seen: set[str] = set()
        while not self._over.wait(0.005):
            for host, process in self._first.items():
                if host not in seen and not _alive(process):
                    seen.add(host)
                    self.lost.append(host)

    def state(self) -> dict[str, tuple[int, str]]:
        """Return the first process of each host that has power now."""
        found = {}
        for host in HOSTS:
            with suppress(AssertionError):  # it has no power
                found[host] = self._init(host)
        return found

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def twin(rack: str) -> RunningTwin:
    return RunningTwin(rack)


@contextmanager
def watching(twin: RunningTwin) -> Iterator[PowerWatch]:
    watch = PowerWatch(twin)
    try:
        yield watch
    finally:
        watch.end()


class Course:
    """One trial in which something fails, on a lab that permits some fences."""

    def __init__(self, testbed: CommandLine, twin: RunningTwin, seed: int) -> None:
        self.testbed, self.twin = testbed, twin
        self.chance = random.Random(seed)
        self.fence = PERMITTED[seed % len(PERMITTED)]
        self.kind = KINDS[(seed // 2) % len(KINDS)]
        self.is_lost = seed % 3 == 2
        self.where = ["--twin", twin.name]

    def start(self) -> Started:
        fault = "rank-kill" if self.kind == "agent" else self.kind
        late = ["-S", "faults.0.at.step=60"] if self.kind == "agent" else []
        return self.testbed.start(
            *("run", "experiments/lumion.yaml", *self.where, *ONE, *late),
            *("-S", f"lab.fence=[{', '.join(self.fence)}]", "-S", f"faults.0.kind={fault}"),
            *("-S", "limits.trial=20 s", "--seed", "5"),
            # Where a lease is lost, that must be before the run is over.
            *("--repeat", "50" if self.is_lost else "1"),
        )

    def break_something(self, run: Started) -> None:
        """Have an agent killed, where that is what fails; all else is injected by the run."""
        run.await_event(lambda e: e["kind"] == "trial.begin")
        if self.kind == "agent":
            for agent in self.twin.agents("h1"):
                os.kill(agent, signal.SIGKILL)

    def lose(self, run: Started) -> str:
        """Have somebody take a port of the run for good; return the light of the switch then."""
        word = self.chance.choice(
            ["trial.begin", "fault.inject", "recovery.decided", "fabric.change"]
        )
        run.await_event(lambda e: e["kind"] == word and e.get("trial") is not None)
        taken = subprocess.run(
            [sys.executable, "-c", JOIN, self.twin.name, sys.executable, TAKE], cwd=ROOT
        )
        assert taken.returncode == 0
        time.sleep(IN_FLIGHT)
        return self.light()

    def light(self) -> str:
        shown = self.testbed("switch", "ocs", "show", "--lab", "rack", *self.where)
        assert shown.code == 0, shown.err
        return shown.out.split("\n", 1)[1]


@pytest.mark.parametrize("seed", range(COURSES))
def test_a_recovery_uses_only_fences_that_the_lab_permits(
    testbed: CommandLine, twin: RunningTwin, seed: int
) -> None:
    course = Course(testbed, twin, seed)
    with watching(twin) as watch:
        run = course.start()
        course.break_something(run)
        if course.is_lost:
            assert_nothing_more_is_touched(course, run, watch)
        else:
            assert_only_what_is_permitted(course, run, watch)


def assert_only_what_is_permitted(course: Course, run: Started, watch: PowerWatch) -> None:
    done = run.finish()
    injected = {e["subject"] for e in run.events() if e["kind"] == "fault.inject"}
    cut = {*watch.lost}
    if course.kind == "power-cut":
        assert cut <= injected, "another host lost power than the one that was to"
    elif "power" not in course.fence:
        assert cut == set()
    (trial,) = run.summary()["trials"]
    if course.fence or course.kind == "power-cut":
        assert trial["recovered"], (trial["reason"], done.err)
    else:
        assert "the lab permits no fence of" in trial["reason"]
        assert not trial["recovered"]
    assert watch.state().keys() == set(HOSTS)
    (end,) = [e["data"] for e in run.events() if e["kind"] == "run.end"]
    assert end["left"] == []


def assert_nothing_more_is_touched(course: Course, run: Started, watch: PowerWatch) -> None:
    light = course.lose(run)
    before = watch.state()
    done = run.finish()
    assert done.code in (5, 6), done.out + done.err
    assert watch.state() == before, "an outlet was turned after the lease was lost"
    assert course.light() == light
    (end,) = [e["data"] for e in run.events() if e["kind"] == "run.end"]
    said = " ".join(end["left"])
    assert "ocs is left with" in said
    for host in set(HOSTS) - before.keys():
        assert f"of {host} may still be off" in said
    given = course.testbed("unlock", "ocs.1", *course.where)
    assert given.code == 0, given.err
    where = ["--results", str(course.testbed.results), *course.where]
    recovered = course.testbed("recover", "latest", *where)
    assert recovered.code == 0, recovered.out + recovered.err
    assert watch.state().keys() == set(HOSTS)
    assert course.light() != light
