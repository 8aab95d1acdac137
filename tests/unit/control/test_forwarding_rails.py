"""The controller of rails where groups may be forwarded: what it decides, and that nothing breaks.

Eight ranks on four hosts run stages in time that is simulated: messages take their time, in order
for each rank only, and ranks of a host wait for each other between two stages, or do not.
"""

import heapq
import random
from collections import defaultdict
from itertools import count

import pytest

from testbed.control import protocol
from testbed.control.controller import CommandJob, Fail, JobObserved, JobView, TimerExpired, View
from testbed.control.descriptors import RailsOptions
from testbed.control.rail_moves import MoveRail, RailMoved, RecordDecision
from testbed.control.rails import Rails
from testbed.fabric.circuits import HostPort
from testbed.rails.choice import Choice
from testbed.rails.forwarding import Costs
from testbed.rails.routing import FORWARDED
from testbed.rails.stage import Stage

HOSTS = tuple(f"h{rank // 2}" for rank in range(8))
PORTS = tuple((HostPort(host, f"p{rank % 2}"),) for rank, host in enumerate(HOSTS))
GROUPS = {
    f"{name}{number}": (rank, rank + far)
    for name, far, firsts in (("dp", 4, (0, 1, 2, 3)), ("pp", 2, (0, 1, 4, 5)))
    for number, rank in enumerate(firsts)
}


def group_of(rank, dimension):
    return next(name for name, own in GROUPS.items() if name.startswith(dimension) and rank in own)


BOTH, NONE = ("dp", "pp"), ()


class Job:
    """Ranks, messages and switches in simulated time; `took` are the seconds of a stage's traffic.

    `took` is called with the number of the iteration; `beside` are the dimensions of the stages
    before which ranks of a host wait for each other, on some hosts; `slow` ranks compute longer.
    """

    def __init__(
        self,
        seed,
        delay,
        took,
        iterations,
        gap=0.05,
        beside=BOTH,
        on=range(4),
        slow=(),
        forward=True,
    ):
        self.chance, self.delay, self.took, self.gap = random.Random(seed), delay, took, gap
        self.iterations, self.beside = iterations, beside
        self.on, self.slow = on, slow
        self.spread = 0.3 if beside == BOTH else 0.9
        self.controller = Rails(RailsOptions("learned", 30.0, forward), "main")
        view = JobView(HOSTS, PORTS, groups=GROUPS)
        self.state = self.controller.begin(View(0.0, {"main": view}))
        self.queue, self.order, self.now = [], count(), 0.0
        self.sent = defaultdict(float)
        self.lit, self.making = set(), set()
        self.told = defaultdict(dict)
        self.running = {}
        self.ends = [[] for _ in HOSTS]
        self.decisions, self.moves, self.failure, self.timer = [], [], "", None
        self.waiting = defaultdict(set)
        self.met = defaultdict(set)
        self.programs = [self.program(rank) for rank in range(8)]
        self.going = [self.course(rank) for rank in range(8)]

    def program(self, rank):
        """Return the stages of a rank in order, with the iteration of each."""
        counts, found = defaultdict(int), []

        def stage(dimension, place):
            name = group_of(rank, dimension)
            counts[name] += 1
            return Stage(name, counts[name] - 1, GROUPS[name], place)

        found += [(None, stage(dimension, -2)) for dimension in ("dp", "pp")]
        away = self.state.routing.other
        found += [(None, stage(d, FORWARDED)) for d in ("dp", "pp") if group_of(rank, d) in away]
        for number in range(self.iterations):
            found += [(number, stage(dimension, 0)) for dimension in ("dp", "pp")]
        return found

    def course(self, rank):
        """Yield what a rank waits for: seconds, a stage, its traffic, or the ranks of its host."""
        for dimension in ("dp", "pp"):
            self.say(rank, protocol.GroupJoined, group_of(rank, dimension))
        for dimension in ("dp", "pp"):
            yield "whole", group_of(rank, dimension)
        for at, (number, stage) in enumerate(self.programs[rank]):
            if number is not None:
                gap = self.gap * (4 if rank in self.slow else 1)
                yield "compute", gap * self.chance.uniform(1 - self.spread, 1 + self.spread)
                if stage.group.startswith(self.beside) and rank // 2 in self.on:
                    yield "beside", at
            self.say(rank, protocol.StageReached, stage)
            yield "lit", stage
            yield "traffic", (number, stage)
            following = self.programs[rank][at + 1 :][:1]
            knows = following and following[0][0] is not None and number is not None
            self.say(rank, protocol.StageLeft, following[0][1] if knows else None)
            if number is not None and stage.group.startswith("pp"):
                self.ends[rank].append(self.now)

    def say(self, rank, what, about):
        at = max(self.now + self.chance.uniform(0.0005, 0.003), self.sent[rank])
        self.sent[rank] = at
        self.at(at, lambda: self.step(JobObserved("main", what(rank, about))))

    def at(self, when, act):
        heapq.heappush(self.queue, (when, next(self.order), act))

    def run(self):
        for rank in range(8):
            self.go_on(rank)
        while self.queue and not self.failure:
            self.now, _, act = heapq.heappop(self.queue)
            act()
        assert not self.failure, self.failure
        late = [rank for rank, ends in enumerate(self.ends) if len(ends) < self.iterations]
        assert not late, f"ranks {late} wait for ever"
        return self

    def go_on(self, rank):
        what, about = next(self.going[rank], (None, None))
        if what == "compute":
            self.at(self.now + about, lambda: self.go_on(rank))
        elif what == "beside":
            self.meet(("host", rank // 2, about), rank, 2, 0.0)
        elif what in ("lit", "whole") and about not in self.told[rank]:
            self.waiting[about].add(rank)
        elif what in ("lit", "whole"):
            self.at(self.now, lambda: self.go_on(rank))
        elif what == "traffic":
            number, stage = about
            self.running[rank, stage] = self.told[rank][stage]
            sharing = 2 if self.state.routing.forwards else 1
            took = 0.001 if number is None else self.took(number) * sharing
            self.meet(stage, rank, len(stage.ranks), took)

    def meet(self, what, rank, ranks, took):
        self.met[what].add(rank)
        if len(self.met[what]) == ranks:
            for one in self.met.pop(what):
                self.at(self.now + took, lambda one=one: self.done(one, what))

    def done(self, rank, what):
        self.running.pop((rank, what), None)
        self.go_on(rank)

    def step(self, observation):
        self.state, commands = self.controller.step(self.state, self.now, observation)
        for command in commands:
            self.carry_out(command)
        due = self.controller.wake_at(self.state)
        if due is not None and due != self.timer and any(r.due for r in self.state.rails.values()):
            self.timer = due
            self.at(max(due, self.now), lambda: self.step(TimerExpired()))

    def carry_out(self, command):
        if isinstance(command, Fail):
            self.failure = command.reason
        elif isinstance(command, RecordDecision):
            self.decisions.append((command.forward, command.costs, self.now))
        elif isinstance(command, MoveRail):
            self.moved(command)
        elif isinstance(command, CommandJob):
            said = command.what.message
            if said["do"] == "group-whole":
                self.tell(command.what.ranks, said["group"], set())
                return
            circuits = {
                frozenset(PORTS[rank][port] for rank, port in link) for link in said["links"]
            }
            assert circuits <= self.lit, f"{said} is told without its circuits"
            stage = next(
                stage
                for _, stage in self.programs[said["ranks"][0]]
                if (stage.group, stage.number) == (said["group"], said["number"])
            )
            hosts = {HOSTS[rank] for rank in stage.ranks}
            assert {end.host for one in circuits for end in one} == hosts
            self.tell(command.what.ranks, stage, circuits)

    def tell(self, ranks, what, circuits):
        for rank in ranks:
            self.told[rank][what] = circuits
            if rank in self.waiting[what]:
                self.waiting[what].discard(rank)
                self.at(self.now + 0.001, lambda rank=rank: self.go_on(rank))

    def moved(self, command):
        remove, add = (
            {frozenset(c.ends) for c in which} for which in (command.move.remove, command.move.add)
        )
        for (rank, stage), circuits in self.running.items():
            assert not circuits & remove, f"a circuit goes while rank {rank} is in {stage}"
        self.lit -= remove
        taken = {end for circuit in self.lit | self.making for end in circuit}
        assert not any(taken & circuit for circuit in add), "a port is in two circuits"
        self.moves.append(self.now)
        self.making |= add

        def ends():
            self.lit.update(add)
            self.making.difference_update(add)
            self.step(RailMoved(command.rail, command.move.number))

        self.at(self.now + self.delay, ends)

    def iteration(self, first, last):
        """Return the mean of an iteration, of those from one number to another."""
        ends = self.ends[0]
        return (ends[last - 1] - ends[first - 1]) / (last - first)


SEEDS = range(5)


@pytest.mark.parametrize("beside", [BOTH, NONE])
@pytest.mark.parametrize("seed", SEEDS)
def test_short_messages_on_a_slow_switch_are_forwarded_and_circuits_stay(seed, beside):
    job = Job(seed, 0.5, lambda number: 0.01, 40, beside=beside).run()
    ((forward, costs, since),) = job.decisions
    assert forward and costs.forwarding < costs.repointing
    assert max(job.moves) < since + 3.0, "once both pairs of hosts are joined they stay so"
    apart = Job(seed, 0.5, lambda number: 0.01, 40, beside=beside, forward=False).run()
    assert job.iteration(20, 40) < 0.3 * apart.iteration(20, 40)


@pytest.mark.parametrize("seed", SEEDS)
def test_long_messages_on_a_quick_switch_are_not_forwarded(seed):
    job = Job(seed, 0.02, lambda number: 0.2, 20).run()
    assert not job.decisions


@pytest.mark.parametrize("beside", [BOTH, NONE])
@pytest.mark.parametrize("seed", SEEDS)
def test_messages_that_become_longer_are_forwarded_no_more_and_again_later(seed, beside):
    def took(number):
        return 1.0 if 20 <= number < 40 else 0.01

    job = Job(seed, 0.5, took, 60, beside=beside).run()
    assert [forward for forward, _, _ in job.decisions] == [True, False, True]
    assert any(job.ends[0][30] < at < job.ends[0][38] for at in job.moves)
    assert max(job.moves) < job.ends[0][52]


@pytest.mark.parametrize("slow", [(3, 7), (7,)])
@pytest.mark.parametrize("seed", range(20))
def test_what_is_decided_in_the_midst_of_early_requests_lets_all_ranks_go_on(
    seed, slow, monkeypatch
):
    chance = random.Random(seed)

    def decides(costs, is_forwarding):
        return is_forwarding != (chance.random() < 0.03)  # now and then, worth it or not

    monkeypatch.setattr(Costs, "favour_forwarding", decides)
    monkeypatch.setattr(Choice, "after", lambda self, *about: Choice(early=True))
    job = Job(seed, 0.1, lambda number: 0.01, 60, gap=0.2, beside=("pp",), on=(0,), slow=slow).run()
    assert len(job.decisions) > 2


def test_a_job_whose_pairs_of_hosts_are_more_than_its_rails_is_refused():
    groups = {"dp0": (0, 2), "pp0": (0, 4), "ep0": (0, 6)}
    view = View(0.0, {"main": JobView(HOSTS, PORTS, groups=groups)})
    with pytest.raises(ValueError, match="cannot keep a rail for each pair of hosts"):
        Rails(RailsOptions("learned", 10.0, True), "main").begin(view)


def test_only_the_mode_that_learns_may_forward():
    with pytest.raises(ValueError, match="forward is for the mode learned, not for provisioned"):
        RailsOptions("provisioned", forward=True)
