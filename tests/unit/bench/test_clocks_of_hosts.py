"""A host's clock against ours: the bound holds whatever the line does."""

import os
import shutil
import signal
import subprocess
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bench.clocks import PERIOD, QUESTIONS, measure_offset, watch_offset
from testbed.bench.link import Answer
from testbed.clock import Deadline, now
from testbed.errors import HostTimeout
from tests.unit.bench.agent_on_pipes import soon

AHEAD = 1000
delays = st.floats(0, 0.05)


class Line:
    """Answers questions about a clock after delays of its own each way."""

    def __init__(self, ahead, rounds):
        self._ahead = ahead
        self._rounds = iter(rounds)
        self._now = 500.0

    def ask(self, do, deadline):
        there, thinking, back = next(self._rounds)
        sent = self._now
        arrived, left = sent + there, sent + there + thinking
        self._now = left + back
        return Answer([arrived + self._ahead, left + self._ahead], sent, self._now)


@given(
    ahead=st.floats(-1e4, 1e4),
    rounds=st.lists(st.tuples(delays, delays, delays), min_size=QUESTIONS, max_size=QUESTIONS),
)
def test_the_true_clock_offset_is_always_within_the_measured_bound(ahead, rounds):
    found = measure_offset(Line(ahead, rounds), soon())
    assert abs(found.offset - ahead) <= found.bound + 1e-9
    assert found.bound == pytest.approx(
        min(there + back for there, _, back in rounds) / 2, abs=1e-9
    )


def test_a_symmetric_delay_changes_the_bound_and_not_the_clock_offset():
    found = measure_offset(Line(3.0, [(0.02, 0.001, 0.02)]), soon(), questions=1)
    assert found.offset == pytest.approx(3.0)
    assert found.bound == pytest.approx(0.02)
    assert found.at == pytest.approx(500.0205)


def test_the_clock_measurement_with_the_smallest_bound_is_used():
    rounds = [(0.05, 0, 0.01), (0.001, 0, 0.001), (0.02, 0, 0.05)]
    assert measure_offset(Line(1.0, rounds), soon(), questions=3).bound == pytest.approx(0.001)


def test_an_agent_on_this_machine_has_offset_zero(agent):
    before = now()
    found = measure_offset(agent.link, soon())
    assert abs(found.offset) <= found.bound
    assert before <= found.at <= now()
    assert found.bound < 0.01


def _has_time_namespaces():
    command = ["unshare", "-Ur", "--time", "--monotonic", "1", "--fork", "true"]
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not _has_time_namespaces(), reason="this kernel gives no time namespaces")
def test_the_offset_of_a_host_with_another_clock_is_measured(agents):
    agent = agents(f"unshare -Ur --time --monotonic {AHEAD} --fork --kill-child sh -c")
    agent.hello()
    found = measure_offset(agent.link, soon())
    assert abs(found.offset - AHEAD) <= found.bound
    assert agent.ask("clock")[0] - time.monotonic() == pytest.approx(AHEAD, abs=0.1)


def test_a_host_that_stops_answering_is_a_timeout(agent):
    os.kill(agent.process.pid, signal.SIGSTOP)
    with pytest.raises(HostTimeout):
        measure_offset(agent.link, Deadline.after(0.1))
    os.kill(agent.process.pid, signal.SIGCONT)
    assert measure_offset(agent.link, soon()).bound < 0.01


class WaitedLink(Line):
    """Ends after some waits, of which it notes when each would be over; time stands still."""

    def __init__(self, waits):
        super().__init__(0.0, [(0, 0, 0)] * waits)
        self.waits, self.due, self._left = [], [], waits

    def is_over_within(self, seconds):
        self.waits.append(seconds)
        self.due.append(now() + seconds)
        self._left -= 1
        return self._left < 0


def test_clocks_of_hosts_are_measured_at_different_times_of_a_period():
    links = [WaitedLink(1) for _ in range(5)]
    for link in links:
        watch_offset(link, lambda found: None)
    first = sorted(link.waits[0] for link in links)
    apart = [late - early for early, late in pairwise(first)]
    assert min(apart) > PERIOD / 20
    assert first[-1] < PERIOD


def test_a_clock_is_measured_once_in_a_period_however_long_that_takes():
    link = WaitedLink(4)
    watch_offset(link, lambda found: time.sleep(PERIOD / 10))
    between = [late - early for early, late in pairwise(link.due)]
    assert between == pytest.approx([PERIOD] * 4, abs=PERIOD / 20)
