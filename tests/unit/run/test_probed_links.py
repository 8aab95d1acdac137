"""What links cost, from what the ranks measured before the job and between its iterations."""

import pytest

from testbed.run.expectation import ProbedLinks


def probe(*changes):
    return {
        "short_seconds": 0.0002,
        "short_bytes": 8,
        "long_seconds": 0.1,
        "long_bytes": 1_000_000,
        "changes": list(changes),
    }


def test_a_change_takes_the_median_of_the_ranks_and_of_the_changes():
    links = ProbedLinks.of([probe(0.03, 0.05, 0.04), probe(0.03, 0.07, 0.06), probe(0.05, 1, 0.05)])
    assert links.changes == (0.03, 0.07, 0.05)
    assert links.cost.reconfiguration == 0.05


def test_changes_timed_while_the_job_ran_replace_those_from_before_it():
    links = ProbedLinks.of([probe(0.03), probe(0.03)])
    later = links.with_changes([[0.04, 0.06, 0.08], [0.04, 0.06]])  # one rank lags behind
    assert later.changes == (0.04, 0.06)
    assert later.cost.reconfiguration == pytest.approx(0.05)
    assert (later.cost.alpha, later.slowest) == (links.cost.alpha, links.slowest)


@pytest.mark.parametrize("timed", [[], [[], []], [[0.04], []]])
def test_links_stay_as_probed_where_not_every_rank_timed_a_change(timed):
    links = ProbedLinks.of([probe(0.03), probe(0.05)])
    assert links.with_changes(timed) is links
