"""What a policy commands to a job is carried out, and each outcome comes back as whose it is."""

from threading import Event
from types import SimpleNamespace

import pytest

from testbed.bench.lease_resources import needs
from testbed.clock import Deadline
from testbed.control.protocol import (
    Acknowledge,
    Checkpoint,
    CircuitsAsked,
    CommandFailed,
    Decide,
    Fence,
    Fenced,
    GiveUp,
    HostAnswered,
    HostSilent,
    LinksGood,
    PrepareSpare,
    ProbeHost,
    RestartRank,
    SetCircuits,
    SpareReady,
    Superseded,
    Tell,
)
from testbed.errors import InstrumentError
from testbed.fabric.circuits import Circuit, HostPort
from testbed.jobs.descriptors import CheckpointOptions, TrainOptions
from testbed.jobs.training import Train
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.log import read_events
from testbed.run.places import Place
from testbed.run.running_job import RankProcess
from tests.unit.bench.agent_on_pipes import Agent
from tests.unit.run.policies_at_work import of_job, policy_at_work

NOTHING = frozenset()
H0, H2 = Place("h0"), Place("h2")
DECIDED = Decide("h0 is gone", "h0", "h2")


class Script:
    """A policy that commands what it is told to, and remembers what it observed."""

    def __init__(self):
        self.next = ()
        self.observed = []
        self.repairs = False

    def begin(self, situation):
        return situation

    def is_recovering(self, state):
        return self.repairs

    def step(self, state, observation):
        self.observed.append(observation)
        commands, self.next = self.next, ()
        return state, commands


class Repair:
    """A recovery by the script."""

    def __init__(self, bench, job, inbox, log):
        self.script = Script()
        self.inbox, self.bench = inbox, bench
        self.executor = policy_at_work(self.script, job, log)
        inbox.handler = self.executor.handle

    def do(self, *commands):
        self.script.next = commands
        self.executor.observe(of_job(Fenced()))

    def outcome(self):
        """Wait for the next observation and return it."""
        count = len(self.script.observed)
        assert self.inbox.wait(lambda: len(self.script.observed) > count, Deadline.after(10))
        return self.script.observed[-1]


@pytest.fixture
def repair(bench, job, inbox, log, tmp_path):
    lease = Leases(FileStore(tmp_path / "leases.sqlite")).take(
        needs(bench.lab, bench.lab.hosts), ""
    )
    bench.guard.hold(lease)
    bench.open_fabric(())
    yield Repair(bench, job, inbox, log)
    lease.release()


def test_verified_links_are_reported_with_the_spare_they_were_made_for(repair):
    repair.do(SetCircuits(NOTHING, NOTHING, "h2"))
    assert repair.outcome() == LinksGood("h2")
    repair.do(SetCircuits(NOTHING, NOTHING))
    assert repair.outcome() == LinksGood("")


def test_outcomes_of_circuits_have_the_number_of_their_command(repair, slow):
    repair.do(SetCircuits(ring_of("h0", "h1"), NOTHING, number=1))
    repair.inbox.wait(lambda: bool(slow.made), Deadline.after(0.5))
    repair.do(SetCircuits(NOTHING, NOTHING, number=2))
    slow.fails.set()
    assert {repair.outcome(), repair.outcome()} == {Superseded(number=1), LinksGood(number=2)}


def test_circuits_that_cannot_be_made_fail_with_the_number_of_their_command(repair, monkeypatch):
    def refuse(owner, wanted, deadline, by):
        raise InstrumentError("ocs", "it was busy")

    monkeypatch.setattr(repair.bench.fabric, "set_circuits", refuse)
    repair.do(SetCircuits(NOTHING, NOTHING, number=3))
    assert repair.outcome() == CommandFailed("ocs: it was busy", number=3)


def test_preparing_a_warm_spare_reports_it_ready_at_once(repair, job):
    job.processes |= {H0: RankProcess(port=1), H2: RankProcess(port=2)}
    repair.do(Fence(0, "h0", "network"))
    assert repair.outcome() == Fenced("h0")
    repair.do(PrepareSpare(0, "h2"))
    assert (job.places, job.spares) == ((H2, Place("h1")), ())
    assert H0 not in job.processes
    assert repair.outcome() == SpareReady("h2")


def test_the_process_of_a_failed_spare_stays_registered(repair, job):
    """Nobody has ended it; a second one on its host would be refused."""
    job.processes |= {H0: RankProcess(port=1), H2: RankProcess(port=2)}
    repair.do(PrepareSpare(0, "h2"))
    assert set(job.processes) == {H0, H2}


class Told:
    """A host that keeps what its rank is told."""

    def __init__(self):
        self.messages = []

    def send_to_rank(self, slot, message):
        self.messages.append(message)


def test_some_ranks_are_told_a_message_and_those_of_a_request_that_its_circuits_are_lit(
    repair, job, tmp_path
):
    told = {host: Told() for host in job.hosts}
    job.bench.hosts.update(told)
    request = CircuitsAsked(0, 2, 7, circuits=1, of=frozenset([0, 1]))
    repair.do(Tell((1,), {"do": "straggle", "seconds": 0.1}), Acknowledge(request, 0.5))
    lit = {"do": "lit", "generation": 2, "number": 7}
    assert [one.messages for one in told.values()] == [
        [lit],
        [{"do": "straggle", "seconds": 0.1}, lit],
    ]
    (event,) = read_events(tmp_path / "log.jsonl")
    assert event.kind == "circuits.lit"
    assert event.data == {"generation": 2, "number": 7, "circuits": 1, "seconds": 0.5}


def test_all_ranks_are_ordered_to_write_a_checkpoint(repair, job):
    job.job = Train(TrainOptions(ranks=2, spares=1, checkpoint=CheckpointOptions(every=20)))
    told = {host: Told() for host in job.hosts}
    job.bench.hosts.update(told)
    repair.do(Checkpoint(7))
    order = {"do": "checkpoint", "before_step": 7}
    assert [one.messages for one in told.values()] == [[order], [order]]


def test_a_job_without_checkpoints_cannot_be_ordered_to_write_one(repair):
    repair.do(Checkpoint(7))
    hint = "write `checkpoint: {every: 20}` in its options"
    assert repair.outcome() == CommandFailed(f"job main writes no checkpoints: {hint}")


def test_a_rank_that_cannot_be_restarted_has_its_new_place_and_fails_as_a_spare(repair, job):
    job.processes |= {Place("h0"): RankProcess(port=1), Place("h2"): RankProcess(port=2)}
    repair.bench.drop_host("h2")
    repair.do(RestartRank(0, "h2"))
    failed = repair.outcome()
    assert (failed.spare, failed.newcomer, failed.number) == (True, "h2", 0)
    assert "the rank on h2 cannot be started again" in failed.reason
    assert job.hosts[0] == "h2" and not job.processes.keys() & {Place("h0"), Place("h2")}


def test_an_exception_in_a_worker_fails_the_recovery(repair):
    repair.do(Fence(0, "h9", "process"))
    assert repair.outcome() == CommandFailed("KeyError: 'h9'")


def test_an_answer_has_the_number_of_its_probe(repair):
    agent = Agent()
    agent.hello()
    repair.bench.hosts["h0"] = SimpleNamespace(link=agent.link)
    repair.do(ProbeHost("h0", 5, 7))
    answer = repair.outcome()
    del repair.bench.hosts["h0"]
    agent.channel.end()
    assert (answer, answer.number) == (HostAnswered("h0"), 7)


def test_a_probe_of_a_dropped_host_counts_as_unanswered(repair):
    repair.do(ProbeHost("h9", 0.01))
    assert repair.outcome() == HostSilent("h9")


class Slow:
    """A fabric whose first change fails when it is told to."""

    def __init__(self):
        self.made = []
        self.fails = Event()

    def set_circuits(self, owner, wanted, deadline, by):
        assert (owner, by) == ("main", "recovery")
        self.made.append(wanted)
        if len(self.made) == 1:
            assert self.fails.wait(10)
            raise InstrumentError("ocs", "it was busy")


@pytest.fixture
def slow(repair, monkeypatch):
    slow = Slow()
    monkeypatch.setattr(repair.bench.fabric, "set_circuits", slow.set_circuits)
    return slow


def ring_of(*hosts):
    return frozenset([Circuit.between(HostPort(hosts[0], "p1"), HostPort(hosts[1], "p0"))])


def test_a_failed_circuit_change_is_not_repeated_for_a_replaced_spare(repair, slow):
    repair.do(SetCircuits(ring_of("h0", "h1"), NOTHING, "h1"))
    repair.inbox.wait(lambda: bool(slow.made), Deadline.after(0.5))
    repair.do(SetCircuits(ring_of("h0", "h2"), NOTHING, "h2"))
    slow.fails.set()
    assert {repair.outcome(), repair.outcome()} == {Superseded("h1"), LinksGood("h2")}
    assert slow.made == [ring_of("h0", "h1"), ring_of("h0", "h2")]


def test_a_failed_circuit_change_is_repeated_once(repair, slow, tmp_path):
    slow.fails.set()
    repair.do(SetCircuits(ring_of("h0", "h1"), NOTHING, "h1"))
    assert repair.outcome() == LinksGood("h1")
    assert slow.made == [ring_of("h0", "h1")] * 2
    (event,) = read_events(tmp_path / "log.jsonl")
    assert (event.kind, event.data["why"]) == ("retry", "it was busy")


def test_the_reason_for_giving_up_is_recorded(repair, tmp_path):
    repair.do(GiveUp("no spare host is left"))
    assert repair.executor.failure == "no spare host is left"
    (event,) = read_events(tmp_path / "log.jsonl")
    assert (event.kind, event.data["reason"]) == ("recovery.failed", "no spare host is left")


def test_a_recovery_is_complete_once_decided_and_no_longer_under_way(repair):
    assert not repair.executor.is_over
    repair.script.repairs = True
    repair.do(DECIDED)
    assert not repair.executor.is_over
    repair.script.repairs = False
    assert repair.executor.is_over


def test_a_false_alarm_before_the_fault_is_not_the_recovery_from_it(repair):
    repair.do(DECIDED)
    assert repair.executor.is_over
    repair.executor.await_fault()
    assert not repair.executor.is_over
    repair.do(DECIDED)
    assert repair.executor.is_over


def test_outcomes_of_workers_are_handled_by_the_waiting_thread(repair):
    repair.do(SetCircuits(NOTHING, NOTHING, "h2"))
    assert repair.script.observed == [Fenced()]
    repair.inbox.observe(of_job(HostAnswered("h1")))
    while len(repair.script.observed) < 3:
        repair.outcome()
    assert set(repair.script.observed) == {Fenced(), HostAnswered("h1"), LinksGood("h2")}


def test_circuits_to_a_host_are_superseded_when_it_is_to_be_fenced(repair, slow):
    repair.do(SetCircuits(ring_of("h0", "h1"), NOTHING, number=1))
    repair.inbox.wait(lambda: bool(slow.made), Deadline.after(0.5))
    repair.do(Fence(1, "h1", "network"))
    slow.fails.set()
    assert {repair.outcome(), repair.outcome()} == {Superseded(number=1), Fenced("h1")}
