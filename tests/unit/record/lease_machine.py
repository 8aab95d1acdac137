"""A random life of leases, held against a model that knows only who has what."""

import socket
from contextlib import contextmanager

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from testbed.errors import BusyError
from testbed.record.claim_registry import RecoveryRequired
from testbed.record.journal import Journal
from testbed.record.lease_rules import LEASE_TTL, Claim, Holder, Resource
from testbed.record.leases import Leases
from testbed.record.rundir import RunDirectory

RESOURCES = [Resource(box, part) for box in "abcd" for part in ("", "1", "2", "3", "4")]
"""Four boxes, each as a whole and in four parts: twenty."""
some = st.frozensets(st.sampled_from(RESOURCES), min_size=1, max_size=3)
holders = st.integers(0, 4)


def cells(resources):
    """Return the parts of boxes that resources are made of."""
    return {r.box + part for r in resources for part in (r.part or "1234")}


class Clocked:
    """A store that reckons with a clock of the test's."""

    def __init__(self, store, clock):
        self._store = store
        self._clock = clock

    @contextmanager
    def open(self):
        with self._store.open() as ledger:
            ledger.now = self._clock()
            yield ledger


class Life:
    """One start of a holder: what it has as the model sees it, and what can be seen of it."""

    def __init__(self, number, start, directory, now):
        self.token = f"{number}-{start}"
        self.run = f"run-{self.token}"
        self.directory = directory
        self.owes = directory.name == "owing"
        self.alive = True
        """False: it was seen to die. None: it is where nobody can see it."""
        self.has = frozenset()
        self.renewed = now

    def claim(self, resources):
        holder = Holder("u", socket.gethostname(), 1, self.run, str(self.directory))
        return Claim(self.token, holder, frozenset(resources), 0.0)

    def standing(self, now):
        if self.alive or (self.alive is None and now < self.renewed + LEASE_TTL):
            return "held"
        return "unrecovered" if self.owes else "ended"


class LeaseMachine(RuleBasedStateMachine):
    """Five holders, which start again after each death; the store is emptied first."""

    def __init__(self, store, directories):
        super().__init__()
        self.now = 1000.0
        self.starts = 0
        self.directories = directories
        self.leases = Leases(Clocked(store, lambda: self.now), self._look)
        with store.open() as ledger:
            ledger.write(ledger.claims(), {})
        self.lives = []
        """All that may still have something; the present ones first, by their holder's number."""
        for number in range(5):
            self.lives.append(self._life(number, number % 2))

    def _life(self, number, kind):
        self.starts += 1
        return Life(number, self.starts, self.directories[kind], self.now)

    def _look(self, claim):
        return next(life.alive for life in self.lives if life.token == claim.token)

    def _sweep(self):
        for life in self.lives:
            if life.standing(self.now) == "ended":
                life.has = frozenset()

    @initialize(wishes=st.lists(some, min_size=5, max_size=5), start=st.booleans())
    def begin_with_many_claims(self, wishes, start):
        if start:
            for number, resources in enumerate(wishes):
                self.acquire(number, resources)

    @rule(
        number=holders,
        resources=some,
        other=holders,
        alive=st.sampled_from([False, None]),
        seconds=st.sampled_from([0.0, LEASE_TTL - 1.0, LEASE_TTL + 1.0]),
    )
    def acquire_after_another_ended(self, number, resources, other, alive, seconds):
        self.restart(other, 1 if alive is False else 0, alive)
        self.now += seconds
        self.acquire(number, resources)

    @rule(number=holders, resources=some)
    def acquire(self, number, resources):
        life = self.lives[number]
        claim = life.claim(resources)
        others = [one for one in self.lives if one is not life]
        inside = [one.standing(self.now) for one in others if cells(one.has) & cells(resources)]
        refused = [standing for standing in inside if standing != "ended"]
        try:
            self.leases.claim(claim)
        except BusyError as error:
            assert refused
            assert isinstance(error, RecoveryRequired) == (error.hint.startswith("that run ended"))
            assert "unrecovered" in refused or not isinstance(error, RecoveryRequired)
        else:
            assert not refused
            for one in others:
                if one.standing(self.now) == "ended":
                    one.has = frozenset()
            life.has, life.renewed = claim.resources, self.now

    @rule(number=holders)
    def renew(self, number):
        life = self.lives[number]
        if life.has:
            assert self.leases.renew(life.claim(life.has)) == ""
            life.renewed = self.now

    @rule(number=holders)
    def release(self, number):
        self.leases.end(self.lives[number].token)
        self.lives[number].has = frozenset()

    @rule(number=holders, kind=st.integers(0, 1), alive=st.sampled_from([False, False, None]))
    def restart(self, number, kind, alive):
        gone = self.lives[number]
        gone.alive = alive
        self.lives.append(gone)
        self.lives[number] = self._life(number, kind)

    @rule(number=holders, alive=st.sampled_from([True, None]))
    def see(self, number, alive):
        self.lives[number].alive = alive

    @rule(seconds=st.floats(0.1, 2 * LEASE_TTL))
    def let_time_pass(self, seconds):
        self.now += seconds

    @rule(resources=some)
    def force(self, resources):
        self.leases.unlock(resources, forced=True)
        for life in self.lives:
            lost = {mine for mine in life.has if cells([mine]) & cells(resources)}
            if lost:
                why = self.leases.renew(life.claim(life.has))
                assert "took" in why or life.standing(self.now) == "ended"
            life.has -= lost

    @rule(chosen=st.integers(0, 50))
    def recover(self, chosen):
        life = self.lives[chosen % len(self.lives)]
        if life.has and life.standing(self.now) == "held":
            try:
                self._recover(life)
            except BusyError:
                return
            raise AssertionError("what a living run has was released")
        self._recover(life)

    def _recover(self, life):
        """Take over what a run has, and give it back."""
        self.starts += 1
        successor = Claim(f"successor-{self.starts}", life.claim([]).holder, frozenset(), 0.0)
        _, had = self.leases.replace_run(life.run, successor)
        assert had == life.has
        self.leases.end(successor.token)
        self._sweep()
        life.has = frozenset()

    @invariant()
    def nobody_has_what_another_has(self):
        claims = [found.claim for found in self.leases.find()]
        taken = [cell for claim in claims for cell in cells(claim.resources)]
        assert len(taken) == len(set(taken))
        assert {c.token: c.resources for c in claims} == {
            life.token: life.has for life in self.lives if life.has
        }

    def teardown(self):
        """Nothing is stuck: once all are dead and recovered, one gets all."""
        for life in self.lives:
            life.alive = False
            self._recover(life)
        last = self._life(5, 0)
        self.lives.append(last)
        self.leases.claim(last.claim(RESOURCES))


def directories_of_runs(results):
    """Return the directories of a run that owes nothing, and of one that owes something."""
    for name in ("clean", "owing"):
        (results / name).mkdir()
    journal = Journal(RunDirectory(results / "owing").journal)
    journal.record_undo("circuits", start={}, ports={}, made={})
    journal.close()
    return [results / "clean", results / "owing"]
