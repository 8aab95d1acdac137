"""Runs of random labs, which name the same boxes differently, held against what is really there."""

import socket
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from testbed.bench.lease_resources import named, needs
from testbed.bench.reported_identities import ReportedIdentities
from testbed.errors import BusyError
from testbed.record.lease_rules import Claim, Holder
from testbed.record.leases import Leases

SLOTS = 4
slots = st.integers(0, SLOTS - 1)
many = st.integers(0, 1000)


@dataclass(eq=False)
class Run:
    """What a run has, as far as it has come: what it reached, and whether it may change that."""

    named: object
    hosts: tuple[str, ...]
    claim: Claim
    things: frozenset
    may_change: bool = False
    alive: bool = True
    answered: ReportedIdentities = field(init=False)

    def __post_init__(self):
        self.answered = ReportedIdentities(self.named.lab)


class OwnersMachine(RuleBasedStateMachine):
    """Up to four runs at a time, each on one of the labs; the store is emptied first."""

    def __init__(self, store, labs):
        super().__init__()
        self.labs = labs
        self.leases = Leases(store, self._look)
        with store.open() as ledger:
            ledger.write(ledger.claims(), {})
        self.runs = {}
        self.count = 0

    def _look(self, claim):
        return any(run.alive and run.claim.token == claim.token for run in self.runs.values())

    @initialize(seed=st.randoms(use_true_random=False), start=st.booleans())
    def begin_with_several(self, seed, start):
        for slot in range(SLOTS) if start else ():
            self.begin(slot, seed.randrange(1000), seed.randrange(1, 16), seed.random() < 0.8)

    @rule(slot=slots, lab=many, chosen=st.integers(1, 15), is_open=st.booleans())
    def begin(self, slot, lab, chosen, is_open):
        """Lease by address what some hosts of a lab need, and go on with it at once or later."""
        if slot in self.runs:
            return
        one = self.labs[lab % len(self.labs)]
        hosts = tuple(h for n, h in enumerate(one.hosts) if chosen >> n & 1) or one.hosts[:1]
        self.count += 1
        holder = Holder("u", socket.gethostname(), 1, f"run-{self.count}")
        claim = Claim(str(self.count), holder, needs(one.lab, hosts), 0.0)
        run = Run(one, tuple(hosts), claim, frozenset(one.things(hosts)))
        try:
            run.claim = self.leases.claim(claim)
        except BusyError as error:
            self._is_right_to_refuse(run, error)
        else:
            self.runs[slot] = run
            if is_open:
                self.open(slot)

    @rule(slot=slots)
    def open(self, slot):
        """Have all answer, and lease it by what it said; whoever is refused ends."""
        run = self.runs.get(slot)
        if run is None or run.may_change:
            return
        run.named.answer(run.answered, run.hosts)
        more = run.answered.resources(run.claim.resources)
        try:
            run.claim = self.leases.widen(run.claim, more)
        except BusyError as error:
            if "is lost" not in str(error):
                self._is_right_to_refuse(run, error)
            self.end(slot)
        else:
            run.may_change = True

    def _is_right_to_refuse(self, run, error):
        others = [one for one in self.runs.values() if one is not run and one.alive]
        meet = [one for one in others if one.things & run.things]
        assert meet, f"two different boxes were taken for one: {error}"
        assert any(one.claim.holder.run in str(error) for one in meet)

    @rule(slot=slots)
    def end(self, slot):
        if slot in self.runs:
            self.leases.end(self.runs.pop(slot).claim.token)

    @rule(slot=slots)
    def die(self, slot):
        if slot in self.runs:
            self.runs[slot].alive = False
            self.runs.pop(slot)

    @rule(lab=many, chosen=st.integers(0, 100))
    def unlock_by_force(self, lab, chosen):
        """Take one thing from whoever has it, by the name that a lab has for it."""
        one = self.labs[lab % len(self.labs)]
        parts = sorted(one.parts(one.hosts))
        self.leases.unlock(named(one.lab, [parts[chosen % len(parts)]]), forced=True)
        for slot, run in list(self.runs.items()):
            if self.leases.renew(run.claim):
                self.end(slot)

    @invariant()
    def nothing_has_two_owners(self):
        things = [t for run in self.runs.values() if run.may_change for t in run.things]
        assert len(things) == len(set(things))
