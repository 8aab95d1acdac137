"""The policies `restart` and `migrate` as pure machines: stories whose every command is known."""

import pytest

from testbed.control.descriptors import RestartOptions
from testbed.control.policy import Situation
from testbed.control.protocol import (
    DISK,
    AgentLost,
    CarrierLost,
    CheckpointsFound,
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
    LinksGood,
    RankEnded,
    RestartRank,
    SetCircuits,
    SpareReady,
    StepDone,
    Superseded,
    Tell,
)
from testbed.control.restart import Migrate, Restart
from testbed.fabric.circuits import HostPort
from testbed.fabric.topology import ring

HOSTS = ("h0", "h1", "h2", "h3")
PORTS = {f"h{n}": ("p0", "p1") for n in range(10)}
ALL = ("power", "network", "process")
RESTART_ALL = tuple(RestartRank(rank, host) for rank, host in enumerate(HOSTS))


class Story:
    """The policy's answers, one observation after the other."""

    def __init__(self, spares=("h4", "h5"), fences=ALL, policy=Restart):
        self.policy = policy(RestartOptions())
        permitted = fences if isinstance(fences, dict) else dict.fromkeys(PORTS, fences)
        situation = Situation(HOSTS, spares, PORTS, 1, permitted)
        self.state = self.policy.begin(situation)

    def tell(self, *observations):
        """Return what the policy commands upon the last of these."""
        commands = ()
        for observation in observations:
            self.state, commands = self.policy.step(self.state, observation)
        return commands

    def lose_power(self, host, hosts=HOSTS):
        """Let a host go dark in the ring of some hosts, and not answer."""
        ends = [end for c in ring(hosts, PORTS) if host in c.hosts for end in c.ends]
        self.tell(*(CarrierLost(end) for end in ends if end.host != host))
        others = [HostAnswered(other) for other in hosts if other != host]
        return self.tell(*others, HostSilent(host), HostSilent(host))


@pytest.fixture
def story():
    return Story()


def ready(*hosts):
    return [SpareReady(host) for host in hosts]


def found(steps, *ranks):
    return [CheckpointsFound(rank, steps) for rank in ranks]


def with_spare(rank, spare, hosts=HOSTS):
    return (*hosts[:rank], spare, *hosts[rank + 1 :])


def new_circuits(hosts, number):
    wanted = ring(hosts, PORTS)
    return SetCircuits(wanted, wanted - ring(HOSTS, PORTS), number=number)


def test_a_rank_that_ended_starts_again_with_all_others_on_the_same_hosts(story):
    assert story.tell(RankEnded(1, -9)) == (
        Decide("rank 1 ended with code -9", "h1", "h1"),
        Fence(1, "h1", "process"),
    )
    assert story.tell(Fenced("h1")) == RESTART_ALL
    assert story.tell(SpareReady("h2")) == (Tell((2,), {"do": "checkpoints", "rank": 2}),)
    story.tell(*ready("h0", "h1", "h3"), *found((10, 5), 0, 1, 2))
    assert story.tell(CheckpointsFound(3, (5,))) == (
        Join(2, HOSTS, 5, dict.fromkeys(range(4), DISK)),
    )
    story.tell(*(StepDone(rank, 5) for rank in range(3)))
    assert story.policy.is_recovering(story.state)
    story.tell(StepDone(3, 5))
    assert not story.policy.is_recovering(story.state)


def test_a_spare_takes_the_place_of_a_lost_host_and_its_state_from_its_predecessor(story):
    decided, fence = story.lose_power("h1")
    assert (decided.victim, decided.replacement, fence) == ("h1", "h4", Fence(1, "h1", "power"))
    hosts = with_spare(1, "h4")
    assert story.tell(Fenced("h1")) == (
        new_circuits(hosts, 1),
        *(RestartRank(rank, host) for rank, host in enumerate(hosts)),
    )
    story.tell(*ready(*hosts), *found((10, 5), 0, 2, 3))
    assert story.tell(CheckpointsFound(1, ())) == ()
    assert story.tell(LinksGood(number=1)) == (
        Join(2, hosts, 10, {0: DISK, 1: 0, 2: DISK, 3: DISK}),
    )


def test_a_job_without_a_checkpoint_begins_again(story):
    story.tell(RankEnded(1, -9), Fenced("h1"), *ready(*HOSTS))
    assert story.tell(*found((), 0, 1, 2, 3)) == (Join(2, HOSTS, 0, {}),)


def test_a_host_that_fails_during_the_restart_is_replaced_in_it(story):
    """Circuits commanded before, good or dropped, do not count."""
    story.lose_power("h1")
    story.tell(Fenced("h1"), *ready("h0", "h2"))
    first, hosts = with_spare(1, "h4"), ("h0", "h4", "h2", "h5")
    story.tell(AgentLost("h3"))
    answers = [HostAnswered(host) for host in ("h0", "h4", "h2")]
    commands = story.tell(*answers)
    assert commands[:2] == (
        Decide("the agent of h3 is gone", "h3", "h5"),
        Fence(3, "h3", "network"),
    )
    assert commands[2:] == (new_circuits(hosts, 2), RestartRank(3, "h5"))
    assert story.tell(LinksGood(number=1), Superseded(number=1)) == ()
    story.tell(*ready("h4", "h5"), *found((10,), 0, 2), *found((), 1, 3), Fenced("h3"))
    assert story.tell(LinksGood(number=2)) == (Join(2, hosts, 10, {0: DISK, 1: 0, 2: DISK, 3: 2}),)
    assert first != hosts


def test_one_host_after_the_other_is_replaced_until_no_spare_is_left(story):
    hosts = HOSTS
    for number, (victim, spare) in enumerate((("h1", "h4"), ("h4", "h5")), 1):
        story.lose_power(victim, hosts)
        hosts = with_spare(1, spare, hosts)
        story.tell(Fenced(victim), *ready(*hosts), *found((10,), 0, 2, 3), *found((), 1))
        (join,) = story.tell(LinksGood(number=number))
        assert join.hosts == hosts
        story.tell(*(StepDone(rank, 10) for rank in range(4)))
    (gave_up,) = story.lose_power("h0", hosts)
    assert gave_up == GiveUp("h0 went dark and does not answer, and no spare host is left")


def test_a_rank_that_cannot_be_started_again_is_started_on_a_spare(story):
    story.tell(HeartbeatMissed(2), Fenced("h2"), *ready("h0", "h1", "h3"))
    failed = CommandFailed("it does not start", spare=True, newcomer="h2")
    commands = story.tell(failed)
    assert commands[:2] == (Decide("it does not start", "h2", "h4"), Fence(2, "h2", "process"))
    assert commands[-1] == RestartRank(2, "h4")


def test_the_end_of_a_rank_that_is_ended_anyway_is_no_failure(story):
    story.tell(RankEnded(1, -9))
    assert story.tell(RankEnded(1, -9), RankEnded(2, 1), HeartbeatMissed(3)) == ()


def test_a_rank_whose_process_cannot_be_ended_by_its_agent_goes_to_a_spare(story):
    story.tell(RankEnded(1, -9))
    decided, fence = story.tell(FenceFailed("h1", "process: it survived"))
    assert (decided.replacement, fence) == ("h4", Fence(1, "h1", "network"))
    assert Story(spares=()).tell(RankEnded(1, -9), FenceFailed("h1", "no")) == (
        GiveUp("h1 is not fenced by its agent, and no spare host is left"),
    )


def test_dark_circuits_between_answering_hosts_are_made_again_for_a_restart(story):
    story.tell(CarrierLost(HostPort("h0", "p1")), HostAnswered("h0"))
    decided, circuits, *restarted = story.tell(HostAnswered("h1"))
    assert decided.victim == decided.replacement == "h0.p1–h1.p0"
    assert {str(circuit) for circuit in circuits.verify} == {"h0.p1–h1.p0"}
    assert tuple(restarted) == RESTART_ALL
    story.tell(*ready(*HOSTS), *found((5,), 0, 1, 2, 3))
    assert story.tell(LinksGood(number=1))[0].committed == 5


def test_circuits_that_cannot_be_made_between_hosts_that_answer_end_the_recovery(story):
    story.lose_power("h1")
    story.tell(Fenced("h1"), CommandFailed("ocs: it is busy", number=1))
    story.tell(*(HostAnswered(host) for host in ("h0", "h4", "h2")))
    assert story.tell(HostAnswered("h3")) == (GiveUp("ocs: it is busy"),)


SLICE = ("h4", "h5", "h6", "h7")
"""The spare hosts to which the whole job moves."""


@pytest.fixture
def migration():
    return Story((*SLICE, "h8"), policy=Migrate)


def test_the_whole_job_moves_to_spare_hosts_and_goes_on_from_what_all_wrote(migration):
    decided, *fences = migration.lose_power("h1")
    assert (decided.victim, decided.replacement) == ("h1", "h5")
    means = ("process", "power", "process", "process")
    assert {*fences} == {Fence(rank, host, means[rank]) for rank, host in enumerate(HOSTS)}
    assert migration.tell(*map(Fenced, HOSTS[:3])) == ()
    assert migration.tell(Fenced("h3")) == (
        SetCircuits(ring(SLICE, PORTS), ring(SLICE, PORTS), number=1),
        *(RestartRank(rank, host) for rank, host in enumerate(SLICE)),
    )
    migration.tell(*ready(*SLICE), *found((10, 5), 0, 1, 2, 3))
    assert migration.tell(LinksGood(number=1)) == (
        Join(2, SLICE, 10, dict.fromkeys(range(4), DISK)),
    )
    migration.tell(*(StepDone(rank, 10) for rank in range(4)))
    assert not migration.policy.is_recovering(migration.state)


def test_a_rank_that_ended_moves_the_whole_job_too(migration):
    migration.tell(RankEnded(2, -9))
    commands = migration.tell(*map(Fenced, HOSTS))
    assert commands[1:] == tuple(RestartRank(rank, host) for rank, host in enumerate(SLICE))


def test_the_end_of_ranks_that_move_is_no_failure(migration):
    migration.tell(RankEnded(2, -9))
    assert migration.tell(*(RankEnded(rank, -9) for rank in range(4)), AgentLost("h0")) == ()


def test_a_new_host_that_fails_is_replaced_alone(migration):
    migration.tell(RankEnded(2, -9), *map(Fenced, HOSTS), *ready("h4", "h5", "h6"))
    commands = migration.tell(CommandFailed("it does not start", spare=True, newcomer="h7"))
    assert commands[:2] == (Decide("it does not start", "h7", "h8"), Fence(3, "h7", "process"))
    assert commands[-1] == RestartRank(3, "h8")


@pytest.mark.parametrize("spares", [(), SLICE[:3]])
def test_without_a_spare_for_every_rank_there_is_no_free_slice(spares):
    (gave_up,) = Story(spares, policy=Migrate).tell(RankEnded(2, -9))
    left = f"{len(spares)} spare hosts are left for 4 ranks"
    assert gave_up == GiveUp(f"rank 2 ended with code -9, and there is no free slice: {left}")


def test_hosts_that_did_not_fail_lose_no_power_and_no_circuit():
    fences = dict.fromkeys(PORTS, ("process",)) | {"h3": ("power", "network")}
    (gave_up,) = Story(SLICE, fences, Migrate).tell(RankEnded(2, -9))
    assert gave_up.reason.endswith("and the lab permits no fence of h3")


def test_a_job_that_has_moved_moves_again_only_to_a_whole_slice(migration):
    migration.tell(RankEnded(2, -9), *map(Fenced, HOSTS), *ready(*SLICE))
    migration.tell(*found((10,), 0, 1, 2, 3), LinksGood(number=1))
    (gave_up,) = migration.tell(RankEnded(0, -9))
    assert gave_up.reason.endswith("no free slice: 1 spare hosts are left for 4 ranks")
