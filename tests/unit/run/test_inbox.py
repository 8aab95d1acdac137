"""The inbox: one thread waits, and everything else wakes it."""

import os
import signal
import threading
from contextlib import contextmanager

import pytest

from testbed.clock import Deadline, now
from testbed.control.controller import TimerExpired
from testbed.control.protocol import Fenced, HostSilent
from testbed.errors import HostError, LabError
from testbed.events.origin import NOWHERE, Origin, attributed, current_origin
from testbed.run.inbox import Interrupted, Outcome, Report
from testbed.run.time_limits import time_limit

LONG = 30.0
"""Seconds that nobody here may wait for."""


def soon(limit=LONG):
    return Deadline.after(limit)


@contextmanager
def a_worker_that_waits(inbox):
    """Give a worker's future; the worker waits until the test is over."""
    over = threading.Event()
    try:
        yield inbox.submit(lambda: over.wait(LONG))
    finally:
        over.set()


def test_items_of_the_inbox_are_handled_in_order_by_the_waiting_thread(inbox):
    heard = []
    inbox.handler = lambda item: heard.append((item, threading.current_thread()))
    inbox.observe(HostSilent("h1"))
    inbox.listen("h0", {"event": "carrier"}, 7.0)
    inbox.observe(Fenced())
    assert inbox.wait(lambda: len(heard) == 3, soon())
    assert [item for item, _ in heard] == [
        HostSilent("h1"),
        Report("h0", {"event": "carrier"}, 7.0),
        Fenced(),
    ]
    assert {thread for _, thread in heard} == {threading.current_thread()}


def test_a_wait_for_a_condition_that_already_holds_returns_at_once(inbox):
    inbox.observe(Fenced())
    inbox.handler = lambda item: pytest.fail("handled for nothing")
    assert inbox.wait(lambda: True, soon(0))


def test_a_wait_returns_false_at_its_deadline(inbox):
    began = now()
    assert not inbox.wait(lambda: False, soon(0.05))
    assert 0.05 <= now() - began < LONG


def expiry():
    return Outcome(object(), TimerExpired())


def test_timers_expire_in_their_order_and_not_before_their_time(inbox):
    heard, began = [], now()
    inbox.handler = lambda item: heard.append((item, now() - began))
    late, early = expiry(), expiry()
    inbox.set_timer("late", began + 0.06, late)
    inbox.set_timer("early", began + 0.03, early)
    assert inbox.wait(lambda: len(heard) == 2, soon())
    assert [item for item, _ in heard] == [early, late]
    assert all(at >= due for (_, at), due in zip(heard, (0.03, 0.06), strict=True))


def test_a_timer_is_replaced_by_a_later_one_of_the_same_and_can_be_cancelled(inbox):
    heard = []
    inbox.handler = heard.append
    first, second, other = expiry(), expiry(), expiry()
    inbox.set_timer("one", now() + 0.01, first)
    inbox.set_timer("one", now() + 0.03, second)
    inbox.set_timer("other", now() + 0.01, other)
    inbox.cancel_timer("other")
    inbox.cancel_timer("nobody's")
    assert not inbox.wait(lambda: len(heard) > 1, soon(0.1))
    assert heard == [second]


def test_a_timer_that_is_over_is_handled_despite_a_flood_of_items(inbox):
    over = expiry()
    heard = []

    def handle(item):
        heard.append(item)
        inbox.observe(Fenced())

    inbox.handler = handle
    inbox.observe(Fenced())
    inbox.set_timer("one", now() + 0.02, over)
    assert inbox.wait(lambda: over in heard, soon())


def test_a_wait_ends_at_its_deadline_before_a_later_timer(inbox):
    inbox.handler = lambda item: pytest.fail("the timer is not over")
    inbox.set_timer("one", now() + LONG, expiry())
    began = now()
    assert not inbox.wait(lambda: False, soon(0.05))
    assert 0.05 <= now() - began < LONG


def test_an_item_from_another_thread_ends_the_wait_at_once(inbox):
    heard = []
    inbox.handler = heard.append
    inbox.submit(lambda: inbox.observe(Fenced()))
    assert inbox.wait(lambda: bool(heard), soon())


def test_a_wait_ends_at_its_deadline_despite_a_flood_of_items(inbox):
    inbox.handler = inbox.observe  # whatever is handled comes again
    inbox.observe(Fenced())
    inbox.pause(soon(0.05))
    assert not inbox.wait(lambda: False, soon(0.05))


def test_a_signal_ends_a_wait_despite_a_flood_of_items(inbox):
    handled = []
    inbox.handler = handled.append
    for _ in range(1000):
        inbox.observe(Fenced())
    inbox.interrupt(signal.SIGINT)
    with pytest.raises(Interrupted):
        inbox.pause(soon())
    assert handled == []


@pytest.mark.parametrize(
    ("number", "name"),
    [(signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")],
)
def test_a_signal_ends_a_wait_with_its_name_and_exit_code(inbox, number, name):
    before = signal.signal(number, lambda received, _: inbox.interrupt(received))
    try:
        threading.Timer(0.02, os.kill, (os.getpid(), number)).start()
        with pytest.raises(Interrupted, match=f"ended by {name}") as interrupted:
            inbox.wait(lambda: False, soon())
    finally:
        signal.signal(number, before)
    assert interrupted.value.exit_code == 128 + number
    assert inbox.signals == [number]


def test_a_signal_between_two_waits_ends_the_second(inbox):
    assert inbox.wait(lambda: True, soon())
    inbox.interrupt(signal.SIGTERM)
    with pytest.raises(Interrupted):
        inbox.wait(lambda: False, soon())


def test_each_signal_ends_exactly_one_wait(inbox):
    inbox.interrupt(signal.SIGINT)
    inbox.interrupt(signal.SIGTERM)
    for name in ("SIGINT", "SIGTERM"):
        with pytest.raises(Interrupted, match=name):
            inbox.wait(lambda: False, soon())
    assert not inbox.wait(lambda: False, soon(0))


def test_a_workers_result_comes_back_and_items_are_handled_meanwhile(inbox):
    heard = threading.Event()
    inbox.handler = lambda item: heard.set()
    future = inbox.submit(lambda: heard.wait(LONG) and "done")
    inbox.submit(lambda: inbox.observe(Fenced()))
    assert inbox.result(future, soon(), "waiting") == "done"


def test_what_a_worker_does_has_the_origin_of_what_submitted_it(inbox):
    with attributed(Origin(cause=7)):
        first = inbox.submit(current_origin)
        nested = inbox.submit(lambda: inbox.submit(current_origin).result(LONG))
    second = inbox.submit(current_origin)
    assert (first.result(LONG), nested.result(LONG)) == (Origin(cause=7), Origin(cause=7))
    assert second.result(LONG) is NOWHERE


def test_a_workers_error_is_raised_where_its_result_is_awaited(inbox):
    def refuse():
        raise HostError("h0", "it said no")

    with pytest.raises(HostError, match="h0: it said no"):
        inbox.result(inbox.submit(refuse), soon(), "asking")


def test_a_worker_that_exceeds_its_deadline_by_a_second_is_named_in_the_error(inbox):
    began = now()
    with (
        a_worker_that_waits(inbox) as future,
        pytest.raises(LabError, match="opening the instruments did not end in time"),
    ):
        inbox.result(future, soon(0), "opening the instruments")
    assert 1.0 <= now() - began < LONG


def test_a_signal_ends_the_wait_for_a_worker_and_the_worker_goes_on(inbox):
    with a_worker_that_waits(inbox) as future:
        inbox.interrupt(signal.SIGINT)
        with pytest.raises(Interrupted):
            inbox.result(future, soon(), "giving power back")
        assert not future.done()
    assert inbox.result(future, soon(), "giving power back")


def test_a_wait_with_a_passed_deadline_ends_at_once(inbox):
    """With the timeout of CPython's SimpleQueue, one of some thousands never ended."""

    def wait_often():
        for _ in range(20_000):
            inbox.observe(Fenced())
            inbox.pause(Deadline.after(1e-6))
            inbox.pause(Deadline.after(1e-6))

    waiting = threading.Thread(target=wait_often, daemon=True)
    waiting.start()
    waiting.join(100)
    assert not waiting.is_alive()


def test_an_error_of_the_handler_ends_the_wait(inbox):
    def handler(item):
        raise LabError("the record cannot be kept")

    inbox.handler = handler
    inbox.observe(Fenced())
    with pytest.raises(LabError, match="the record"):
        inbox.wait(lambda: False, soon())


def test_stopping_a_run_is_delayed_until_an_undo_is_done(inbox):
    inbox.stop(LabError("over"))
    with inbox.unstoppable():
        assert inbox.result(inbox.submit(lambda: 7), Deadline.after(10), "an undo") == 7
    with pytest.raises(LabError, match="over"):
        inbox.check()
    inbox.check()


def test_the_time_limit_of_a_run_ends_its_waits(inbox):
    time_limit(0.01, inbox)
    with pytest.raises(LabError, match=r"longer than its limit of 0\.01 s"):
        inbox.pause(Deadline.after(10))


def test_a_cancelled_time_limit_stops_nothing(inbox):
    timer = time_limit(0.05, inbox)
    timer.cancel()
    timer.join()
    inbox.check()
