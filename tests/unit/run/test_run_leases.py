"""How a run comes to its leases: at once, by waiting, or not at all; and how it gives them back."""

import threading

import pytest

from testbed.bench.bench import Bench
from testbed.bench.lease_resources import needs, part_of
from testbed.clock import Deadline
from testbed.errors import BusyError, LabError, UnsafeError
from testbed.record.claim_registry import RecoveryRequired
from testbed.record.journal import Journal
from testbed.record.lab_queue import Cancelled, LabQueue, QueueRequest
from testbed.record.leases import Leases
from testbed.record.log import read_events
from testbed.record.queue_place import QueuePlace
from testbed.record.rundir import RunDirectory
from testbed.run import run_leases as run_leases_module
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Interrupted
from testbed.run.run_leases import RunLeases
from tests.unit.run.slow_store import SlowStore

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

    def run_leases(self, patience=0.0, run=None):
        return RunLeases(self.leases, run or self.run, "job", self.log, self.inbox, patience)

    def ended(self, run_leases):
        """Come to the end of a run that has nothing to take back but its leases."""
        cleanup = Cleanup(self.inbox, self.log)
        run_leases.before_cleanup(cleanup)
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


def test_a_run_leases_all_that_it_needs_and_may_change_no_other_resource(house):
    run_leases = house.run_leases()
    run_leases.take(house.bench, ["h0", "h1"])
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
    run_leases.give_back(soon())
    assert house.leases.find() == []


def test_a_run_that_does_not_wait_for_leases_names_the_holder_at_once(house):
    others = house.others("h1")
    with pytest.raises(BusyError, match=r"h1.*: held by .*: theirs"):
        house.run_leases().take(house.bench, ["h0", "h1"])
    assert house.events("lease.wait") == []
    others.release()


def test_a_waiting_run_names_the_holder_and_goes_on_when_it_is_free(house):
    others = house.others("h1")
    house.log.subscribe(lambda event: event.kind == "lease.wait" and told.set())
    told = threading.Event()
    threading.Thread(target=lambda: (told.wait(LONG), others.release())).start()
    run_leases = house.run_leases(patience=float("inf"))
    run_leases.take(house.bench, ["h0", "h1"])
    (wait,) = house.events("lease.wait")
    assert "held by" in wait.data["holder"] and "theirs" in wait.data["holder"]
    assert house.events("lease.taken")
    run_leases.give_back(soon())


def in_turn(house, reason, patience=float("inf")):
    """Return the leases of a run that waits in the lab's queue."""
    request = QueueRequest("fifo", 600.0, 1, reason)
    place = QueuePlace(LabQueue(house.store), [], reason, request)
    return RunLeases(house.leases, house.run, reason, house.log, house.inbox, patience, place)


def test_a_run_in_the_queue_tells_its_position_and_what_it_waits_for(house):
    others, told, queue = house.others("h1"), threading.Event(), LabQueue(house.store)
    house.log.subscribe(lambda event: event.kind == "lease.wait" and told.set())
    threading.Thread(target=lambda: (told.wait(LONG), others.release())).start()
    run_leases = in_turn(house, "mine")
    run_leases.take(house.bench, ["h0", "h1"])
    (wait,) = house.events("lease.wait")
    assert wait.data["holder"].startswith("1 of 1 in the queue; ")
    assert wait.data["holder"].endswith("theirs")
    assert [one.state for one in queue.entries()] == ["running"]
    run_leases.give_back(soon())
    assert queue.entries() == [] and house.leases.find() == []
    assert [one.holder.reason for one in queue.history()] == ["mine"]


@pytest.mark.parametrize("how", ["signal", "limit", "cancel"])
def test_a_run_leaves_the_queue_however_its_wait_ends(house, how):
    others, queue = house.others("h1"), LabQueue(house.store)

    def end(event):
        if event.kind == "lease.wait" and how == "signal":
            house.inbox.interrupt(2)
        elif event.kind == "lease.wait" and how == "cancel":
            queue.cancel(queue.entries()[0], forced=False)

    house.log.subscribe(end)
    ended = {"signal": (Interrupted, "SIGINT"), "limit": (BusyError, "gave up after")}
    error, words = ended.get(how, (Cancelled, "taken out of the queue by"))
    with pytest.raises(error, match=words):
        in_turn(house, "mine", 1e-9 if how == "limit" else LONG).take(house.bench, ["h1"])
    assert queue.entries() == []
    others.release()


def test_a_store_that_does_not_answer_for_a_moment_costs_no_place_in_the_queue(house):
    others, told = house.others("h1"), threading.Event()

    def told_of(event):
        if event.kind == "lease.wait" and "theirs" in event.data["holder"]:
            house.store.fails = 1
        elif event.kind == "lease.wait" and "cannot be used" in event.data["holder"]:
            told.set()

    house.log.subscribe(told_of)
    threading.Thread(target=lambda: (told.wait(LONG), others.release())).start()
    run_leases = in_turn(house, "mine")
    run_leases.take(house.bench, ["h0", "h1"])
    assert told.is_set()
    run_leases.give_back(soon())


def test_a_store_that_does_not_answer_for_long_ends_the_wait_and_the_place_is_kept(
    house, monkeypatch
):
    others, queue = house.others("h1"), LabQueue(house.store)
    monkeypatch.setattr(run_leases_module, "LEASE_TTL", 0.0)

    def told_of(event):
        if event.kind == "lease.wait":
            house.store.fails = 1  # it answers again when the place could be given up

    house.log.subscribe(told_of)
    with pytest.raises(LabError, match="cannot be used"):
        in_turn(house, "mine").take(house.bench, ["h1"])
    assert [one.state for one in queue.entries()] == ["interrupted"]
    others.release()


def test_an_error_after_a_queued_run_has_its_lease_is_not_tried_again(house):
    run_leases, calls = in_turn(house, "mine"), []
    run_leases.take(house.bench, ["h1"])

    def fail():
        calls.append(1)
        raise LabError("the switch hung up")

    house.bench.guard.lease_reported_identities = fail
    with pytest.raises(LabError, match="hung up"):
        run_leases.take_identified(house.bench)
    assert calls == [1]
    run_leases.give_back(soon())


def test_waiting_for_a_lease_ends_at_the_limit(house):
    others = house.others("h1")
    with pytest.raises(BusyError, match=r"theirs.*; gave up after "):
        house.run_leases(patience=1e-9).take(house.bench, ["h1"])
    others.release()


def test_a_signal_ends_the_wait_for_a_lease(house):
    others = house.others("h1")
    house.log.subscribe(lambda event: event.kind == "lease.wait" and house.inbox.interrupt(15))
    with pytest.raises(Interrupted):
        house.run_leases(patience=float("inf")).take(house.bench, ["h1"])
    others.release()


def test_no_run_waits_for_a_dead_holder(house):
    run = RunDirectory.create(house.directory / "results", "dead")
    journal = Journal(run.journal)
    journal.record_undo("circuits", start={}, ports={}, made={})
    journal.close()
    dead = house.run_leases(run=run)
    dead.take(house.bench, ["h1"])
    left = rf"changes were not taken back: circuits; type: testbed recover {run.path}"
    with pytest.raises(UnsafeError, match=left):
        dead.give_back(soon())
    with pytest.raises(RecoveryRequired, match=f"testbed recover {run.path}"):
        house.run_leases(patience=float("inf")).take(house.bench, ["h1"])
    house.leases.take_over(run, "recover").release()


def test_a_lost_lease_ends_the_wait_and_free_resources_are_leased_again_to_restore(house):
    run_leases = house.run_leases()
    run_leases.take(house.bench, ["h0"])
    fibres = next(f for port, f in house.bench.lab.wiring().items() if port.host == "h0")
    port = part_of(house.bench.lab, fibres.tx.switch, str(fibres.tx.number))
    house.leases.unlock(port, forced=True)
    run_leases._lease._renew()
    with pytest.raises(BusyError, match=r"the lease of this run is lost: .* took"):
        house.inbox.pause(soon())
    assert house.ended(run_leases) == []
    house.bench.guard.check(fibres.tx.switch, [fibres.tx.number])
    run_leases.give_back(soon())
    assert house.leases.find() == []


def test_a_lease_lost_at_the_end_of_a_run_has_no_effect(house):
    run_leases = house.run_leases()
    run_leases.take(house.bench, ["h0"])
    house.leases.unlock(needs(house.bench.lab, ["h0"]), forced=True)
    theirs = house.others("h0")
    run_leases._lease._renew()
    assert house.ended(run_leases) == []
    assert "belongs to another holder now" in house.events("note")[-1].data["text"]
    cleanup = Cleanup(house.inbox, house.log)
    cleanup.push("leases", run_leases.give_back, LONG)
    cleanup.run()
    assert cleanup.failures == []
    assert [found.claim.holder.reason for found in house.leases.find()] == ["theirs"]
    theirs.release()


def test_a_lost_lease_that_cannot_be_logged_does_not_stop_the_clean_up(house, full_disk):
    run_leases = house.run_leases()
    run_leases.take(house.bench, ["h0"])
    house.leases.unlock(needs(house.bench.lab, ["h0"]), forced=True)
    theirs = house.others("h0")
    run_leases._lease._renew()
    restored = []
    cleanup = Cleanup(house.inbox, house.log)
    cleanup.push("light", restored.append, LONG)
    run_leases.before_cleanup(cleanup)
    with full_disk():
        cleanup.run()
    (failure,) = cleanup.failures  # what was lost is not regained without a store
    assert failure.startswith("lost leases: the leases in ") and len(restored) == 1
    assert [found.claim.holder.reason for found in house.leases.find()] == ["theirs"]
    theirs.release()


def test_a_frozen_lease_store_does_not_delay_the_clean_up(house):
    run_leases = house.run_leases()
    run_leases.take(house.bench, ["h0"])
    cleanup = Cleanup(house.inbox, house.log)
    with house.store.frozen():
        threading.Thread(target=run_leases._lease._renew).start()
        assert house.store.asked.wait(LONG)
        end = threading.Thread(target=run_leases.before_cleanup, args=[cleanup])
        end.start()
        end.join(5.0)
        assert not end.is_alive()
    assert cleanup.failures == []
    run_leases.give_back(soon())


def test_signals_end_the_wait_for_lost_leases(house):
    run_leases = house.run_leases()
    run_leases.take(house.bench, ["h0"])
    house.leases.unlock(needs(house.bench.lab, ["h0"]), forced=True)
    run_leases._lease._renew()
    with house.store.frozen():
        for _ in range(3):
            house.inbox.interrupt(2)
        assert house.ended(run_leases) == ["lost leases: left in the middle"]
    run_leases.give_back(soon())


class Named:
    """A bench whose host answers and says what it is: what it has besides is leased by that."""

    def __init__(self, house, host, hardware):
        self.bench = Bench(house.bench.lab, house.run, None, house.log, lambda *report: None)
        self.bench.guard.answered.host(host, [hardware])


def test_a_run_waits_for_an_instrument_leased_under_another_name(house):
    """Two hosts of the file are one machine: so it is as if two files named it differently."""
    theirs = Named(house, "h1", "0c:42:a1:00:00:01").bench
    others = house.others("h1")
    others.widen(theirs.guard.answered.resources(others.resources))
    house.log.subscribe(lambda event: event.kind == "lease.wait" and told.set())
    told = threading.Event()
    threading.Thread(target=lambda: (told.wait(LONG), others.release())).start()
    ours = Named(house, "h0", "0c:42:a1:00:00:01").bench
    run_leases = house.run_leases(patience=float("inf"))
    run_leases.take(ours, ["h0"])
    assert house.events("lease.wait") == []
    assert run_leases.take_identified(ours) > 0.0
    (wait,) = house.events("lease.wait")
    assert wait.data["holder"].startswith("h1, known here as h0: held by")
    (found,) = house.leases.find()
    assert "hardware 0c:42:a1:00:00:01" in {r.box for r in found.claim.resources}
    run_leases.give_back(soon())


def test_without_waiting_an_instrument_leased_under_another_name_is_refused(house):
    theirs = Named(house, "h1", "0c:42:a1:00:00:01").bench
    others = house.others("h1")
    others.widen(theirs.guard.answered.resources(others.resources))
    ours = Named(house, "h0", "0c:42:a1:00:00:01").bench
    run_leases = house.run_leases()
    run_leases.take(ours, ["h0"])
    with pytest.raises(BusyError, match=r"^h1, known here as h0: held by .*: theirs"):
        run_leases.take_identified(ours)
    with pytest.raises(BusyError, match=r"^h1, known here as h0"):
        ours.guard.host("h0")
    run_leases.give_back(soon())
    others.release()
