"""Every fault is noticed, repaired and proved, on every way to the switch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.commandline import SMALL_MODEL, CommandLine
from tests.e2e.known_truth import assert_marks_hold

FAULTS = ("power-cut", "rank-kill", "rank-freeze", "dark-circuit")


@pytest.fixture(scope="module")
def every_fault(rack: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """A run with one trial of each fault."""
    line = CommandLine(tmp_path_factory.mktemp("faults") / "results")
    # Ranks that are well beat late where many programs want two cores.
    patient = ["-S", "policy.heartbeat=500 ms"]
    once = ["--repeat", "1", "--seed", "3"]
    done = line.run("faults", *SMALL_MODEL, *patient, *once, twin=rack)
    return done.json(), line.results / "latest"


def test_every_fault_is_recovered_from_in_one_run(every_fault: tuple[dict, Path]) -> None:
    summary, run = every_fault
    assert [t["reason"] for t in summary["trials"] if not t["recovered"]] == []
    assert {trial["variant"] for trial in summary["trials"]} == set(FAULTS)
    assert all(trial["valid"] and trial["lost_steps"] in (0, 1) for trial in summary["trials"])
    assert summary["cleanup"] == "verified"
    assert_marks_hold(run)


def test_a_frozen_rank_is_detected_by_its_missing_heartbeat(every_fault: tuple[dict, Path]) -> None:
    summary, run = every_fault
    (trial,) = [trial for trial in summary["trials"] if trial["variant"] == "rank-freeze"]
    assert trial["receipt"]["observer"].endswith("process in state T")
    assert "heartbeat-missed" in trial["witnesses"]
    rows = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    events = [row for row in rows if row.get("trial") == trial["trial"]]
    missed = [e["data"] for e in events if e["data"].get("source") == "heartbeat-missed"]
    (frozen,) = [e["data"]["rank"] for e in events if e["kind"] == "fault.inject"]
    assert {one["rank"] for one in missed} == {frozen}
    assert missed[0]["silence"] > 0.5
    assert trial["marks"]["t2"] >= 0.5 / 2  # its last beat came before the fault


@pytest.mark.soak
def test_a_twin_switch_with_a_card_settles_as_the_card_states(testbed: CommandLine) -> None:
    card = ["-S", "lab.twin.cards={ocs: calient-s320}", "-S", "variants={only-one: {}}"]
    done = testbed.run("lumion", *SMALL_MODEL, *card, "-S", "checks={}", "--repeat", "3")
    trials = done.json()["trials"]
    predicted = {round(trial["predicted"]["reconfiguration"], 6) for trial in trials}
    assert predicted == {0.21}, "the card, and the carrier"
    times = [trial["values"]["reconfiguration"] for trial in trials]
    assert max(times) > 0.1 and len(set(times)) == 3, "each of its moves takes as long as it likes"


def test_recovered_and_undisturbed_jobs_end_with_the_same_parameters(
    testbed: CommandLine, rack: str
) -> None:
    """The host is lost so late that the job is over before throughput could be back."""
    few = ["-S", "jobs.main.steps=16", "-S", "checks.interrupted.steps.equals=16"]
    late = [*few, "-S", "faults.0.at.step=13", "-S", "limits.trial=1 h"]
    long_steps = ["-S", "jobs.main.pace=80 ms"]  # so that the last of them still meets the fault
    done = testbed.run("resume", *SMALL_MODEL, *long_steps, *late, "--seed", "11", twin=rack)
    assert done.code == 0, done.err
    summary = done.json()
    digests = {trial["values"]["digest"] for trial in summary["trials"]}
    losses = {trial["values"]["loss"] for trial in summary["trials"]}
    assert len(digests) == len(losses) == 1


@pytest.fixture(scope="module")
def slow_switches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict, Path]]:
    """The same trial through a switch that settles in 200 ms, on two labs."""
    found = {}
    for lab in ("rack", "serial-rack"):
        line = CommandLine(tmp_path_factory.mktemp(lab) / "results")
        slow = ["-S", "lab.twin.settle=200 ms", "-S", "variants={only-one: {}}", "-S", "checks={}"]
        slow += ["-S", "jobs.main.ranks=3", "-S", "jobs.main.spares=1", "-S", "needs.hosts=4"]
        done = line.run("lumion", *SMALL_MODEL, *slow, "--lab", lab, "--repeat", "1", "--seed", "2")
        found[lab] = done.json(), line.results / "latest"
    return found


def assert_recovered_after(settle: float, summary: dict) -> None:
    for trial in summary["trials"]:
        assert trial["recovered"], trial["reason"]
        assert trial["values"]["reconfiguration"] >= settle + 0.010  # light, then the link


def test_the_reconfiguration_time_follows_the_settle_time_of_the_switch(
    slow_switches: dict[str, tuple[dict, Path]],
) -> None:
    for summary, _ in slow_switches.values():
        assert_recovered_after(0.2, summary)


@pytest.mark.soak
def test_with_an_instant_switch_reconfiguration_takes_only_the_link_up_time(
    testbed: CommandLine,
) -> None:
    small = [*SMALL_MODEL, "--repeat", "1", "-S", "lab.twin.settle=0 ms"]
    assert_recovered_after(0.0, testbed.run("lumion", *small, "--seed", "2").json())


def test_a_driver_sends_the_same_commands_over_tcp_and_serial_lines(
    slow_switches: dict[str, tuple[dict, Path]],
) -> None:
    commands = {}
    for lab, (_, run) in slow_switches.items():
        rows = [json.loads(line) for line in (run / "wire" / "ocs.jsonl").read_text().splitlines()]
        commands[lab] = [r["data"].strip() for r in rows if r["direction"] == "send"]
    assert commands["rack"] == commands["serial-rack"]
    assert any(":ADD (@" in command for command in commands["rack"])
