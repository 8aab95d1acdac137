"""Which requests of ranks count, and what is commanded for them."""

import pytest

from testbed.control.circuit_requests import CircuitRequests
from testbed.control.controller import (
    ChangeCircuits,
    ChangeFailed,
    CircuitsChanged,
    CommandJob,
    Fail,
    JobObserved,
    JobView,
    View,
)
from testbed.control.protocol import Acknowledge, CircuitsAsked
from testbed.fabric.circuits import Circuit, HostPort

RING = frozenset([Circuit.between(HostPort("h0", "p1"), HostPort("h1", "p0"))])
ACROSS = frozenset([Circuit.between(HostPort("h0", "p1"), HostPort("h2", "p0"))])
VIEW = View(0.0, {"main": JobView(("h0", "h1", "h2", "h3"), (), requests=(RING, ACROSS))})


def ask(rank, number, of, circuits=1):
    return CircuitsAsked(rank, 1, number, circuits, frozenset(of))


class Requests:
    def __init__(self):
        self.controller = CircuitRequests("main")
        self.state = self.controller.begin(View(0.0, VIEW.jobs, circuits=RING))

    def observe(self, at, observation):
        if isinstance(observation, CircuitsAsked):
            observation = JobObserved("main", observation)
        self.state, commands = self.controller.step(self.state, at, observation)
        return commands


@pytest.fixture
def requests():
    return Requests()


def test_a_request_counts_once_all_ranks_that_it_names_have_made_it(requests):
    assert requests.observe(1.0, ask(0, 1, [0, 1])) == ()
    assert requests.observe(1.0, ask(0, 2, [0, 2])) == ()
    change = ChangeCircuits(RING, ACROSS, identify=True)
    last = ask(1, 1, [0, 1])
    assert requests.observe(2.0, last) == (change,)
    told = CommandJob("main", Acknowledge(last, 0.5))
    assert requests.observe(2.5, CircuitsChanged()) == (told,)
    assert requests.observe(3.0, ask(2, 2, [0, 2])) == (
        ChangeCircuits(frozenset(), frozenset(), identify=True),
    )


def test_a_request_that_comes_during_a_change_is_made_after_it(requests):
    first, second = ask(3, 1, [3]), ask(2, 2, [2], circuits=0)
    requests.observe(1.0, first)
    assert requests.observe(1.5, second) == ()
    told, change = requests.observe(2.0, CircuitsChanged())
    assert told == CommandJob("main", Acknowledge(first, 1.0))
    assert change == ChangeCircuits(ACROSS, RING, identify=True)
    assert requests.observe(4.0, CircuitsChanged()) == (
        CommandJob("main", Acknowledge(second, 2.0)),
    )


def test_a_change_that_fails_ends_the_trial(requests):
    requests.observe(1.0, ask(3, 1, [3]))
    reason = "circuits that the ranks asked for could not be made: ocs is busy"
    assert requests.observe(2.0, ChangeFailed("ocs is busy")) == (Fail(reason),)


def test_requests_of_another_job_are_none_of_its_own(requests):
    assert requests.observe(1.0, JobObserved("other", ask(3, 1, [3]))) == ()


def test_a_job_whose_ranks_ask_for_nothing_is_refused():
    with pytest.raises(ValueError, match="its ranks ask for no circuits"):
        CircuitRequests("main").begin(View(0.0, {"main": JobView(("h0",), ())}))
