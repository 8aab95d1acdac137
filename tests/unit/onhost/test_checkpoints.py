"""Ranks in processes that write checkpoints, are killed with -9, and go on from what is there."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.unit.onhost.undisturbed import TRAIN, ends_undisturbed

PACED = {**TRAIN, "pace": 0.01}
COMMITTING = str(Path(__file__).with_name("committing_rank.py"))


def reports(job):
    """Return what each rank of a job finds on its disk."""
    for rank, member in enumerate(job.members):
        member.tell("checkpoints", rank=rank)
    return job.hear("checkpoints")


def go_on(job, generation=1):
    """Start a job from the last checkpoint that any of its two ranks has; return its step.

    A rank that does not have it gets the state from the other.
    """
    found = [report["steps"] for report in reports(job)]
    step = max((steps[0] for steps in found if steps), default=0)
    sources = {str(rank): "disk" if step in found[rank] else 1 - rank for rank in range(2)}
    job.join(generation, step=step, restore=sources if step else {})
    return step


def killed(job):
    """Kill all ranks with -9; return the last step of which one said that it is durable."""
    for member in job.members:
        member.process.kill()
        with pytest.raises((AssertionError, ConnectionError)):
            while True:
                member.listen()
    said = [event["step"] for member in job.members for event in member.of_kind("checkpoint")]
    return max(said, default=0)


def killed_again_and_again(gang, directory, kills):
    chance, generation = random.Random(7), 1
    job = gang("train", PACED, 2, directory=directory)
    job.join(generation)
    for _ in range(kills):
        job.hear("step")
        time.sleep(chance.uniform(0, 0.2))
        durable = killed(job)
        job = gang("train", PACED, 2, directory=directory)
        generation += 1
        assert go_on(job, generation) >= durable
    job.hear("step")
    job.tell("leave", generation=generation)
    committed = [left["committed"] for left in job.hear("left")]
    job.tell("finish", after_step=max(committed) + 2)
    job.join(generation + 1, step=min(committed))
    ends_undisturbed(job, max(committed) + 3)


def test_killed_ranks_go_on_from_disk_with_the_bits_of_an_undisturbed_run(gang, tmp_path):
    killed_again_and_again(gang, tmp_path, 2)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_ranks_killed_a_hundred_times_end_with_the_bits_of_an_undisturbed_run(gang, tmp_path):
    killed_again_and_again(gang, tmp_path, 100)


def train_to(job, *steps):
    """Train to each of some steps, and wait for the checkpoint before it to be durable."""
    before = 0
    for generation, step in enumerate(steps, 1):
        job.tell("finish", after_step=step - 1)
        job.join(generation, step=before)
        job.hear("checkpoint", step=step)
        job.tell("leave", generation=generation)
        job.hear("left", committed=step)
        before = step


def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_is_used(gang, tmp_path):
    train_to(gang("train", TRAIN, 2, directory=tmp_path, every=2), 2, 4)
    newest = "step-0000000004.checkpoint"
    for rank in range(2):
        path = tmp_path / f"rank-{rank}" / newest
        path.write_bytes(path.read_bytes()[:-1])
    job = gang("train", TRAIN, 2, directory=tmp_path, every=2)
    for rank, report in enumerate(reports(job)):
        assert report["steps"] == [2]
        (why,) = report["refused"]
        assert why.startswith(f"{tmp_path}/rank-{rank}/{newest} is damaged, or of another job: ")
    job.join(1, step=4, restore={"0": "disk", "1": "disk"})
    assert all("is damaged" in refused["why"] for refused in job.hear("refused", do="join"))
    job.tell("leave", generation=1)
    job.hear("left")
    job.tell("finish", after_step=6)
    assert go_on(job, 2) == 2
    ends_undisturbed(job, 7)


def test_a_job_that_begins_anew_does_not_find_the_checkpoints_of_the_one_before(gang, tmp_path):
    train_to(gang("train", TRAIN, 1, directory=tmp_path, every=2), 2, 4)
    again = gang("train", TRAIN, 1, directory=tmp_path, every=2)
    again.tell("finish", after_step=0)
    again.join(1)
    again.hear("done", step=1)
    assert not list((tmp_path / "rank-0").iterdir())


def test_no_step_waits_for_a_disk_that_is_slower(gang, tmp_path):
    job = gang("train", TRAIN, 0, directory=tmp_path)
    rank = job.start([COMMITTING])
    job.configure(rank, 0)
    for step in (2, 3):
        missed = rank.hear("checkpoint-missed", step=step)
        assert missed["why"] == "the one before it is still being written"
    durable = rank.hear("checkpoint", step=1, generation=1)
    assert durable["mono"] > missed["mono"]
    assert durable["bytes"] > 16 << 20
    assert durable["seconds"] > 0


def test_a_checkpoint_that_the_job_went_back_behind_does_not_stay(gang, tmp_path):
    job = gang("train", TRAIN, 0, directory=tmp_path)
    rank = job.start([COMMITTING, "--back"])
    job.configure(rank, 0)
    assert rank.hear("checkpoint-missed", step=1)["why"] == "the job went back behind it"
    assert not list((tmp_path / "rank-0").iterdir())


def test_all_ranks_write_the_state_before_the_step_that_is_ordered(gang, tmp_path):
    job = gang("train", PACED, 2, directory=tmp_path, every=1000)
    job.tell("checkpoint", before_step=3)
    job.tell("finish", after_step=7)
    job.join(1)
    job.hear("checkpoint", step=3)
    job.tell("checkpoint", before_step=2)
    for missed in job.hear("checkpoint-missed", step=2):
        assert missed["why"].startswith("step 2 is over, the next is ")
    ends_undisturbed(job, 8)
    for rank in range(2):
        (file,) = (tmp_path / f"rank-{rank}").iterdir()
        assert file.name == "step-0000000003.checkpoint"


def test_a_host_without_a_place_for_checkpoints_cannot_take_part(gang, tmp_path):
    (tmp_path / "file").touch()
    job = gang("train", TRAIN, 0, directory=tmp_path / "file")
    rank = job.start()
    job.configure(rank, 0)
    rank.tell("checkpoints", rank=0)
    assert "cannot be used: Not a directory" in rank.hear("refused", do="checkpoints")["why"]


def test_a_job_without_checkpoints_says_so(gang):
    job = gang("train", TRAIN, 1)
    job.tell("checkpoints", rank=0)
    assert "writes no checkpoints" in job.hear("refused", do="checkpoints")[0]["why"]
    job.join(1, restore={"0": "disk"})
    assert "cannot be restored from disk" in job.hear("refused", do="join")[0]["why"]
