"""Several at once on one switch: disjoint parts side by side, common ones one after the other."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commandline import COMMAND, ROOT, CommandLine, Finished, Started
from tests.e2e.running_twin import RunningTwin

SMALL = ["-S", "jobs.main.sizes=[4 KiB]", "-S", "needs.hosts=2", "-S", "jobs.main.ranks=2"]


def arguments(rack: str, hosts: str, *more: str) -> list[str]:
    job = [*SMALL, "-S", f"jobs.main.hosts=[{hosts}]", "--seed", "7"]
    return ["run", "experiments/allreduce.yaml", "--twin", rack, *job, *more]


def long_run(testbed: CommandLine, rack: str) -> Started:
    """Start a run on h0 and h1 that lasts until it is told to end; return it at work.

    Its program takes no processor from those beside it.
    """
    sleeping = ["-S", 'jobs.main.command=["sleep", "600"]', "-S", "jobs.main.metrics={}"]
    sleeping += ["-S", "jobs.main.hosts=[h0, h1]", "-S", "checks={}", "-S", "limits.trial=10 min"]
    run = testbed.start("run", "experiments/command.yaml", "--twin", rack, *sleeping)
    begun: set[str] = set()

    def both_run(event: dict[str, Any]) -> bool:
        begun.update([event["subject"]] if event["kind"] == "program.begin" else [])
        return len(begun) == 2

    run.await_event(both_run)
    return run


def elsewhere(testbed: CommandLine, number: int) -> CommandLine:
    """Return the same command line with results of its own."""
    return CommandLine(testbed.results.with_name(f"other-{number}"), testbed.running)


def short_run(testbed: CommandLine, rack: str, hosts: str, *more: str) -> Finished:
    more = (*more, "--repeat", "1", "--results", str(testbed.results))
    return testbed(*arguments(rack, hosts, *more))


def who(testbed: CommandLine, rack: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = testbed("who", "--lab", "rack", "--twin", rack, "--json").json()
    return found


def test_two_runs_use_disjoint_parts_of_a_lab_concurrently(testbed: CommandLine, rack: str) -> None:
    first, lab = long_run(testbed, rack), ["--lab", "rack", "--twin", rack]
    aside = short_run(elsewhere(testbed, 1), rack, "h2, h3")
    assert aside.code == 0, aside.err
    for verb in ("connect", "disconnect"):
        assert testbed("switch", "ocs", verb, "h4.p0", "h5.p0", *lab).code == 0
    (claim,) = who(testbed, rack)
    names = {row["name"] for row in claim["resources"]}
    assert claim["standing"] == "held"
    assert names >= {"h0", "h1", "ocs.1", "ocs.17", "pdu.1"}
    assert not names & {"ocs", "h2", "ocs.5", "pdu.3"}

    refused = short_run(elsewhere(testbed, 2), rack, "h1, h2")
    assert refused.code == 5 and f"held by run {claim['run']}" in refused.err
    slow = ["-S", "lab.twin.settle=50 ms"]  # of the twin that both would be in
    refused = short_run(elsewhere(testbed, 3), rack, "h2, h3", *slow)
    assert refused.code == 5 and "settings of the twin: held by run" in refused.err
    by_hand = testbed("switch", "ocs", "disconnect", "h0.p1", "h1.p0", *lab)
    assert by_hand.code == 5 and f"held by run {claim['run']}" in by_hand.err
    assert "4 cross-connects" in testbed("switch", "ocs", "show", *lab).out
    first.signal(signal.SIGINT)
    assert first.finish().code == 130
    assert short_run(elsewhere(testbed, 4), rack, "h2, h3", *slow).code == 0


@pytest.mark.soak
def test_a_waiting_run_continues_when_the_lease_it_waits_for_is_revoked(
    testbed: CommandLine, rack: str
) -> None:
    first, lab = long_run(testbed, rack), ["--lab", "rack", "--twin", rack]
    waiting = elsewhere(testbed, 3).start(*arguments(rack, "h1, h2", "--wait-lock"))
    waits = waiting.await_event(lambda event: event["kind"] == "lease.wait")
    assert f"held by run {who(testbed, rack)[0]['run']}" in waits["data"]["holder"]
    refused = testbed("unlock", "ocs.5", "h0", *lab)
    assert refused.code == 5 and "held by run" in refused.err
    assert testbed("unlock", "h0", "--force", *lab).code == 0
    lost, done = first.finish(), waiting.finish()
    assert lost.code == 5 and "the lease of this run is lost" in lost.out
    assert first.summary()["cleanup"] == "verified"
    assert done.code == 0 and waits["data"]["holder"] in done.err
    assert who(testbed, rack) == []
    assert "0 cross-connects" in testbed("switch", "ocs", "show", *lab).out


def test_a_manual_lock_refuses_runs_on_the_locked_resources(
    testbed: CommandLine, rack: str
) -> None:
    lab = ["--lab", "rack", "--twin", rack]
    words = ["--reason", "cleaning fibres", "--for", "2h"]
    locked = testbed("lock", "ocs.1", "h5", *words, *lab)
    assert locked.code == 0 and locked.out.startswith("locked until 2"), locked.err
    assert "cleaning fibres" not in testbed("who").out  # it is the twin's alone
    refused = short_run(testbed, rack, "h0, h1")
    assert refused.code == 5 and "cleaning fibres" in refused.err
    assert testbed("unlock", "ocs.1", "h5", *lab).code == 0
    assert who(testbed, rack) == []


MODEL = """\
experiment: model
question: Does every one of many starts have a record of its own?
lab: rack
needs: {hosts: 0, fabric: any}
jobs:
  main: {kind: collective-model, algorithm: stragglar, against: ring, ranks: 4, size: 1 MiB,
         alpha: 3 us, rate: 100 Gbit/s, delay: 1 s}
"""


def test_runs_started_at_once_have_complete_records_of_their_own(tmp_path: Path) -> None:
    started_at_once(tmp_path / "results", 3)


@pytest.mark.soak
def test_fifty_runs_started_at_once_have_complete_records_of_their_own(tmp_path: Path) -> None:
    started_at_once(tmp_path / "results", 50)


def started_at_once(results: Path, count: int) -> None:
    """Start an experiment that needs no hosts many times; expect as many whole records."""
    experiment = results.with_name("model.yaml")
    experiment.write_text(MODEL)
    started = [
        subprocess.Popen(
            [*COMMAND, "run", str(experiment), "--results", str(results)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for _ in range(count)
    ]
    try:
        for process in started:
            _, complaint = process.communicate(timeout=10 * count)
            assert process.returncode == 0, complaint
    finally:
        for process in started:
            process.kill()
    records = [path for path in results.iterdir() if not path.is_symlink()]
    assert len(records) == count
    for record in records:
        assert json.loads((record / "summary.json").read_text())["outcome"] == "passed"
    assert (results / "latest").resolve() in records


def test_all_samples_of_a_short_job_are_its_trials_on_a_switch_that_answers_late(
    testbed: CommandLine, rack: str
) -> None:
    with RunningTwin(rack).faulty("ocs", "late", delay=0.1):
        done = short_run(testbed, rack, "h2, h3")
    assert done.code == 0, done.err
    events = map(json.loads, (testbed.results / "latest" / "events.jsonl").read_text().splitlines())
    assert {event.get("trial") for event in events if event["kind"] == "sample"} == {0}
