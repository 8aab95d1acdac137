"""Changes of circuits that a controller commands, on a switch that answers on a real line."""

from itertools import pairwise

import pytest

from testbed.clock import Deadline
from testbed.control.controller import (
    ChangeCircuits,
    ChangeFailed,
    CircuitsChanged,
    JobView,
    Scope,
    View,
)
from testbed.control.rotate import Rotate, TimeSlot
from testbed.errors import UnsafeError
from testbed.fabric.fibre_plant import circuits_of_links, rank_ports
from testbed.fabric.topologies import AllToAll
from testbed.fabric.topology import ring
from testbed.run.circuit_commands import CircuitCommands
from testbed.run.controllers import ControllerExecutor
from tests.unit.run.lab_at_far_ends import HOSTS, LabAtFarEnds, soon

RANKS = HOSTS[:3]
HOLD = 0.002


@pytest.fixture
def lab(tmp_path, monkeypatch):
    lab = LabAtFarEnds(tmp_path, monkeypatch)
    yield lab
    lab.close()


class Rotation:
    """A rotation of three ranks, of which two meet in each slot while one pauses."""

    def __init__(self, lab, inbox):
        self.bench, log = lab.bench((), ())
        self.lease = lab.make_ready(self.bench)
        self.lab, self.inbox = lab, inbox
        ports = rank_ports(RANKS, self.bench.lab.ports())
        matchings = AllToAll().matchings(3, 1)
        self.slots = [circuits_of_links(links, ports) for links in matchings]
        rotate = Rotate("main", [TimeSlot(links, HOLD) for links in matchings], "seconds")
        circuits = self.bench.fabric.circuits
        view = View(0.0, {"main": JobView(RANKS, ports)}, circuits=circuits)
        handlers = CircuitCommands(self.bench, inbox, log).handlers
        self.executor = ControllerExecutor({"rotate": rotate}, view, inbox, log, handlers, {})
        inbox.handler = self.executor.handle

    @property
    def changes(self):
        return [event for event in self.lab.log_events if event.kind == "fabric.change"]


@pytest.fixture
def rotation(lab, inbox):
    rotation = Rotation(lab, inbox)
    yield rotation
    rotation.executor.end()
    rotation.lease.release()
    lab.put_back(rotation.bench)


def test_a_rotation_moves_the_circuits_of_a_switch_slot_by_slot(rotation):
    fabric = rotation.bench.fabric
    assert fabric.circuits == ring(RANKS, rotation.bench.lab.ports())
    rotation.executor.begin()
    assert rotation.inbox.wait(lambda: len(rotation.changes) >= 10, soon())
    rotation.executor.end()
    assert rotation.executor.failure == ""
    assert {event.subject for event in rotation.changes} == {"rotate"}
    slots = [sorted(map(str, slot)) for slot in rotation.slots]
    lit = [event.data["circuits"] for event in rotation.changes]
    assert all(one in slots for one in lit)
    assert all(one != other for one, other in pairwise(lit))
    assert sorted(map(str, fabric.circuits)) == lit[-1]
    fabric.check(soon())  # the switch reads the same


def test_nothing_is_moved_without_the_lease_and_the_rotation_says_so(rotation):
    rotation.lab.leases.unlock(sorted(rotation.lease.resources), forced=True)
    rotation.executor.begin()
    assert rotation.inbox.wait(lambda: bool(rotation.executor.failure), soon())
    assert rotation.executor.failure.startswith("rotate: 3 changes in a row failed: ")
    assert rotation.lab.acts == []


def test_a_change_that_cannot_be_rolled_back_ends_the_run(bench, inbox, log, monkeypatch):
    bench.open_fabric(())

    def set_circuits(owner, wanted, deadline, by):
        raise UnsafeError("ocs is left half-way")

    monkeypatch.setattr(bench.fabric, "set_circuits", set_circuits)
    observed = []

    class Once:
        scopes = (Scope("circuits", "main"),)

        def begin(self, view):
            return False

        def step(self, state, now, observation):
            observed.append(observation)
            return True, () if state else (ChangeCircuits(frozenset(), frozenset()),)

        def wake_at(self, state):
            return None

    handlers = CircuitCommands(bench, inbox, log).handlers
    executor = ControllerExecutor({"once": Once()}, View(0.0, {}), inbox, log, handlers, {})
    inbox.handler = executor.handle
    executor.observe(CircuitsChanged())
    with pytest.raises(UnsafeError, match="half-way"):
        inbox.pause(Deadline.after(10))
    assert inbox.wait(lambda: len(observed) == 2, soon())
    assert observed[1] == ChangeFailed("ocs is left half-way")
