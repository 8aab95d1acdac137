"""Agents, the management network, far ends and the disk fail in the middle of a LUMION trial.

Whatever the verdict, it comes with the right exit code, and in the end the lab is as it was: after
the run itself, or, where the run said that it could not, after `testbed recover`.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commandline import SMALL_MODEL, CommandLine, Finished, Started
from tests.e2e.running_twin import RunningTwin

pytestmark = pytest.mark.timeout(300)

HOSTS = [f"h{number}" for number in range(6)]
ONE = [*SMALL_MODEL, "-S", "variants={only-one: {}}", "-S", "checks={}", "--repeat", "1"]
Happening = Callable[[dict[str, Any]], bool]


def event(kind: str, subject: str | None = None) -> Happening:
    return lambda e: e["kind"] == kind and subject in (None, e["subject"])


PHASES: dict[str, Happening] = {
    "prepare": event("phase", "prepare"),
    "trial": event("trial.begin"),
    "fault": event("fault.inject"),
    "decision": event("recovery.decided"),
    "recovery": event("recovery.fenced"),
    "clean-up": event("phase", "restore"),
}


class Declared:
    """What the twin is before anything runs, and must be again."""

    def __init__(self, line: CommandLine, twin: RunningTwin, foreign: str) -> None:
        self._line = line
        self._twin = twin
        self._networks = {host: twin.network(host) for host in HOSTS}
        self._circuits = self._show()
        assert foreign in self._circuits

    def assert_again(self) -> None:
        assert self._twin.marked() == []
        assert {host: self._twin.journals(host) for host in HOSTS} == {h: [] for h in HOSTS}
        assert {host: self._twin.network(host) for host in HOSTS} == self._networks
        assert self._show() == self._circuits

    def _show(self) -> str:
        shown = self._line("switch", "ocs", "show", "--lab", "rack", "--twin", self._twin.name)
        assert shown.code == 0, shown.err
        return shown.out


@pytest.fixture(scope="module")
def twin(rack: str) -> RunningTwin:
    return RunningTwin(rack)


@pytest.fixture(scope="module")
def foreign(rack: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A circuit of another user on ports that no host has; how it is shown."""
    line = CommandLine(tmp_path_factory.mktemp("foreign"))
    where = ["15", "32", "--lab", "rack", "--twin", rack, "--results", str(line.results)]
    assert line("switch", "ocs", "connect", *where).code == 0
    yield "→ 32"
    assert line("switch", "ocs", "disconnect", *where).code == 0


@pytest.fixture(scope="module")
def before(twin: RunningTwin, foreign: str, tmp_path_factory: pytest.TempPathFactory) -> Declared:
    line = CommandLine(tmp_path_factory.mktemp("declared") / "results")
    return Declared(line, twin, foreign)


@pytest.fixture
def declared(before: Declared) -> Iterator[Declared]:
    """What the twin was before the first test, and is again after each."""
    yield before
    before.assert_again()


def start(testbed: CommandLine, twin: RunningTwin, *arguments: str) -> Started:
    return testbed.start("run", "experiments/lumion.yaml", "--twin", twin.name, *ONE, *arguments)


def recover(testbed: CommandLine, twin: RunningTwin) -> Finished:
    results = ["--results", str(testbed.results)]
    return testbed("recover", "latest", *results, "--twin", twin.name)


def assert_consistent(run: Started, done: Finished, *codes: int) -> dict[str, Any]:
    """Check that the code is one of those expected, and the same everywhere; return `run.end`."""
    assert done.code in codes, done.out + done.err
    assert run.summary()["exit_code"] == done.code
    (end,) = [e["data"] for e in run.events() if e["kind"] == "run.end"]
    assert (end["cleanup"] == "verified") == (done.code != 6)
    return end


# --- agents ---------------------------------------------------------------------------------

KILLS = [(phase, host) for phase in PHASES for host in HOSTS]
DAILY = random.Random(5).sample(KILLS, 1)


def sampled(cases: list[Any], daily: list[Any]) -> list[Any]:
    return [c if c in daily else pytest.param(*c, marks=pytest.mark.soak) for c in cases]


@pytest.mark.parametrize(("phase", "host"), sampled(KILLS, DAILY))
def test_a_killed_agent_leaves_no_changes_on_its_host(
    testbed: CommandLine, twin: RunningTwin, declared: Declared, phase: str, host: str
) -> None:
    run = start(testbed, twin)
    run.await_event(PHASES[phase])
    for agent in twin.agents(host):
        os.kill(agent, signal.SIGKILL)
    end = assert_consistent(run, run.finish(), 0, 1, 3, 4)
    assert end["left"] == []


def test_a_killed_agent_of_an_unused_spare_is_detected_and_its_changes_undone(
    testbed: CommandLine, twin: RunningTwin, declared: Declared
) -> None:
    run = start(testbed, twin)
    run.await_event(PHASES["trial"])
    (agent,) = twin.agents("h5")
    os.kill(agent, signal.SIGKILL)
    assert_consistent(run, run.finish(), 0)
    notes = [e["data"]["text"] for e in run.events() if event("note", "h5")(e)]
    assert any(note.startswith("took back what a dead agent of run") for note in notes)


# --- the management network -----------------------------------------------------------------

HOLES = [(phase, host) for phase in ("prepare", "trial", "recovery") for host in HOSTS]


@pytest.mark.soak
@pytest.mark.parametrize(("phase", "host"), HOLES)
def test_an_unreachable_host_delays_a_run_by_no_more_than_its_deadlines(
    testbed: CommandLine, twin: RunningTwin, declared: Declared, phase: str, host: str
) -> None:
    run = start(testbed, twin)
    run.await_event(PHASES[phase])
    with twin.black_hole(host):
        done = run.finish(120)
    end = assert_consistent(run, done, 0, 1, 3, 4, 6)
    if done.code == 6:
        agents, leases = end["left"]
        assert agents.startswith(f"agents: {host}: ")
        assert leases.startswith("leases: the leases stay")
        again = recover(testbed, twin)
        assert again.code == 0, again.out + again.err


# --- far ends -------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("phase", PHASES)
def test_a_run_with_hanging_instruments_ends_and_is_recovered(
    testbed: CommandLine, twin: RunningTwin, declared: Declared, phase: str
) -> None:
    run = start(testbed, twin)
    run.await_event(PHASES[phase])
    with twin.stopped(twin.server):
        done = run.finish(160)
    assert_consistent(run, done, 0, 4, 6)
    again = recover(testbed, twin)
    assert again.code == 0, again.out + again.err


# --- the disk -------------------------------------------------------------------------------


@pytest.fixture
def disk(testbed: CommandLine, twin: RunningTwin) -> Iterator[Path]:
    """A small disk for the results, inside the twin where the orchestrator runs; its path."""
    testbed.results.mkdir()
    twin.inside("mount", "-t", "tmpfs", "-o", "size=4m,mode=0777", "tmpfs", str(testbed.results))
    yield Path(f"/proc/{twin.server}/root{testbed.results}")
    twin.inside("umount", str(testbed.results))


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "everything").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@pytest.mark.parametrize(("phase",), sampled([(p,) for p in PHASES], [("decision",)]))
def test_a_full_disk_ends_the_run_and_all_changes_are_undone(
    testbed: CommandLine, twin: RunningTwin, declared: Declared, disk: Path, phase: str
) -> None:
    run = start(testbed, twin)
    seen = Started(run.process, disk)
    seen.await_event(PHASES[phase])
    fill(disk)
    done = run.finish()
    assert done.code == 4, done.out + done.err
    assert "No space left" in done.err
    declared.assert_again()


def test_a_read_only_disk_prevents_the_start_of_a_run(
    testbed: CommandLine, twin: RunningTwin, declared: Declared, disk: Path
) -> None:
    twin.inside("mount", "-o", "remount,ro", str(testbed.results))
    done = start(testbed, twin).finish()
    assert done.code == 4, done.out + done.err
    assert "making a run directory" in done.err
