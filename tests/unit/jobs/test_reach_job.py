"""The job `reach` as the orchestrator sees it: its matchings and its options."""

import json

import pytest

from testbed.fabric.matchings import what_is_wrong
from testbed.jobs.reach import Reach
from testbed.jobs.reach_descriptors import ReachOptions
from testbed.onhost.jobs.reach import Job


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"ranks": 5}, "matchings join all ranks in pairs: 5 is an odd number"),
        ({"ranks": 0}, "ranks must be at least 2, not 0"),
        ({"probes": 0}, "probes must be at least 1, not 0"),
        ({"interval": 0.0}, "interval must be at least 100 us"),
    ],
)
def test_impossible_options_are_refused(more, text):
    with pytest.raises(ValueError, match=text):
        ReachOptions(**{"ranks": 4, **more})


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_every_two_ranks_are_matched_once_on_their_first_ports(ranks):
    job = Reach(ReachOptions(ranks))
    _, *matchings = job.circuits
    assert {port for joints in matchings for ends in joints for _, port in ends} == {0}
    pairs = [tuple((a, b) for (a, _), (b, _) in joints) for joints in matchings]
    assert what_is_wrong(pairs, ranks) is None
    assert len(pairs) == ranks - 1


def test_the_configuration_of_a_rank_is_plain_data_that_its_program_accepts():
    job = Reach(ReachOptions(4, probes=7, interval=0.5))
    told = json.loads(json.dumps(job.for_rank()))
    assert (told["kind"], Job(told["options"], 1, 4).state.step) == ("reach", 0)
    assert (told["options"]["probes"], told["options"]["interval"]) == (7, 0.5)
    assert told["options"]["circuits"]["tour"] == [1, 2, 3, 0]
    assert not job.choices(None)
