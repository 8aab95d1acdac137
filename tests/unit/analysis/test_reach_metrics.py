"""Metrics of who reached whom, from reports with planted losses and planted strays."""

import copy

import pytest

from testbed.analysis.reach import reach_values
from testbed.events import Event
from testbed.fabric.matchings import round_robin

ASKED = 100


def reports(ranks=4):
    """Return what ranks report where all is well."""
    found = []
    for step, matching in enumerate(round_robin(ranks)):
        peers = {rank: peer for pair in matching for rank, peer in (pair, pair[::-1])}
        for rank, peer in peers.items():
            others = [other for other in range(ranks) if other != rank]
            counts = {str(other): ASKED * (other == peer) for other in others}
            found.append(
                {
                    "rank": rank,
                    "step": step,
                    "peer": peer,
                    "asked": ASKED,
                    "answered": counts,
                    "heard": dict(counts),
                    "rtt": {str(peer): 0.001 * (1 + rank + peer)},
                }
            )
    return found


def values(told):
    return reach_values(Event(0, 0.0, "reach", f"rank {one['rank']}", 0, one) for one in told)


@pytest.mark.parametrize("ranks", [4, 6])
def test_matched_pairs_that_lose_nothing_and_others_that_lose_all(ranks):
    found = values(reports(ranks))
    assert found["pairs_met"] == ranks * (ranks - 1) / 2
    assert (found["matched_lost"], found["others_lost"]) == (0, 1)
    assert found["matched_rtt"] == pytest.approx(0.001 * ranks)


def planted(change):
    told = copy.deepcopy(reports())
    change({(one["step"], one["rank"]): one for one in told})
    return values(told)


def test_the_pair_that_lost_most_counts():
    def lose(by):
        by[1, 0]["answered"][str(by[1, 0]["peer"])] = 97
        by[2, 3]["answered"][str(by[2, 3]["peer"])] = 99

    assert planted(lose)["matched_lost"] == pytest.approx(0.03)


def stranger_of(report):
    return next(int(other) for other in report["answered"] if int(other) != report["peer"])


def test_a_question_that_is_heard_one_way_by_another_rank_counts():
    def stray(by):
        other = stranger_of(by[0, 2])
        by[0, other]["heard"]["2"] = 4

    assert planted(stray)["others_lost"] == pytest.approx(0.96)


def test_an_answer_of_another_rank_counts():
    def stray(by):
        by[1, 1]["answered"][str(stranger_of(by[1, 1]))] = ASKED

    assert planted(stray)["others_lost"] == 0


def test_a_matching_that_a_rank_did_not_report_counts_for_nothing():
    told = [one for one in reports() if (one["step"], one["rank"]) != (2, 1)]
    assert values(told)["pairs_met"] == 4
    assert values([]) == {}
