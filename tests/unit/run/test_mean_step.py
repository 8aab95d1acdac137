"""What is predicted of the mean step of a job that runs beside others."""

import pytest

from testbed.run.expectation import mean_step


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ({"step_time": 0.27}, 0.27),
        ({"step_time": 0.27, "straggling_step_time": 0.4}, 0.4),
        (
            {
                "total_ring_768kib": 0.3,
                "exposed_ring_768kib": 0.1,
                "total_stragglar_768kib": 0.4,
                "sent_ring_768kib": 1e6,
            },
            0.35,
        ),
        ({"cycle_time": 2.4, "slot_bytes": 1e7, "slot_dark": 0.035, "time_6mib": 2.2}, 2.2),
        ({"cycle_time": 2.4, "slot_dark": 0.035}, None),
        ({}, None),
    ],
)
def test_it_is_a_step_or_the_mean_of_the_collectives_that_take_turns(values, mean):
    assert mean_step(values) == (None if mean is None else pytest.approx(mean))
