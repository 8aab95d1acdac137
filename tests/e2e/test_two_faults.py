"""Two hosts lose power in one trial, one of them while the other is being replaced."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.commandline import SMALL_MODEL, CommandLine
from tests.e2e.known_truth import assert_marks_hold

Row = dict[str, Any]

# Ranks that are well beat late where many programs want two cores.
ONE = [*SMALL_MODEL, "-S", "policy.heartbeat=500 ms", "-S", "checks={}", "--repeat", "1"]


def of(events: list[Row], kind: str) -> list[Row]:
    return [event for event in events if event["kind"] == kind]


def run_once(testbed: CommandLine, twin: str, *more: str) -> tuple[list[Row], Row, int]:
    """Return the events, the trial and the exit code of one trial of the experiment.

    It runs on a twin of its own where no name is given.
    """
    where = ["--twin", *([twin] if twin else [])]
    run = testbed.start("run", "experiments/two-faults.yaml", *ONE, *more, *where)
    done = run.finish()
    (trial,) = run.summary()["trials"]
    assert run.summary()["cleanup"] == "verified", done.err
    return run.events(), trial, done.code


def assert_both_struck(events: list[Row]) -> list[str]:
    """Return the victims; the second was hit while the first was being replaced."""
    faults, receipts = of(events, "fault.inject"), of(events, "fault.receipt")
    victims = [fault["subject"] for fault in faults]
    assert [fault["data"]["entry"] for fault in faults] == [0, 1] and len({*victims}) == 2
    assert len(receipts) == 2 and len({receipt["subject"] for receipt in receipts}) == 2
    undone = of(events, "fault.undo")
    assert [undo["subject"] for undo in undone] == victims[::-1]
    assert {undo["cause"] for undo in undone} == {fault["seq"] for fault in faults}
    return victims


def test_two_hosts_that_lose_power_are_replaced_by_two_spares(
    testbed: CommandLine, rack: str
) -> None:
    events, trial, code = run_once(testbed, rack, "--seed", "3")
    assert code == 0 and trial["valid"] and trial["recovered"], trial["reason"]
    victims = assert_both_struck(events)
    decided = of(events, "recovery.decided")
    assert [one["subject"] for one in decided] == victims
    assert {one["data"]["replacement"] for one in decided} == {"h4", "h5"}
    last = of(events, "fault.inject")[1]["data"]["done"]
    steps = [one for one in of(events, "step") if one["data"]["generation"] > 1]
    # The clock runs until a step that all four made after the second fault.
    assert {0, 1, 2, 3} <= {one["data"]["rank"] for one in steps}
    first = of(events, "fault.inject")[0]["data"]["sent"]
    assert first + trial["values"]["recovery_time"] > last
    assert_marks_hold(testbed.results / "latest")


def test_with_one_spare_the_trial_ends_with_the_names_of_both_hosts(
    testbed: CommandLine, rack: str
) -> None:
    events, trial, code = run_once(testbed, rack, "-S", "jobs.main.spares=1", "--seed", "3")
    assert code == 1 and trial["valid"] and not trial["recovered"]
    one, other = assert_both_struck(events)
    assert f"{one} and {other} have failed" in trial["reason"]
    assert "no spare host is left" in trial["reason"]
    (failed,) = of(events, "recovery.failed")
    assert failed["data"]["reason"] == trial["reason"]


@pytest.mark.soak
def test_hosts_of_one_rack_lose_power_together_and_are_replaced(testbed: CommandLine) -> None:
    racks = [word for host in ("h1", "h2") for word in ("-S", f"lab.hosts.{host}.rack=r1")]
    fault = "faults=[{kind: power-cut, job: main, target: rack r1, at: {step: 8}}]"
    events, trial, code = run_once(testbed, "", *racks, "-S", fault, "-S", "jobs.main.steps=60")
    assert code == 0 and trial["valid"] and trial["recovered"], trial["reason"]
    faults = of(events, "fault.inject")
    assert [(one["subject"], one["data"]["entry"]) for one in faults] == [("h1", 0), ("h2", 0)]
    assert len(of(events, "fault.receipt")) == 2 and len(of(events, "fault.undo")) == 2
    assert {one["data"]["replacement"] for one in of(events, "recovery.decided")} == {"h4", "h5"}
