"""A job that goes on without the hosts that lost their power, on a live twin."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.commandline import CommandLine
from tests.unit.onhost.undisturbed import reference

MODEL = {"dim": 64, "layers": 2, "heads": 2, "hidden": 128}
SEED = 7
STEPS = 30


def events_of(results: Path, kind: str) -> list[dict]:
    log = (results / "latest" / "events.jsonl").read_text()
    return [event for event in map(json.loads, log.splitlines()) if event["kind"] == kind]


def test_a_job_without_a_host_has_the_bits_of_one_that_went_on_with_fewer_ranks(
    testbed: CommandLine,
) -> None:
    """Every step's loss, and the state at the end, are those of one undisturbed process."""
    small = [part for key, value in MODEL.items() for part in ("-S", f"jobs.main.{key}={value}")]
    short = ["-S", f"jobs.main.steps={STEPS}", "-S", "checks={}", "-S", "jobs.main.sequence=16"]
    done = testbed.run("shrink", *small, *short, "--repeat", "1", "--seed", str(SEED))
    assert done.code == 0, done.err
    (trial,) = done.json()["trials"]
    assert trial["recovered"]
    (formed,) = [event["data"] for event in events_of(testbed.results, "membership")]
    assert formed["generation"] == 2 and len(formed["hosts"]) == 3
    (victim,) = {event["data"]["rank"] for event in events_of(testbed.results, "fault.inject")}
    assert f"h{victim}" not in formed["hosts"]
    steps = [event["data"] for event in events_of(testbed.results, "step")]
    first = min(step["step"] for step in steps if step["generation"] == 2)
    state, losses = reference(
        *(4, STEPS, {first: 3}),
        size={**MODEL, "sequence": 16},
        sequences=1,
        seed=SEED,
        rate=1e-3,
    )
    for step in steps:
        assert step["loss"] == losses[step["step"]], step
    assert trial["values"]["digest"] == state.sha256()
