"""The policy `replace` as a pure machine: stories whose every command is known."""

import pytest

from testbed.control.controller import JobObserved, JobView, TimerExpired, View
from testbed.control.descriptors import ReplaceOptions
from testbed.control.policy import Situation
from testbed.control.protocol import (
    AgentLost,
    CarrierFound,
    CarrierLost,
    CommandFailed,
    Decide,
    FarEndDark,
    Fence,
    Fenced,
    FenceFailed,
    GiveUp,
    HeartbeatMissed,
    HostAnswered,
    HostOff,
    HostSilent,
    Join,
    Leave,
    NameFarEnd,
    NothingHeard,
    PrepareSpare,
    ProbeHost,
    RankEnded,
    RankLeft,
    SpareReady,
    StageLeft,
    StepDone,
    ValuesCorrupt,
)
from testbed.control.replace import Replace
from testbed.control.watchdog import WatchdogController
from testbed.fabric.circuits import HostPort

HOSTS = ("h0", "h0", "h1", "h1", "h2", "h2", "h3", "h3")
REPLICAS = ((0, 4), (1, 5), (2, 6), (3, 7))
"""As in a mesh of two replicas, two pipeline stages, and two shares of each layer."""

ALL = ("power", "network", "process")
SURVIVORS = frozenset({0, 1, 4, 5, 6, 7})


class Story:
    """The policy's answers, one observation after the other."""

    def __init__(self, spares=("h4", "h4", "h5", "h5"), fences=ALL, hosts=HOSTS, replicas=REPLICAS):
        self.policy = Replace(ReplaceOptions())
        permitted = dict.fromkeys((*hosts, *spares), fences)
        self.state = self.policy.begin(Situation(hosts, spares, {}, 1, permitted, replicas))

    def tell(self, *observations):
        """Return what the policy commands upon the last of these."""
        commands = ()
        for observation in observations:
            self.state, commands = self.policy.step(self.state, observation)
        return commands

    @property
    def is_recovering(self):
        return self.policy.is_recovering(self.state)


@pytest.fixture
def story():
    return Story()


def dark(host, port="p0"):
    return FarEndDark(HostPort("h0" if host == "h3" else "h3", port), host)


def with_spare(spare, victim="h1", hosts=HOSTS):
    return tuple(spare if host == victim else host for host in hosts)


def left(*ranks, committed=8):
    return [RankLeft(rank, committed) for rank in ranks]


def cut(story, host="h1"):
    """Let a circuit to a host go dark, and its outlet be off; return what is commanded then."""
    story.tell(dark(host), HostSilent(host))
    return story.tell(HostOff(host))


def test_a_host_without_power_is_replaced_with_all_its_ranks(story):
    port = HostPort("h3", "p0")
    assert story.tell(CarrierLost(port)) == (NameFarEnd(port),)
    assert story.tell(dark("h1")) == (ProbeHost("h1", 0.05),)
    assert story.tell(dark("h1")) == (), "it is being asked"
    assert story.tell(HostSilent("h1")) == (ProbeHost("h1", 1.0),)
    assert story.tell(HostOff("h1")) == (
        Decide("the outlet of h1 is off", "h1", "h4"),
        Fence(2, "h1", "none"),
    )
    assert story.tell(Fenced("h1")) == (
        PrepareSpare(2, "h4"),
        PrepareSpare(3, "h4"),
        Leave(SURVIVORS, 1),
    )
    assert story.tell(SpareReady("h4"), *left(0, 1, 4, 5, 6), RankLeft(7, 9)) == ()
    join = Join(2, with_spare("h4"), 8, {2: 6, 3: 7})
    assert story.tell(SpareReady("h4")) == (join,)
    assert story.is_recovering
    story.tell(*(StepDone(rank, 8) for rank in range(7)))
    assert story.is_recovering
    story.tell(StepDone(7, 8))
    assert not story.is_recovering


def test_numbers_of_probes_go_on_after_a_replacement(story):
    story.tell(dark("h1"))
    (earlier,) = story.tell(HostSilent("h1"))
    story.tell(HostOff("h1"), Fenced("h1"), SpareReady("h4"), *left(0, 1, 4, 5, 6, 7))
    (join,) = story.tell(SpareReady("h4"))
    assert isinstance(join, Join)
    (later,) = story.tell(dark("h2"))
    assert (later.host, later.number > earlier.number) == ("h2", True)


def test_a_circuit_that_goes_dark_between_hosts_that_answer_leads_to_nothing(story):
    assert story.tell(dark("h1"), HostAnswered("h1")) == ()
    assert story.tell(dark("h1")) == (ProbeHost("h1", 0.05),), "it is asked each time"
    assert story.tell(HostAnswered("h1")) == ()
    assert not story.is_recovering


def test_a_host_whose_answer_is_late_lives_when_the_port_has_light_again(story):
    story.tell(dark("h1", "p0"), dark("h1", "p1"), HostSilent("h1"))
    story.tell(CarrierFound(HostPort("h3", "p0")), CarrierFound(HostPort("h3", "p1")))
    assert story.tell(HostSilent("h1")) == ()
    assert story.tell(dark("h1")) == (ProbeHost("h1", 0.05),)
    assert story.tell(HostSilent("h1")) == (ProbeHost("h1", 1.0),), "once again from the beginning"


def test_a_late_answer_to_an_earlier_probe_of_a_silent_host_does_not_count(story):
    (first,) = story.tell(dark("h1"))
    (second,) = story.tell(HostSilent("h1"))
    assert first.number < second.number
    story.tell(HostAnswered("h1", first.number))
    others = ("h0", "h2", "h3")
    assert story.tell(HostSilent("h1")) == tuple(ProbeHost(host, 1.0) for host in others)


def test_a_host_that_is_silent_is_replaced_once_all_others_have_answered(story):
    assert story.tell(dark("h1"), HostSilent("h1")) == (ProbeHost("h1", 1.0),)
    others = ("h0", "h2", "h3")
    assert story.tell(HostSilent("h1")) == tuple(ProbeHost(host, 1.0) for host in others)
    assert story.tell(HostAnswered("h0"), HostAnswered("h2")) == ()
    decided, fence = story.tell(HostAnswered("h3"))
    assert decided == Decide("h1 is silent", "h1", "h4")
    assert fence == Fence(2, "h1", "network"), "it may still run"


def test_all_hosts_are_probed_when_nothing_is_heard_of_the_job(story):
    hosts = ("h0", "h1", "h2", "h3")
    assert story.tell(NothingHeard()) == tuple(ProbeHost(host, 0.05) for host in hosts)
    assert story.tell(NothingHeard()) == (), "they are being asked"
    story.tell(HostAnswered("h0"), HostAnswered("h2"), HostAnswered("h3"), HostSilent("h1"))
    decided, _ = story.tell(HostOff("h1"))
    assert (decided.victim, decided.replacement) == ("h1", "h4")


def quiet():
    policy = Replace(ReplaceOptions(quiet=1.0))
    controller = WatchdogController(policy, "main", ("membership",))
    ports = tuple((HostPort(host, "p0"),) for host in HOSTS)
    job = JobView(HOSTS, ports, replicas=REPLICAS)
    fences = dict.fromkeys((*HOSTS, "h4"), ALL)
    return controller, controller.begin(View(5.0, {"main": job}, ("h4",), {}, fences))


def test_a_job_that_stays_quiet_is_looked_at_after_twice_the_time_each():
    controller, state = quiet()
    for at in (6.0, 8.0, 12.0):
        assert controller.wake_at(state) == at
        state, _ = controller.step(state, at, TimerExpired())
    state, _ = controller.step(state, 12.0, JobObserved("main", StageLeft(0, None)))
    assert controller.wake_at(state) == 13.0
    assert not controller.is_recovering(state)


def test_a_host_that_is_found_gone_when_its_job_is_quiet_is_replaced():
    controller, state = quiet()
    state, commands = controller.step(state, 6.0, TimerExpired())
    assert len(commands) == 4
    for what in (HostSilent("h1"), HostOff("h1")):
        state, commands = controller.step(state, 6.1, JobObserved("main", what))
    assert [type(command.what) for command in commands] == [Decide, Fence]
    assert controller.is_recovering(state)


def test_hosts_that_all_do_not_answer_are_not_replaced(story):
    story.tell(dark("h1"), HostSilent("h1"), HostSilent("h1"))
    story.tell(HostSilent("h3"), HostSilent("h3"), HostAnswered("h0"))
    (given_up,) = story.tell(HostAnswered("h2"))
    assert given_up == GiveUp("h1 and h3 do not answer: is the way to them broken?")


def test_processes_of_a_host_are_ended_one_after_the_other(story):
    assert story.tell(RankEnded(3, -9)) == (
        Decide("rank 3 ended with code -9", "h1", "h4"),
        Fence(2, "h1", "process"),
    )
    assert story.tell(RankEnded(2, -9)) == (), "as it was to"
    assert story.tell(Fenced("h1")) == (Fence(3, "h1", "process"),)
    assert story.tell(FenceFailed("h1", "process: no")) == (Fence(2, "h1", "network"),)
    assert story.tell(Fenced("h1"))[0] == PrepareSpare(2, "h4"), "of a host, once"


def test_a_frozen_rank_takes_its_host_with_it(story):
    decided, _ = story.tell(HeartbeatMissed(6))
    assert decided == Decide("rank 6 was silent", "h3", "h4")
    story.tell(Fenced("h3"), Fenced("h3"), *left(*range(6)), SpareReady("h4"))
    (join,) = story.tell(SpareReady("h4"))
    assert join.restore == {6: 2, 7: 3}


@pytest.mark.parametrize("at", ["while it is fenced", "before it is ready", "once it is"])
def test_a_spare_that_fails_is_followed_by_the_next(story, at):
    cut(story)
    if at == "while it is fenced":
        assert story.tell(AgentLost("h4")) == (
            Decide("the spare failed: the agent of h4 is gone", "h4", "h5"),
        )
        prepared = story.tell(Fenced("h1"))[:2]
    else:
        story.tell(Fenced("h1"), SpareReady("h4"))
        if at == "once it is":
            story.tell(SpareReady("h4"))
            prepared = story.tell(RankEnded(3, 1))[1:]
        else:
            failed = CommandFailed("it starts no process", True, "h4")
            prepared = story.tell(failed)[1:]
    assert prepared == (PrepareSpare(2, "h5"), PrepareSpare(3, "h5"))
    assert story.tell(SpareReady("h4"), *left(*SURVIVORS), SpareReady("h5")) == ()
    (join,) = story.tell(SpareReady("h5"))
    assert join.hosts == with_spare("h5")


def test_two_hosts_are_replaced_in_one_recovery(story):
    cut(story)
    story.tell(Fenced("h1"), SpareReady("h4"), SpareReady("h4"))
    decided, _ = story.tell(RankEnded(0, -9))
    assert (decided.victim, decided.replacement) == ("h0", "h5")
    story.tell(Fenced("h0"))
    assert story.tell(Fenced("h0")) == (PrepareSpare(0, "h5"), PrepareSpare(1, "h5"))
    story.tell(*left(4, 5, 6, 7), SpareReady("h5"))
    (join,) = story.tell(SpareReady("h5"))
    assert join.hosts == ("h5", "h5", "h4", "h4", *HOSTS[4:])
    assert join.restore == {0: 4, 1: 5, 2: 6, 3: 7}


def test_a_host_that_fails_before_the_new_generation_has_worked_is_replaced_in_the_next(story):
    cut(story)
    story.tell(Fenced("h1"), *left(*SURVIVORS), SpareReady("h4"), SpareReady("h4"))
    story.tell(StepDone(0, 8), RankEnded(0, -9))
    story.tell(Fenced("h0"))
    assert story.tell(Fenced("h0"))[2] == Leave(frozenset(range(2, 8)), 2)
    story.tell(RankLeft(2, 8), RankLeft(3, 8), *left(4, 5, 6, 7), SpareReady("h5"))
    (join,) = story.tell(SpareReady("h5"))
    assert join.generation == 3
    assert join.restore == {0: 4, 1: 5, 2: 6, 3: 7}, "the newcomers had no step of their own yet"


def test_both_replicas_of_a_state_are_one_too_many(story):
    cut(story)
    (_, fence, given_up) = cut(story, "h3")
    assert fence.host == "h3"
    assert given_up == GiveUp("the outlet of h3 is off, and no replica beside it holds its state")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"spares": ()}, "and no spare host is left"),
        ({"fences": ()}, "and the lab permits no fence of h1"),
    ],
)
def test_what_cannot_be_replaced_ends_in_a_reason(given, why):
    story = Story(**given)
    assert story.tell(RankEnded(3, -9)) == (GiveUp(f"rank 3 ended with code -9, {why}"),)
    assert story.tell(RankEnded(2, -9)) == ()


def test_a_spare_that_is_gone_before_it_is_needed_is_not_taken(story):
    assert story.tell(AgentLost("h4")) == ()
    decided, _ = story.tell(RankEnded(3, -9))
    assert decided.replacement == "h5"


def test_a_host_that_no_fence_reaches_is_given_up():
    story = Story(fences=("process",))
    story.tell(RankEnded(3, -9))
    (given_up,) = story.tell(FenceFailed("h1", "process: no"))
    assert "h1 may still take part" in given_up.reason


def test_survivors_that_are_silent_and_do_not_leave_are_replaced(story):
    cut(story)
    story.tell(Fenced("h1"), SpareReady("h4"), SpareReady("h4"), *left(0, 4, 5, 6, 7))
    decided, fence = story.tell(HeartbeatMissed(1))
    assert (decided.victim, fence.means) == ("h0", "process")


def test_corrupt_values_end_the_job(story):
    (given_up,) = story.tell(ValuesCorrupt(1, "a wrong sum"))
    assert given_up == GiveUp("rank 1 found corrupt values: a wrong sum")


@pytest.mark.parametrize("replicas", [(), ((0, 1),), ((0,), (1,))])
def test_ranks_whose_state_no_other_host_has_are_refused(replicas):
    with pytest.raises(ValueError, match="no rank on another host holds the state of rank 0"):
        Story(replicas=replicas)


def test_only_a_neighbour_among_its_replicas_sends_a_rank_its_state():
    hosts = tuple(f"h{n}" for n in range(4))
    story = Story(hosts=hosts, replicas=((0, 1, 2, 3),))
    story.tell(RankEnded(2, -9), Fenced("h2"), *left(0, 1, 3))
    (join,) = story.tell(SpareReady("h4"))
    assert join.restore == {2: 1}
