"""The policy `shrink` as a pure machine: stories whose every command is known."""

import pytest

from testbed.control.descriptors import ShrinkOptions
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
    HostSilent,
    Join,
    Leave,
    LinksGood,
    ProbeHost,
    RankEnded,
    RankLeft,
    SetCircuits,
    StepDone,
    Superseded,
    ValuesCorrupt,
)
from testbed.control.shrink import Shrink
from testbed.fabric.circuits import HostPort
from testbed.fabric.topology import ring

PORTS = {f"h{n}": ("p0", "p1") for n in range(5)}
ALL = ("power", "network", "process")
FIVE = tuple(PORTS)


class Story:
    """The policy's answers, one observation after the other."""

    def __init__(self, hosts=FIVE, fences=ALL):
        self.policy = Shrink(ShrinkOptions())
        situation = Situation(hosts, (), PORTS, 1, dict.fromkeys(PORTS, fences))
        self.state = self.policy.begin(situation)

    def tell(self, *observations):
        """Return what the policy commands upon the last of these."""
        commands = ()
        for observation in observations:
            self.state, commands = self.policy.step(self.state, observation)
        return commands

    @property
    def is_recovering(self):
        return self.policy.is_recovering(self.state)


def set_circuits(hosts, number, before=FIVE):
    """Return the command of a ring, of which the circuits that were there are not verified."""
    wanted = ring(hosts, PORTS)
    return SetCircuits(wanted, wanted - ring(before, PORTS), number=number)


@pytest.fixture
def story():
    return Story()


def left(*ranks, committed=8):
    return [RankLeft(rank, committed) for rank in ranks]


def test_the_ring_is_closed_past_a_host_whose_rank_ended(story):
    rest = ("h0", "h2", "h3", "h4")
    assert story.tell(RankEnded(1, -9)) == (
        Decide("rank 1 ended with code -9", "h1", ""),
        Fence(1, "h1", "process"),
    )
    assert story.tell(Fenced("h1")) == (
        set_circuits(rest, 1),
        Leave(frozenset({0, 2, 3, 4}), 1),
    )
    assert story.tell(*left(0, 2, 3), RankLeft(4, 9)) == ()
    assert story.tell(LinksGood(number=1)) == (Join(2, rest, 8, {}),)
    assert story.is_recovering
    assert story.tell(*(StepDone(rank, 8) for rank in range(3))) == ()
    assert story.is_recovering
    story.tell(StepDone(3, 8))
    assert not story.is_recovering


def dark_ends(host, hosts):
    """Return what the neighbours of a dark host report."""
    ends = [end for c in ring(hosts, PORTS) if host in c.hosts for end in c.ends]
    return [CarrierLost(end) for end in sorted(ends) if end.host != host]


def lose_light(story, hosts, host):
    """Let the ring of some hosts lose one that goes dark and does not answer."""
    story.tell(*dark_ends(host, hosts))
    others = [HostAnswered(other) for other in hosts if other != host]
    return story.tell(*others, HostSilent(host), HostSilent(host))


def lose_agent(story, hosts, host):
    """Let the line to the agent of a host end, while its light stays as it was."""
    story.tell(AgentLost(host))
    return story.tell(*(HostAnswered(other) for other in hosts if other != host))


def miss_heartbeats(story, hosts, host):
    return story.tell(HeartbeatMissed(hosts.index(host)))


@pytest.mark.parametrize("lose", [lose_light, lose_agent, miss_heartbeats])
@pytest.mark.parametrize("later", [lose_light, lose_agent, miss_heartbeats])
def test_one_host_after_the_other_is_left_out_until_two_are_left(story, lose, later):
    hosts, generation = FIVE, 1
    for host, symptom in (("h1", lose), ("h4", later), ("h0", lose)):
        decided, fence = symptom(story, hosts, host)
        assert (decided.victim, fence.host, fence.rank) == (host, host, hosts.index(host))
        rest = tuple(other for other in hosts if other != host)
        ranks = frozenset(map(hosts.index, rest))
        assert story.tell(Fenced(host)) == (
            set_circuits(rest, generation, hosts),
            Leave(ranks, generation),
        )
        (join,) = story.tell(*left(*ranks), LinksGood(number=generation))
        generation += 1
        assert join == Join(generation, rest, 8, {})
        story.tell(*(StepDone(rank, 8) for rank in range(len(rest))))
        assert not story.is_recovering
        hosts = rest
    (gave_up,) = lose(story, hosts, "h2")
    assert isinstance(gave_up, GiveUp) and gave_up.reason.endswith("and only h3 is left")


def test_circuits_are_commanded_anew_without_a_host_that_fails_meanwhile(story):
    """Neither those commanded before, good or dropped, nor all ranks without them form a ring."""
    story.tell(RankEnded(1, 1), Fenced("h1"), *left(0, 2, 4))
    rest = ("h0", "h2", "h4")
    assert story.tell(RankEnded(3, 1)) == (
        Decide("rank 3 ended with code 1", "h3", ""),
        Fence(3, "h3", "process"),
        set_circuits(rest, 2),
    )
    assert story.tell(LinksGood(number=1)) == ()
    assert story.tell(Superseded(number=1)) == ()
    assert story.tell(CommandFailed("too late", number=1)) == ()
    assert story.tell(Fenced("h3")) == ()
    assert story.tell(Superseded(number=1)) == ()
    assert story.tell(LinksGood(number=2)) == (Join(2, rest, 8, {}),)


def test_no_generation_is_formed_before_every_victim_is_fenced(story):
    story.tell(RankEnded(1, 1), Fenced("h1"), *left(0, 2, 4), RankEnded(3, 1))
    assert story.tell(LinksGood(number=2)) == ()
    assert story.tell(Fenced("h1")) == ()
    assert story.tell(Fenced("h3")) == (Join(2, ("h0", "h2", "h4"), 8, {}),)


def test_a_host_that_fails_before_the_first_is_fenced_is_left_out_with_it(story):
    story.tell(RankEnded(1, 1))
    assert story.tell(RankEnded(2, 1)) == (
        Decide("rank 2 ended with code 1", "h2", ""),
        Fence(2, "h2", "process"),
    )
    assert story.tell(Fenced("h2")) == ()
    rest = ("h0", "h3", "h4")
    assert story.tell(Fenced("h1")) == (set_circuits(rest, 1), Leave(frozenset({0, 3, 4}), 1))


def test_a_host_that_fails_before_the_first_step_is_left_out_of_the_new_generation(story):
    story.tell(RankEnded(1, 1), Fenced("h1"), *left(0, 2, 3, 4), LinksGood(number=1))
    story.tell(StepDone(0, 8))
    assert story.tell(RankEnded(3, 1)) == (
        Decide("rank 3 ended with code 1", "h4", ""),
        Fence(3, "h4", "process"),
    )
    rest = ("h0", "h2", "h3")
    assert story.tell(Fenced("h4")) == (
        set_circuits(rest, 2, ("h0", "h2", "h3", "h4")),
        Leave(frozenset({0, 1, 2}), 2),
    )
    (join,) = story.tell(*left(0, 1, committed=9), RankLeft(2, 8), LinksGood(number=2))
    assert join == Join(3, rest, 8, {})


def test_a_silent_host_is_found_when_the_circuits_to_it_are_not_good(story):
    """Its power is cut while circuits are moved, and no line ends."""
    story.tell(RankEnded(1, 1), Fenced("h1"), *left(0, 2, 4))
    rest = ("h0", "h2", "h3", "h4")
    assert story.tell(CommandFailed("no port answered", number=1)) == tuple(
        ProbeHost(host, 0.2) for host in rest
    )
    answers = [HostAnswered(host) for host in ("h0", "h2", "h4")]
    story.tell(*answers, HostSilent("h3"))
    decided, _fence, circuits, *_ = story.tell(HostSilent("h3"), *answers)
    assert decided.victim == "h3"
    assert circuits == set_circuits(("h0", "h2", "h4"), 2)


def test_circuits_that_cannot_be_made_between_hosts_that_answer_end_the_recovery(story):
    story.tell(RankEnded(1, 1), Fenced("h1"), CommandFailed("ocs: it is busy", number=1))
    story.tell(*(HostAnswered(host) for host in ("h0", "h2", "h3")))
    assert story.tell(HostAnswered("h4")) == (GiveUp("ocs: it is busy"),)
    assert story.tell(Fenced("h1"), LinksGood(number=1), *left(0, 2, 3, 4)) == ()


def test_a_dark_circuit_between_answering_hosts_is_made_again(story):
    story.tell(CarrierLost(HostPort("h0", "p1")))
    story.tell(HostAnswered("h0"))
    decided, circuits, leave = story.tell(HostAnswered("h1"))
    assert decided.victim == decided.replacement == "h0.p1–h1.p0"
    assert circuits.circuits == ring(FIVE, PORTS)
    assert {str(circuit) for circuit in circuits.verify} == {"h0.p1–h1.p0"}
    assert leave == Leave(frozenset(range(5)), 1)
    assert story.tell(*left(*range(5)), LinksGood(number=1)) == (Join(2, FIVE, 8, {}),)


def test_the_next_permitted_fence_is_tried_and_the_last_one_that_fails_ends_the_recovery(story):
    story.tell(RankEnded(1, 1))
    assert story.tell(FenceFailed("h1", "no")) == (Fence(1, "h1", "network"),)
    assert story.tell(FenceFailed("h1", "no")) == (Fence(1, "h1", "power"),)
    (gave_up,) = story.tell(FenceFailed("h1", "outlet on"))
    assert gave_up.reason.startswith("h1 may still take part") and "outlet on" in gave_up.reason


def test_a_host_that_may_not_be_fenced_ends_the_recovery():
    story = Story(fences=())
    assert story.tell(RankEnded(1, 1)) == (
        GiveUp("rank 1 ended with code 1, and the lab permits no fence of h1"),
    )


def test_a_rank_that_is_silent_during_a_recovery_fails_if_it_alone_does_not_leave(story):
    """Its host may only be busy."""
    story.tell(RankEnded(1, 1), Fenced("h1"), *left(0, 2))
    assert story.tell(HeartbeatMissed(3)) == ()
    decided, fence, circuits = story.tell(*left(4))
    assert (decided.victim, fence) == ("h3", Fence(3, "h3", "process"))
    assert circuits == set_circuits(("h0", "h2", "h4"), 2)


def test_hosts_of_one_rack_that_go_dark_together_are_left_out_together(story):
    story.tell(CarrierLost(HostPort("h0", "p1")), CarrierLost(HostPort("h3", "p0")))
    story.tell(*(HostAnswered(host) for host in ("h0", "h3", "h4")))
    commands = story.tell(*[HostSilent("h1"), HostSilent("h2")] * 2)
    assert [c.host for c in commands if isinstance(c, Fence)] == ["h1", "h2"]


def test_several_hosts_that_do_not_answer_are_taken_for_a_broken_network(story):
    story.tell(AgentLost("h1"))
    story.tell(AgentLost("h3"))
    (gave_up,) = story.tell(*(HostAnswered(host) for host in ("h0", "h2", "h4")))
    assert gave_up.reason == "h1 and h3 do not answer: is the way to them broken?"


def test_corrupt_values_end_the_job(story):
    assert story.tell(ValuesCorrupt(1, "wrong")) == (GiveUp("rank 1 found corrupt values: wrong"),)
