"""Ordinary programs on the hosts of a twin: what they measure, and that they end with their run."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.commandline import CommandLine

LINGERING = """\
experiment: lingering
question: Does anything of a program outlive its run?
lab: rack
needs: {hosts: 2, fabric: circuit}
jobs:
  main:
    kind: command
    ranks: 2
    command: [sh, -c, "echo WORD=$SAID; exec >/dev/null 2>&1; setsid sleep 98765 & sleep 98765"]
"""

SEEDED = """\
experiment: seeded
question: What does a program draw from?
lab: rack
needs: {hosts: 2, fabric: circuit}
jobs:
  main:
    kind: command
    ranks: 2
    command: [sh, -c, "echo drew $TESTBED_SEED"]
    metrics: {drew: {pattern: 'drew ([0-9]+)', unit: "1", better: neither}}
variants:
  one: {}
  other: {}
trials: 2
"""


def sleepers() -> list[str]:
    """Return the processes of ours on this machine, in whatever namespace."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", b"98765"]:
            found.append(place.parent.name)
    return found


def all_gone(limit: float = 10.0) -> bool:
    end = time.monotonic() + limit
    while sleepers() and time.monotonic() < end:
        time.sleep(0.05)
    return not sleepers()


def test_the_throughput_of_a_tcp_stream_over_a_circuit_is_measured(
    testbed: CommandLine, rack: str
) -> None:
    # Not the limits of the file: how fast a circuit is, a busy machine decides.
    done = testbed.run("command", "--repeat", "1", "-S", "checks={}", twin=rack)
    assert done.code == 0, done.err
    summary = done.json()
    metric = summary["metrics"]["only.throughput"]
    assert (metric["unit"], metric["better"], metric["n"]) == ("bit/s", "higher", 1)
    assert 0 < metric["median"] < 500e6
    run = testbed.results / "latest"
    assert "received 67108864 bytes" in (run / "logs" / "h1" / "program.stdout").read_text()
    again = testbed("report", "latest", "--results", str(testbed.results), "--json")
    assert json.loads(again.out)["metrics"] == summary["metrics"]


def test_programs_of_a_block_of_trials_have_one_seed_and_those_of_the_next_another(
    testbed: CommandLine, rack: str
) -> None:
    summary, _ = testbed.run_text(SEEDED, "rack", "--seed", "31", twin=rack)
    drew = {(trial["variant"], trial["values"]["drew"]) for trial in summary["trials"]}
    assert drew == {("one", 31), ("one", 32), ("other", 31), ("other", 32)}


def test_a_failed_program_fails_the_run_and_its_error_is_quoted(
    testbed: CommandLine, rack: str
) -> None:
    broken = 'jobs.main.command=["sh", "-c", "echo no luck >&2; exit 3"]'
    done = testbed.run("command", "--repeat", "1", "-S", broken, twin=rack)
    assert done.code == 1
    summary = done.json()
    assert summary["outcome"] == "failed" and summary["cleanup"] == "verified"
    assert "failed: it ended with code 3: no luck" in summary["reason"]
    assert summary["reason"].startswith("1 of 1 trials did not end well: the program 'sh' on h")
    assert [trial["outcome"] for trial in summary["trials"]] == ["failed"]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.soak)]
)
def test_no_process_of_a_program_outlives_its_run(
    testbed: CommandLine, tmp_path: Path, number: signal.Signals
) -> None:
    file = tmp_path / "lingering.yaml"
    file.write_text(LINGERING)
    lab = Path(__file__).parents[2] / "configs" / "rack.yaml"
    run = testbed.start("run", str(file), "--lab", str(lab), "--twin")
    run.await_event(lambda event: event["kind"] == "program.begin")
    end = time.monotonic() + 20
    while len(sleepers()) < 4 and time.monotonic() < end:
        time.sleep(0.05)
    assert len(sleepers()) == 4
    run.signal(number)
    code = run.finish().code
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    assert all_gone()


def test_a_gpu_benchmark_is_refused_on_a_twin(testbed: CommandLine) -> None:
    done = testbed("run", "experiments/nccl-tests.yaml", "--twin", "--results", os.devnull)
    assert done.code == 2
    assert "nccl-tests cannot run on a twin: it measures GPUs" in done.err
