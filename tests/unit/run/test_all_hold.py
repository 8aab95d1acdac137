"""A condition that must hold of all items, asked as they change."""

from hypothesis import given
from hypothesis import strategies as st

from testbed.run.all_hold import AllHold


@given(st.data())
def test_it_is_always_the_truth_however_items_change(data):
    items = data.draw(st.lists(st.booleans(), max_size=8))
    all_hold = AllHold(lambda: items, bool)
    for _ in range(data.draw(st.integers(1, 12))):
        assert all_hold() == all(items)
        change = data.draw(st.integers(0, 9))
        if change == 0 and items:
            items.pop()
        elif change == 1:
            items.append(data.draw(st.booleans()))
        elif items:
            items[data.draw(st.integers(0, len(items) - 1))] = data.draw(st.booleans())


def test_waiting_for_a_thousand_takes_two_looks_at_each_in_all():
    done, looks = [False] * 1000, []

    def is_done(place):
        looks.append(place)
        return done[place]

    all_done = AllHold(lambda: range(1000), is_done)
    for place in reversed(range(1000)):
        assert not all_done()
        done[place] = True
    assert all_done()
    assert len(looks) <= 3000
