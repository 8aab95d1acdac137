"""Far ends are told to misbehave, and not to any more, only as long as their switch is leased."""

import pytest

from testbed.bench.lease_resources import needs, part_of
from testbed.errors import BusyError
from testbed.faults.far_end_cards import FarEndOptions
from testbed.record.journal import open_entries
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.run.cleanup import Cleanup
from testbed.run.far_ends import FarEndFaults
from testbed.run.plan import FarEndFault
from testbed.run.trial import Around

FAULT = FarEndFault("switch-busy", "ocs", 3, 0)


class Twin:
    """The side of the twin: it notes what it is told."""

    def __init__(self):
        self.told = []

    def fault(self, instrument, name, scope):
        self.told.append(("fault", instrument, name))

    def clear(self, instrument, name):
        self.told.append(("clear", instrument, name))

    def struck(self, instrument, name):
        return len(self.told)


@pytest.fixture
def leases(tmp_path):
    return Leases(FileStore(tmp_path / "leases.sqlite"))


@pytest.fixture
def around(bench, leases, inbox, log):
    lease = leases.take(needs(bench.lab, bench.lab.hosts), "test")
    bench.hold(lease)
    yield Around(bench, inbox, bench._journal, log, Cleanup(inbox, log), None, Twin())
    lease.release()


def take_a_port(bench, leases):
    leases.unlock(part_of(bench.lab, "ocs", "1"), forced=True)


def test_while_the_switch_is_leased_a_fault_begins_and_ends(around):
    faults = FarEndFaults(around)
    faults.begin(FAULT, FarEndOptions())
    assert faults.end()
    assert around.far_ends.told == [("fault", "ocs", "busy"), ("clear", "ocs", "busy")]


def test_without_its_lease_none_begins(around, bench, leases):
    take_a_port(bench, leases)
    with pytest.raises(BusyError, match="the lease of this run is lost"):
        FarEndFaults(around).begin(FAULT, FarEndOptions())
    assert around.far_ends.told == []
    around.cleanup.run()
    assert around.cleanup.failures == []


def test_without_its_lease_none_is_ended_and_the_promise_stays(around, bench, leases):
    FarEndFaults(around).begin(FAULT, FarEndOptions())
    take_a_port(bench, leases)
    around.cleanup.run()
    assert around.far_ends.told == [("fault", "ocs", "busy")]
    (left,) = around.cleanup.failures
    assert left.startswith("switch-busy of ocs: the lease of this run is lost")
    (entry,) = open_entries(bench._run.journal)
    assert (entry["undo"], entry["switch"]) == ("far-end-fault", "ocs")
