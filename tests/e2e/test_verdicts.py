"""Verdicts: of a fault that did not fire, of a paused trial, of an interrupted clean-up."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.bench.host import PATIENCE
from testbed.errors import EXIT_UNSAFE
from tests.e2e.commandline import SMALL_RING, CommandLine
from tests.e2e.running_twin import RunningTwin

ONE = ["--repeat", "1", *SMALL_RING, "-S", "variants={only-one: {}}", "-S", "checks={}"]


def test_a_trial_whose_fault_did_not_happen_is_invalid(testbed: CommandLine, rack: str) -> None:
    """The power unit says that it cut the power, and does not."""
    with RunningTwin(rack).faulty("pdu", "lie"):
        short = ["-S", "limits.trial=6 s", "--json"]
        run = testbed.start("run", "experiments/lumion.yaml", "--twin", rack, *ONE, *short)
        done = run.finish(limit=100)
    assert done.code == 3, done.err
    summary = run.summary()
    (trial,) = summary["trials"]
    assert summary["outcome"] == "inconclusive" and trial["receipt"] is None
    assert not trial["valid"] and summary["metrics"] == {}
    assert '<testcase classname="lumion.run" name="run">\n    <error' in (
        (run.results / "latest" / "junit.xml").read_text()
    )


def test_a_trial_during_a_pause_of_the_orchestrator_is_invalid(
    testbed: CommandLine, rack: str
) -> None:
    late = ["-S", "faults.0.at.step=400", "-S", "limits.trial=5 min", "--json"]
    run = testbed.start("run", "experiments/lumion.yaml", "--twin", rack, *ONE, *late)
    run.await_event(lambda event: event["kind"] == "trial.begin")
    hosts = {event["subject"] for event in run.events() if event["kind"] == "host.ready"}
    measured: set[str] = set()  # what has a limit of seconds must be over

    def is_next(event: dict[str, Any]) -> bool:
        if event["kind"] == "clock.offset" and event.get("trial") == 0:
            measured.add(event["subject"])
        return measured == hosts

    run.await_event(is_next)
    with standing_still(run.process.pid):
        time.sleep(PATIENCE + 1.0)
    done = run.finish(limit=100)
    assert done.code == 3, (done.out, done.err)
    (trial,) = run.summary()["trials"]
    assert not trial["valid"] and "the orchestrator itself stood still for 1" in trial["reason"]
    assert run.summary()["cleanup"] == "verified"


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """Stop a process and all that it has started; let them go on afterwards."""
    stopped = [pid]
    for one in stopped:
        os.kill(one, signal.SIGSTOP)
        stopped += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
    try:
        yield
    finally:
        for one in reversed(stopped):
            os.kill(one, signal.SIGCONT)


def test_an_interrupted_clean_up_reports_open_changes_and_the_recover_command(
    testbed: CommandLine, rack: str
) -> None:
    late = ["-S", "faults.0.at.step=2000", "-S", "limits.trial=5 min"]
    run = testbed.start("run", "experiments/lumion.yaml", "--twin", rack, *ONE, *late)
    run.await_event(lambda event: event["kind"] == "trial.begin")
    with RunningTwin(rack).silent("ocs"):
        run.signal(signal.SIGTERM)
        run.await_event(lambda e: (e["kind"], e["subject"]) == ("cleanup.begin", "circuits"))
        run.signal(signal.SIGINT)
        run.await_event(lambda e: e["kind"] == "note" and e["data"]["text"].startswith("hurrying"))
        run.signal(signal.SIGINT)
        done = run.finish(limit=100)
    assert done.code == EXIT_UNSAFE, done.err
    assert "stopping: taking back " in done.err and "at most" in done.err
    assert "circuits: left in the middle" in done.out, done.out
    *_, last = done.out.splitlines()
    assert last.split()[:3] == ["next", "testbed", "recover"]
    assert testbed(*last.split()[2:], "--results", str(run.results)).code == 0
    shown = testbed("switch", "ocs", "show", "--lab", "rack", "--twin", rack, "--json")
    assert shown.json() == []
