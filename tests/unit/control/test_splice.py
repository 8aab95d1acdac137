"""The policy `splice` as a pure machine: stories whose every command is known."""

import pytest

from testbed.control.descriptors import SpliceOptions
from testbed.control.policy import Situation
from testbed.control.protocol import (
    AgentLost,
    CarrierLost,
    CommandFailed,
    Decide,
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
    LinksGood,
    PrepareSpare,
    ProbeHost,
    RankEnded,
    RankLeft,
    SetCircuits,
    SpareReady,
    StepDone,
    Superseded,
    ValuesCorrupt,
)
from testbed.control.splice import Splice
from testbed.fabric.circuits import Circuit, HostPort
from testbed.fabric.topology import ring
from tests.unit.control.splice_world import World

HOSTS = ("h0", "h1", "h2", "h3")
PORTS = {f"h{n}": ("p0", "p1") for n in range(6)}
ALL = ("power", "network", "process")


class Story:
    """The policy's answers, one observation after the other."""

    def __init__(self, hosts=HOSTS, spares=("h4", "h5"), generation=1, fences=ALL):
        self.policy = Splice(SpliceOptions())
        permitted = dict.fromkeys(PORTS, fences)
        self.state = self.policy.begin(Situation(hosts, spares, PORTS, generation, permitted))

    def tell(self, *observations):
        """Return what the policy commands upon the last of these."""
        commands = ()
        for observation in observations:
            self.state, commands = self.policy.step(self.state, observation)
        return commands

    @property
    def is_recovering(self):
        return self.policy.is_recovering(self.state)


def around(host, hosts):
    """Return the circuits of one host in the ring of `hosts`."""
    return frozenset(c for c in ring(hosts, PORTS) if host in {e.host for e in c.ends})


@pytest.fixture
def story():
    return Story()


def test_a_killed_rank_is_replaced_in_the_order_of_the_paper(story):
    spliced = ("h0", "h4", "h2", "h3")
    assert story.tell(RankEnded(1, -9)) == (
        Decide("rank 1 ended with code -9", "h1", "h4"),
        Fence(1, "h1", "process"),
    )
    assert story.tell(Fenced()) == (
        SetCircuits(ring(spliced, PORTS), around("h4", spliced), "h4", 1),
        PrepareSpare(1, "h4"),
        Leave(frozenset({0, 2, 3}), 1),
    )
    assert story.tell(SpareReady("h4"), RankLeft(0, 9), RankLeft(2, 8), RankLeft(3, 8)) == ()
    assert story.tell(LinksGood("h4")) == (Join(2, spliced, 8, {1: 0}),)
    assert story.is_recovering
    assert story.tell(StepDone(0, 8), StepDone(1, 8), StepDone(2, 8)) == ()
    assert story.is_recovering
    assert story.tell(StepDone(3, 8)) == ()
    assert not story.is_recovering


def test_a_silent_rank_is_fenced_by_ending_its_process(story):
    decided, fence = story.tell(HeartbeatMissed(2))
    assert decided.because == "rank 2 was silent"
    assert fence == Fence(2, "h2", "process")


def test_a_host_that_was_lost_before_a_rank_failed_is_replaced_after_it(story):
    story.tell(AgentLost("h3"))
    assert story.tell(HeartbeatMissed(1))[0] == Decide("rank 1 was silent", "h1", "h4")
    story.tell(HostAnswered("h0"))
    assert story.tell(HostAnswered("h2")) == (
        Decide("the agent of h3 is gone", "h3", "h5"),
        Fence(3, "h3", "network"),
    )


OTHERS = [HostAnswered(host) for host in ("h0", "h1", "h2")]


def test_a_host_without_an_agent_is_fenced_from_the_network_once_all_others_answered(story):
    assert story.tell(AgentLost("h3")) == tuple(ProbeHost(f"h{n}", 0.2) for n in range(4))
    assert story.tell(*OTHERS[:2]) == ()
    assert story.tell(OTHERS[2]) == (
        Decide("the agent of h3 is gone", "h3", "h4"),
        Fence(3, "h3", "network"),
    )


def test_when_several_hosts_are_unreachable_no_host_is_fenced(story):
    story.tell(AgentLost("h3"), AgentLost("h2"))
    assert story.tell(HostAnswered("h0")) == ()
    assert story.tell(HostAnswered("h1")) == (
        GiveUp("h2 and h3 do not answer: is the way to them broken?"),
    )


def test_a_dead_host_is_detected_by_lost_light_and_missing_answers(story):
    assert story.tell(CarrierLost(HostPort("h0", "p1"))) == (
        ProbeHost("h0", 0.01),
        ProbeHost("h1", 0.01),
    )
    assert story.tell(HostAnswered("h0"), CarrierLost(HostPort("h2", "p0"))) == (
        ProbeHost("h2", 0.01),
    )
    assert story.tell(HostSilent("h1")) == (ProbeHost("h1", 0.2),)
    assert story.tell(HostSilent("h1")) == (
        Decide("h1 went dark and does not answer", "h1", "h4"),
        Fence(1, "h1", "power"),
    )


def test_a_host_whose_outlet_reads_off_is_replaced_at_once_and_needs_no_fence():
    story = Story(fences=())
    story.tell(CarrierLost(HostPort("h0", "p1")), HostSilent("h1"))
    assert story.tell(HostOff("h1")) == (
        Decide("the outlet of h1 is off", "h1", "h4"),
        Fence(1, "h1", "none"),
    )


DARK = [CarrierLost(HostPort("h0", "p1")), CarrierLost(HostPort("h2", "p0"))]
ENDS = {
    "rank": [RankEnded(1, -9)],
    "dead": [*DARK, HostSilent("h1"), HostSilent("h1")],
    "unreachable": [AgentLost("h1"), *(HostAnswered(host) for host in ("h0", "h2", "h3"))],
}


@pytest.mark.parametrize(
    ("failure", "permitted", "order"),
    [
        ("rank", ALL, ["process", "network", "power"]),
        ("rank", ("power",), ["power"]),
        ("dead", ALL, ["power", "network", "process"]),
        ("dead", ("process", "network"), ["network", "process"]),
        ("unreachable", ALL, ["network", "process", "power"]),
        ("unreachable", ("process",), ["process"]),
        ("rank", (), []),
        ("dead", (), []),
    ],
)
def test_the_policy_gives_up_after_all_permitted_fences_failed(failure, permitted, order):
    story, tried = Story(fences=permitted), []
    commands = story.tell(*ENDS[failure])
    while isinstance(commands[-1], Fence):
        tried.append(commands[-1].means)
        commands = story.tell(FenceFailed("h1", "no"))
    assert tried == order
    (given_up,) = commands
    text = "for no permitted fence came up: no" if order else "the lab permits no fence of h1"
    assert text in given_up.reason


def test_a_late_failure_of_an_earlier_fence_is_ignored(story):
    story.tell(RankEnded(1, -9), FenceFailed("h1", "no"), Fenced())
    assert story.tell(FenceFailed("h1", "no")) == ()


def test_a_dark_circuit_between_answering_hosts_is_lit_again_without_replacement(story):
    dark = Circuit.parse("h1.p1", "h2.p0")
    story.tell(CarrierLost(HostPort("h1", "p1")), CarrierLost(HostPort("h2", "p0")))
    decided, light, leave = story.tell(HostAnswered("h1"), HostAnswered("h2"))
    assert str(dark) in decided.because
    assert light == SetCircuits(ring(HOSTS, PORTS), frozenset({dark}), number=1)
    assert leave == Leave(frozenset(range(4)), 1)
    (join,) = story.tell(LinksGood(), *(RankLeft(rank, 8) for rank in range(4)))
    assert join == Join(2, HOSTS, 8, {})
    story.tell(*(StepDone(rank, 8) for rank in range(4)))
    assert not story.is_recovering


def test_survivors_that_differ_by_a_step_continue_from_the_earlier_one(story):
    story.tell(RankEnded(0, 1), Fenced(), LinksGood("h4"), SpareReady("h4"))
    (join,) = story.tell(RankLeft(1, 12), RankLeft(2, 11), RankLeft(3, 12))
    assert (join.committed, join.restore) == (11, {0: 3})


def test_the_replacement_in_a_job_of_two_gets_its_state_from_the_other_rank():
    story = Story(hosts=("h0", "h1"))
    story.tell(RankEnded(0, 1), Fenced(), LinksGood("h4"), SpareReady("h4"))
    assert story.tell(RankLeft(1, 5)) == (Join(2, ("h4", "h1"), 5, {0: 1}),)


def test_a_job_of_one_rank_cannot_be_recovered():
    (verdict,) = Story(hosts=("h0",)).tell(RankEnded(0, -9))
    assert verdict == GiveUp("rank 0 ended with code -9, and no other rank holds its state")


def test_without_a_spare_the_policy_gives_up_with_a_reason():
    story = Story(spares=())
    assert story.tell(RankEnded(1, -9)) == (
        GiveUp("rank 1 ended with code -9, and no spare host is left"),
    )
    assert story.tell(RankEnded(2, -9), Fenced(), LinksGood()) == ()


def test_a_spare_without_an_agent_is_not_used(story):
    assert story.tell(AgentLost("h4")) == ()
    assert not story.is_recovering
    assert story.tell(RankEnded(1, 1))[0].replacement == "h5"


def test_a_spare_that_dies_unused_during_a_recovery_is_not_chosen_later(story):
    story.tell(RankEnded(1, 1), AgentLost("h5"), Fenced())
    assert story.tell(CommandFailed("it is broken", spare=True, newcomer="h4")) == (
        GiveUp("it is broken, and no spare host is left"),
    )


@pytest.mark.parametrize(
    ("failing", "because"),
    [
        (CommandFailed("nobody answered", spare=True, newcomer="h4"), "nobody answered"),
        (CommandFailed("it did not start", spare=True), "it did not start"),
        (AgentLost("h4"), "the agent of h4 is gone"),
        (RankEnded(1, 1), "its rank ended with code 1"),
    ],
)
def test_a_spare_that_fails_is_replaced_by_the_next_spare(story, failing, because):
    spliced = ("h0", "h5", "h2", "h3")
    story.tell(RankEnded(1, -9), Fenced(), LinksGood("h4"), SpareReady("h4"))
    assert story.tell(failing) == (
        Decide(f"the spare failed: {because}", "rank 1", "h5"),
        SetCircuits(ring(spliced, PORTS), around("h5", spliced), "h5", 2),
        PrepareSpare(1, "h5"),
    )
    assert story.tell(*(RankLeft(rank, 8) for rank in (0, 2, 3))) == ()
    assert story.tell(SpareReady("h5")) == ()
    assert story.tell(LinksGood("h5")) == (Join(2, spliced, 8, {1: 0}),)


def test_the_policy_gives_up_when_the_second_spare_fails(story):
    story.tell(RankEnded(1, -9), Fenced(), CommandFailed("no", True, "h4"))
    assert story.tell(CommandFailed("no again", True, "h5")) == (
        GiveUp("no again, and no spare host is left"),
    )


def test_a_spare_that_dies_before_the_fence_is_confirmed_is_not_used(story):
    story.tell(RankEnded(1, -9))
    assert story.tell(AgentLost("h4")) == (
        Decide("the spare failed: the agent of h4 is gone", "rank 1", "h5"),
    )
    assert story.tell(Fenced())[1] == PrepareSpare(1, "h5")


@pytest.mark.parametrize("first", [SpareReady, LinksGood])
def test_late_observations_of_the_first_spare_are_ignored(story, first):
    story.tell(RankEnded(1, -9), Fenced(), *(RankLeft(rank, 8) for rank in (0, 2, 3)))
    story.tell(AgentLost("h4"))
    late = [SpareReady("h4"), LinksGood("h4"), CommandFailed("too late", True, "h4")]
    (last,) = {SpareReady, LinksGood} - {first}
    assert story.tell(*late, first("h5")) == ()
    assert [type(command) for command in story.tell(last("h5"))] == [Join]


@pytest.mark.parametrize(
    ("second", "because"),
    [
        (ValuesCorrupt(3, "NaN"), "rank 3 found corrupt values: NaN"),
        (CommandFailed("the switch is gone"), "the switch is gone"),
    ],
)
@pytest.mark.parametrize("fenced", [True, False])
def test_what_no_spare_can_mend_ends_the_recovery(fenced, second, because):
    story = Story()
    story.tell(RankEnded(1, -9), *[Fenced()] * fenced)
    assert story.tell(second) == (GiveUp(because),)
    assert story.tell(LinksGood(), SpareReady(), *(RankLeft(r, 8) for r in range(4))) == ()


BOTH = ("h0", "h4", "h5", "h3")
"""The ranks' hosts once h1 and h2 are replaced."""


def test_a_survivor_that_fails_before_the_new_generation_is_replaced_in_the_same_recovery(story):
    story.tell(RankEnded(1, -9), Fenced("h1"))
    story.tell(SpareReady("h4"), LinksGood("h4", 1), RankLeft(0, 8))
    assert story.tell(RankEnded(2, 1)) == (
        Decide("rank 2 ended with code 1", "h2", "h5"),
        Fence(2, "h2", "process"),
    )
    assert story.tell(RankLeft(3, 9)) == ()
    wanted = ring(BOTH, PORTS)
    assert story.tell(Fenced("h2")) == (
        SetCircuits(wanted, around("h4", BOTH) | around("h5", BOTH), "h5", 2),
        PrepareSpare(2, "h5"),
    )
    assert story.tell(SpareReady("h5")) == ()
    assert story.tell(LinksGood("h5", 2)) == (Join(2, BOTH, 8, {1: 0, 2: 1}),)
    story.tell(*(StepDone(rank, 8) for rank in range(4)))
    assert not story.is_recovering


@pytest.mark.parametrize(
    "of_the_first", [LinksGood("h4", 1), CommandFailed("no light", True, "h4", 1)]
)
def test_circuits_that_were_commanded_before_another_host_failed_prove_nothing(of_the_first, story):
    story.tell(RankEnded(1, -9), Fenced("h1"), RankEnded(2, 1))
    assert story.tell(of_the_first) == ()
    story.tell(Fenced("h2"), *(SpareReady(host) for host in ("h4", "h5")), RankLeft(0, 8))
    assert story.tell(RankLeft(3, 8), of_the_first) == ()
    assert story.tell(LinksGood("h5", 2)) == (Join(2, BOTH, 8, {1: 0, 2: 1}),)


def test_circuits_that_were_superseded_are_commanded_again(story):
    story.tell(RankEnded(1, -9), Fenced("h1"), RankEnded(2, 1), Fenced("h2"))
    assert story.tell(Superseded("h4", 1)) == ()
    (again,) = story.tell(Superseded("h5", 2))
    assert (again.circuits, again.number) == (ring(BOTH, PORTS), 3)
    story.tell(SpareReady("h4"), SpareReady("h5"), RankLeft(0, 8), RankLeft(3, 8))
    assert story.tell(LinksGood("h5", 2)) == ()
    assert [type(command) for command in story.tell(LinksGood("h5", 3))] == [Join]


def test_no_circuit_is_made_before_all_victims_are_fenced(story):
    story.tell(RankEnded(1, -9), RankEnded(2, 1))
    assert story.tell(Fenced("h2")) == (PrepareSpare(2, "h5"), Leave(frozenset({0, 3}), 1))
    made, prepare = story.tell(Fenced("h1"))
    assert (made.circuits, prepare) == (ring(BOTH, PORTS), PrepareSpare(1, "h4"))


def test_a_rack_without_power_is_replaced_as_a_whole(story):
    """The light of both, then the outlet of one, then that of the other."""
    story.tell(CarrierLost(HostPort("h0", "p1")), CarrierLost(HostPort("h3", "p0")))
    story.tell(HostSilent("h1"), HostSilent("h2"), HostAnswered("h0"), HostAnswered("h3"))
    off = "the outlet of h2 is off"
    assert story.tell(HostOff("h2")) == (Decide(off, "h2", "h4"), Fence(2, "h2", "none"))
    off = "the outlet of h1 is off"
    assert story.tell(HostOff("h1")) == (Decide(off, "h1", "h5"), Fence(1, "h1", "none"))
    story.tell(Fenced("h1"), Fenced("h2"), SpareReady("h4"), SpareReady("h5"), LinksGood("h4", 1))
    (join,) = story.tell(RankLeft(0, 8), RankLeft(3, 8))
    assert join == Join(2, ("h0", "h5", "h4", "h3"), 8, {1: 0, 2: 1})


def test_a_host_that_loses_its_power_during_a_recovery_is_found_by_its_dark_circuit(story):
    story.tell(RankEnded(1, -9), Fenced("h1"))
    assert story.tell(CarrierLost(HostPort("h3", "p0"))) == (
        ProbeHost("h2", 0.01),
        ProbeHost("h3", 0.01),
    )
    story.tell(HostAnswered("h3"), HostSilent("h2"))
    assert story.tell(HostSilent("h2")) == (
        Decide("h2 went dark and does not answer", "h2", "h5"),
        Fence(2, "h2", "power"),
    )


@pytest.mark.parametrize(
    ("failed", "then"),
    [
        (CommandFailed("h2 does not answer", True, "h4", 1), "the spare failed"),
        (CommandFailed("the switch refused", number=1), "the switch refused"),
    ],
)
def test_a_failure_of_circuits_counts_once_all_survivors_have_answered(failed, then, story):
    story.tell(RankEnded(1, -9), Fenced("h1"))
    assert story.tell(failed) == tuple(ProbeHost(host, 0.2) for host in ("h0", "h2", "h3"))
    assert story.tell(HostAnswered("h0"), HostAnswered("h3")) == ()
    assert then in str(story.tell(HostAnswered("h2"))[0])
    # ... and counts no more where one of them has failed
    other = Story()
    other.tell(RankEnded(1, -9), Fenced("h1"), failed, HostAnswered("h0"), HostAnswered("h3"))
    assert other.tell(HostOff("h2"))[1] == Fence(2, "h2", "none")
    assert isinstance(other.tell(Fenced("h2"))[0], SetCircuits)


def test_a_circuit_that_goes_dark_during_a_recovery_is_made_again_in_it(story):
    dark = Circuit.parse("h2.p1", "h3.p0")
    story.tell(RankEnded(1, -9), CarrierLost(HostPort("h3", "p0")), HostAnswered("h3"))
    assert story.tell(HostAnswered("h2")) == ()
    made = story.tell(Fenced("h1"))[0]
    spliced = ("h0", "h4", "h2", "h3")
    assert made == SetCircuits(ring(spliced, PORTS), around("h4", spliced) | {dark}, "h4", 1)


def test_a_survivor_that_is_silent_is_replaced_once_it_alone_has_not_left(story):
    story.tell(RankEnded(1, -9), Fenced("h1"), SpareReady("h4"), RankLeft(0, 8))
    assert story.tell(HeartbeatMissed(2), LinksGood("h4", 1)) == ()
    assert story.tell(RankLeft(3, 8)) == (
        Decide("rank 2 was silent and did not leave", "h2", "h5"),
        Fence(2, "h2", "process"),
    )


def test_with_too_few_spares_the_recovery_ends_and_names_every_host():
    story = Story(spares=("h4",))
    story.tell(RankEnded(1, -9), Fenced("h1"))
    assert story.tell(RankEnded(2, 1)) == (
        GiveUp("h1 and h2 have failed: rank 2 ended with code 1, and no spare host is left"),
    )


def test_when_all_ranks_have_failed_no_spare_helps():
    story = Story(hosts=("h0", "h1"), spares=("h4", "h5"))
    story.tell(RankEnded(0, -9), Fenced("h0"))
    assert story.tell(RankEnded(1, -9)) == (
        GiveUp(
            "h0 and h1 have failed: rank 1 ended with code -9, and no other rank holds its state"
        ),
    )


def test_a_survivor_that_fails_while_a_circuit_is_lit_again_is_replaced(story):
    story.tell(CarrierLost(HostPort("h1", "p1")), HostAnswered("h1"), HostAnswered("h2"))
    dark = Circuit.parse("h1.p1", "h2.p0")
    story.tell(RankLeft(0, 8), RankLeft(1, 8), RankLeft(2, 8))
    assert story.tell(RankEnded(3, 1))[1] == Fence(3, "h3", "process")
    spliced = ("h0", "h1", "h2", "h4")
    assert story.tell(Fenced("h3")) == (
        SetCircuits(ring(spliced, PORTS), around("h4", spliced) | {dark}, "h4", 2),
        PrepareSpare(3, "h4"),
    )
    story.tell(SpareReady("h4"))
    assert story.tell(LinksGood("h4", 2)) == (Join(2, spliced, 8, {3: 2}),)


def joined(story, **lost):
    """Bring a story to where the newcomer h4 was told to join as rank 1."""
    story.tell(RankEnded(1, -9), Fenced(), LinksGood("h4"), SpareReady("h4"))
    story.tell(*(RankLeft(rank, 8) for rank in (0, 2, 3)))


@pytest.mark.parametrize(
    ("failing", "means"),
    [
        ([RankEnded(1, 1)], "process"),
        ([HeartbeatMissed(1)], "process"),
        ([AgentLost("h4"), *(HostAnswered(host) for host in ("h0", "h2", "h3"))], "network"),
    ],
)
def test_a_replacement_that_fails_while_joining_is_replaced(story, failing, means):
    joined(story)
    assert story.tell(*failing)[1] == Fence(1, "h4", means)
    _, prepare, leave = story.tell(Fenced())
    assert prepare == PrepareSpare(1, "h5")
    assert leave == Leave(frozenset({0, 2, 3}), 2)
    story.tell(LinksGood("h5"), SpareReady("h5"), RankLeft(0, 8), RankLeft(2, 8))
    assert story.tell(RankLeft(3, 8)) == (Join(3, ("h0", "h5", "h2", "h3"), 8, {1: 0}),)


def test_a_survivor_that_fails_before_the_state_transfer_is_replaced_beside_the_newcomer(story):
    """Nobody knows whether rank 1 has its state, so it gets it again."""
    joined(story)
    assert story.tell(StepDone(0, 8), RankEnded(2, 1))[1] == Fence(2, "h2", "process")
    assert story.tell(Fenced("h2"))[2] == Leave(frozenset({0, 1, 3}), 2)
    story.tell(SpareReady("h5"), LinksGood("h5", 2), RankLeft(0, 9))
    assert story.tell(RankLeft(3, 8)) == (Join(3, BOTH, 8, {1: 0, 2: 1}),)


def test_a_survivor_that_fails_after_the_first_step_of_the_replacement_is_replaced(story):
    joined(story)
    assert story.tell(StepDone(1, 8), RankEnded(2, 1)) == (
        Decide("rank 2 ended with code 1", "h2", "h5"),
        Fence(2, "h2", "process"),
    )
    assert story.tell(Fenced())[2] == Leave(frozenset({0, 1, 3}), 2)


def test_the_outcome_of_a_probe_after_the_recovery_is_ignored(story):
    story.tell(CarrierLost(HostPort("h0", "p1")), CarrierLost(HostPort("h2", "p0")))
    story.tell(*[HostSilent("h1")] * 2, Fenced(), LinksGood("h4"), SpareReady("h4"))
    story.tell(*(RankLeft(rank, 8) for rank in (0, 2, 3)))
    story.tell(*(StepDone(rank, 8) for rank in range(4)))
    assert not story.is_recovering
    assert story.tell(HostSilent("h1"), HostSilent("h1"), HostOff("h1"), AgentLost("h1")) == ()
    assert not story.is_recovering


def test_observations_during_the_first_steps_are_handled_after_them(story):
    joined(story)
    story.tell(CarrierLost(HostPort("h2", "p1")), HostAnswered("h2"))
    story.tell(*(StepDone(rank, 8) for rank in range(4)))
    assert story.tell(HostAnswered("h3"))[0].victim == "h2.p1–h3.p0"


def test_observations_that_belong_to_no_recovery_change_nothing(story):
    before = story.state
    late = [Fenced(), LinksGood(), SpareReady(), RankLeft(0, 3), StepDone(0, 3)]
    assert story.tell(*late, CommandFailed("late")) == ()
    assert story.state == before


def test_corrupt_values_are_not_recovered_by_a_spare(story):
    assert story.tell(ValuesCorrupt(2, "sum is off")) == (
        GiveUp("rank 2 found corrupt values: sum is off"),
    )


def test_a_fence_reported_twice_starts_the_spare_once(story):
    story.tell(RankEnded(1, -9), Fenced())
    assert story.tell(Fenced()) == ()


def test_successive_recoveries_get_increasing_generations():
    world = World(ranks=4, spares=2)
    for host in ("h1", "h2"):
        world.kill(host)
        world.hear_all()
        assert world.recovered
    assert [join.generation for join in world.of(Join)] == [2, 3]
    assert world.hosts == ["h0", "h4", "h5", "h3"]


# --- hosts that run several ranks, on a packet switch -----------------------------------------


def sharing(hosts, spares):
    """Return a job on a packet switch: no circuits, ranks and spares may share hosts."""
    story = Story()
    ports = dict.fromkeys(PORTS, ())
    situation = Situation(hosts, spares, ports, 1, dict.fromkeys(PORTS, ALL))
    story.state = story.policy.begin(situation)
    return story


def test_a_spare_on_a_host_in_use_takes_the_rank_in_and_no_circuit_is_made():
    story = sharing(HOSTS, ("h2",))
    assert story.tell(RankEnded(1, -9)) == (
        Decide("rank 1 ended with code -9", "h1", "h2"),
        Fence(1, "h1", "process"),
    )
    assert story.tell(Fenced("h1")) == (
        SetCircuits(frozenset(), frozenset(), "h2", 1),
        PrepareSpare(1, "h2"),
        Leave(frozenset({0, 2, 3}), 1),
    )
    story.tell(LinksGood("h2", 1), SpareReady("h2"), RankLeft(0, 9), RankLeft(2, 9))
    assert story.tell(RankLeft(3, 9)) == (Join(2, ("h0", "h2", "h2", "h3"), 9, {1: 0}),)


def test_a_rank_that_ends_beside_another_is_replaced_alone():
    story = sharing(("h0", "h2", "h2", "h3"), ("h4",))
    assert story.tell(RankEnded(2, -9)) == (
        Decide("rank 2 ended with code -9", "h2", "h4"),
        Fence(2, "h2", "process"),
    )
    assert story.tell(Fenced("h2"))[-1] == Leave(frozenset({0, 1, 3}), 1)


def test_a_host_that_fails_while_one_of_its_ranks_is_replaced_loses_the_other_one_too():
    story = sharing(("h0", "h2", "h2", "h3"), ("h4", "h5"))
    story.tell(RankEnded(2, -9), AgentLost("h2"), HostAnswered("h0"))
    assert story.tell(HostAnswered("h3")) == (
        Decide("the agent of h2 is gone", "h2", "h5"),
        Fence(1, "h2", "network"),
    )


def test_a_host_that_fails_takes_all_its_ranks_and_spares_with_it():
    story = sharing(("h0", "h2", "h2", "h3"), ("h2", "h4", "h5"))
    story.tell(AgentLost("h2"), HostAnswered("h0"))
    assert story.tell(HostAnswered("h3")) == (
        Decide("the agent of h2 is gone", "h2", "h4"),
        Fence(1, "h2", "network"),
        Decide("the agent of h2 is gone", "h2", "h5"),
        Fence(2, "h2", "network"),
    )
    assert story.tell(Fenced("h2"))[-1] == Leave(frozenset({0, 3}), 1)
    story.tell(Fenced("h2"), SpareReady("h4"), SpareReady("h5"), LinksGood("h5", 1))
    story.tell(RankLeft(0, 9))
    assert story.tell(RankLeft(3, 8)) == (Join(2, ("h0", "h4", "h5", "h3"), 8, {1: 0, 2: 1}),)


def test_a_host_that_fails_as_it_takes_a_rank_in_loses_both():
    story = sharing(HOSTS, ("h2", "h4", "h5"))
    story.tell(RankEnded(1, -9), Fenced("h1"))
    story.tell(AgentLost("h2"), HostAnswered("h0"))
    commands = story.tell(HostAnswered("h3"))
    assert PrepareSpare(1, "h4") in commands
    assert commands[-2:] == (
        Decide("the agent of h2 is gone", "h2", "h5"),
        Fence(2, "h2", "network"),
    )


def test_too_few_spares_for_the_ranks_of_a_host_end_the_recovery():
    story = sharing(("h0", "h2", "h2", "h3"), ("h4",))
    story.tell(AgentLost("h2"), HostAnswered("h0"))
    assert story.tell(HostAnswered("h3"))[-1] == GiveUp(
        "the agent of h2 is gone, and no spare host is left"
    )
