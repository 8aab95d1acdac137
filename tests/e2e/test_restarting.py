"""A job that starts again from its checkpoints, on a live twin."""

from __future__ import annotations

import json

from tests.e2e.commandline import SMALL_MODEL, CommandLine


def test_a_restarted_job_has_the_bits_of_an_undisturbed_one(
    testbed: CommandLine, rack: str
) -> None:
    """With a spare host in place of one that lost its power, and after a rank was killed."""
    quick = ["-S", "jobs.main.pace=20 ms", "-S", "checks.host-lost.recovery_time={max: '< 60 s'}"]
    quick += ["-S", "checks.rank-lost.recovery_time={max: '< 60 s'}"]
    done = testbed.run("restart", *SMALL_MODEL, *quick, "--repeat", "1", "--seed", "7", twin=rack)
    assert done.code == 0, done.err
    trials = done.json()["trials"]
    assert len({trial["values"]["digest"] for trial in trials}) == 1
    log = (testbed.results / "latest" / "events.jsonl").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    for trial in trials:
        mine = [event for event in events if event.get("trial") == trial["trial"]]
        again = [event["data"] for event in mine if event["kind"] == "state.restored"]
        restored = [one for one in again if one["generation"] > 1]
        assert bool(restored) == (trial["variant"] != "undisturbed")
        if not restored:
            continue
        (step,) = {one["step"] for one in restored}
        done_before = [
            event["data"]["step"]
            for event in mine
            if event["kind"] == "step" and event["data"]["generation"] == 1
        ]
        assert step % 5 == 0, "a checkpoint is before every fifth step"
        by_all = max(one for one in done_before if done_before.count(one) == 4)
        # The reports of the last steps before a checkpoint may be lost with their host.
        assert trial["lost_steps"] == max(by_all + 1 - step, 0)
        assert 0 <= trial["lost_steps"] <= 10, "of two checkpoints one at most is not yet on disk"
        (formed,) = [event["data"] for event in mine if event["kind"] == "membership"]
        assert ("h4" in formed["hosts"]) == (trial["variant"] == "host-lost")
