"""One clock, and deadlines made of it."""

import re
import signal
import threading
from datetime import UTC, datetime

import pytest

from testbed.clock import Deadline, bounded, now, utc


def test_a_deadline_counts_down_and_is_then_over():
    deadline = Deadline.after(60)
    assert 59 < deadline.left <= 60
    assert not deadline.passed
    over = Deadline(now() - 1)
    assert over.left == 0.0
    assert over.passed


def test_a_chain_of_waits_shares_the_earlier_deadline():
    deadline = Deadline.after(10)
    assert deadline.within(60) == deadline
    assert deadline.within(1).at < deadline.at
    assert Deadline(now() - 1).within(60).passed


def test_the_wall_clock_is_a_label_in_utc_to_the_millisecond():
    label = utc()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", label)
    assert abs((datetime.now(UTC) - datetime.fromisoformat(label)).total_seconds()) < 5


def test_a_bounded_call_returns_the_result_or_raises_the_error_of_the_call():
    assert bounded(lambda: 7, Deadline.after(10), pytest.fail) == 7
    with pytest.raises(ValueError, match="no such"):
        bounded(lambda: int("no such"), Deadline.after(10), pytest.fail)


def test_a_call_that_does_not_return_in_time_is_abandoned_and_its_result_discarded():
    go_on, discarded = threading.Event(), threading.Event()
    late = []

    def call():
        assert go_on.wait(10)
        return "late"

    def discard(result):
        late.append(result)
        discarded.set()

    with pytest.raises(TimeoutError, match="timed out"):
        bounded(call, Deadline.after(0.01), discard)
    go_on.set()
    assert discarded.wait(10)
    assert late == ["late"]


class Ended(Exception):
    """What a signal's handler raises."""


def test_the_result_of_a_bounded_call_is_discarded_after_a_signal():
    interrupted, discarded = threading.Event(), threading.Event()

    def raise_ended(*_):
        raise Ended

    def call():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        interrupted.wait(10)
        return 7

    before = signal.signal(signal.SIGUSR1, raise_ended)
    try:
        with pytest.raises(Ended):
            bounded(call, Deadline.after(10), lambda _: discarded.set())
    finally:
        signal.signal(signal.SIGUSR1, before)
    interrupted.set()
    assert discarded.wait(10)


def test_a_late_error_of_a_bounded_call_is_discarded():
    go_on, over = threading.Event(), threading.Event()

    def call():
        try:
            assert go_on.wait(10)
            raise ValueError("late")
        finally:
            over.set()

    with pytest.raises(TimeoutError):
        bounded(call, Deadline.after(0.01), pytest.fail)
    go_on.set()
    assert over.wait(10)
