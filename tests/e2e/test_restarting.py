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
        assert step % 5 == 0, "a checkpoint is before every fifth step"
        # The reports of the last steps before a checkpoint may be lost with their host.
        assert trial["lost_steps"] == max(done_by_all(mine, 4) + 1 - step, 0)
        assert 0 <= trial["lost_steps"] <= 10, "of two checkpoints one at most is not yet on disk"
        (formed,) = [event["data"] for event in mine if event["kind"] == "membership"]
        assert ("h4" in formed["hosts"]) == (trial["variant"] == "host-lost")


def done_by_all(events: list[dict], ranks: int) -> int:
    """Return the last step that all ranks reported before the failure."""
    steps = [
        event["data"]["step"]
        for event in events
        if event["kind"] == "step" and event["data"]["generation"] == 1
    ]
    return max(one for one in steps if steps.count(one) == ranks)


AT_ONCE = ["-S", "jobs.main.pace=20 ms", "-S", "checks={}"]


def test_a_job_that_moves_to_a_free_slice_has_the_bits_of_an_undisturbed_one(
    testbed: CommandLine, rack: str
) -> None:
    """In place of a rank that was killed no spare alone is taken, but a host for every rank."""
    where = ["--repeat", "1", "--seed", "7", "--lab", "rack"]
    done = testbed.run("lumion-migrate", *SMALL_MODEL, *AT_ONCE, *where, twin=rack)
    assert done.code == 0, done.err
    trials = {trial["variant"]: trial for trial in done.json()["trials"]}
    assert len({trial["values"]["digest"] for trial in trials.values()}) == 1
    log = (testbed.results / "latest" / "events.jsonl").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    formed = {e["trial"]: e["data"]["hosts"] for e in events if e["kind"] == "membership"}
    assert set(formed[trials["migrated"]["trial"]]) == {"h2", "h3"}
    assert len({"h0", "h1"} & set(formed[trials["in-rack"]["trial"]])) == 1
    moved = trials["migrated"]
    mine = [event for event in events if event.get("trial") == moved["trial"]]
    (step,) = {
        event["data"]["step"]
        for event in mine
        if event["kind"] == "state.restored" and event["data"]["generation"] > 1
    }
    assert step % 5 == 0 and step > 0, "it goes on from a checkpoint, which is every fifth step"
    assert moved["lost_steps"] == max(done_by_all(mine, 2) + 1 - step, 0)
    assert moved["values"]["caught_up"] >= moved["values"]["recovery_time"]


def test_a_job_without_a_free_slice_is_not_recovered_and_its_trial_says_why(
    testbed: CommandLine, rack: str
) -> None:
    where = ["--repeat", "1", "--seed", "7", "--lab", "rack", "-S", "jobs.main.spares=1"]
    done = testbed.run("lumion-migrate", *SMALL_MODEL, *AT_ONCE, *where, twin=rack)
    assert done.code == 1
    trials = {trial["variant"]: trial for trial in done.json()["trials"]}
    assert [name for name, trial in trials.items() if trial["recovered"] is False] == ["migrated"]
    assert "no free slice: 1 spare hosts are left for 2 ranks" in trials["migrated"]["reason"]
