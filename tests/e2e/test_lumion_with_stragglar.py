"""A spare that takes a place in a job whose AllReduce is StragglAR, on live twins."""

from __future__ import annotations

import json

from tests.e2e.commandline import SMALL_MODEL, CommandLine

QUICK = [*SMALL_MODEL, "-S", "jobs.main.pace=20 ms", "-S", "checks={}"]
ARMS = ("spliced", "restarted", "undisturbed")


def test_a_job_goes_on_by_stragglar_with_a_spare_in_the_place_of_a_host(
    testbed: CommandLine, rack: str
) -> None:
    """Spliced in or after a restart; every sum follows the schedule, and the bits are the same."""
    where = ["--repeat", "1", "--seed", "7"]
    done = testbed.run("lumion-stragglar", *QUICK, *where, twin=rack)
    assert done.code == 0, done.err
    trials = {trial["variant"]: trial for trial in done.json()["trials"]}
    assert len({trials[arm]["values"]["digest"] for arm in (*ARMS, "late")}) == 1
    for arm in ("spliced", "restarted"):
        assert trials[arm]["outcome"] == "recovered"
    log = (testbed.results / "latest" / "events.jsonl").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    for arm in ("spliced", "restarted"):
        mine = [e for e in events if e.get("trial") == trials[arm]["trial"]]
        (formed,) = [e["data"] for e in mine if e["kind"] == "membership"]
        assert "h4" in formed["hosts"]
        steps = [e["data"] for e in mine if e["kind"] == "step"]
        after = [step for step in steps if step["generation"] == 2]
        numbers = {step["step"] for step in after}
        assert numbers == set(range(min(numbers), 40))
        assert {step["algorithm"] for step in steps} == {"stragglar-forwarded"}
        assert all(step["verified"] for step in steps)


ON_PACKETS = """\
experiment: schedule-on-packets
question: Does a schedule between all ranks go on when a spare takes the place of one?
needs: {hosts: 5, fabric: packet}
jobs:
  main:
    {kind: train, ranks: 4, spares: 1, collective: stragglar, steps: 30, pace: 20 ms, dim: 48,
     layers: 1, heads: 2, hidden: 96, sequence: 16, batch: 1}
faults: [{kind: rank-kill, target: random, at: {step: 12}}]
policy: {kind: splice}
variants: {spliced: {}, undisturbed: {faults: []}}
checks: {spliced.digest: {same_as: undisturbed.digest}}
"""


def test_a_job_goes_on_by_stragglar_on_a_packet_switch(testbed: CommandLine) -> None:
    summary, run = testbed.run_text(ON_PACKETS, "packet-rack", "--repeat", "1", "--seed", "7")
    trials = {trial["variant"]: trial for trial in summary["trials"]}
    assert trials["spliced"]["outcome"] == "recovered"
    steps = [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]
    names = {e["data"]["algorithm"] for e in steps if e["kind"] == "step"}
    assert names == {"stragglar"}
