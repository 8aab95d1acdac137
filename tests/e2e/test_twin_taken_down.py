"""`testbed twin down` of a twin in which a run is at work."""

from __future__ import annotations

import os
import subprocess

from tests.e2e.commandline import COMMAND, ROOT, CommandLine
from tests.e2e.test_concurrent_runs import long_run


def test_a_run_in_a_twin_that_is_taken_down_puts_everything_back_first(
    testbed: CommandLine,
) -> None:
    name = f"down-{os.getpid()}"
    subprocess.run([*COMMAND, "twin", "up", "rack", "--name", name], cwd=ROOT, check=True)
    run = long_run(testbed, name)
    done = testbed("twin", "down", name)
    assert done.code == 0 and done.out == f"twin {name} is down\n"
    said = f"in twin {name} runs `testbed run experiments/command.yaml "
    assert done.err.startswith(said) and "it ends first, within 60 s" in done.err
    ended = run.finish()
    assert ended.code == 143
    (end,) = (event["data"] for event in run.events() if event["kind"] == "run.end")
    assert (end["cleanup"], end["left"]) == ("verified", [])
    assert f"--twin {name}" not in ended.out + ended.err
    assert name not in testbed("twin", "list").out


def test_a_twin_without_a_run_is_taken_down_at_once(testbed: CommandLine) -> None:
    name = f"idle-{os.getpid()}"
    subprocess.run([*COMMAND, "twin", "up", "rack", "--name", name], cwd=ROOT, check=True)
    done = testbed("twin", "down", name)
    assert (done.code, done.err) == (0, "")
