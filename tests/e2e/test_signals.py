"""A signal in every phase of a run: everything is taken back, and the exit code is 128 + n."""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.commandline import COMMAND, ROOT, SMALL_RING, CommandLine, Finished, Started
from tests.e2e.footprint import assert_as, footprint

pytestmark = pytest.mark.alone

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
ONE = [*SMALL_RING, "-S", "variants={only-one: {}}", "-S", "checks={}", "--repeat"]
FOR_LONG, SHORT = [*ONE, "50"], [*ONE, "1", "--report"]
SEED = 4


def await_handlers(run: Started) -> None:
    """Wait until the command hears signals: before its first line Python itself decides."""
    status = Path(f"/proc/{run.process.pid}/status")
    caught = 0
    while not caught >> (signal.SIGTERM - 1) & 1:
        time.sleep(0.002)
        caught = int(status.read_text().partition("SigCgt:")[2].split()[0], 16)


def await_twin(run: Started) -> None:
    """Wait until the run's twin is being built."""
    children = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children")
    while run.process.poll() is None:
        for child in children.read_text().split():
            if b"testbed.twin.launch\0new" in Path(f"/proc/{child}/cmdline").read_bytes():
                return
        time.sleep(0.002)
    raise AssertionError(f"it ended early: {run.process.communicate()}")


def await_phase(name: str) -> Callable[[Started], None]:
    return lambda run: run.await_event(lambda e: (e["kind"], e["subject"]) == ("phase", name))


PHASES: dict[str, tuple[list[str], Callable[[Started], None]]] = {
    "read": (FOR_LONG, await_handlers),
    "twin": (FOR_LONG, await_twin),
    "open": (FOR_LONG, await_phase("open")),
    "prepare": (FOR_LONG, await_phase("prepare")),
    "trials": (FOR_LONG, await_phase("trials")),
    "restore": (SHORT, await_phase("restore")),
    "analyse": (SHORT, lambda run: run.await_event(lambda e: e["kind"] == "run.end")),
}
EVERY = list(itertools.product(PHASES, ENDING))
SAMPLE = list(zip(random.Random(SEED).sample(list(PHASES), len(ENDING)), ENDING, strict=True))
AFTERWARDS = {"read": 0.4, "twin": 1.0, "open": 0.3, "prepare": 0.3, "trials": 2.0}
"""Seconds for which a phase lasts at least; the signal comes at some moment of them."""


def marked(case: tuple[str, signal.Signals]) -> object:
    return case if case in SAMPLE else pytest.param(*case, marks=pytest.mark.soak)


@pytest.mark.parametrize(("phase", "number"), [marked(case) for case in EVERY])
def test_a_signal_in_any_phase_ends_a_run_with_a_verified_clean_up(
    testbed: CommandLine, phase: str, number: signal.Signals
) -> None:
    before = footprint()
    length, reached = PHASES[phase]
    run = testbed.start("run", "experiments/lumion.yaml", "--twin", *length)
    reached(run)
    time.sleep(random.Random(f"{phase} {number}").uniform(0.05, AFTERWARDS.get(phase, 0.05)))
    run.signal(number)
    done = run.finish()
    assert done.code == 128 + number, done.err
    assert "Traceback" not in done.err, done.err
    check_record(testbed, run, done, is_over=phase == "analyse")
    assert_as(before)


def check_record(testbed: CommandLine, run: Started, done: Finished, *, is_over: bool) -> None:
    """Hold what a run wrote against how it ended."""
    ends = [event["data"] for event in run.events() if event["kind"] == "run.end"]
    if not (run.results / "latest").exists():
        return
    (end,) = ends
    assert end["cleanup"] == "verified" and end["left"] == [], end
    said = "passed, clean-up verified" if is_over else "clean-up verified"
    again = testbed("report", "latest", "--results", str(run.results))
    assert said in done.out and said in again.out
    assert again.code == (0 if is_over else done.code)


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_five_signals_during_the_clean_up_give_a_consistent_exit_code(
    testbed: CommandLine, times: int
) -> None:
    before, chance, results = footprint(), random.Random(SEED), testbed.results
    for number_of_run in range(times):
        testbed.results = results / str(number_of_run)
        run = testbed.start("run", "experiments/lumion.yaml", "--twin", *SHORT)
        PHASES["restore"][1](run)
        first = number = chance.choice(ENDING)
        for _ in range(5):
            if run.process.poll() is None:
                run.signal(number)
            time.sleep(chance.uniform(0.0, 0.3))
            number = chance.choice(ENDING)
        done = run.finish()
        (end,) = [event["data"] for event in run.events() if event["kind"] == "run.end"]
        assert done.code == (128 + first if end["cleanup"] == "verified" else 6), done.err
        assert "Traceback" not in done.err, done.err
        again = testbed("report", "latest", "--results", str(run.results))
        assert again.code in (0, done.code) and "verdict" in again.out, again.err
        assert_as(before)


def take_for_controlling_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_closing_the_terminal_ends_a_run_with_a_verified_clean_up(tmp_path: Path) -> None:
    """The kernel sends SIGHUP, and nobody can read what the run says from then on."""
    before = footprint()
    screen, terminal = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, "run", "experiments/lumion.yaml", "--twin", *FOR_LONG, "--results", tmp_path],
        cwd=ROOT,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        text=True,
        env={**os.environ, "TERM": "xterm"},
        preexec_fn=take_for_controlling_terminal,
    )
    os.close(terminal)
    run, seen = Started(process, tmp_path), b""
    while not any(event["kind"] == "trial.begin" for event in run.events()):
        assert process.poll() is None, seen
        if select.select([screen], [], [], 0.02)[0]:
            seen += os.read(screen, 1 << 16)
    os.close(screen)
    assert process.wait(60) == 128 + signal.SIGHUP
    (end,) = [event["data"] for event in run.events() if event["kind"] == "run.end"]
    assert end["cleanup"] == "verified" and end["left"] == []
    assert run.summary()["exit_code"] == 128 + signal.SIGHUP
    assert (tmp_path / "latest" / "report.html").exists()
    assert_as(before)
