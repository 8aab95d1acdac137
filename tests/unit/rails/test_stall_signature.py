"""The stall of re-pointing: of every change on demand, of what exceeds its window when provisioned.

The authors' smoke test (Opus, arXiv 2602.12521): two transitions an iteration; on demand they add
twice the delay, provisioned the delay less the 1.1 ms of the one window that does not hide it.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.rails.rail_replay import Rails
from testbed.rails.replay import replay
from testbed.rails.workload import workload_of

from .profiles import two_stages

MICROSECOND = 1e-6


def stall(profile, delay, mode):
    """Return by how much an iteration is longer than without a delay, in seconds."""
    workload = workload_of(profile)
    still = replay(workload, Rails(0.0, mode)).iteration
    return replay(workload, Rails(delay, mode)).iteration - still


@pytest.mark.parametrize("delay", [0.001, 0.01, 0.05])
def test_on_demand_adds_twice_the_delay(delay):
    found = stall(two_stages(0.2, 0.0011), delay, "on-demand")
    assert found == pytest.approx(2 * delay, abs=MICROSECOND)


@pytest.mark.parametrize(("delay", "left"), [(0.001, 0.0), (0.01, 0.0089), (0.05, 0.0489)])
def test_provisioned_adds_what_exceeds_the_window(delay, left):
    found = stall(two_stages(0.2, 0.0011), delay, "provisioned")
    assert found == pytest.approx(left, abs=MICROSECOND)


@settings(max_examples=20)
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_the_stall_follows_the_windows_whatever_they_are(first, second, delay):
    profile = two_stages(first, second)
    assert stall(profile, delay, "on-demand") == pytest.approx(2 * delay, abs=MICROSECOND)
    beyond = max(0.0, delay - first) + max(0.0, delay - second)
    assert stall(profile, delay, "provisioned") == pytest.approx(beyond, abs=MICROSECOND)


def test_the_replay_without_a_delay_repeats_the_profile():
    profile = two_stages(0.2, 0.0011)
    found = replay(workload_of(profile), Rails(0.0)).iteration
    assert found == pytest.approx(profile.iterations[0][0].end, abs=MICROSECOND)
