"""Stamps of hosts moved to the log's clock."""

import math
import random
from bisect import bisect_right

import pytest

from testbed.analysis.clocks import SLEW, Clocks, Instant
from testbed.events import Event


def measured(*points, host="h0"):
    """Return measurements (t, ahead, bound) of one host's clock."""
    return [
        Event(0, t, "clock.offset", host, None, {"ahead": ahead, "bound": bound})
        for t, ahead, bound in points
    ]


def heard(t, host="h0"):
    return Event(0, t, "step", "rank 0", 0, {"host": host})


def ready(t, host="h0"):
    return Event(0, t, "host.ready", host, None, {})


def at(events, t, mono):
    """Return when a stamp was, that was heard of a second after `t`."""
    return Clocks(events).instant(heard(t + 1.0), mono)


def about(early, late):
    return pytest.approx((early, late), abs=1e-9)


def ends(instant):
    return instant.early, instant.late


def test_a_time_stamp_of_an_unmeasured_clock_gives_no_instant():
    assert at([], 1.0, 1.0) is None
    assert at(measured((1.0, 5.0, 0.1), host="h7"), 1.0, 1.0) is None


def test_the_bound_of_one_measurement_grows_with_the_time_from_it():
    events = measured((10.0, 1000.0, 0.25))
    assert ends(at(events, 10.0, 1010.0)) == pytest.approx((9.75, 10.25), abs=2e-3)
    for t in (5.0, 15.0):
        assert ends(at(events, t, 1000.0 + t)) == pytest.approx(
            (t - 0.25 - 5 * SLEW, t + 0.25 + 5 * SLEW), abs=2e-3
        )


def test_between_two_measurements_both_drift_bounds_apply():
    events = measured((10.0, 100.0, 0.01), (20.0, 100.001, 0.03))
    found = at(events, 15.0, 115.0005)
    early, late = ends(found)
    assert (early, late) == pytest.approx((15.0005 - 0.016, 15.0005 + 0.016), abs=6e-4)
    assert found.middle == pytest.approx(15.0, abs=5e-4), "nearer to the better one"


def test_the_bound_of_a_slow_measurement_is_tightened_by_its_neighbours():
    events = measured((10.0, 100.0, 1e-4), (10.5, 100.2, 0.3), (11.0, 100.0, 1e-4))
    found = at(events, 10.5, 110.5)
    assert ends(found) == pytest.approx(
        (10.5 - 1e-4 - 0.5 * SLEW, 10.5 + 1e-4 + 0.5 * SLEW), abs=1e-5
    )
    assert found.middle == pytest.approx(10.5, abs=1e-5)


def test_outside_the_measurements_the_drift_is_extrapolated_with_a_growing_bound():
    drift = 1e-4
    events = measured(*((t, 100.0 + drift * t, 1e-6) for t in (0.0, 10.0, 20.0)))
    found = at(events, 30.0, 130.0 + drift * 30.0)
    assert found.middle == pytest.approx(30.0, abs=1e-5)
    assert found.late - found.early == pytest.approx(2 * 10 * SLEW, rel=1e-2)
    assert at(events, 25.0, 125.0025).middle == pytest.approx(25.0, abs=1e-5)


def test_an_instant_while_a_clock_stood_still_lies_within_the_pause():
    """As that of a virtual machine which was paused for a second."""
    events = measured((10.0, 100.0, 1e-4), (12.0, 99.0, 1e-4), (13.0, 99.0, 1e-4))
    early, late = ends(at(events, 12.0, 110.5))
    assert early <= 10.5 and late >= 11.5, "before the pause, or after it"
    assert ends(at(events, 12.0, 111.0)) == pytest.approx((12.0, 12.0), abs=2e-4)


def test_an_event_happened_no_later_than_its_report_arrived():
    events = measured((10.0, 100.0, 0.5))
    assert ends(at(events, 9.2, 110.0)) == pytest.approx((9.5, 10.2), abs=2e-3)
    assert ends(at(events, 8.0, 110.0)) == pytest.approx((9.5, 10.5), abs=2e-3), "a wrong record"


def test_measurements_may_come_in_any_order():
    points = [(t, 100.0 + 1e-5 * t, 1e-3 / (1 + t)) for t in range(6)]
    expected = ends(at(measured(*points), 2.5, 102.5))
    for order in ((5, 4, 3, 2, 1, 0), (3, 0, 5, 1, 4, 2)):
        shuffled = measured(*(points[n] for n in order))
        assert ends(at(shuffled, 2.5, 102.5)) == pytest.approx(expected, abs=1e-9)


def test_hosts_have_clocks_of_their_own():
    events = measured((1.0, 5.0, 0.0)) + measured((2.0, -7.0, 0.0), host="h1")
    clocks = Clocks(events)
    assert ends(clocks.instant(heard(1.0), 6.0)) == about(1.0, 1.0)
    assert ends(clocks.instant(heard(2.0, "h1"), -5.0)) == about(2.0, 2.0)


class Slewed:
    """A clock whose rate changes at random, within what NTP and a crystal may do to two clocks."""

    def __init__(self, chance, length):
        self._ahead, rate = [(0.0, chance.uniform(-1e5, 1e5))], 0.0
        while self._ahead[-1][0] < length:
            (t, ahead), span = self._ahead[-1], chance.expovariate(1.0)
            rate = chance.choice([rate, chance.uniform(-SLEW, SLEW), SLEW, -SLEW, 1e-4])
            self._ahead.append((t + span, ahead + span * rate))

    def ahead(self, t):
        """Return the truth."""
        at = bisect_right(self._ahead, (t, math.inf))
        (t0, a0), (t1, a1) = self._ahead[at - 1], self._ahead[at]
        return a0 + (a1 - a0) * (t - t0) / (t1 - t0)

    def sample(self, chance, t):
        """Return what a question finds whose ways are unequal; now and then it is slow."""
        scale = chance.choice([1e-4, 1e-4, 1e-4, 1e-2])
        there, back = chance.expovariate(1 / scale), chance.expovariate(1 / scale)
        read = t + (there - back) / 2  # the host's answer is of then, and taken for one of `t`
        return t, self.ahead(read) + read - t, (there + back) / 2


@pytest.mark.parametrize("seed", range(200))
def test_a_timestamp_is_within_its_bound_under_any_ntp_adjustment(seed):
    chance = random.Random(seed)
    clock = Slewed(chance, 40.0)
    times = sorted(chance.uniform(5.0, 35.0) for _ in range(chance.choice([1, 2, 5, 60])))
    clocks = Clocks(measured(*(clock.sample(chance, t) for t in times)))
    for _ in range(50):
        t = chance.uniform(0.0, 40.0)
        found = clocks.instant(heard(t), t + clock.ahead(t))
        assert found.early - 1e-9 <= t <= found.late + 1e-9
        assert found.early <= found.middle <= found.late


def test_a_host_that_started_again_has_another_clock():
    events = [
        ready(0.0),
        *measured((1.0, 5000.0, 0.0), (9.0, 5000.0, 0.0)),
        ready(20.0),
        *measured((21.0, -18.0, 0.0), (29.0, -18.0, 0.0)),
    ]
    assert at(events, 10.0, 5010.0).middle == pytest.approx(10.0)
    assert at(events, 22.0, 4.0).middle == pytest.approx(22.0)
    # between the last measurement of the first start and the first one of the second
    assert at(events, 15.0, 5015.0).middle == pytest.approx(15.0)
    assert at(events, 20.5, 2.5).middle == pytest.approx(20.5)


def test_of_boots_with_similar_clocks_the_matching_one_is_used():
    """A host may keep its clock over a start; what was measured later is no better for that."""
    events = [
        *(ready(0.0), *measured((1.0, 50.0, 0.001), (9.0, 50.0, 0.001))),
        *(ready(20.0), *measured((21.0, 49.9, 0.2), (29.0, 49.9, 0.2))),
    ]
    assert at(events, 8.1, 58.0).middle == pytest.approx(8.0)


def test_an_unmeasured_boot_uses_only_the_nearest_clock():
    events = [ready(0.0), *measured((1.0, 50.0, 0.0)), ready(20.0)]
    assert at(events, 10.0, 60.0).middle == pytest.approx(10.0)


def test_an_instant_has_a_best_estimate_between_its_bounds():
    assert Instant(1.0, 2.0).middle == 1.5
    assert Instant.exactly(3.0) == Instant(3.0, 3.0)
