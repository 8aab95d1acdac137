"""Rails of a lab that programs of others move, with a switch that answers on a real line."""

import threading

import pytest

from testbed.errors import BusyError, UnsafeError, UsageError
from testbed.fabric.circuits import Circuit, HostPort, matching
from testbed.rails.rail import Move
from testbed.rails.stage import Stage
from testbed.run.opus_layout import rail_layout
from testbed.run.opus_rails import LabRails
from tests.unit.run.lab_at_far_ends import HOSTS, LabAtFarEnds, soon

LONG = 10.0
"""Seconds that nobody here may wait for."""


def pair(one, other, port="p0"):
    return Circuit.between(HostPort(one, port), HostPort(other, port))


DATA = matching([pair("h0", "h1"), pair("h2", "h3")])
PIPELINE = matching([pair("h0", "h2"), pair("h1", "h3")])


class Rails:
    """Four hosts with two ranks each, whose circuits the test moves."""

    def __init__(self, lab, *, permitted=True):
        self.lab = lab
        self.bench, _ = lab.bench((), ())
        self.lease = lab.make_ready(self.bench)
        self.bench.fabric.set_circuits("main", frozenset(), soon())
        if permitted:
            by = {"controlled_by": ("opus",)}
            self.bench.guard._lab = self.bench.lab.model_copy(update=by)
        self.stopped = []
        self.layout = rail_layout(self.bench.lab, HOSTS[:4], 2)
        self.rails = LabRails(self.bench, self.layout, 0.0, self.stopped.append)
        lab.acts.clear()
        self._count = 0

    def begin(self, remove, add, rail=0):
        self._count += 1
        stage = Stage(f"stage{self._count}", 0, (0, 1))
        return self.rails.begin(rail, Move(self._count, stage, frozenset(remove), frozenset(add)))

    def read_back(self):
        """Check that the switch holds what it should, and return the circuits of all owners."""
        self.bench.fabric.check(soon())
        return self.bench.fabric.owned.all


@pytest.fixture
def at_work(tmp_path, monkeypatch):
    lab, made = LabAtFarEnds(tmp_path, monkeypatch), []

    def start(**options):
        made.append(Rails(lab, **options))
        return made[0]

    yield start
    for one in made:
        one.rails.end()
        one.lease.release()
        lab.put_back(one.bench)
    lab.close()


def test_stages_that_take_ports_of_each_other_move_the_circuits_of_the_switch(at_work):
    rails = at_work()
    for circuit in sorted(DATA):
        rails.begin((), [circuit])()
    rails.begin((), [pair("h0", "h1", "p1")], rail=1)()
    assert rails.rails.present(0) == DATA
    rails.begin(DATA, [pair("h0", "h2")])()
    rails.begin((), [pair("h1", "h3")])()
    assert rails.rails.present(0) == PIPELINE
    assert rails.rails.present(1) == {pair("h0", "h1", "p1")}
    assert rails.read_back() == PIPELINE | {pair("h0", "h1", "p1")}
    rails.begin(PIPELINE, ())()
    assert rails.read_back() == {pair("h0", "h1", "p1")}


def test_a_change_waits_until_the_one_before_it_has_removed_what_must_go(at_work):
    rails = at_work()
    for circuit in sorted(DATA):
        rails.begin((), [circuit])()
    first, second = rails.begin(DATA, [pair("h0", "h2")]), rails.begin((), [pair("h1", "h3")])
    late = threading.Thread(target=second)
    late.start()
    late.join(0.2)
    assert late.is_alive()
    first()
    late.join(LONG)
    assert not late.is_alive()
    assert rails.read_back() == PIPELINE


def test_words_set_all_circuits_of_their_rail(at_work):
    rails = at_work()
    for wanted in (DATA, PIPELINE, DATA - {pair("h2", "h3")}, frozenset()):
        rails.rails.set_word(0, wanted)
        assert rails.read_back() == wanted


def test_what_the_lab_does_not_permit_is_refused_as_it_is_to_be_done(at_work):
    rails = at_work(permitted=False)
    for act in (rails.begin((), DATA), lambda: rails.rails.set_word(0, DATA)):
        with pytest.raises(UsageError, match="does not permit programs that speak opus"):
            act()
    assert (rails.lab.acts, rails.read_back()) == ([], frozenset())


def test_without_the_lease_nothing_is_moved(at_work):
    rails = at_work()
    rails.lab.leases.unlock(sorted(rails.lease.resources), forced=True)
    for act in (rails.begin((), DATA), lambda: rails.rails.set_word(0, DATA)):
        with pytest.raises(BusyError):
            act()
    assert rails.lab.acts == []


@pytest.mark.parametrize("by_word", [False, True])
def test_a_change_that_cannot_be_taken_back_stops_everything(at_work, by_word, monkeypatch):
    rails = at_work()
    error = UnsafeError("the switch was not brought back")

    def fail(*_):
        raise error

    monkeypatch.setattr("testbed.bench.fabric.change_all", fail)
    act = (lambda: rails.rails.set_word(0, DATA)) if by_word else rails.begin((), DATA)
    with pytest.raises(UnsafeError):
        act()
    assert rails.stopped == [error]
