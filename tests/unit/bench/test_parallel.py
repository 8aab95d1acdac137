"""One action on many items, all or some at once."""

from threading import Barrier, Lock

import pytest

from testbed.bench.parallel import run_parallel


class Counted:
    """An action of which it is known how many are under way."""

    def __init__(self, together):
        self._lock = Lock()
        self._together = Barrier(together)
        self.now = self.most = 0

    def __call__(self, item):
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self._together.wait(30)  # broken unless so many are under way
        with self._lock:
            self.now -= 1
        return -item


@pytest.mark.parametrize(("at_once", "together"), [(None, 12), (12, 12), (4, 4), (100, 12)])
def test_all_items_are_done_and_so_many_at_once(at_once, together):
    action = Counted(together)
    assert run_parallel(action, list(range(12)), at_once) == {item: -item for item in range(12)}
    assert action.most == together


def test_the_first_error_is_raised_once_all_have_ended():
    done = []

    def act(item):
        done.append(item)
        if item % 5 == 2:
            raise ValueError(str(item))

    with pytest.raises(ValueError, match=r"^2$"):
        run_parallel(act, list(range(12)), 3)
    assert sorted(done) == list(range(12))


def test_of_no_items_there_is_nothing_to_do():
    assert run_parallel(Counted(1), []) == {}
