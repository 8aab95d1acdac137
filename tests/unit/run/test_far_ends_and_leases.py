"""Far ends are told to misbehave, and not to any more, only as long as their switch is leased."""

import pytest

from testbed.bench.lease_resources import needs, part_of
from testbed.errors import BusyError
from testbed.faults.far_end_descriptors import FarEndOptions
from testbed.record.journal import open_entries
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.log import read_events
from testbed.run.cleanup import Cleanup
from testbed.run.fault_injection import FarEndFaults
from testbed.run.planning.steps import FarEndFault
from testbed.run.trial import RunContext

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
def context(bench, leases, inbox, log):
    lease = leases.take(needs(bench.lab, bench.lab.hosts), "test")
    bench.guard.hold(lease)
    yield RunContext(bench, inbox, bench._journal, log, Cleanup(inbox, log), None, Twin())
    lease.release()


def take_a_port(bench, leases):
    leases.unlock(part_of(bench.lab, "ocs", "1"), forced=True)


def test_a_far_end_fault_begins_and_ends_while_the_switch_is_leased(context, tmp_path):
    faults = FarEndFaults(context)
    faults.begin(FAULT, FarEndOptions())
    assert faults.end()
    assert context.twin.told == [("fault", "ocs", "busy"), ("clear", "ocs", "busy")]
    events = {event.kind: event for event in read_events(tmp_path / "log.jsonl")}
    assert events["far-end.clear"].origin.cause == events["far-end.fault"].seq


def test_no_far_end_fault_begins_without_its_lease(context, bench, leases):
    take_a_port(bench, leases)
    with pytest.raises(BusyError, match="the lease of this run is lost"):
        FarEndFaults(context).begin(FAULT, FarEndOptions())
    assert context.twin.told == []
    context.cleanup.run()
    assert context.cleanup.failures == []


def test_without_its_lease_a_far_end_fault_is_not_cleared_and_its_undo_stays_open(
    context, bench, leases
):
    FarEndFaults(context).begin(FAULT, FarEndOptions())
    take_a_port(bench, leases)
    context.cleanup.run()
    assert context.twin.told == [("fault", "ocs", "busy")]
    (left,) = context.cleanup.failures
    assert left.startswith("switch-busy of ocs: the lease of this run is lost")
    (entry,) = open_entries(bench._run.journal)
    assert (entry["undo"], entry["switch"]) == ("far-end-fault", "ocs")
