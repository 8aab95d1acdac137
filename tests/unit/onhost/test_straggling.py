"""Jobs around a ring, with a rank that comes late on purpose."""

from __future__ import annotations

import pytest

MODEL = {"dim": 16, "layers": 1, "heads": 2, "hidden": 24, "sequence": 8, "batch": 1}
JOBS = {
    "train": ({**MODEL, "learning_rate": 0.01}, "step"),
    "allreduce": ({"sizes": [4096], "iterations": 5, "warmup": 0}, "sample"),
}


@pytest.mark.parametrize("kind", JOBS)
def test_the_successor_of_a_straggler_waits_for_it(gang, kind):
    options, word = JOBS[kind]
    members = gang(kind, options, 2)
    members.members[0].tell("straggle", seconds=0.3)
    members.members[0].hear("straggling", seconds=0.3)
    members.join(1)
    members.tell("finish", after_step=2)
    assert members.members[1].hear(word, step=1)["waits"]["0"] > 0.1
    assert members.members[0].hear(word, step=1)["waits"]["1"] < 0.3
