"""The set of a round's clients: a set to all, which grows without a copy and never shrinks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from testbed.tenancy.members import Members

NAMES = st.sampled_from("abcdef")


@given(st.lists(st.tuples(st.integers(0, 20), NAMES), max_size=20))
def test_sets_that_come_from_one_another_stay_what_they_were(steps):
    """Clients join any of the sets so far, so that two sets often come from the same one."""
    made, expected = [Members()], [frozenset()]
    for place, client in steps:
        made.append(made[place % len(made)].joined_by(client))
        expected.append(expected[place % len(expected)] | {client})
    for mine, right in zip(made, expected, strict=True):
        assert mine == right
        assert len(mine) == len(right)
        assert set(mine) == right
        assert [name in mine for name in "abcdefg"] == [name in right for name in "abcdefg"]
        assert hash(mine) == hash(Members(right))


def test_a_set_that_grows_by_one_client_at_a_time_has_one_table():
    one = Members()
    tables = set()
    for number in range(100):
        one = one.joined_by(f"client{number}")
        tables.add(id(one._numbers))
    assert len(tables) == 1
    assert one - Members(f"client{number}" for number in range(99)) == {"client99"}
