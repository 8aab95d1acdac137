"""A long run: its processes stay as they were, and nothing of it listens outside the twin."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.commandline import SMALL_MODEL, CommandLine, Started

pytestmark = pytest.mark.alone

ONE = [*SMALL_MODEL, "-S", "variants={only-one: {}}", "-S", "checks={}"]
COUNTS = [pytest.param(300, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
GROWTH = 6 << 20
"""Bytes that a process may grow by from the first third of its trials to the last."""


@dataclass
class Watched:
    """What was seen of a run: after each trial its processes, and once who of it listens where."""

    descriptors: dict[str, list[int]] = field(default_factory=dict)
    threads: dict[str, list[int]] = field(default_factory=dict)
    memory: dict[str, list[int]] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)
    namespaces: set[str] = field(default_factory=set)

    def look(self, processes: dict[str, int]) -> None:
        for name, pid in processes.items():
            status = Path(f"/proc/{pid}/status").read_text()
            threads = re.search(r"Threads:\s+(\d+)", status)
            resident = re.search(r"VmRSS:\s+(\d+) kB", status)
            assert threads and resident
            self.threads.setdefault(name, []).append(int(threads[1]))
            self.memory.setdefault(name, []).append(int(resident[1]) << 10)
            count = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            self.descriptors.setdefault(name, []).append(count)


def descendants(pid: int) -> Iterator[int]:
    """Yield a process and all that it started."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = children.read_text().split()
        except OSError:  # that thread has ended
            continue
        for child in found:
            yield from descendants(int(child))


def ended_trials(run: Started, last: int) -> Iterator[int]:
    """Yield the number of each trial as it ends, up to `last`, reading the log once."""
    run.await_event(lambda event: event["kind"] == "phase")
    trial, line = 0, ""
    with (run.results / "latest" / "events.jsonl").open() as log:
        while trial < last:
            line += log.readline()
            if not line.endswith("\n"):  # not written yet, or half of it
                assert run.process.poll() is None, run.process.communicate()
                time.sleep(0.02)
                continue
            assert '"run.end"' not in line, line
            if '"trial.end"' in line:
                trial = json.loads(line)["trial"]
                yield trial
            line = ""


def the_two(run: Started) -> dict[str, int]:
    """Return the orchestrator, and the server of its twin."""
    found = {}
    for pid in descendants(run.process.pid):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:  # it has ended
            continue
        if b"testbed.cli" in words and b"--twin" not in words:
            found["orchestrator"] = pid
        if b"new" in words and parent != str(run.process.pid):
            found.setdefault("twin", pid)
    return found


def listening_outside(run: Started) -> list[str]:
    """Return the sockets of a run that listen in our own network namespace."""
    ours = Path("/proc/self/ns/net").readlink()
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    listening = {row[9]: row[1] for row in rows if row[3] == "0A"}
    found = []
    for pid in descendants(run.process.pid):
        with suppress(FileNotFoundError):  # it has ended since
            if Path(f"/proc/{pid}/ns/net").readlink() != ours:
                continue
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                inode = re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink()))
                if inode and inode[1] in listening:
                    found.append(f"{pid} at {listening[inode[1]]}")
    return found


@pytest.fixture(scope="module", params=COUNTS)
def watched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Watched, dict]:
    place, count = tmp_path_factory.mktemp("many"), request.param
    line = CommandLine(place / "results")
    limits = ["-S", "limits.run=30 min", "--repeat", str(count)]
    wanted = ["experiments/lumion.yaml", "--twin", *ONE, *limits, "--json"]
    seen = Watched()
    with (place / "err.txt").open("w") as err:  # more than a pipe holds
        run = line.start("run", *wanted, stderr=err)
        try:
            for _ in ended_trials(run, count - 5):  # then it reads its whole record again
                seen.look(the_two(run))
            seen.outside = listening_outside(run)
            for pid in list(descendants(run.process.pid)):
                with suppress(FileNotFoundError):  # it has ended since
                    seen.namespaces.add(str(Path(f"/proc/{pid}/ns/net").readlink()))
            done = run.finish()
        finally:
            run.process.kill()
            run.process.communicate()
        assert done.code == 0, (place / "err.txt").read_text()[-2000:]
    return seen, run.summary()


def test_descriptors_threads_and_memory_do_not_grow_over_many_trials(
    watched: tuple[Watched, dict],
) -> None:
    seen, summary = watched
    assert any(trial["valid"] for trial in summary["trials"])
    for name, what in itertools.product(("orchestrator", "twin"), ("descriptors", "threads")):
        counts = getattr(seen, what)[name]
        third = len(counts) // 3
        assert max(counts[-third:]) <= max(counts[:third]) + 2, (name, what, counts)
    for name, sizes in seen.memory.items():
        third = len(sizes) // 3
        print(name, "MiB:", *(f"{size / 2**20:.1f}" for size in (*sizes[::20], *sizes[-5:])))
        assert max(sizes[-third:]) - max(sizes[:third]) <= GROWTH, (name, sizes)


def test_a_run_on_a_twin_opens_no_listening_socket_outside_the_twin(
    watched: tuple[Watched, dict],
) -> None:
    seen, _ = watched
    assert seen.outside == []
    assert len(seen.namespaces) > 5  # ours, the sandbox's, and those of the hosts
