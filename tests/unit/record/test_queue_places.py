"""The queue beside the leases: turns, moves, interruptions, and processes that are killed."""

import math
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from random import Random

import pytest

from testbed.errors import BusyError, LabError, UsageError
from testbed.record.journal import Journal
from testbed.record.lab_queue import Cancelled, LabQueue, QueueRequest
from testbed.record.lease_rules import Resource
from testbed.record.lease_store import FileStore, PostgresStore
from testbed.record.leases import Leases
from testbed.record.queue_place import QueuePlace
from testbed.record.queue_rules import experiments
from testbed.record.rundir import RunDirectory
from testbed.tenancy.lab_queue import PATIENCE, Move
from tests.unit.record.postgres_server import binaries, running_server

BOX = "TCPIP::192.0.2.10::5025::SOCKET"
ONE, TWO, THREE = (Resource(BOX, part, f"ocs.{part}") for part in "123")
WHOLE = Resource(BOX, "", "ocs")


class Lab:
    """A store with a clock of the test's, its queue, and its leases."""

    def __init__(self, path):
        self.path = path
        self.now = 1000.0
        self.store = FileStore(path, clock=lambda: self.now)
        self.queue, self.leases = LabQueue(self.store), Leases(self.store)

    def place(self, *resources, command="run", policy="fifo", limit=600.0, trials=1):
        request = QueueRequest(policy, limit, trials, command)
        self.now += 1.0
        return QueuePlace(self.queue, resources, command, request)

    def line(self):
        return [one.holder.reason for one in self.queue.snapshot().line()]

    def entry(self, command):
        return next(one for one in self.queue.entries() if one.holder.reason == command)


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path / "leases.sqlite")


@pytest.fixture
def ended():
    """Give up the places, and release the leases, of a test at its end."""
    with ExitStack() as stack:
        yield lambda held: stack.callback(held.leave if hasattr(held, "leave") else held.release)


def refused(place, words):
    with pytest.raises(BusyError, match=words) as error:
        place.start()
    return str(error.value)


def test_entries_start_in_turn_and_disjoint_ones_side_by_side(lab):
    first, second, aside = (
        lab.place(ONE, TWO, command="first"),
        lab.place(TWO, THREE, command="second"),
        lab.place(THREE, command="aside", limit=700.0),
    )
    refused(second, r"^2 of 3 in the queue; free, and kept for [0-9a-f]{6} first of ")
    lease = first.start()
    lease.check(BOX, ["1", "2"])
    refused(second, r"^1 of 2 in the queue; ocs\.2: held by .*: first$")
    with pytest.raises(BusyError, match=r"ocs\.2: held by .*--queue or --wait-lock"):
        lab.leases.take([TWO], "theirs")
    refused(aside, r"^2 of 2 in the queue; free, and kept")  # it may take longer than the first
    lease.release()
    lease = second.start()
    refused(aside, r"^1 of 1 in the queue; ocs\.3: held by")
    lease.release()
    aside.start().release()
    assert lab.line() == [] and lab.leases.find() == []
    assert [one.holder.reason for one in lab.queue.history()] == ["first", "second", "aside"]


def test_a_place_says_how_it_was_let_in_and_what_was_expected_as_it_came(lab):
    """What came before it ran for as long as it was expected to, by its limit."""
    first = lab.place(ONE, command="first", limit=100.0)
    lease = first.start()
    assert (first.admission.policy, first.admission.behind) == ("fifo", "")
    assert first.admission.waited == first.admission.expected == 0.0
    then = lab.place(ONE, TWO, command="then", limit=40.0)
    last = lab.place(TWO, THREE, command="last", limit=200.0)
    lab.now += 9.0
    refused(last, "kept for .* then of")
    assert last.admission.expected == pytest.approx(100.0 - 11.0 + 40.0)
    lab.now += 10.0
    refused(last, "kept for .* then of")
    assert last.admission.expected == pytest.approx(129.0), "as it came"
    refused(then, "held by .*: first$")
    lab.now += 60.0
    lease.release()
    lease = then.start()
    assert then.admission.waited == pytest.approx(80.0)
    assert "held by" in then.admission.behind
    lease.release()
    last.start().release()


def test_parts_are_taken_until_those_who_have_or_await_them_are_expected_to_end(lab, ended):
    running, waiting = lab.place(ONE, limit=60.0), lab.place(ONE, TWO, command="b", limit=30.0)
    ended(running.start())
    ended(waiting)
    begun = lab.now
    groups = {"one": [ONE], "two": [TWO], "three": [THREE], "whole": [WHOLE]}
    taken = lab.queue.snapshot().taken_until(groups)
    assert taken == dict.fromkeys(("one", "two", "whole"), begun + 60.0 + 30.0)
    lab.now += 70.0  # longer than it was to take; and the one that waits has not asked for a minute
    taken = lab.queue.snapshot().taken_until(groups)
    assert taken == dict.fromkeys(("one", "whole"), begun + 60.0)
    ended(lab.leases.take([THREE], "outside the queue", None))
    assert lab.queue.snapshot().taken_until({"three": [THREE]}) == {"three": math.inf}


def test_an_entry_waits_for_locks_by_hand_and_for_runs_outside_the_queue(lab):
    lab.leases.lock([ONE], "cleaning", 30.0)
    whole = lab.place(WHOLE, command="whole")
    refused(whole, r"^1 of 1 in the queue; ocs\.1: held by .*cleaning$")
    long, short = lab.place(TWO, command="long"), lab.place(TWO, command="short", limit=10.0)
    refused(long, "kept for .* whole of")  # the lock is known to end before it
    short.start().release()
    long.leave()
    lab.now += 40.0
    whole.start().release()


def test_an_entry_waits_for_a_run_that_must_be_recovered_and_holds_up_nobody(lab, tmp_path):
    run = RunDirectory.create(tmp_path / "results", "dead")
    journal = Journal(run.journal)
    journal.record_undo("circuits", start={})
    lab.leases.take([ONE], "dead", run).abandon()
    assert lab.queue.snapshot().taken_until({"one": [ONE], "two": [TWO]}) == {"one": math.inf}
    waits, other = lab.place(ONE, TWO, command="waits"), lab.place(TWO, command="other")
    refused(
        waits, rf"^2 of 2 in the queue; .*left something changed; type: testbed recover {run.path}"
    )
    other.start().release()
    waits.leave()
    journal.close()


def test_an_entry_whose_process_has_gone_blocks_nobody_and_its_place_is_kept(lab, ended):
    gone, other = lab.place(ONE, command="gone"), lab.place(ONE, command="other")
    gone._liveness.abandon()
    lease = other.start()
    assert lab.entry("gone").state == "interrupted" and lab.line() == []
    later = lab.place(ONE, command="later")
    again = lab.place(ONE, command="gone")
    assert lab.line() == ["gone", "later"]
    assert [one.state for one in lab.queue.entries()] == ["waiting", "running", "waiting"]
    lease.release()
    for place in (again, later):
        place.start().release()


def test_a_run_that_was_killed_while_it_ran_has_its_old_place_too(lab):
    dead = lab.place(ONE, command="dead").start()
    waits = lab.place(ONE, command="waits")
    dead.abandon()
    again = lab.place(ONE, command="dead")
    assert lab.line() == ["dead", "waits"]
    again.start().release()
    waits.leave()
    assert [one.holder.reason for one in lab.queue.history()] == ["dead"]


def test_a_place_is_kept_for_a_week(lab):
    lab.place(ONE, command="gone")._liveness.abandon()
    lab.now += 7 * 86_400.0
    assert lab.entry("gone").state == "interrupted"
    lab.now += 60.0
    lab.place(ONE, command="other").leave()
    assert lab.queue.entries() == []


def test_an_entry_that_has_not_asked_for_a_minute_is_passed_over(lab):
    silent = lab.place(ONE, command="silent")
    lab.now += 59.0
    other = lab.place(ONE, command="other")
    refused(other, "kept for .* silent of")
    lab.now += 6.0
    assert lab.line() == ["other", "silent"]
    other.start().release()
    silent.start().release()


def test_a_holder_on_another_machine_is_in_the_queue_until_a_minute_after_its_last_word(tmp_path):
    lab = Lab(tmp_path / "leases.sqlite")
    lab.queue = LabQueue(lab.store, look=lambda claim: None)
    place = lab.place(ONE, command="away")
    lab.leases.lock([ONE], "cleaning", 1e6)
    for _ in range(10):
        lab.now += 20.0
        refused(place, "cleaning")
    lab.now += 61.0
    assert lab.line() == [] and lab.entry("away").state == "interrupted"
    refused(place, "^1 of 1 in the queue; .*cleaning")  # it was only out of reach
    place.leave()
    lab.now += 6.0
    with pytest.raises(Cancelled):
        place.start()


def test_moves_and_cancellations_of_others_need_force(lab, monkeypatch, ended):
    monkeypatch.setenv("LOGNAME", "ann")
    lease = lab.place(WHOLE, command="runs").start()
    anns = [lab.place(ONE, command=f"ann-{n}") for n in range(2)]
    monkeypatch.setenv("LOGNAME", "bob")
    bobs = [lab.place(ONE, command=f"bob-{n}") for n in range(2)]
    for place in (*anns, *bobs):
        ended(place)

    def move(command, to, other="", forced=False):
        token = lab.entry(other).token if other else ""
        lab.queue.move(lab.entry(command), Move(to, 0.0, token), forced=forced)
        return lab.line()

    assert move("bob-1", "before", "bob-0") == ["ann-0", "ann-1", "bob-1", "bob-0"]
    with pytest.raises(BusyError, match="runs of ann does not wait: it is running"):
        move("bob-1", "before", "runs", forced=True)
    with pytest.raises(BusyError, match=r"ann-0 of ann is another user's; .*--force"):
        move("bob-1", "first")
    with pytest.raises(BusyError, match="ann-0 of ann"):
        move("ann-0", "last")
    assert lab.line() == ["ann-0", "ann-1", "bob-1", "bob-0"]
    assert move("bob-1", "first", forced=True) == ["bob-1", "ann-0", "ann-1", "bob-0"]
    assert (lab.entry("bob-1").moved_by, lab.entry("bob-1").move.to) == ("bob", "first")
    assert move("bob-1", "last") == ["ann-0", "ann-1", "bob-0", "bob-1"]
    with pytest.raises(BusyError, match="another user's"):
        lab.queue.cancel(lab.entry("ann-1"), forced=False)
    lab.queue.cancel(lab.entry("ann-1"), forced=True)
    lab.queue.cancel(lab.entry("bob-0"), forced=False)
    assert lab.line() == ["ann-0", "bob-1"]
    with pytest.raises(Cancelled, match="taken out of the queue by bob"):
        anns[1].start()
    with pytest.raises(BusyError, match="it is running"):
        lab.queue.cancel(lab.entry("runs"), forced=True)
    lease.release()


def test_a_move_before_an_entry_that_leaves_passes_nobody_else(lab, monkeypatch, ended):
    lease = lab.place(WHOLE, command="runs").start()
    for user, command in (("ann", "ann-0"), ("bob", "bob-0"), ("ann", "ann-1"), ("bob", "bob-1")):
        monkeypatch.setenv("LOGNAME", user)
        ended(lab.place(ONE, command=command))
    move = Move("before", 0.0, lab.entry("bob-0").token)
    lab.queue.move(lab.entry("bob-1"), move, forced=True)
    assert lab.line() == ["ann-0", "bob-1", "bob-0", "ann-1"]
    lab.queue.cancel(lab.entry("bob-0"), forced=False)
    assert lab.line() == ["ann-0", "ann-1", "bob-1"]
    lease.release()


def test_a_run_whose_machine_was_silent_is_running_again_and_lasted_as_long_as_it_did(tmp_path):
    lab, is_alive = Lab(tmp_path / "leases.sqlite"), [True]
    lab.queue = LabQueue(lab.store, look=lambda claim: is_alive[0])
    lease = lab.place(ONE, command="runs", trials=2).start()
    lab.now += 30.0
    is_alive[0] = False
    assert lab.entry("runs").state == "interrupted"
    is_alive[0] = True
    assert lab.entry("runs").state == "running"
    is_alive[0] = False
    lab.queue.snapshot()
    lab.now += 30.0
    lease.release()
    (ran,) = lab.queue.history()
    assert ran.ended - ran.started == 60.0
    place = lab.place(ONE, command="runs", trials=1, limit=500.0)
    is_alive[0] = True
    assert lab.entry("runs").expected == 30.0
    place.leave()


def test_an_entry_that_came_again_keeps_who_moved_it_and_says_when_it_came(lab, monkeypatch):
    monkeypatch.setenv("LOGNAME", "ann")
    place = lab.place(ONE, command="gone")
    arrived = lab.entry("gone").arrived
    monkeypatch.setenv("LOGNAME", "bob")
    lab.queue.move(lab.entry("gone"), Move("first", 0.0), forced=True)
    place._liveness.abandon()
    lab.now += 86_400.0
    monkeypatch.setenv("LOGNAME", "ann")
    again = lab.place(ONE, command="gone")
    entry = lab.entry("gone")
    assert (entry.arrived, entry.entered, entry.moved_by) == (arrived, lab.now, "bob")
    again.start().release()
    (ran,) = experiments(lab.queue.history())
    assert ran.entry.arrived == lab.now


def test_an_interrupted_entry_is_cancelled_at_once(lab):
    lab.place(ONE, command="gone")._liveness.abandon()
    lab.queue.cancel(lab.queue.find_entry(lab.entry("gone").name), forced=False)
    assert lab.queue.entries() == []
    with pytest.raises(UsageError, match="no entry of the queue: 'gone'; the queue is empty"):
        lab.queue.find_entry("gone")


def test_the_time_that_an_experiment_takes_is_expected_from_those_before_it(lab):
    for seconds, trials in ((40.0, 2), (90.0, 3), (10.0, 1)):
        lease = lab.place(ONE, command="known", trials=trials).start()
        lab.now += seconds
        lease.release()
    places = [lab.place(ONE, command=name, trials=4, limit=100.0) for name in ("known", "new")]
    assert [lab.entry(name).expected for name in ("known", "new")] == [80.0, 100.0]
    for place in places:
        place.leave()


def test_the_oldest_is_not_overtaken_any_more_once_its_patience_is_over(lab, ended):
    held = lab.place(ONE, command="runs").start()
    wide = lab.place(WHOLE, command="wide", policy="srsf")
    for number in range(4):
        small = lab.place(TWO, command=f"small-{number}", policy="srsf")
        refused(wide, rf"^{2 if number < 3 else 1} of 2 in the queue; ocs.1: held by")
        if number < 3:
            small.start().release()
            lab.now += PATIENCE / 3
        else:
            refused(small, "kept for .* wide of")
            ended(small)
    held.release()
    ended(wide.start())


def test_what_another_user_has_written_into_the_store_and_is_no_entry_is_passed_over(lab):
    place = lab.place(ONE, command="mine")
    for number, data in enumerate(("", "[]", "{}", '{"holder": 3}', '{"policy": 1}')):
        with lab.store.open() as ledger:
            values = (f"bad-{number}", "waiting", 0.0, 1e12, None, None, data)
            ledger.execute("INSERT INTO testbed_queue VALUES (?, ?, ?, ?, ?, ?, ?)", *values)
    assert lab.line() == ["mine"]
    place.start().release()


def test_a_place_is_given_up_although_the_store_does_not_answer(lab):
    class Away:
        def open(self):
            raise LabError("the server is away")

    place, store = lab.place(ONE, command="mine"), lab.queue._store
    lab.queue._store = Away()
    place.leave()
    lab.queue._store = store
    assert lab.entry("mine").state == "interrupted"


class History:
    """Entries that do what entries do, in an order drawn from a seed, and what each should have."""

    def __init__(self, lab, seed):
        self.lab, self.rng = lab, Random(seed)
        self.waiting, self.running, self.number = {}, {}, 0

    def enter(self):
        self.number += 1
        policy = self.rng.choice(["makespan", "fifo", "srsf", "irs", "random"])
        parts = self.rng.sample([ONE, TWO, THREE, WHOLE], self.rng.choice([1, 1, 2]))
        limit = self.rng.choice([10.0, 100.0, 1000.0])
        command = str(self.number)
        place = self.lab.place(*parts, command=command, policy=policy, limit=limit)
        self.waiting[command] = (place, parts)

    def ask(self):
        for command in self.rng.sample(sorted(self.waiting), len(self.waiting)):
            place, parts = self.waiting[command]
            try:
                lease = place.start()
            except BusyError:
                continue
            mine = cells(parts)
            assert not any(mine & cells(theirs) for _, theirs in self.running.values())
            self.running[command] = (lease, parts)
            del self.waiting[command]

    def end(self):
        if self.running:
            lease, _ = self.running.pop(self.rng.choice(sorted(self.running)))
            self.rng.choice([lease.release, lease.abandon])()

    def kill(self):
        if self.waiting:
            place, _ = self.waiting.pop(self.rng.choice(sorted(self.waiting)))
            self.rng.choice([place.leave, place._liveness.abandon])()

    def move(self):
        if self.waiting:
            mine, other = (self.lab.entry(self.rng.choice(sorted(self.waiting))) for _ in range(2))
            to = self.rng.choice(["first", "last", "before"])
            self.lab.queue.move(mine, Move(to, 0.0, other.token), forced=True)

    def rest(self):
        self.lab.now += self.rng.choice([6.0, 40.0, PATIENCE])
        self.ask()


def cells(parts):
    return {part for r in parts for part in ([r.part] if r.part else ["1", "2", "3", ""])}


@pytest.mark.parametrize("seeds", [3, pytest.param(100, marks=pytest.mark.soak)])
def test_whatever_entries_do_none_has_what_another_has_and_all_that_stay_have_their_turn(
    seeds, tmp_path
):
    for seed in range(seeds):
        history = History(Lab(tmp_path / f"{seed}.sqlite"), seed)
        steps = [history.enter, history.ask, history.end, history.kill, history.move, history.rest]
        for step in history.rng.choices(steps, [4, 4, 2, 1, 2, 1], k=60):
            step()
        for _ in range(len(history.waiting) + len(history.running) + 1):
            while history.running:
                history.end()
            history.lab.now += 6.0
            history.ask()
        assert not history.waiting and not history.running
        assert history.lab.line() == []


USE = """
import os, sys, time
from pathlib import Path
from testbed.errors import BusyError
from testbed.record.lab_queue import LabQueue, QueueRequest
from testbed.record.lease_rules import Resource
from testbed.record.lease_store import FileStore, PostgresStore
from testbed.record.queue_place import QueuePlace
url, witness, name, seconds, *hosts = sys.argv[1:]
store = PostgresStore(url) if url.startswith("postgres") else FileStore(Path(url))
wanted = [Resource("ssh://" + host, "", host) for host in hosts]
request = QueueRequest("makespan", float(seconds), 1, name)
place = QueuePlace(LabQueue(store), wanted, name, request)
print("waits", flush=True)
while True:
    try:
        lease = place.start()
        break
    except BusyError:
        time.sleep(0.2)  # SQLite has no order of those who wait: some would wait for ten seconds
for host in hosts:
    with open(os.path.join(witness, host), "x") as file:
        file.write(name)
print("runs", flush=True)
time.sleep(float(seconds))
for host in hosts:
    os.unlink(os.path.join(witness, host))
lease.release()
print("done", flush=True)
"""


class Rack:
    """Experiments of five people on 16 hosts, each a process; a file per host shows two owners."""

    def __init__(self, url, folder, count, seed):
        rng = Random(seed)
        self.url, self.witness = url, folder / "witness"
        self.witness.mkdir()
        self.wishes = {}
        for number in range(count):
            first, size = rng.randrange(15), rng.choice([1, 2, 2, 4, 4, 8, 16])
            hosts = [f"h{host}" for host in range(first, min(16, first + size))]
            self.wishes[f"{number:02}-person-{rng.randrange(5)}"] = (rng.uniform(0.1, 0.5), hosts)
        self.started = {}

    def start(self, names):
        for name in names:
            seconds, hosts = self.wishes[name]
            command = [sys.executable, "-c", USE, self.url, self.witness, name, str(seconds)]
            self.started[name] = subprocess.Popen(
                [*command, *hosts],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "LOGNAME": name[3:]},
            )
        for name in names:
            process = self.started[name]
            assert process.stdout.readline() == "waits\n", process.communicate()

    def restart(self):
        """Kill all at one moment, as a power failure does; return those that had said `done`."""
        for process in self.started.values():
            process.send_signal(signal.SIGSTOP)
        for process in self.started.values():
            process.kill()
        said = {name: process.communicate() for name, process in self.started.items()}
        for path in self.witness.iterdir():
            path.unlink()
        assert [err for _, err in said.values() if err] == []
        return {name for name, (out, _) in said.items() if "done" in out}

    def finish(self, limit):
        end = time.monotonic() + limit
        for name, process in self.started.items():
            _, err = process.communicate(timeout=max(1.0, end - time.monotonic()))
            assert (process.returncode, err) == (0, ""), name


@contextmanager
def place_for_leases(kind, folder):
    if kind == "file":
        yield str(folder / "leases.sqlite"), FileStore(folder / "leases.sqlite")
        return
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    if binaries() is None:
        pytest.skip("no PostgreSQL server is installed")
    with running_server() as server:
        yield server.url(), PostgresStore(server.url())


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("file", 6),
        pytest.param("file", 50, marks=pytest.mark.soak),
        pytest.param("postgres", 12, marks=pytest.mark.soak),
    ],
)
def test_experiments_of_five_people_survive_a_restart_of_the_machine(kind, count, tmp_path):
    with place_for_leases(kind, tmp_path) as (url, store):
        rack = Rack(url, tmp_path, count, seed=count)
        try:
            rack.start(rack.wishes)
            end = time.monotonic() + 60.0
            while len(LabQueue(store).history()) < count // 3:
                assert time.monotonic() < end, LabQueue(store).entries()
                time.sleep(0.02)
            done = rack.restart()
            places = {one.holder.reason: one.arrived for one in LabQueue(store).entries()}
            ended = {one.holder.reason for one in LabQueue(store).history()}
            left = [name for name in rack.wishes if name not in ended]
            assert done <= ended and set(left) == places.keys() and left
            rack.started.clear()
            rack.start(left[::-1])
            rack.finish(limit=100.0)
        finally:
            for process in rack.started.values():
                process.kill()
                process.communicate()
        history = LabQueue(store).history()
        assert {one.holder.reason for one in history} == rack.wishes.keys()
        for one in history:
            assert one.arrived == places.get(one.holder.reason, one.arrived)
        assert LabQueue(store).entries() == [] and Leases(store).find() == []
        print(f"{kind}: {count} experiments, {len(ended)} had ended when the machine was restarted")
