"""Ranks on rails, as processes over loopback: the controller says when their circuits are lit."""

from __future__ import annotations

import select
import signal
import time
from collections import defaultdict

import pytest

from testbed.analysis.rail_profile import operations_of
from testbed.control.controller import (
    CommandJob,
    Fail,
    JobObserved,
    JobView,
    MembershipChanged,
    TimerExpired,
    View,
)
from testbed.control.descriptors import RailsOptions
from testbed.control.rail_moves import MoveRail, RailMoved, RecordDecision
from testbed.control.rails import Rails
from testbed.events import Event
from testbed.fabric.fibre_plant import own_ports
from testbed.jobs.descriptors import AllReduceOptions
from testbed.jobs.hybrid import Hybrid, HybridOnRails
from testbed.jobs.hybrid_descriptors import HybridOptions
from testbed.jobs.program_descriptors import TorchrunOptions
from testbed.jobs.programs import Torchrun
from testbed.jobs.training import OnRails
from testbed.rails.forwarding import Costs
from testbed.run.agent_reports import on_rails
from tests.unit.onhost.rank_driver import PATIENCE

FOUR = ["h0", "h1", "h2", "h3"]
SAID = ("group-joined", "stage-reached", "stage-left")


def collectives(mesh, ranks, **more):
    return OnRails(AllReduceOptions(ranks, (4096, 40), iterations=3, warmup=1, mesh=mesh, **more))


class AtWork:
    """The controller of rails beside ranks, with switches that make circuits at once."""

    def __init__(
        self, gang, job, hosts, mode="on-demand", limit=10.0, ports=2, forward=False, **more
    ):
        told, beside = job.for_rank(), len(hosts) // len({*hosts})
        options, own = told["options"], {"own": ports, "beside": beside}
        self.gang = gang(told["kind"], options, len(hosts), hosts=hosts, **own, **more)
        self.groups, self.ports = job.groups, ports
        self.controller = Rails(RailsOptions(mode, limit, forward), "main")
        self.decisions, self.told = [], []
        self.state = self.controller.begin(View(0.0, {"main": self.view(hosts)}))
        self.lit, self.moves, self.failure = frozenset(), [], ""

    def view(self, hosts, generation=1):
        names = tuple(dict.fromkeys(hosts))
        each = len(hosts) // len(names)
        own = {name: tuple(f"p{n}" for n in range(each * self.ports)) for name in names}
        ports = own_ports(names, own, each)
        return JobView(tuple(hosts), ports, generation, groups=self.groups)

    def serve(self, until):
        """Tell the controller what ranks say, and ranks what it answers."""
        lines = {member.line: rank for rank, member in enumerate(self.gang.members)}
        while not until() and not self.failure:
            due = self.controller.wake_at(self.state)
            left = PATIENCE if due is None else max(0.0, due - time.monotonic())
            ready, _, _ = select.select(list(lines), [], [], left)
            assert ready or due is not None, "nobody says anything any more"
            if due is not None and time.monotonic() >= due:
                self.step(TimerExpired())
            for line in ready:
                rank = lines[line]
                for said in self.gang.members[rank].listen():
                    if said["event"] in SAID:
                        self.step(JobObserved("main", on_rails(rank, said)))

    def step(self, observation):
        self.state, commands = self.controller.step(self.state, time.monotonic(), observation)
        for command in commands:
            if isinstance(command, CommandJob):
                for rank in command.what.ranks:
                    message = dict(command.what.message)
                    self.told.append((rank, dict(message)))
                    self.gang.members[rank].tell(message.pop("do"), **message)
            elif isinstance(command, MoveRail):
                self.moves.append(command.move)
                self.step(RailMoved(command.rail, command.move.number))
            elif isinstance(command, RecordDecision):
                self.decisions.append(command.forward)
            elif isinstance(command, Fail):
                self.failure = command.reason

    def all_said(self, event):
        return lambda: all(member.of_kind(event) for member in self.gang.members)

    def run(self, probe=True):
        self.gang.join(1, probe=probe)
        self.serve(self.all_said("done"))
        assert not self.failure
        return [member.of_kind("sample") for member in self.gang.members]


@pytest.mark.parametrize("mode", ["on-demand", "provisioned", "learned"])
def test_every_group_on_rails_has_every_value_right(gang, mode):
    hosts = [f"h{rank // 2}" for rank in range(8)]
    mesh = {"dp": 2, "pp": 2, "tp": 2}
    at_work = AtWork(gang, collectives(mesh, 8, collectives={"pp": "chain"}), hosts, mode)
    for samples in at_work.run():
        for lost in ("retransmitted", "dropped"):  # so far, so it never falls
            counts = [sample[lost] for sample in samples]
            assert counts == sorted(counts)
        assert [sample["dimension"] for sample in samples] == ["dp", "pp", "tp"] * 6
        assert all(sample["verified"] for sample in samples)
        for said in samples:
            assert said["reached"] <= said["lit"] <= said["begin"] <= said["end"]
    iterations = 1 + 1 + 2 * (1 + 3)  # connecting, probing, two sizes each with a warm-up
    assert len(at_work.moves) == 8 * iterations, "eight groups on rails, each in every iteration"


@pytest.mark.parametrize("kind", ["collectives", "hybrid"])
def test_groups_that_are_forwarded_have_every_value_right(gang, kind, monkeypatch):
    mesh, chosen = {"dp": 2, "pp": 2, "tp": 2}, [False, True, True, True, False] * 20
    # Decisions come and go, whether they are worth it or not: what ranks do is looked at.
    monkeypatch.setattr(Costs, "favour_forwarding", lambda *about: chosen.pop(0))
    monkeypatch.setattr("testbed.rails.choice.HYSTERESIS", -1.0)
    hosts = [f"h{rank // 2}" for rank in range(8)]
    about = {"mode": "learned", "ports": 1, "forward": True}
    if kind == "collectives":
        job = OnRails(AllReduceOptions(8, (40, 4096), iterations=6, mesh=mesh))
        at_work = AtWork(gang, job, hosts, **about)
        for samples in at_work.run():
            assert all(sample["verified"] for sample in samples)
            assert len(samples) == 3 * 2 * 6
    else:
        size = {"dim": 16, "heads": 2, "hidden": 24, "sequence": 8}
        options = HybridOptions(8, mesh, micro_batches=4, **size)
        at_work = AtWork(gang, HybridOnRails(options), hosts, **about)
        at_work.gang.tell("finish", after_step=11)
        at_work.run()
        plain = AtWork(gang, HybridOnRails(options), hosts, ports=1)
        plain.gang.tell("finish", after_step=11)
        plain.run()
        both = (at_work.gang.members[-1], plain.gang.members[-1])
        assert len({tuple(s["loss"] for s in one.of_kind("step")) for one in both}) == 1
    assert at_work.decisions[:2] == [True, False]
    lit = [(rank, said) for rank, said in at_work.told if said["do"] == "stage-lit"]
    ends = [(rank, {one for link in said["links"] for one, _ in link}) for rank, said in lit]
    assert 20 < sum(rank not in of for rank, of in ends if of) < len(ends)


def test_groups_of_four_use_the_circuits_of_their_ring(gang):
    at_work = AtWork(gang, collectives({"dp": 4}, 4), FOUR)
    for samples in at_work.run():
        assert all(set(said["waits"]) <= {"0", "1", "2", "3"} for said in samples)
        assert len(samples) == 6
    assert [len(move.add) for move in at_work.moves] == [4], "once lit, they stay"


@pytest.mark.parametrize("mode", ["on-demand", "provisioned"])
@pytest.mark.parametrize("ranks", [3, 4])
def test_an_all_to_all_of_ranks_with_one_port_each_is_a_matching_after_the_other(gang, ranks, mode):
    job = collectives({"ep": ranks}, ranks, collectives={"ep": "all-to-all"})
    at_work = AtWork(gang, job, FOUR[:ranks], mode, ports=1)
    numbers = defaultdict(list)
    for rank, samples in enumerate(at_work.run()):
        assert len(samples) == 6 and all(said["verified"] for said in samples)
        for said in samples:
            met = [row[0] for row in said["matchings"]]
            assert sorted([*met, rank]) == list(range(ranks))
            assert (said["reached"], said["lit"]) == tuple(said["matchings"][0][1:3])
            assert said["bytes"] == sum(row[5] for row in said["matchings"])
            times = [at for row in said["matchings"] for at in row[1:5]]
            assert times == sorted(times) and times[-1] == said["end"]
            event = Event(0, 0.0, "sample", "", data={"rank": rank, **said})
            for one in operations_of(event, {("ep", tuple(range(ranks))): "ep0"}):
                numbers[one.number].append((rank, one.ranks))
    pairs = ranks * (ranks - 1) // 2
    assert len(numbers) == 6 * pairs
    for each in numbers.values():
        assert [ranks_of for _, ranks_of in each] == [tuple(rank for rank, _ in each)] * 2
    exchanges = 2 * (1 + 3)  # two sizes, each with a warm-up
    # No pair finds its circuit lit: one before it took its ports.
    assert len(at_work.moves) == pairs * (1 + 1 + exchanges)


def test_ranks_that_meet_in_pairs_connect_to_each_partner_over_a_circuit_of_the_two(gang):
    job = Torchrun(TorchrunOptions(4, ("t.py",), mesh={"dp": 4})).on_circuits()
    each = [{"argv": ["true"], "environment": {}}] * 4
    at_work = AtWork(gang, job, FOUR, each=each)
    at_work.gang.join(1, probe=True, held=True)
    at_work.serve(at_work.all_said("probe"))
    at_work.gang.tell("begin", generation=1)
    at_work.serve(at_work.all_said("program.end"))
    assert not at_work.failure
    assert {len(move.add) for move in at_work.moves} == {1}
    for rank, member in enumerate(at_work.gang.members):
        (probe,) = member.of_kind("probe")
        assert list(probe["dimensions"]) == ["dp"]
        stages = [said["stage"][:3] for said in member.of_kind("stage-reached")]
        pairs = [sorted((rank, rank ^ far)) for far in (2, 1)]
        assert stages == [["dp0", number, pair] for number in (0, 1) for pair in pairs]


def test_a_rank_leaves_a_stage_only_when_its_collective_is_over(gang):
    at_work = AtWork(gang, collectives({"dp": 2, "pp": 2}, 4), FOUR, "provisioned")
    at_work.run(probe=False)
    for member in at_work.gang.members:
        said = [one for one in member.events if one["event"] in (*SAID, "sample")]
        stages = [one["stage"] for one in said if one["event"] == "stage-left"]
        assert stages == [one["stage"] for one in said if one["event"] == "stage-reached"]
        left = [one["mono"] for one in said if one["event"] == "stage-left"]
        ends = [one["end"] for one in said if one["event"] == "sample"]
        assert all(any(end <= at for at in left) for end in ends)
        following = [one.get("following") for one in said if one["event"] == "stage-left"]
        assert following[2:-1] == stages[3:], "who leaves knows what is next, but to connect"
        assert following[-1] is None


def test_a_rank_that_waits_for_circuits_leaves_when_ordered(gang):
    at_work = AtWork(gang, collectives({"dp": 2}, 2), ["h0", "h1"])
    at_work.gang.join(1)
    at_work.gang.hear("group-joined")
    at_work.gang.tell("leave", generation=1)
    assert all(said["generation"] == 1 for said in at_work.gang.hear("left"))


def test_circuits_of_another_generation_are_not_taken_for_those_of_this_one(gang):
    at_work = AtWork(gang, collectives({"dp": 2}, 2), ["h0", "h1"])
    whole = {"group": "dp0"}
    at_work.gang.tell("group-whole", generation=1, **whole)
    lit = {"group": "dp0", "ranks": [0, 1], "number": 9, "links": []}
    at_work.gang.tell("stage-lit", generation=1, **lit)
    at_work.gang.join(2)
    at_work.gang.tell("group-whole", generation=2, **whole)
    at_work.gang.hear("stage-reached")
    for member in at_work.gang.members:
        with pytest.raises(AssertionError, match="no generation"):
            member.hear("generation", patience=0.3)


@pytest.mark.parametrize(
    ("mesh", "order"), [({"dp": 2, "pp": 2}, "1f1b"), ({"pp": 4}, "1f1b"), ({"pp": 4}, "gpipe")]
)
def test_training_over_a_mesh_on_rails_has_the_losses_of_that_on_a_packet_switch(gang, mesh, order):
    mode, size = "provisioned", {"dim": 16, "heads": 2, "hidden": 24, "sequence": 8}
    given = HybridOptions(4, mesh, order=order, micro_batches=4, **size)
    losses = []
    for job in (Hybrid(given), HybridOnRails(given)):
        if isinstance(job, HybridOnRails):
            at_work = AtWork(gang, job, FOUR, mode)
            members = at_work.gang
        else:
            members = gang("hybrid", job.for_rank()["options"], 4, hosts=FOUR)
        members.tell("finish", after_step=5)
        members.join(1)
        if isinstance(job, HybridOnRails):
            at_work.serve(at_work.all_said("done"))
            assert not at_work.failure
        else:
            members.hear("done", step=6)
        losses.append([one["loss"] for one in members.members[-1].of_kind("step")])
    assert losses[0] == losses[1]
    assert len(losses[0]) == 6
    are_re_pointed = any(move.remove for move in at_work.moves)
    assert are_re_pointed == (len(mesh) > 1), "a pipeline alone keeps its circuits"


@pytest.mark.parametrize("mode", ["on-demand", "provisioned"])
def test_ranks_with_one_port_exchange_with_the_experts_of_three_others_in_matchings(gang, mode):
    size = {"dim": 16, "heads": 2, "hidden": 24, "sequence": 8, "layers": 2, "experts": 4}
    given, losses = HybridOptions(4, {"ep": 4}, **size), []
    for job in (Hybrid(given), HybridOnRails(given)):
        is_on_rails = isinstance(job, HybridOnRails)
        at_work = AtWork(gang, job, FOUR, mode, ports=1) if is_on_rails else None
        told = job.for_rank()["options"]
        members = gang("hybrid", told, 4, hosts=FOUR) if at_work is None else at_work.gang
        members.tell("finish", after_step=3)
        members.join(1, **({} if at_work is None else {"probe": True}))
        if at_work is None:
            members.hear("done", step=4)
        else:
            at_work.serve(at_work.all_said("done"))
            assert not at_work.failure
        losses.append([[one["loss"] for one in each.of_kind("step")] for each in members.members])
    assert losses[0] == losses[1] and {len(each) for each in losses[0]} == {4}
    stages = [move.stage for move in at_work.moves]
    assert {stage.ranks for stage in stages} == {(a, b) for a in range(4) for b in range(a + 1, 4)}
    assert all(len(move.add) == 1 for move in at_work.moves), "a port has one peer at a time"
    # Of each exchange two matchings are made, and the third is that of the one before it: an
    # exchange each way for tokens in both passes of each layer, and two for the sum of gradients.
    exchanges = 4 * (4 * 2 + 2)
    first = 3 + 3 + 1  # connected and probed in all three, and back to that which comes first
    assert len(stages) == 2 * (first + 2 * exchanges), "two pairs in each matching"


@pytest.mark.parametrize(("split", "order"), [("pp", "1f1b"), ("pp", "gpipe"), ("ep", "1f1b")])
def test_training_goes_on_with_new_ranks_that_have_their_state_from_replicas(gang, split, order):
    size = {"dim": 16, "heads": 2, "hidden": 24, "sequence": 8, "experts": 4 * (split == "ep")}
    given = HybridOptions(8, {"dp": 2, split: 2, "tp": 2}, 1, order, 2, **size)
    hosts, losses = [f"h{rank // 2}" for rank in range(8)], []
    for struck in (False, True):
        at_work = AtWork(gang, HybridOnRails(given), hosts, "provisioned")
        at_work.gang.tell("finish", after_step=9)
        at_work.gang.join(1)
        if struck:
            at_work.serve(at_work.all_said("step"))
            step = replaced(at_work, [2, 3], hosts)
            assert 0 < step < 9
        at_work.serve(at_work.all_said("done"))
        assert not at_work.failure
        said = at_work.gang.members[-1].of_kind("step")
        losses.append({one["step"]: (one["loss"], one["digest"]) for one in said})
    assert losses[0] == losses[1], "step by step, the same bits"
    for rank, member in enumerate(at_work.gang.members):
        (restored,) = [one for one in member.of_kind("restored") if one["generation"] == 2]
        assert bool(restored["bytes"]) == (rank in (2, 3)), "nobody else's state was sent"


def replaced(at_work, ranks, hosts):
    """Have ranks die and others take their places; return the step that they go on with."""
    for rank in ranks:
        at_work.gang.members[rank].process.kill()
    stays = [at_work.gang.members[rank] for rank in range(8) if rank not in ranks]
    for member in stays:
        member.tell("leave", generation=1)
    step = min(member.hear("left")["committed"] for member in stays)
    for rank in ranks:
        at_work.gang.replace(rank, "h9")
    hosts = ["h9" if rank in ranks else host for rank, host in enumerate(hosts)]
    at_work.step(MembershipChanged("main", at_work.view(hosts, 2)))
    at_work.gang.tell("finish", after_step=9)
    at_work.gang.join(2, step, {str(rank): (rank + 4) % 8 for rank in ranks})
    return step


def test_a_rank_that_never_asks_is_named_with_what_others_wait_for(gang):
    job = OnRails(AllReduceOptions(4, (4096,), iterations=10_000, mesh={"dp": 2, "pp": 2}))
    at_work = AtWork(gang, job, FOUR, limit=1.0)
    at_work.gang.join(1)
    at_work.serve(at_work.all_said("sample"))
    at_work.gang.members[3].process.send_signal(signal.SIGSTOP)
    at_work.serve(lambda: False)
    assert at_work.failure.startswith("ranks have waited 1 s for the circuits of ")
    assert " has not asked for them or not left the stage before" in at_work.failure
    _, _, after = at_work.failure.partition(", and ")
    assert "rank 3" in after, "itself, or as the one that the late rank is in a stage with"


def test_a_rank_that_never_joins_its_group_is_named(gang):
    at_work = AtWork(gang, collectives({"dp": 2, "pp": 2}, 4), FOUR, limit=1.0)
    at_work.gang.join(1, absent=[2])
    at_work.serve(lambda: False)
    said, _, group = at_work.failure.rpartition(" ")
    assert said == "ranks have waited 1 s for rank 2 to join group"
    assert group in ("dp0", "pp1"), "its groups"
