"""Jobs whose computation has a stated duration, in processes over loopback."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from testbed.collectives.rings import ring
from testbed.collectives.schedule import to_json

TRAIN = {"dim": 16, "layers": 1, "heads": 2, "hidden": 24, "sequence": 8, "batch": 1}
PACE = 0.04
COLLECTIVES = {
    "allreduce": {"sizes": [4000, 8000], "iterations": 2, "warmup": 1},
    "collective": {
        "sizes": [4000, 8000],
        "schedules": {"ring": to_json(ring(2))},
        "iterations": 2,
        "warmup": 1,
    },
}
SIZES = {"allreduce": [4000, 4000, 8000, 8000], "collective": [4000, 8000, 4000, 8000]}


def ended(gang, kind, options, steps=4):
    """Return what the ranks of a job said of its steps, and how they ended."""
    job = gang(kind, options, 2)
    job.tell("finish", after_step=steps - 1)
    job.join(1)
    done = job.hear("done", step=steps)
    said = "step" if kind == "train" else "sample"
    return [member.of_kind(said) for member in job.members], done


def is_reported(event, computed=math.inf):
    """Tell whether a step says what became of its pace, where it computed for so long in all."""
    paced, overrun = event["paced"], event["overrun"]
    return (paced > 0) != (overrun > 0) and computed >= PACE + overrun


def test_training_is_paced_and_ends_with_the_bits_of_one_that_is_not(gang):
    paced, done = ended(gang, "train", {**TRAIN, "pace": PACE})
    free, other = ended(gang, "train", TRAIN)
    assert {event["digest"] for event in [*done, *other]} == {done[0]["digest"]}
    for steps in paced:
        assert len(steps) == 4
        assert is_reported(steps[0])
        for one, after in pairwise(steps):
            assert is_reported(after, after["collective"][0] - one["collective"][1])
    assert not any("paced" in step or "overrun" in step for steps in free for step in steps)


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_collectives_are_paced_but_for_those_that_warm_up(gang, kind):
    members, _ = ended(gang, kind, {**COLLECTIVES[kind], "pace": PACE})
    for samples in members:
        assert [sample["size"] for sample in samples] == SIZES[kind]
        assert is_reported(samples[0])
        for one, after in pairwise(samples):
            assert is_reported(after, after["begin"] - one["end"])


@pytest.mark.parametrize("kind", ["train", *COLLECTIVES])
def test_a_longer_computation_is_not_shortened_and_said(gang, kind):
    members, _ = ended(gang, kind, {**COLLECTIVES.get(kind, TRAIN), "pace": 1e-9})
    for steps in members:
        assert all(step["paced"] == 0 and step["overrun"] > 0 for step in steps)


def test_a_rank_leaves_while_it_waits_for_its_pace(gang):
    job = gang("train", {**TRAIN, "pace": 600.0}, 2)
    job.join(1)
    job.hear("generation")
    job.tell("leave", generation=1)
    assert all(left["committed"] == 0 for left in job.hear("left", generation=1))
