"""How a run comes to its leases: at once, by waiting, or not at all; and how it gives them back."""

import threading

import pytest
from slow_store import SlowStore

from testbed.bench.bench import Bench
from testbed.bench.lease_resources import needs, part_of
from testbed.clock import Deadline
from testbed.errors import BusyError, UnsafeError
from testbed.record.journal import Journal
from testbed.record.leases import Leases, Owed
from testbed.record.log import read_events
from testbed.record.rundir import RunDirectory
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Interrupted
from testbed.run.tenure import Tenure

LONG = 30.0


class House:
    """A lab, its leases, and runs that want some."""

    def __init__(self, bench, log, inbox, directory):
        self.bench = bench
        self.log = log
        self.inbox = inbox
        self.directory = directory
        self.store = SlowStore(directory / "leases.sqlite")
        self.leases = Leases(self.store)
        self.run = RunDirectory.create(directory / "results", "first")
        Journal(self.run.journal).close()

    def tenure(self, patience=0.0, run=None):
        return Tenure(self.leases, run or self.run, "job", self.log, self.inbox, patience)

    def ended(self, tenure):
        """Come to the end of a run that has nothing to take back but its leases."""
        cleanup = Cleanup(self.inbox, self.log)
        tenure.prepare_end(cleanup)
        cleanup.run()
        return cleanup.failures

    def others(self, *hosts):
        return self.leases.take(needs(self.bench.lab, hosts), "theirs")

    def events(self, kind):
        return [e for e in read_events(self.directory / "log.jsonl") if e.kind == kind]


@pytest.fixture
def house(bench, log, inbox, tmp_path):
    return House(bench, log, inbox, tmp_path)


def soon():
    return Deadline.after(LONG)


def test_a_run_has_all_it_needs_and_its_bench_may_move_that_and_nothing_else(house):
    tenure = house.tenure()
    tenure.begin(house.bench, ["h0", "h1"])
    (taken,) = house.events("lease.taken")
    assert taken.data["resources"] == sorted(map(str, needs(house.bench.lab, ["h0", "h1"])))
    ports = house.bench.lab.wiring()
    mine, theirs = (
        next(fibres.tx for port, fibres in ports.items() if port.host == host)
        for host in ("h0", "h2")
    )
    house.bench.guard.check(mine.switch, [mine.number])
    with pytest.raises(BusyError, match="is not leased"):
        house.bench.guard.check(theirs.switch, [theirs.number])
    tenure.end(soon())
    assert house.leases.find() == []


def test_without_patience_who_is_in_the_way_is_told_at_once(house):
    others = house.others("h1")
    with pytest.raises(BusyError, match=r"h1.*: held by .*: theirs"):
        house.tenure().begin(house.bench, ["h0", "h1"])
    assert house.events("lease.wait") == []
    others.release()


def test_who_waits_says_for_whom_and_goes_on_when_it_is_free(house):
    others = house.others("h1")
    house.log.subscribe(lambda event: event.kind == "lease.wait" and told.set())
    told = threading.Event()
    threading.Thread(target=lambda: (told.wait(LONG), others.release())).start()
    tenure = house.tenure(patience=float("inf"))
    tenure.begin(house.bench, ["h0", "h1"])
    (wait,) = house.events("lease.wait")
    assert "held by" in wait.data["holder"] and "theirs" in wait.data["holder"]
    assert house.events("lease.taken")
    tenure.end(soon())


def test_patience_ends(house):
    others = house.others("h1")
    with pytest.raises(BusyError, match=r"theirs.* in vain"):
        house.tenure(patience=1e-9).begin(house.bench, ["h1"])
    others.release()


def test_a_signal_ends_the_wait(house):
    others = house.others("h1")
    house.log.subscribe(lambda event: event.kind == "lease.wait" and house.inbox.interrupt(15))
    with pytest.raises(Interrupted):
        house.tenure(patience=float("inf")).begin(house.bench, ["h1"])
    others.release()


def test_nobody_waits_for_the_dead(house):
    run = RunDirectory.create(house.directory / "results", "dead")
    journal = Journal(run.journal)
    journal.promise("circuits", start={}, ports={}, made={})
    journal.close()
    dead = house.tenure(run=run)
    dead.begin(house.bench, ["h1"])
    left = rf"not all was taken back: circuits; type: testbed recover {run.path}"
    with pytest.raises(UnsafeError, match=left):
        dead.end(soon())
    with pytest.raises(Owed, match=f"testbed recover {run.path}"):
        house.tenure(patience=float("inf")).begin(house.bench, ["h1"])
    house.leases.release_run(run.id)


def test_a_lost_lease_ends_the_wait_under_way_and_what_is_free_is_had_again_to_restore(house):
    tenure = house.tenure()
    tenure.begin(house.bench, ["h0"])
    fibres = next(f for port, f in house.bench.lab.wiring().items() if port.host == "h0")
    port = part_of(house.bench.lab, fibres.tx.switch, str(fibres.tx.number))
    house.leases.unlock(port, forced=True)
    tenure._lease._renew()
    with pytest.raises(BusyError, match=r"the lease of this run is lost: .* took"):
        house.inbox.pause(soon())
    assert house.ended(tenure) == []
    house.bench.guard.check(fibres.tx.switch, [fibres.tx.number])
    tenure.end(soon())
    assert house.leases.find() == []


def test_a_loss_that_comes_with_the_end_ends_nothing_any_more(house):
    tenure = house.tenure()
    tenure.begin(house.bench, ["h0"])
    house.leases.unlock(needs(house.bench.lab, ["h0"]), forced=True)
    theirs = house.others("h0")
    tenure._lease._renew()
    assert house.ended(tenure) == []
    assert "belongs to somebody else now" in house.events("note")[-1].data["text"]
    cleanup = Cleanup(house.inbox, house.log)
    cleanup.push("leases", tenure.end, LONG)
    cleanup.run()
    assert cleanup.failures == []
    assert [found.claim.holder.reason for found in house.leases.find()] == ["theirs"]
    theirs.release()


def test_a_loss_that_cannot_be_recorded_keeps_nothing_from_being_taken_back(house, full_disk):
    tenure = house.tenure()
    tenure.begin(house.bench, ["h0"])
    house.leases.unlock(needs(house.bench.lab, ["h0"]), forced=True)
    theirs = house.others("h0")
    tenure._lease._renew()
    with full_disk():
        house.ended(tenure)
    theirs.release()


def test_a_store_that_is_frozen_does_not_keep_the_clean_up_from_beginning(house):
    tenure = house.tenure()
    tenure.begin(house.bench, ["h0"])
    cleanup = Cleanup(house.inbox, house.log)
    with house.store.frozen():
        threading.Thread(target=tenure._lease._renew).start()
        assert house.store.asked.wait(LONG)
        end = threading.Thread(target=tenure.prepare_end, args=[cleanup])
        end.start()
        end.join(5.0)
        assert not end.is_alive()
    assert cleanup.failures == []
    tenure.end(soon())


def test_signals_end_the_wait_for_what_was_lost(house):
    tenure = house.tenure()
    tenure.begin(house.bench, ["h0"])
    house.leases.unlock(needs(house.bench.lab, ["h0"]), forced=True)
    tenure._lease._renew()
    with house.store.frozen():
        for _ in range(3):
            house.inbox.interrupt(2)
        assert house.ended(tenure) == ["lost leases: left in the middle"]
    tenure.end(soon())


class Named:
    """A bench whose host answers and says what it is: what it has besides is leased by that."""

    def __init__(self, house, host, hardware):
        self.bench = Bench(house.bench.lab, house.run, None, house.log, lambda *report: None)
        self.bench.guard.answered.host(host, [hardware])


def test_who_finds_a_box_under_another_name_waits_for_it_too(house):
    """Two hosts of the file are one machine: so it is as if two files named it differently."""
    theirs = Named(house, "h1", "0c:42:a1:00:00:01").bench
    others = house.others("h1")
    others.widen(theirs.guard.answered.resources(others.resources))
    house.log.subscribe(lambda event: event.kind == "lease.wait" and told.set())
    told = threading.Event()
    threading.Thread(target=lambda: (told.wait(LONG), others.release())).start()
    ours = Named(house, "h0", "0c:42:a1:00:00:01").bench
    tenure = house.tenure(patience=float("inf"))
    tenure.begin(ours, ["h0"])
    assert house.events("lease.wait") == []
    assert tenure.widen(ours) > 0.0
    (wait,) = house.events("lease.wait")
    assert wait.data["holder"].startswith("h1, known here as h0: held by")
    (found,) = house.leases.find()
    assert "hardware 0c:42:a1:00:00:01" in {r.box for r in found.claim.resources}
    tenure.end(soon())


def test_without_patience_a_box_under_another_name_is_refused_and_nothing_more_is_had(house):
    theirs = Named(house, "h1", "0c:42:a1:00:00:01").bench
    others = house.others("h1")
    others.widen(theirs.guard.answered.resources(others.resources))
    ours = Named(house, "h0", "0c:42:a1:00:00:01").bench
    tenure = house.tenure()
    tenure.begin(ours, ["h0"])
    with pytest.raises(BusyError, match=r"^h1, known here as h0: held by .*: theirs"):
        tenure.widen(ours)
    with pytest.raises(BusyError, match=r"^h1, known here as h0"):
        ours.guard.host("h0")
    tenure.end(soon())
    others.release()
