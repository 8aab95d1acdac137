"""Every fault is noticed, repaired and proved, on every way to the switch."""

from __future__ import annotations

import json

import pytest

from tests.e2e.commandline import SMALL_MODEL, CommandLine
from tests.e2e.known_truth import assert_marks_hold

FAULTS = ("power-cut", "rank-kill", "rank-freeze", "dark-circuit")


def test_every_fault_is_recovered_from_in_one_run(testbed: CommandLine) -> None:
    done = testbed.run("faults", *SMALL_MODEL, "--repeat", "1", "--seed", "3")
    summary = done.json()
    assert [t["reason"] for t in summary["trials"] if not t["recovered"]] == [], done.err
    assert {trial["variant"] for trial in summary["trials"]} == set(FAULTS)
    assert all(trial["valid"] and trial["lost_steps"] in (0, 1) for trial in summary["trials"])
    assert summary["cleanup"] == "verified"
    assert_marks_hold(testbed.results / "latest")


@pytest.mark.soak
def test_a_twin_switch_with_a_card_settles_as_the_card_states(testbed: CommandLine) -> None:
    card = ["-S", "lab.twin.cards={ocs: calient-s320}", "-S", "variants={only-one: {}}"]
    done = testbed.run("lumion", *SMALL_MODEL, *card, "-S", "checks={}", "--repeat", "3")
    trials = done.json()["trials"]
    predicted = {round(trial["predicted"]["reconfiguration"], 6) for trial in trials}
    assert predicted == {0.21}, "the card, and the carrier"
    times = [trial["values"]["reconfiguration"] for trial in trials]
    assert max(times) > 0.1 and len(set(times)) == 3, "each of its moves takes as long as it likes"


def test_a_frozen_rank_is_detected_by_its_missing_heartbeat(testbed: CommandLine) -> None:
    # Ranks that are well beat late where many programs want two cores.
    freeze = ["-S", "faults.0.kind=rank-freeze", "-S", "policy.heartbeat=500 ms"]
    alone = ["-S", "variants={interrupted: {}}", "-S", "checks={}"]
    long = ["-S", "jobs.main.steps=200"]  # that it is not over when the fault comes late
    done = testbed.run("resume", *SMALL_MODEL, *freeze, *alone, *long, "--seed", "5")
    (trial,) = done.json()["trials"]
    assert trial["receipt"]["observer"].endswith("process in state T")
    assert "heartbeat-missed" in trial["witnesses"]
    log = testbed.results / "latest" / "events.jsonl"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    missed = [e["data"] for e in events if e["data"].get("source") == "heartbeat-missed"]
    (frozen,) = [e["data"]["rank"] for e in events if e["kind"] == "fault.inject"]
    assert {one["rank"] for one in missed} == {frozen}
    assert missed[0]["silence"] > 0.5
    assert trial["marks"]["t2"] >= 0.5 / 2  # its last beat came before the fault


def test_interrupted_and_uninterrupted_jobs_end_with_the_same_bits(testbed: CommandLine) -> None:
    """The host is lost so late that the job is over before throughput could be back."""
    late = ["-S", "faults.0.at.step=27", "-S", "limits.trial=1 h"]
    long_steps = ["-S", "jobs.main.batch=16"]  # so that the last of them still meets the fault
    done = testbed.run("resume", *SMALL_MODEL, *long_steps, *late, "--seed", "11")
    assert done.code == 0, done.err
    summary = done.json()
    digests = {trial["values"]["digest"] for trial in summary["trials"]}
    losses = {trial["values"]["loss"] for trial in summary["trials"]}
    assert len(digests) == len(losses) == 1


@pytest.mark.parametrize("settle", [pytest.param(0.0, marks=pytest.mark.soak), 0.2])
def test_reconfiguration_takes_what_the_switch_takes(testbed: CommandLine, settle: float) -> None:
    small = [*SMALL_MODEL, "--repeat", "1", "-S", f"lab.twin.settle={settle * 1e3:.0f} ms"]
    done = testbed.run("lumion", *small, "-S", "jobs.main.batch=1", "--seed", "2")
    for trial in done.json()["trials"]:
        assert trial["recovered"], trial["reason"]
        assert trial["values"]["reconfiguration"] >= settle + 0.010  # light, then the link


def test_the_driver_does_not_know_which_line_it_speaks_on(testbed: CommandLine) -> None:
    commands = {}
    one = ["-S", "variants={only-one: {}}", "-S", "checks={}"]
    for lab in ("rack", "serial-rack"):
        small = [*SMALL_MODEL, *one, "--repeat", "1", "--seed", "4"]
        done = testbed.run("lumion", *small, "--lab", lab)
        assert all(trial["recovered"] for trial in done.json()["trials"]), done.err
        wire = testbed.results / "latest" / "wire" / "ocs.jsonl"
        rows = [json.loads(line) for line in wire.read_text().splitlines()]
        commands[lab] = [r["data"].strip() for r in rows if r["direction"] == "send"]
    assert commands["rack"] == commands["serial-rack"]
    assert any(":ADD (@" in command for command in commands["rack"])
