"""Scopes of controllers, and recovery policies as controllers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.control.controller import (
    CommandJob,
    JobObserved,
    JobView,
    PolicyController,
    Scope,
    TimerExpired,
    View,
    overlapping,
)
from testbed.control.descriptors import SpliceOptions
from testbed.control.policy import Situation
from testbed.control.protocol import (
    AgentLost,
    CarrierLost,
    Fenced,
    HeartbeatMissed,
    HostAnswered,
    HostSilent,
    LinksGood,
    RankEnded,
    RankLeft,
    SpareReady,
    StepDone,
)
from testbed.control.splice import Splice
from testbed.fabric.circuits import HostPort

HOSTS, SPARES = ("h0", "h1", "h2"), ("h3", "h4")
PORTS = dict.fromkeys((*HOSTS, *SPARES), ("p0", "p1"))
FENCES = dict.fromkeys(PORTS, ("process", "power"))
VIEW = View(0.0, {"main": JobView(HOSTS, (), generation=4)}, SPARES, PORTS, FENCES)

ranks, hosts = st.integers(0, 2), st.sampled_from(sorted(PORTS))
observations = st.one_of(
    st.builds(RankEnded, ranks, st.just(1)),
    st.builds(HeartbeatMissed, ranks),
    st.builds(AgentLost, hosts),
    st.builds(HostAnswered, hosts),
    st.builds(HostSilent, hosts),
    st.builds(CarrierLost, st.builds(HostPort, hosts, st.sampled_from(["p0", "p1"]))),
    st.builds(RankLeft, ranks, st.just(7)),
    st.builds(StepDone, ranks, st.just(8)),
    st.sampled_from([Fenced(), LinksGood(), SpareReady()]),
)


@given(st.lists(observations, max_size=20))
def test_a_policy_run_as_a_controller_gives_the_commands_of_the_policy(seen):
    policy = Splice(SpliceOptions())
    controller = PolicyController(policy, "main")
    state, own = controller.begin(VIEW), policy.begin(Situation(HOSTS, SPARES, PORTS, 4, FENCES))
    for each in seen:
        state, commands = controller.step(state, 1.0, JobObserved("main", each))
        own, expected = policy.step(own, each)
        assert (state, commands) == (own, tuple(CommandJob("main", one) for one in expected))
        assert controller.wake_at(state) is None


def test_a_policy_does_not_observe_other_jobs_and_has_no_timers():
    controller = PolicyController(Splice(SpliceOptions()), "main")
    state = controller.begin(VIEW)
    for other in (JobObserved("other", RankEnded(1, 1)), TimerExpired()):
        assert controller.step(state, 1.0, other) == (state, ())


def test_two_policies_for_one_job_are_refused():
    one, other = (PolicyController(Splice(SpliceOptions()), "main").scopes for _ in range(2))
    assert overlapping({"x": one, "y": other}) == "x and y both act on the membership of job main"
    assert overlapping({"x": one, "y": (Scope("circuits", "other"),)}) is None


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (Scope("circuits", "a"), Scope("circuits", "a"), True),
        (Scope("circuits", "a"), Scope("membership", "a"), False),
        (Scope("circuits", "a"), Scope("circuits", "b"), False),
        (Scope("circuits", "a", "rail 0"), Scope("circuits", "a", "rail 1"), False),
        (Scope("circuits", "a", "rail 0"), Scope("circuits", "a", "rail 0"), True),
        (Scope("circuits", "a", "rail 0"), Scope("circuits", "a"), True),
    ],
)
def test_scopes_overlap_on_the_same_part_of_the_same_job(one, other, overlap):
    assert one.overlaps(other) == other.overlaps(one) == overlap


def test_a_scope_is_printed_with_its_part_of_the_job():
    assert str(Scope("circuits", "a", "rail 0")) == "the circuits of job a on rail 0"
