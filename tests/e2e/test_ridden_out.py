"""Faults that no policy repairs, against a program of its own that listens on the link."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.commandline import COMMAND, ROOT, CommandLine, Started
from tests.e2e.running_twin import RunningTwin

HERE = Path(__file__).parent
LAB = str(HERE / "attenuation" / "lab.yaml")
EXPERIMENT = str(HERE / "attenuation" / "lost-light.yaml")


@dataclass(frozen=True, slots=True)
class Segment:
    """A TCP segment that arrived: when, on the machine's monotonic clock, and which bytes."""

    at: float
    begin: int
    end: int


@dataclass
class Heard:
    """What was heard at a port, on the machine's monotonic clock."""

    segments: list[Segment] = field(default_factory=list)
    dark: list[float] = field(default_factory=list)
    """When the port lost its carrier."""


@pytest.fixture
def twin() -> Iterator[RunningTwin]:
    name = f"lost-light-{os.getpid()}"
    subprocess.run([*COMMAND, "twin", "up", LAB, "--name", name], cwd=ROOT, check=True)
    yield RunningTwin(name)
    subprocess.run([*COMMAND, "twin", "down", name], cwd=ROOT, check=True)


@contextmanager
def captured(twin: RunningTwin, host: str, interface: str) -> Iterator[Heard]:
    """Listen on a port of a host; what arrived is known once the block is left."""
    program = [sys.executable, str(HERE / "inside" / "capture.py"), interface]
    listener = twin.start_on(host, *program)
    assert listener.stdout is not None and listener.stdout.readline() == "ready\n"
    found = Heard()
    yield found
    out, _ = listener.communicate("", timeout=20)
    for row in out.splitlines():
        at, what, value = row.split()
        if what != "carrier":
            found.segments.append(Segment(float(at), int(what), int(what) + int(value)))
        elif value == "0":
            found.dark.append(float(at))


def zero_of(run: Started) -> float:
    """Return when a run's log began, on the machine's monotonic clock, seen by reading along.

    Nothing can be read before it happened, and some line is read as soon as it is written.
    """
    soonest, seen = float("inf"), 0
    while run.process.poll() is None:
        log = run.results / "latest" / "events.jsonl"
        size = log.stat().st_size if log.exists() else 0
        if size > seen:
            with log.open("rb") as file:
                file.seek(seen)
                rows = file.read(size - seen).split(b"\n")
            at = time.monotonic()
            seen = size - len(rows[-1])
            events = [json.loads(row) for row in rows[:-1]]
            fresh = [e["t"] for e in events if "mono" not in e["data"]]
            soonest = min([soonest, *(at - t for t in fresh)])
        time.sleep(0.001)
    return soonest


def step_ends(segments: list[Segment], size: int, told: list[float]) -> list[float]:
    """Return when the last byte of each step arrived, of which each sends `size` bytes.

    A segment may have it in its middle: what follows a loss is cut anew. It is the same byte of
    each step: the one after which most steps before the fault were told
    to have ended. It says which byte, and no time: how long ago it arrived is not looked at.
    """
    dark, _ = gap(segments)
    last = [
        max((segment.end for segment in segments if segment.at <= at), default=0)
        for at in told
        if at < dark
    ]
    (phase, _), *_ = Counter(end % size for end in last).most_common(1)
    first: dict[int, float] = {}
    for segment in segments:
        step, rest = divmod(segment.end - phase, size)
        if rest < segment.end - segment.begin:
            first.setdefault(step, segment.at)
    return sorted(first.values())


def gap(segments: list[Segment]) -> tuple[float, float]:
    """Return the longest pause between two segments: its begin and its end."""
    one, later = max(pairwise(segments), key=lambda pair: pair[1].at - pair[0].at)
    return one.at, later.at


def silence(segments: list[Segment], until: float) -> float:
    """Return the longest of the last pauses between two segments that came until a moment."""
    last = [segment for segment in segments if segment.at <= until][-2000:]
    return max(later.at - one.at for one, later in pairwise(last))


@pytest.mark.parametrize("hold", ["1 s", pytest.param("3 s", marks=pytest.mark.soak)])
def test_marks_of_lost_light_agree_with_packets_captured_on_the_link(
    testbed: CommandLine, twin: RunningTwin, hold: str
) -> None:
    with captured(twin, "h1", "eth1") as heard:
        where = ["--lab", LAB, "--twin", twin.name, "--seed", "1", "-S", f"faults.0.hold={hold}"]
        run = testbed.start("run", EXPERIMENT, *where)
        zero = zero_of(run)
    done = run.finish()
    assert done.code == 0, done.err
    (trial,) = run.summary()["trials"]
    assert trial["response"] == "recovered"
    (sent,) = [e["data"]["sent"] for e in run.events() if e["kind"] == "fault.inject"]
    segments = heard.segments
    dark, lit = gap(segments)
    (size,) = {e["data"]["bytes"] for e in run.events() if e["kind"] == "step"}
    steps = [e for e in run.events() if e["kind"] == "step" and e["subject"] == "rank 1"]
    ends = step_ends(segments, size, [zero + step["t"] for step in steps])
    usual = statistics.median(later - one for one, later in pairwise(ends))
    back, *after = (end for end in ends if end >= lit)
    carrier = next(at for at in heard.dark if at >= dark)
    t0_late = zero + sent + trial["mark_errors"]["t0"]
    t10 = zero + sent + trial["marks"]["t10"]
    away = {"t0": t0_late - dark, "t10": t10 - back}
    said = ", ".join(f"{mark} {1e3 * by:+.1f} ms" for mark, by in away.items())
    usually = f"silent for {1e3 * silence(segments, dark):.1f} ms at most before, steps of"
    lost = f"carrier {1e3 * (carrier - dark):+.1f} ms"
    print(f"{said}, {lost} from the packets; {usually} {1e3 * usual:.1f} ms")
    assert usual == pytest.approx(trial["values"]["step_time"], rel=0.25)
    # However busy the machine is: no rank commits the next step before all have committed this one.
    assert dark <= t0_late <= lit <= back <= t10 + trial["mark_errors"]["t10"]
    if t10 - trial["mark_errors"]["t10"] > after[0]:  # the step after the first was a long one, too
        assert after[0] - back > usual
        assert t10 - trial["mark_errors"]["t10"] <= after[1]
    if hold == "3 s":
        assert max(abs(by) for by in away.values()) < 0.020
    assert trial["values"]["recovery_time"] == pytest.approx(t10 - zero - sent, abs=1e-4)


FREEZE = """
experiment: short-freeze
question: Does a policy leave alone what is over before its heartbeat is missed?
needs: {hosts: 3, fabric: circuit}
jobs:
  main:
    {kind: train, ranks: 2, spares: 1, topology: ring, batch: 1, dim: 64, heads: 2, hidden: 128}
faults:
  - {kind: rank-freeze, job: main, target: random, at: {step: 40}, hold: 100 ms}
policy: {kind: splice, heartbeat: 200 ms}
trials: 2
"""


def test_a_freeze_shorter_than_the_heartbeat_limit_triggers_no_recovery(
    testbed: CommandLine,
) -> None:
    summary, run = testbed.run_text(FREEZE, "rack", "--seed", "1")
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    decided = {event["trial"] for event in events if event["kind"] == "recovery.decided"}
    left_alone = [trial for trial in summary["trials"] if trial["trial"] not in decided]
    assert left_alone, "this machine was too busy for heartbeats of 200 ms"
    for trial in left_alone:
        assert trial["valid"] and trial["response"] in ("recovered", "ridden out")
        mine = [event for event in events if event.get("trial") == trial["trial"]]
        undone, over = (
            next(event for event in mine if event["kind"] == kind)
            for kind in ("fault.undo", "trial.end")
        )
        print(f"{trial['response']}, over {over['t'] - undone['t']:.3f} s after it was undone")
        if trial["response"] == "ridden out":
            assert "recovery_time" not in trial["values"]
        else:
            assert trial["values"]["recovery_time"] > 0.1
