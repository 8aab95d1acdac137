"""After a run has ended, however it ended, this machine is as it was before."""

from __future__ import annotations

import random
import signal
import time

import pytest

from tests.e2e.commandline import SMALL_RING, CommandLine
from tests.e2e.footprint import assert_as, footprint

pytestmark = pytest.mark.alone

LONG = ["--repeat", "50", *SMALL_RING]


@pytest.fixture
def before() -> dict[str, set[str]]:
    return footprint()


def test_a_run_that_failed_without_a_spare_leaves_nothing_on_this_machine(
    testbed: CommandLine, before: dict[str, set[str]]
) -> None:
    one_trial = [*SMALL_RING, "-S", "variants={only-one: {}}", "-S", "checks={}", "--repeat", "1"]
    short = ["-S", "limits.trial=20 s"]
    done = testbed.run("lumion", *one_trial, *short, "-S", "jobs.main.spares=0")
    summary = done.json()
    assert done.code == 1 and summary["outcome"] == "failed"
    assert "no spare host is left" in summary["trials"][0]["reason"]
    assert summary["cleanup"] == "verified"
    assert_as(before)


@pytest.mark.parametrize(
    "moments", [1, pytest.param(10, marks=pytest.mark.soak)], ids=["sample", "full"]
)
def test_a_run_killed_at_random_moments_leaves_nothing_on_this_machine(
    testbed: CommandLine, before: dict[str, set[str]], moments: int
) -> None:
    chance = random.Random(moments)
    for _ in range(moments):
        run = testbed.start("run", "experiments/lumion.yaml", "--twin", *LONG)
        time.sleep(chance.uniform(0.0, 8.0))
        run.signal(signal.SIGKILL)
        assert run.finish().code == -signal.SIGKILL
        assert_as(before)


def test_a_twin_leaves_nothing_on_this_machine_after_twin_down(
    testbed: CommandLine, before: dict[str, set[str]]
) -> None:
    up = testbed("twin", "up", "rack", "--name", "passing")
    assert up.out == "passing\n" and up.err.startswith("building the twin of rack…\n")
    assert "passing" in testbed("twin", "list").out
    again = testbed("twin", "up", "rack", "--name", "passing")
    assert again.code == 2 and "up already" in again.err
    assert testbed("twin", "down", "passing").out == "twin passing is down\n"
    assert_as(before)
