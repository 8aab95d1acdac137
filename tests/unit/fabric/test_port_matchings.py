"""Matchings in which every pair of ports meets once, and the check that they do."""

import pytest

from testbed.fabric.matchings import both_directions, round_robin, what_is_wrong


@pytest.mark.parametrize("n", [2, 4, 6, 8, 16, 32, 64])
def test_every_pair_meets_once_in_the_fewest_matchings(n):
    matchings = round_robin(n)
    assert len(matchings) == n - 1
    assert sorted(pair for matching in matchings for pair in matching) == sorted(
        (a, b) for b in range(n) for a in range(b)
    )
    assert all(sorted(sum(matching, ())) == list(range(n)) for matching in matchings)
    assert what_is_wrong(matchings, n) is None


@pytest.mark.parametrize("n", [-2, 0, 1, 3, 7])
def test_an_odd_number_of_ports_is_refused(n):
    with pytest.raises(ValueError, match=f"an even number of ports, not {n}"):
        round_robin(n)


def test_both_directions_of_every_pair_are_used_once():
    sent = [way for matching in round_robin(8) for way in both_directions(matching)]
    assert sorted(sent) == sorted((a, b) for a in range(8) for b in range(8) if a != b)


def test_mistakes_in_matchings_are_named():
    first, second, third = round_robin(4)
    assert "ports 0 and 3 meet twice" in str(what_is_wrong((first, first, third), 4))
    assert "never meet" in str(what_is_wrong((first, second), 4))
    assert "matching 1 does not have each" in str(what_is_wrong((first, ((0, 1), (0, 2))), 4))
    assert "matching 0 does not have each" in str(what_is_wrong((((0, 1),),), 4))
