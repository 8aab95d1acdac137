"""Stamps of hosts moved to the log's clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.clocks import Clocks, Instant
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
    return Clocks(events).instant(heard(t), mono)


def about(early, late):
    return pytest.approx((early, late), abs=1e-9)


def ends(instant):
    return instant.early, instant.late


def test_a_clock_that_was_never_measured_says_nothing():
    assert at([], 1.0, 1.0) is None
    assert at(measured((1.0, 5.0, 0.1), host="h7"), 1.0, 1.0) is None


def test_one_measurement_holds_before_and_after_it():
    events = measured((10.0, 1000.0, 0.25))
    assert ends(at(events, 5.0, 1005.0)) == about(4.75, 5.25)
    assert ends(at(events, 90.0, 1090.0)) == about(89.75, 90.25)


def test_between_two_measurements_the_offset_is_interpolated_and_the_larger_bound_holds():
    events = measured((10.0, 100.0, 0.01), (20.0, 100.001, 0.03))
    found = at(events, 15.0, 115.0005)
    assert ends(found) == pytest.approx((14.97, 15.03), abs=1e-7)


def test_outside_the_measurements_the_nearest_one_holds():
    events = measured((10.0, 100.0, 0.01), (20.0, 101.0, 0.03))
    assert ends(at(events, 5.0, 105.0)) == about(4.99, 5.01)
    assert ends(at(events, 30.0, 131.0)) == about(29.97, 30.03)


def test_hosts_have_clocks_of_their_own():
    events = measured((1.0, 5.0, 0.0)) + measured((1.0, -7.0, 0.0), host="h1")
    clocks = Clocks(events)
    assert clocks.instant(heard(2.0), 7.0) == Instant(2.0, 2.0)
    assert clocks.instant(heard(2.0, "h1"), -5.0) == Instant(2.0, 2.0)


drift = st.floats(-1e-4, 1e-4)


@given(
    ahead=st.floats(-1e5, 1e5),
    drift=drift,
    times=st.lists(st.integers(0, 600), min_size=2, max_size=6, unique=True).map(sorted),
    share=st.floats(0, 1),
    errors=st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    bound=st.floats(1e-6, 1e-2),
)
def test_a_drifting_clock_is_corrected_within_its_bound(ahead, drift, times, share, errors, bound):
    """Each measurement is wrong by at most its bound, and so is every stamp between them."""

    def true_ahead(t):
        return ahead + drift * t

    events = measured(
        *(
            (t, true_ahead(t) + error * bound, bound)
            for t, error in zip(times, errors, strict=False)
        )
    )
    t = times[0] + share * (times[-1] - times[0])
    found = at(events, t, t + true_ahead(t))
    # where to interpolate is itself read off with the first offset: an error of second order
    slack = 1e-6 + 2 * abs(drift) * (abs(drift) * 600 + bound) + 4 * bound * bound
    assert found.early - slack <= t <= found.late + slack


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


def test_of_starts_with_nearly_the_same_clock_the_own_one_counts():
    """A host may keep its clock over a start; what was measured later is no better for that."""
    events = [
        *(ready(0.0), *measured((1.0, 50.0, 0.001), (9.0, 50.0, 0.001))),
        *(ready(20.0), *measured((21.0, 49.9, 0.2), (29.0, 49.9, 0.2))),
    ]
    assert at(events, 8.1, 58.0).middle == pytest.approx(8.0)


def test_a_start_that_was_never_measured_borrows_no_clock_but_the_nearest():
    events = [ready(0.0), *measured((1.0, 50.0, 0.0)), ready(20.0)]
    assert at(events, 10.0, 60.0).middle == pytest.approx(10.0)


def test_an_instant_has_a_best_guess_between_its_bounds():
    assert Instant(1.0, 2.0).middle == 1.5
    assert Instant.exactly(3.0) == Instant(3.0, 3.0)
