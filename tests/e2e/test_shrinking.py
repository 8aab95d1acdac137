"""A job that goes on without the hosts that lost their power, on a live twin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.commandline import SMALL_MODEL, CommandLine, Started
from tests.e2e.running_twin import RunningTwin
from tests.unit.onhost.undisturbed import reference

MODEL = {"dim": 64, "layers": 2, "heads": 2, "hidden": 128}
SEED = 7
STEPS = 30


def events_of(results: Path, kind: str) -> list[dict]:
    log = (results / "latest" / "events.jsonl").read_text()
    return [event for event in map(json.loads, log.splitlines()) if event["kind"] == kind]


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param("[{CUT, at: {step: 8}}]", marks=pytest.mark.soak),
        "[{CUT, at: {step: 8}}, {FREEZE, at: {step: 16}}]",
    ],
    ids=["one", "two"],
)
def test_a_job_without_a_host_has_the_bits_of_one_that_went_on_with_fewer_ranks(
    testbed: CommandLine, rack: str, faults: str
) -> None:
    """Every step's loss, and the state at the end, are those of one undisturbed process."""
    for short, kind in (("CUT", "power-cut"), ("FREEZE", "rank-freeze")):
        faults = faults.replace(short, f"kind: {kind}, job: main, target: random")
    changed = {**MODEL, "sequence": 16, "steps": STEPS}
    job = [part for key, value in changed.items() for part in ("-S", f"jobs.main.{key}={value}")]
    job += ["-S", f"faults={faults}", "-S", "checks={}"]
    done = testbed.run("shrink", *job, "--repeat", "1", "--seed", str(SEED), twin=rack)
    assert done.code == 0, done.err
    (trial,) = done.json()["trials"]
    assert trial["recovered"]
    members = {
        event["data"]["generation"]: event["data"]["hosts"]
        for event in events_of(testbed.results, "membership")
    }
    assert [len(hosts) for hosts in members.values()] == list(range(3, 1, -1))[: len(members)]
    assert len(members) == faults.count("kind")
    steps = [event["data"] for event in events_of(testbed.results, "step")]
    begun = {
        generation: min(step["step"] for step in steps if step["generation"] == generation)
        for generation in members
    }
    later = {begun[generation]: len(hosts) for generation, hosts in members.items()}
    size = {**MODEL, "sequence": 16}
    state, losses = reference(4, STEPS, later, size=size, sequences=1, seed=SEED, rate=1e-3)
    for step in steps:
        # What a rank had finished when the others had not is done again by fewer.
        again = [first for gen, first in begun.items() if gen > step["generation"]]
        if step["step"] < min(again, default=STEPS):
            assert step["loss"] == losses[step["step"]], step
    assert trial["values"]["digest"] == state.sha256()


def formed(run: Started, generation: int) -> list[str]:
    """Return the hosts of a generation, once one of its ranks has finished a step."""

    def of_it(kind: str) -> dict:
        return run.await_event(
            lambda e: e["kind"] == kind and e["data"]["generation"] == generation
        )

    hosts: list[str] = of_it("membership")["data"]["hosts"]
    of_it("step")
    return hosts


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("first", "ranks"),
    [
        ("rank-freeze", 3),
        pytest.param("rank-freeze", 5, marks=pytest.mark.soak),
        pytest.param("power-cut", 5, marks=pytest.mark.soak),
    ],
)
def test_one_host_after_the_other_is_left_out_until_two_are_left(
    testbed: CommandLine, rack: str, first: str, ranks: int
) -> None:
    """After the fault of the experiment, outlets are switched off behind the run's back."""
    run = testbed.start(
        "run", "experiments/shrink.yaml", "--twin", rack, "--repeat", "1", *SMALL_MODEL,
        "-S", f"needs.hosts={ranks}", "-S", f"jobs.main.ranks={ranks}",
        "-S", "jobs.main.pace=50 ms", "-S", "jobs.main.steps=400",
        "-S", f"faults.0.kind={first}", "-S", "checks={}",
    )  # fmt: skip
    off = []
    for generation, left in enumerate(range(ranks - 1, 1, -1), start=2):
        hosts = formed(run, generation)
        assert len(hosts) == left and not {*off} & {*hosts}
        off.append(hosts[1])
        RunningTwin(rack).ask(do="power", host=off[-1], on=False)
    failed = run.await_event(lambda event: event["kind"] == "recovery.failed")["data"]["reason"]
    assert failed.endswith(f"and only {hosts[0]} is left")
    for host in off:  # or the run would wait for them at its end until its time limits
        RunningTwin(rack).ask(do="power", host=host, on=True)
    run.finish()
    steps = [event["data"] for event in run.events() if event["kind"] == "step"]
    assert all(step["verified"] for step in steps)
    recovered = testbed("recover", "--results", str(testbed.results), "--twin", rack)
    assert recovered.code == 0, recovered.err
