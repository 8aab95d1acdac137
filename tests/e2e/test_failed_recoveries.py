"""When a recovery is impossible, the reason is said, in time, and the circuits are as they were."""

from __future__ import annotations

import pytest

from tests.e2e.commandline import SMALL_MODEL, SMALL_RING, CommandLine, Finished
from tests.e2e.running_twin import RunningTwin

ONE = ["--repeat", "1", *SMALL_RING, "-S", "variants={only-one: {}}", "-S", "checks={}"]
QUICK = ["-S", "limits.trial=20 s"]


def circuits(testbed: CommandLine, twin: str) -> list[dict]:
    return testbed("switch", "ocs", "show", "--lab", "rack", "--twin", twin, "--json").json()


@pytest.mark.soak
def test_a_recovery_fails_with_a_reason_when_the_only_spare_is_dead(
    testbed: CommandLine, rack: str
) -> None:
    """The spare's outlet is switched off by hand, behind the run's back, before the fault."""
    run = testbed.start(
        "run", "experiments/lumion.yaml", "--twin", rack, *ONE, *QUICK,
        "-S", "jobs.main.spares=1", "-S", "faults.0.at.step=100",
    )  # fmt: skip
    run.await_event(lambda event: event["kind"] == "trial.begin")
    RunningTwin(rack).ask(do="power", host="h3", on=False)
    done = run.finish()
    assert "no spare host is left" in _one(run.events(), "recovery.failed")["data"]["reason"]
    # Nobody can say what still runs on a host that does not answer and was not switched off by us.
    assert done.code == 6 and "h3" in str(_one(run.events(), "run.end")["data"]["left"])
    assert testbed("twin", "power", rack, "h3", "on").code == 0
    recovered = testbed("recover", "--results", str(testbed.results), "--twin", rack)
    assert recovered.code == 0, recovered.err
    assert circuits(testbed, rack) == []


FAULTS = {
    "error": ({"command": "ADD"}, "refused"),
    "silent": ({}, "did not answer"),
    "stuck": ({"port": 7}, "reported no error, but shows"),
}
"""What the switch does wrong to what, and what is then said; the spare sends into port 7."""


@pytest.mark.parametrize(
    "fault", ["error", *(pytest.param(f, marks=pytest.mark.soak) for f in ("silent", "stuck"))]
)
def test_a_switch_fault_during_the_recovery_fails_it_with_a_reason(
    testbed: CommandLine, rack: str, fault: str
) -> None:
    scope, words = FAULTS[fault]
    late = ["-S", "faults.0.at.step=100"]
    run = testbed.start("run", "experiments/lumion.yaml", "--twin", rack, *ONE, *late)
    run.await_event(lambda event: event["kind"] == "trial.begin")
    with RunningTwin(rack).faulty("ocs", fault, **scope):
        run.await_event(lambda event: event["kind"] == "recovery.failed")
    done = run.finish()
    failed = _one(run.events(), "recovery.failed")["data"]["reason"]
    assert failed.startswith("ocs") and words in failed, failed
    assert done.code == 1 and "ocs" in done.out
    assert _one(run.events(), "run.end")["data"]["cleanup"] == "verified"
    assert circuits(testbed, rack) == []


@pytest.mark.soak
def test_a_switch_command_without_a_reply_is_decided_by_the_read_back(
    testbed: CommandLine, rack: str
) -> None:
    late = ["-S", "faults.0.at.step=100"]
    run = testbed.start("run", "experiments/lumion.yaml", "--twin", rack, *ONE, *QUICK, *late)
    run.await_event(lambda event: event["kind"] == "trial.begin")
    once = {"command": "ADD", "count": 1}
    RunningTwin(rack).ask(do="fault", instrument="ocs", fault="silent", scope=once)
    done = run.finish()
    assert testbed("twin", "clear", rack, "ocs").code == 0
    assert done.code == 0, done.err
    (trial,) = run.summary()["trials"]
    values = trial["values"]
    assert values["waiting"] > 1 > values["joining"]  # the deadline of its answer is in neither
    assert circuits(testbed, rack) == []


def test_a_foreign_circuit_on_a_needed_port_refuses_the_run(
    testbed: CommandLine, rack: str
) -> None:
    by_hand = ["--lab", "rack", "--twin", rack]
    assert testbed("switch", "ocs", "connect", "h0.p0", "h3.p1", *by_hand).code == 0
    before = circuits(testbed, rack)
    done = testbed.start("run", "experiments/lumion.yaml", "--twin", rack, *ONE).finish()
    assert done.code == 5
    assert "h0.p0" in done.out + done.err and "h3.p1" in done.out + done.err
    assert circuits(testbed, rack) == before
    assert testbed("switch", "ocs", "disconnect", "h0.p0", "h3.p1", *by_hand).code == 0


@pytest.mark.soak
def test_a_circuit_removed_by_another_client_between_trials_ends_the_run(
    testbed: CommandLine, rack: str
) -> None:
    by_hand = ["--lab", "rack", "--twin", rack, "--force"]
    three = [*SMALL_MODEL, "--repeat", "3", "--seed", "1", "-S", "faults.0.at.step=200"]
    run = testbed.start("run", "experiments/lumion.yaml", "--twin", rack, *three)
    run.await_event(lambda event: event["kind"] == "trial.end")
    port = testbed("switch", "ocs", "show", *by_hand, "--json").json()[0]
    ends = [str(port["ingress"]), str(port["egress"])]
    assert testbed("switch", "ocs", "disconnect", *ends, *by_hand).code == 0
    done = run.finish()
    assert done.code == 5, done.out + done.err
    assert f"{ends[0]}→{ends[1]} ({port['from']} to {port['to']}) is gone" in done.err + done.out
    assert len([e for e in run.events() if e["kind"] == "trial.begin"]) < 6
    assert circuits(testbed, rack) == []


def test_the_option_keep_leaves_the_circuits_of_the_job_at_the_end(
    testbed: CommandLine, rack: str
) -> None:
    two = ["-S", "needs.hosts=2", "-S", "jobs.main.ranks=2", "-S", "jobs.main.sizes=[4 KiB]"]
    keep = [*two, "--repeat", "1", "-S", "keep=true"]
    done = testbed.start("run", "experiments/allreduce.yaml", "--twin", rack, *keep).finish()
    assert done.code == 0, done.err
    kept = circuits(testbed, rack)
    assert len(kept) == 4
    pairs = {tuple(sorted((row["from"], row["to"]))) for row in kept}
    ends = [end for pair in pairs for end in pair]
    assert testbed("switch", "ocs", "disconnect", *ends, "--lab", "rack", "--twin", rack).code == 0
    assert circuits(testbed, rack) == []


def _one(events: list[dict], kind: str) -> dict:
    (found,) = [event for event in events if event["kind"] == kind]
    return found


def test_an_invalid_experiment_changes_nothing(testbed: CommandLine) -> None:
    done: Finished = testbed.run("lumion", "-S", "jobs.main.ranks=40")
    assert done.code == 2 and done.out == ""
    assert "ranks and spares need" in done.err and "Traceback" not in done.err
    assert not testbed.results.exists()
