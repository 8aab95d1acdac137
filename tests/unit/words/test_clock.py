"""One clock, and deadlines made of it."""

import re
from datetime import UTC, datetime

from testbed.clock import Deadline, now, utc


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
