"""Whatever a policy observes, and whenever a lease is lost: what far ends were told was permitted.

Random courses of a job are told to the policy at work, on a lab whose file permits some fences and
faults. The far ends of the lab note what they are told; only that counts.
"""

import random

import pytest

from testbed.clock import Deadline
from testbed.control.descriptors import SpliceOptions
from testbed.control.protocol import (
    AgentLost,
    CarrierLost,
    HeartbeatMissed,
    RankEnded,
    RankLeft,
    StepDone,
)
from testbed.control.splice import Splice
from testbed.errors import BusyError, InstrumentError, UnsafeError, UsageError
from testbed.fabric.circuits import HostPort
from testbed.fabric.topology import ring
from testbed.jobs.descriptors import TrainOptions
from testbed.jobs.training import Train
from testbed.run.fencing import Fencing
from testbed.run.inbox import Inbox
from testbed.run.places import Membership, Place
from testbed.run.running_job import RankProcess, RunningJob
from tests.unit.run.lab_at_far_ends import FAULTS, HOSTS, MEANS, LabAtFarEnds, soon, subsets
from tests.unit.run.policies_at_work import of_job, policy_at_work

FEW, ALL = (0, 2, 3, 19), 2000
"""Without one of the guards of outlets, processes and circuits, one of the few fails."""
PARTS = 8
"""Tests over which all courses are spread, so that they can run side by side."""
PROBE = 0.002
LONG = 300.0
FENCES = {"off": "power", "isolate": "network", "end": "process", "hello": "process"}
"""What far ends note of each fence."""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    lab = LabAtFarEnds(tmp_path, monkeypatch)
    end_processes = Fencing._end_processes

    def end_processes_soon(fencing, place, deadline):
        """Wait a short time for an agent that is mute; one that answers has the whole limit."""
        limit = 0.3 if lab.ends[place.host].is_mute else deadline.left
        return end_processes(fencing, place, deadline.within(limit))

    monkeypatch.setattr(Fencing, "_end_processes", end_processes_soon)
    yield lab
    lab.close()


class Course:
    """One job under the policy `splice`, three ranks and two spares, and what befalls it."""

    def __init__(self, lab, fence, allow, chance):
        self.lab, self.chance = lab, chance
        self.bench, log = lab.bench(fence, allow)
        self.lease = lab.make_ready(self.bench)
        self.inbox = Inbox()
        train = Train(TrainOptions(ranks=3, spares=2))
        places = tuple(map(Place, HOSTS))
        members = Membership(places[:3], places[3:])
        self.job = RunningJob(self.bench, self.inbox, train, 7, 0.2, members)
        self.job.generation = 1
        self.job.processes = {place: RankProcess("127.0.0.1", 1) for place in places}
        policy = Splice(SpliceOptions(probe=PROBE))
        self.executor = policy_at_work(policy, self.job, log)
        self.inbox.handler = self.executor.handle
        self.is_lost = False
        self.fenced, self.sabotaged = set(), False
        self.suspects = set()
        """Hosts of which something is known to have failed: rank, agent, light."""
        self.count = 0
        self.seen = 0
        """How many acts were judged already."""

    # --- what may befall it -------------------------------------------------------------------

    def rank_ended(self):
        rank = self.chance.randrange(3)
        self.tell(RankEnded(rank, -9), failed=self.job.hosts[rank])

    def rank_silent(self):
        rank = self.chance.randrange(3)
        self.tell(HeartbeatMissed(rank), failed=self.job.hosts[rank])

    def dark(self):
        """Have all circuits of a host, or some, or all there are, lose their light."""
        host = self.chance.choice(self.job.hosts)
        circuits = ring(self.job.hosts, self.bench.lab.ports())
        everywhere = self.chance.random() < 0.3
        ends = [
            e for c in circuits for e in c.ends if everywhere or host in {x.host for x in c.ends}
        ]
        ends = [e for e in sorted(ends) if not self.lab.ends[e.host].is_mute]
        self.tell(*(CarrierLost(end) for end in ends if self.chance.random() < 0.8))

    def mute(self):
        host = self.chance.choice(HOSTS)
        self.lab.ends[host].is_mute = True
        self.suspects.add(host)

    def mute_and_dark(self):
        host = self.chance.choice(self.job.hosts)
        self.lab.ends[host].is_mute = True
        self.darken(host)

    def darken(self, host):
        circuits = ring(self.job.hosts, self.bench.lab.ports())
        ends = {e for c in circuits for e in c.ends if host in {x.host for x in c.ends}}
        self.tell(*(CarrierLost(end) for end in sorted(ends) if end.host != host))

    def line_lost(self):
        host = self.chance.choice(HOSTS)
        self.lab.ends[host].hang_up()
        self.suspects.add(host)
        agent = self.bench.hosts.get(host)
        if agent is not None:
            assert agent.link.is_over_within(LONG)
        self.tell(AgentLost(host))

    def left(self):
        self.tell(*(RankLeft(rank, 8) for rank in range(3)))

    def stepped(self):
        self.tell(*(StepDone(rank, 9) for rank in range(3)))

    def unit_refuses(self):
        self.sabotaged = True
        self.lab.unit.fault("error")

    def power_cut(self):
        """Inject the fault, as a trial does; the victim goes dark where that was permitted."""
        host = self.chance.choice(self.job.hosts)
        if self.inject("power-cut", host, lambda: self.bench.power.cut(host, soon())):
            self.darken(host)

    def attenuated(self):
        add = self.bench.attenuation.add
        self.inject("attenuate", "h1", lambda: add(HostPort("h1", "p1"), 9.0, soon()))

    def inject(self, fault, host, act):
        """Do what a fault does; tell whether it happened, having judged it."""
        before = list(self.lab.acts)
        try:
            self.bench.guard.fault(fault, host)
            act()
            happened = True
        except (BusyError, UsageError, InstrumentError):
            happened = False
        told = self.lab.acts[len(before) :]
        permitted = self.bench.lab.permits(fault, host)
        assert not told or permitted, (fault, told)
        assert happened or not permitted or self.is_lost or self.sabotaged
        self.fenced |= {what for kind, what in told if kind == "off"}
        self.seen = len(self.lab.acts)
        return happened

    def lose(self):
        """Have somebody take something of what is leased."""
        self.is_lost = True
        resources, chance = sorted(self.lease.resources), random.Random(self.seen)
        some = chance.sample(resources, chance.randint(1, len(resources)))
        self.lab.leases.unlock(some, forced=True)

    # --- how it goes --------------------------------------------------------------------------

    def tell(self, *observations, failed=""):
        if failed:
            self.suspects.add(failed)
        if any(isinstance(observation, CarrierLost) for observation in observations):
            self.suspects |= {*self.job.hosts}
        for observation in observations:
            self.inbox.observe(of_job(observation))

    def settle(self):
        """Let all that was told, and all that follows from it, come to its end."""
        deadline = Deadline.after(LONG)
        inbox = self.inbox
        while inbox.work_under_way() or not inbox._items.empty() or inbox._backlog:
            assert not deadline.passed
            self.inbox.pause(Deadline.after(0.0005))

    def judge(self, was_lost):
        """Hold what far ends were told since against what was permitted."""
        acts = self.lab.acts[self.seen :]
        self.seen += len(acts)
        assert not (was_lost and acts), f"after the lease was lost: {acts}"
        lab = self.bench.lab
        for kind, what in acts:
            if kind == "connect":
                assert self.victims <= self.fenced, (self.victims, self.fenced, acts)
            elif kind in FENCES:
                hosts = what if kind == "isolate" else {what}
                assert any(FENCES[kind] in lab.fences(host) for host in hosts), (kind, what)
                assert hosts & self.victims, (kind, what, "nobody had failed there")
                self.count += 1
                self.fenced |= hosts & self.victims
            else:
                raise AssertionError((kind, what))
            assert kind != "off" or what in self.suspects, f"power of {what} was cut for nothing"

    @property
    def victims(self):
        return {
            e.subject
            for e in self.lab.log_events
            if e.kind == "recovery.decided" and e.subject in HOSTS
        }

    def judge_end(self):
        """Whoever was decided upon was fenced, or the policy gave up for a reason that holds."""
        unfenced = (
            self.victims - self.fenced - {f"h{n}" for n, on in self.lab.powered.items() if not on}
        )
        if not unfenced or self.is_lost:
            return
        (host,) = unfenced
        why = self.executor.failure
        assert why, f"{host} was needed to be fenced, and was not"
        if "no permitted fence came up" in why:
            left = set(self.bench.lab.fences(host))
            if self.sabotaged:
                left -= {"power"}
            if self.lab.ends[host].is_mute:
                left -= {"process"}
            assert not left, f"{left} were permitted of {host}: {why}"


EVENTS = {
    Course.rank_ended: 3,
    Course.rank_silent: 2,
    Course.dark: 3,
    Course.mute: 2,
    Course.mute_and_dark: 3,
    Course.line_lost: 2,
    Course.left: 4,
    Course.stepped: 3,
    Course.unit_refuses: 2,
    Course.power_cut: 2,
    Course.attenuated: 1,
}


def play(lab, seed, fence):
    """Play one course; return how many fences far ends were told of."""
    chance = random.Random(seed)
    allow = chance.choice(subsets(FAULTS))
    befalls = chance.choices(list(EVENTS), EVENTS.values(), k=chance.randint(2, 8))
    loss = chance.choice(["never", "between", "at an act"])
    at = chance.randrange(1, 6)
    course = Course(lab, fence, allow, chance)
    acts = iter(range(1, 1000))
    lab.on_act = lambda: next(acts) == at and loss == "at an act" and course.lose()
    try:
        for number, befall in enumerate(befalls):
            if loss == "between" and number == at:
                course.lose()
            was_lost = course.is_lost
            befall(course)
            course.settle()
            course.judge(was_lost)
        course.judge_end()
        lab.on_act = lambda: None
        take_back(course)
    finally:
        lab.on_act = lambda: None
        course.inbox.close()
        course.lease.release()
        lab.put_back(course.bench)
    return course.count


def take_back(course):
    """Clean up, as a run does; without its lease nothing is told, and what stays is said."""
    bench, lab = course.bench, course.lab
    lab.unit.clear()
    lab.acts.clear()
    dark, said = bench.power.dark_hosts, ""
    for undo in (bench.power.restore_all, bench.attenuation.restore_all, bench.fabric.restore):
        try:
            undo(soon())
        except UnsafeError as error:
            said += str(error)
    if course.is_lost:
        assert lab.acts == []
        assert all(f"of {host} may still be off" in said for host in dark)
        assert "ocs is left with" in said
    else:
        assert (said, set(lab.powered.values())) == ("", {True})


def play_all(lab, seeds):
    told = dict.fromkeys(subsets(MEANS), 0)
    for seed in seeds:
        for fence in told:
            try:
                told[fence] += play(lab, seed, fence)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, fence {fence}: {error}") from error
    return told


def test_random_recoveries_use_only_permitted_fences_and_omit_no_needed_one(lab):
    told = play_all(lab, FEW)
    assert told.pop(()) == 0


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_two_thousand_random_recoveries_use_only_permitted_fences(lab, part):
    told = play_all(lab, range(part, ALL, PARTS))
    assert told.pop(()) == 0
    assert min(told.values()) > ALL / PARTS / 4, told
