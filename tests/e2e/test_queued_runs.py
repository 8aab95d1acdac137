"""Experiments wait for their turn on one twin, as users type it; and the machine is restarted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from testbed.record.log import read_events
from tests.e2e.commandline import COMMAND, ROOT, CommandLine, Started

pytestmark = pytest.mark.soak


def arguments(rack: str, hosts: str, seconds: float) -> list[str]:
    """Return a run in the queue whose programs do nothing for some seconds.

    Without hosts, the run is on two of its own choice.
    """
    ranks = hosts.count("h") or 2
    job = [f"needs.hosts={ranks}", f"jobs.main.ranks={ranks}"]
    job += [f"jobs.main.hosts=[{hosts}]"] if hosts else []
    program = f"sleep {seconds}; echo at 450 Mbit/s"  # for the checks of the experiment
    job.append(f'jobs.main.command=["sh", "-c", "{program}"]')
    words = [word for setting in job for word in ("-S", setting)]
    words += ["-S", "limits.trial=10 min", "--repeat", "1", "--seed", "7"]
    return ["run", "experiments/command.yaml", "--twin", rack, *words, "--queue"]


class Queue:
    """The queue of a twin, and the runs of a test, each with results of its own."""

    def __init__(self, testbed: CommandLine, rack: str) -> None:
        self.testbed, self.rack = testbed, rack

    def __call__(self, *words: str, code: int = 0) -> Any:
        done = self.testbed("queue", *words, "--twin", self.rack)
        assert done.code == code, done
        return done.out if code == 0 else done.err

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the entries by the names of their results."""
        found = json.loads(self("--json"))
        return {Path(row["directory"]).parent.name: row for row in found}

    def start(self, name: str, hosts: str, seconds: float) -> Started:
        line = CommandLine(self.testbed.results.with_name(name), self.testbed.running)
        return line.start(*arguments(self.rack, hosts, seconds))

    def until(self, name: str, state: str) -> dict[str, Any]:
        end = time.monotonic() + 90.0
        while (row := self.rows().get(name, {})).get("state") != state:
            assert time.monotonic() < end, row
            time.sleep(0.1)
        return row


def test_runs_wait_for_their_turn_and_are_listed_moved_and_cancelled(
    testbed: CommandLine, rack: str
) -> None:
    queue = Queue(testbed, rack)
    first = queue.start("first", "h0, h1", 600.0)
    queue.until("first", "running")
    second = queue.start("second", "h1, h2", 0.1)
    row = queue.until("second", "waiting")
    assert row["position"] == 1 and row["waits_for"].startswith("h1, ocs.3-4")
    beside = queue.start("beside", "h3, h4", 0.1).finish()
    assert beside.code == 0, beside.err
    waits = second.await_event(lambda event: event["kind"] == "lease.wait")
    assert waits["data"]["holder"].startswith("1 of ")

    killed, cancelled, moved = (
        queue.start(name, "h0, h2", 0.1) for name in ("killed", "cancelled", "moved")
    )
    names = {n: queue.until(n, "waiting")["name"] for n in ("killed", "cancelled", "moved")}
    queue("move", names["moved"])
    assert queue.rows()["moved"]["position"] == 1
    queue("cancel", names["cancelled"])
    done = cancelled.finish()
    assert done.code == 5 and "taken out of the queue" in done.err
    second.signal(signal.SIGINT)
    assert second.finish().code == 130
    killed.signal(signal.SIGKILL)
    killed.finish()
    arrived = queue.until("killed", "interrupted")["arrived"]
    assert queue.rows().keys() == {"first", "killed", "moved"}
    again = queue.start("killed", "h0, h2", 0.1)
    assert queue.until("killed", "waiting")["arrived"] == arrived

    first.signal(signal.SIGINT)
    assert first.finish().code == 130
    for run in (moved, again):
        done = run.finish()
        assert done.code == 0, done.err
    assert queue() == "the queue is empty\n"
    replayed = json.loads(queue("replay", "--json"))
    assert replayed["experiments"] == 4 and replayed["label"] == "model"


def test_two_runs_that_name_no_hosts_run_side_by_side_on_different_ones(
    testbed: CommandLine, rack: str
) -> None:
    """The first has the first hosts of the lab, and the second, that it may not wait, others."""
    queue = Queue(testbed, rack)
    first = queue.start("first", "", 600.0)
    queue.until("first", "running")
    second = queue.start("second", "", 0.1).finish()
    assert second.code == 0, second.err
    assert queue.rows()["first"]["state"] == "running"
    (_, _, theirs), (_, _, ours) = (
        held(testbed.results.with_name(name))[0] for name in ("first", "second")
    )
    assert {"h0", "h1"} <= theirs and {"h2", "h3"} <= ours and not theirs & ours
    first.signal(signal.SIGINT)
    assert first.finish().code == 130


def held(results: Path) -> list[tuple[float, float, set[str]]]:
    """Return when a run had which resources, by its own log; to its last word where it was killed.

    Directories of runs that were refused, or killed while they waited, have nothing to say.
    """
    found = []
    for run in results.glob("*-command-*"):
        events = list(read_events(run / "events.jsonl"))
        taken = [event for event in events if event.kind == "lease.taken"]
        if taken:
            names = set(taken[0].data["resources"]) - {"settings of the twin"}  # which stay
            begin, end = (event.t + events[0].data["clock"] for event in (taken[0], events[-1]))
            ends = [e for e in events if e.kind == "cleanup.begin" and e.subject == "leases"]
            end = ends[0].t + events[0].data["clock"] if ends else end
            found.append((begin, end, names))
    return found


class People:
    """Fifty experiments of five people, each a run with results of its own."""

    def __init__(self, queue: Queue, count: int) -> None:
        rng = Random(count)
        self.queue, self.folder = queue, queue.testbed.results.parent
        self.wishes: dict[str, tuple[str, list[str]]] = {}
        self.runs: dict[str, subprocess.Popen[str]] = {}
        for number in range(count):
            size, first = rng.choice([2, 2, 2, 3, 3, 6]), rng.randrange(5)
            hosts = [f"h{(first + more) % 6}" for more in range(size)]
            command = arguments(queue.rack, ", ".join(hosts), rng.choice([0.2, 1.0, 2.0]))
            name = f"{number:02}"
            results = str(self.folder / name)
            self.wishes[name] = (f"person-{number % 5}", [*command, "--results", results])

    def start(self, names: list[str]) -> None:
        for name in names:
            user, command = self.wishes[name]
            self.runs[name] = subprocess.Popen(
                [*COMMAND, *command],
                cwd=ROOT,
                env={**os.environ, "LOGNAME": user},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.queue.testbed.running.append(self.runs[name])

    def kill(self) -> set[str]:
        """Kill every process of every run; return the runs that had ended before."""
        ended = {name for name, run in self.runs.items() if run.poll() == 0}
        for run in self.runs.values():
            run.kill()
        for run in self.runs.values():
            run.communicate()
        return ended


@pytest.mark.timeout(1200)  # it waits for its runs for up to 300 and 600 s
def test_fifty_experiments_of_five_people_on_one_rack_with_a_restart_of_the_machine(
    testbed: CommandLine, rack: str
) -> None:
    queue = Queue(testbed, rack)
    people = People(queue, 50)
    people.start(list(people.wishes))
    end = time.monotonic() + 300.0
    while sum(run.poll() == 0 for run in people.runs.values()) < 15:
        assert time.monotonic() < end, "fifteen have not ended"
        time.sleep(0.2)
    ended = people.kill()
    places = {name: row["arrived"] for name, row in queue.rows().items()}
    left = [name for name in people.wishes if name not in ended]
    assert places.keys() <= set(left)
    for name in left:
        if held(people.folder / name):
            where = ["--results", str(people.folder / name), "--twin", rack]
            assert testbed("recover", *where).code == 0
    people.runs.clear()
    people.start(left[::-1])
    complaints = {n: run.communicate(timeout=600.0)[1] for n, run in people.runs.items()}
    assert {n: complaints[n] for n, run in people.runs.items() if run.returncode} == {}
    assert queue() == "the queue is empty\n"
    intervals = [one for name in people.wishes for one in held(people.folder / name)]
    for (begin, last, mine), (other_begin, other_last, theirs) in combinations(intervals, 2):
        assert not mine & theirs or last <= other_begin or other_last <= begin
    replayed = json.loads(queue("replay", "--json"))
    assert replayed["experiments"] >= 50
    print(f"{len(ended)} of 50 had ended, {len(places)} places were kept, {len(intervals)} held")
    print(json.dumps({"happened": replayed["happened"], **replayed["policies"]}, indent=1))
