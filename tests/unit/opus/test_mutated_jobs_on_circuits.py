"""Jobs on circuits whose messages are mutated, lost or out of turn, and whose changes fail.

A fabric of dictionaries makes what the rails ask for. No rank is told of a stage whose circuits are
not there, no circuit goes while both its ranks are there and one may have traffic on it, nobody
waits for ever, and when all have left no circuit is there.
"""

import random
from pathlib import Path

import pytest

from testbed.fabric.circuits import matching
from testbed.fabric.fibre_plant import own_ports
from testbed.opus.circuit_rails import CircuitRails
from testbed.opus.communicators import Close, Repoint, Send
from testbed.opus.controller_side import ControllerSide
from testbed.schema import load_lab

from .stranger import CONFIG_REQ, Job, answer_to, mutated

CONFIGS = Path(__file__).parents[3] / "configs"
JOB = Job(stages=2, datas=2, tensors=2)
LAB = load_lab(CONFIGS / "rails.yaml")
HOSTS = list(LAB.hosts)[:4]
PORTS = own_ports(HOSTS, LAB.ports(), JOB.tensors)


class World:
    """Eight ranks, the controller's side, and two switches; `wrong` and `failing` are chances."""

    def __init__(self, seed, wrong, failing=0.0):
        self.rng, self.wrong, self.failing = random.Random(seed), wrong, failing
        rails = CircuitRails(HOSTS, PORTS, JOB.tensors, LAB.wiring())
        self.side = ControllerSide(rails, {f"a{host}": host for host in range(4)})
        self.scripts = [JOB.script(rank, 2) for rank in range(JOB.ranks)]
        for rank in range(JOB.ranks):
            self.side.connected(rank, f"a{rank // JOB.tensors}")
        self.live, self.strange = set(range(JOB.ranks)), set()
        self.waits = {}
        """What the answer begins with that a rank waits for, and what it asked."""
        self.uses = {}
        """The rank that each rank may have traffic with."""
        self.lit, self.now = frozenset(), 0.0
        self.moves = [[] for _ in range(JOB.tensors)]
        """Of each rail what must go, in order…"""
        self.cleared = []
        """… and the changes of all rails that have removed it."""
        self.unremoved = frozenset()
        """Circuits of which a removal alone has failed; the end of the command restores them."""
        self.answers = self.mutations = self.changes = 0

    def play(self):
        while True:
            can = [rank for rank in self.live if rank not in self.waits and self.scripts[rank]]
            choices = [*can, *(("clear", moves) for moves in self.moves if moves)]
            choices += [("add", effect) for effect in self.cleared]
            if choices:
                self.step(self.rng.choice(choices))
            elif (due := self.side.wake_at()) is not None:
                self.now = max(self.now, due)
                self.follow(self.side.expire(self.now))
            else:
                break
        stuck = self.waits.keys() - self.strange
        assert not stuck, f"ranks {stuck} wait for ever for {[self.waits[r] for r in stuck]}"
        for rank in sorted(self.live):
            self.gone(rank)
            self.follow(self.side.left(rank, self.now))
        self.failing = 0.0
        while any(self.moves) or self.cleared:
            if self.cleared:
                self.add(self.cleared[0])
            else:
                self.clear(next(moves for moves in self.moves if moves))

    def step(self, what):
        self.now += self.rng.random() / 100
        if isinstance(what, tuple):
            kind, which = what
            self.clear(which) if kind == "clear" else self.add(which)
        elif self.rng.random() < self.wrong:
            self.mutations += 1
            self.strange.add(what)
            self.misbehave(what)
        else:
            self.say(what, self.scripts[what].pop(0))

    def misbehave(self, rank):
        if self.rng.random() < 0.3:
            self.gone(rank)
            self.follow(self.side.left(rank, self.now))
            return
        line = mutated(self.scripts[rank].pop(0), self.rng)
        for one in line.split(b"\n"):
            if one and rank in self.live:
                self.say(rank, one.removesuffix(b"\r") + b"\n")

    def say(self, rank, line):
        if CONFIG_REQ.fullmatch(line.rstrip()):
            self.uses.pop(rank, None)
        with_answer = line.startswith((b"COMM;", b"CONFIG_REQ;"))
        self.waits[rank] = answer_to(line) if with_answer else b"nothing"
        self.follow(self.side.received(rank, line.removesuffix(b"\n"), self.now))

    def follow(self, effects):
        for effect in effects:
            match effect:
                case Send(rank, line):
                    if self.waits.get(rank, b"?") == line.rstrip().partition(b",")[0]:
                        del self.waits[rank]
                case Close(rank):
                    self.gone(rank)
                case Repoint():
                    self.moves[effect.rail].append(effect)
        for one in self.side.answered:
            self.check(one)
        self.side.answered.clear()

    def check(self, one):
        """Check that the two who were told have a circuit, unless one has left since."""
        self.answers += 1
        ranks = [host * JOB.tensors + one.rail for host in one.hosts]
        if len(ranks) < 2 or not self.live.issuperset(ranks):
            return
        first, second = ranks
        joined = [c for c in self.lit if {self.rank_at(end) for end in c.ends} == {first, second}]
        assert joined, f"{ranks} are told of {one.said} without a circuit: {self.lit}"
        self.uses |= {first: second, second: first}

    def clear(self, moves):
        """Remove what must go for the first change of a rail."""
        effect = moves.pop(0)
        if self.rng.random() < self.failing:
            self.fail(effect)
            return
        for circuit in effect.move.remove & self.lit:
            one, other = (self.rank_at(end) for end in circuit.ends)
            if {one, other} <= self.live:
                assert self.uses.get(one) != other and self.uses.get(other) != one, circuit
        self.lit -= effect.move.remove
        self.cleared.append(effect)

    def add(self, effect):
        """Make what is new, unless a change that failed has left something in the way."""
        self.cleared.remove(effect)
        ends = {end for circuit in self.lit for end in circuit.ends}
        if any(ends & {*circuit.ends} for circuit in effect.move.add):
            assert self.failing
            self.fail(effect)
        elif self.rng.random() < self.failing:
            self.fail(effect)
        else:
            self.lit = matching(self.lit | effect.move.add)
            self.changes += 1
            self.follow(self.side.worker_done(effect.rail, effect.number, self.now))

    def fail(self, effect):
        if not effect.move.add:
            self.unremoved |= effect.move.remove
        present = frozenset(c for c in self.lit if self.rail_of(c) == effect.rail)
        failed = self.now, effect.number, present
        self.follow(self.side.worker_failed(effect.rail, "it failed", *failed))

    def gone(self, rank):
        self.live.discard(rank)
        self.waits.pop(rank, None)

    def rank_at(self, port):
        return next(rank for rank, own in enumerate(PORTS) if port in own)

    def rail_of(self, circuit):
        return self.rank_at(circuit.ends[0]) % JOB.tensors


def test_a_job_in_any_order_has_its_circuits_and_leaves_none():
    for seed in range(20):
        world = World(seed, wrong=0.0)
        world.play()
        # Each rank asks for four stages an iteration, two ranks for each.
        assert world.answers == JOB.ranks * 4 * 2 // 2
        assert world.lit == frozenset()


@pytest.mark.parametrize(
    ("wrong", "failing"), [(0.005, 0.0), (0.05, 0.0), (0.005, 0.05), (0.0, 0.3)]
)
def test_ranks_that_do_wrong_and_changes_that_fail_leave_no_hang_and_no_circuit(wrong, failing):
    play_many(100, wrong, failing)


@pytest.mark.soak
@pytest.mark.parametrize(("wrong", "failing"), [(0.005, 0.02), (0.05, 0.2)])
def test_thousands_of_jobs_that_do_wrong_leave_no_hang_and_no_circuit(wrong, failing):
    play_many(1000, wrong, failing)


def play_many(count, wrong, failing):
    answers = changes = mutations = 0
    for seed in range(count):
        world = World(seed, wrong, failing)
        world.play()
        assert world.lit <= world.unremoved, seed
        answers, changes = answers + world.answers, changes + world.changes
        mutations += world.mutations
    assert answers > count
    assert changes > count
    assert mutations >= count // 4 or not wrong
