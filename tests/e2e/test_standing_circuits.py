"""Groups on rails whose circuits stand: sums are right, and nothing is re-pointed."""

from __future__ import annotations

import json

from tests.e2e.commandline import CommandLine


def test_a_job_in_groups_on_circuits_of_its_own_has_none_changed(testbed: CommandLine) -> None:
    short = {"iterations": "3", "sizes": "[16 KiB]", "pace": "5 ms"}
    changes = [part for key, value in short.items() for part in ("-S", f"jobs.main.{key}={value}")]
    done = testbed.run(
        "opus-static", "--repeat", "1", *changes, "-S", "checks={steps: {equals: 9}}"
    )
    assert done.code == 0, done.err
    lines = (testbed.results / "latest" / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    (change,) = (e["data"] for e in events if e["kind"] == "fabric.change" and e["data"]["added"])
    assert (len(change["added"]), change["removed"]) == (16, [])
    lit = [e["data"]["changed"] for e in events if e["kind"] == "stage.lit"]
    assert len(lit) > 20
    assert not any(lit)
