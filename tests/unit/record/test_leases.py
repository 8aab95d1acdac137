"""Leases between real processes, on the store of one machine."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testbed.errors import BusyError, LabError
from testbed.record import lease as lease_module
from testbed.record.claim_registry import RecoveryRequired
from testbed.record.journal import Journal
from testbed.record.lease import BACK_LIMIT, CHANGE_LIMIT
from testbed.record.lease_rules import LEASE_TTL, Resource
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.locks import SHARED, liveness_file
from testbed.record.rundir import RunDirectory

BOX = "TCPIP::192.0.2.10::5025::SOCKET"
ONE, TWO = (Resource(BOX, part, f"ocs.{part}") for part in "12")
WHOLE = Resource(BOX, "", "ocs")
HOST = Resource("ssh://h0", "", "h0")

HOLD = """
import sys
from pathlib import Path
from testbed.record.lease_rules import Resource
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.rundir import RunDirectory
box, store, run, *parts = sys.argv[1:]
mine = [Resource(box, part, f"ocs.{part}") for part in parts]
lease = Leases(FileStore(Path(store))).take(mine, "lumion", RunDirectory(Path(run)))
print("held", flush=True)
sys.stdin.read()
lease.release()
"""
NOBODY = 65534


@pytest.fixture
def store(tmp_path):
    return tmp_path / "leases.sqlite"


@pytest.fixture
def leases(store):
    return Leases(FileStore(store))


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path / "results", "lumion")


@contextmanager
def holder(store, run, *parts):
    """Run a process that has a lease until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, BOX, store, run.path, *parts],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def take(leases, run, *resources):
    return leases.take(resources, "lumion", run)


def kill(process):
    process.kill()
    process.wait()


def test_a_refused_lease_names_its_holder_reason_and_start(leases, store, run):
    with holder(store, run, "1") as process:
        with pytest.raises(BusyError) as refusal:
            leases.take([TWO, ONE], "mine")
        said = str(refusal.value)
        assert re.match(r"ocs\.1: held by run \S+-lumion-\S+ of ", said)
        assert f"process {process.pid} on " in said
        assert re.search(r", since 20\S+Z\): lumion; ", said)
        assert "--wait-lock" in said
        process.communicate()
    take(leases, run, ONE, TWO).release()
    assert leases.find() == []


def test_disjoint_parts_of_a_device_may_have_two_holders_and_a_whole_device_one(leases, run):
    first, second = take(leases, run, ONE), take(leases, run, TWO, HOST)
    for refused in (WHOLE, HOST):
        with pytest.raises(BusyError):
            take(leases, run, refused)
    first.release()
    second.release()
    whole = take(leases, run, WHOLE)
    with pytest.raises(BusyError, match="ocs: held by"):
        take(leases, run, ONE)
    whole.check(BOX, ["1", "77"])
    whole.release()


def test_resources_are_listed_by_device_with_ranges_of_ports(leases, run):
    many = [Resource(BOX, str(number), f"ocs.{number}") for number in (10, 2, 1)]
    lease = take(leases, run, HOST, *many)
    with pytest.raises(BusyError, match=r"^ocs\.1-2, ocs\.10: held by"):
        take(leases, run, WHOLE)
    lease.release()


def test_a_lease_is_granted_as_a_whole_or_not_at_all(leases, run):
    first = take(leases, run, TWO)
    with pytest.raises(BusyError):
        take(leases, run, HOST, ONE, TWO)
    assert [found.claim.resources for found in leases.find()] == [{TWO}]
    first.release()


def test_the_lease_of_a_killed_process_ends_at_once(leases, store, run):
    with holder(store, run, "1") as process:
        token = leases.find()[0].claim.token
        kill(process)
    assert [found.standing for found in leases.find()] == ["ended"]
    assert [dead.id for dead in leases.dead_runs()] == [run.id]
    leases.remove_ended()
    assert leases.find() == []
    take(leases, run, ONE).release()
    assert not liveness_file(token).exists()


def test_a_stopped_process_keeps_its_lease_after_expiry(leases, store, run):
    with holder(store, run, "1") as process:
        process.send_signal(signal.SIGSTOP)
        late = Leases(FileStore(store, clock=lambda: time.time() + 1e6))
        with pytest.raises(BusyError, match=f"process {process.pid}"):
            take(late, run, ONE)
        kill(process)
    leases.take_over(run, "recover").release()


def test_the_leases_of_a_dead_run_with_pending_undos_require_recovery(leases, store, run):
    journal = Journal(run.journal)
    promise = journal.record_undo("circuits", start={})
    with holder(store, run, "1") as process:
        kill(process)
    with pytest.raises(RecoveryRequired, match=f"type: testbed recover {run.path}"):
        take(leases, run, ONE)
    recovering = leases.take_over(run, "recover")
    recovering.check(BOX, ["1"])
    with pytest.raises(BusyError, match="recover"):
        leases.take_over(run, "recover as well")
    journal.settle(promise)
    journal.close()
    recovering.release()
    take(leases, run, ONE).release()


def test_leases_are_taken_over_from_a_dead_run_and_not_from_a_living_one(leases, store, run):
    with holder(store, run, "1") as process:
        with pytest.raises(BusyError, match=run.id):
            leases.take_over(run, "recover")
        kill(process)
    leases.take_over(run, "recover").release()
    leases.take_over(run, "recover").release()
    assert leases.find() == []


def test_the_lease_of_a_holder_that_cannot_be_observed_ends_by_expiry(store, run):
    moment = [1000.0]
    away = Leases(FileStore(store, clock=lambda: moment[0]), look=lambda claim: None)
    lease = take(away, run, ONE)
    moment[0] += 59.0
    with pytest.raises(BusyError):
        take(away, run, ONE)
    moment[0] += 2.0
    again = take(away, run, ONE)
    with pytest.raises(BusyError, match="the lease of this run is lost"):
        renewed(lease).check(BOX, ["1"])
    lease.release()
    again.check(BOX, ["1"])
    again.release()


def renewed(lease):
    """Let a lease give its next sign of life now."""
    lease._renew()
    return lease


def test_a_revoked_lease_names_who_revoked_it_and_can_be_regained(leases, run):
    lease = take(leases, run, ONE, HOST)
    lost = []
    lease.when_lost(lost.append)
    with pytest.raises(BusyError, match=run.id):
        leases.unlock([ONE], forced=False)
    (taken,) = leases.unlock([WHOLE], forced=True)
    assert (taken.holder.run, taken.resources) == (run.id, {ONE})
    with pytest.raises(BusyError, match=rf"is lost: \w+ \(process {os.getpid()} .* took ocs.1 at"):
        renewed(lease).check("ssh://h0", [""])
    assert len(lost) == 1
    take(leases, run, ONE).release()
    assert lease.regain()
    assert [(found.alive, found.standing) for found in leases.find()] == [(True, "held")]
    lease.check(BOX, ["1"])
    lease.release()
    assert leases.find() == []


def test_a_revocation_is_seen_by_the_next_check_without_a_renewal(leases, run):
    lease = take(leases, run, ONE, HOST)
    told = threading.Event()
    lease.when_lost(lambda loss: told.set())
    lease.check(BOX, ["1"])
    leases.unlock([ONE], forced=True)
    with pytest.raises(BusyError, match="is lost"):
        lease.check(BOX, ["1"])
    assert told.wait(10)
    lease.release()


def test_an_abandoned_lease_with_pending_undos_requires_recovery(leases, run):
    journal = Journal(run.journal)
    promise = journal.record_undo("circuits", start={})
    take(leases, run, ONE).abandon()
    with pytest.raises(RecoveryRequired, match=run.id):
        take(leases, run, ONE)
    journal.settle(promise)
    journal.close()
    take(leases, run, ONE).release()


def test_a_lost_lease_that_another_holder_took_is_not_regained(leases, run):
    lease = take(leases, run, ONE)
    leases.unlock([ONE], forced=True)
    next_owner = take(leases, run, ONE)
    assert not renewed(lease).regain()
    lease.release()
    next_owner.check(BOX, ["1"])
    next_owner.release()


def test_a_lease_check_refuses_resources_that_were_not_leased(leases, run):
    lease = take(leases, run, ONE)
    with pytest.raises(BusyError, match="is not leased"):
        lease.check(BOX, ["1", "2"])
    with pytest.raises(BusyError, match="is not leased"):
        lease.check(BOX, [""])
    lease.release()


@pytest.fixture
def clocks(monkeypatch):
    """Stop the clocks that go on while a machine sleeps; the list says how far they are set on."""
    asleep, now = [0.0], time.clock_gettime
    stopped = {clock: now(clock) for clock in (time.CLOCK_BOOTTIME, time.CLOCK_REALTIME)}

    def shown(clock):
        return stopped[clock] + asleep[0] if clock in stopped else now(clock)

    monkeypatch.setattr(time, "clock_gettime", shown)
    return asleep


def test_a_suspended_holder_finds_its_expired_lease_lost(store, run, clocks):
    file = FileStore(store, clock=lambda: time.clock_gettime(time.CLOCK_REALTIME))
    away = Leases(file, look=lambda claim: None)
    lease = take(away, run, ONE)
    clocks[0] = 600.0
    again = take(away, run, ONE)
    with pytest.raises(BusyError, match="the lease of this run is lost"):
        lease.check(BOX, ["1"])
    again.check(BOX, ["1"])
    lease.release()
    again.release()


class Failing:
    """A store that, once it is away, takes twenty seconds to say so."""

    def __init__(self, path, clocks):
        self._store = FileStore(path)
        self._clocks = clocks
        self.is_away = False
        self.error = LabError("the server is away")

    @contextmanager
    def open(self):
        if self.is_away:
            self._clocks[0] += 20.0
            raise self.error
        with self._store.open() as ledger:
            yield ledger


def test_a_check_fails_when_a_slow_store_does_not_renew_the_lease_in_time(store, run, clocks):
    failing = Failing(store, clocks)
    leases = Leases(failing)
    lease = take(leases, run, ONE)
    failing.is_away = True
    clocks[0] = 29.0
    lease.check(BOX, ["1"])
    assert clocks[0] == 29.0  # nobody was asked
    clocks[0] = 31.0
    with pytest.raises(BusyError, match="was not renewed for 51 s: the server is away"):
        lease.check(BOX, ["1"])
    assert not lease.is_lost
    with pytest.raises(BusyError, match="could not be renewed: the server is away"):
        lease.check(BOX, ["1"])
    failing.is_away = False
    assert lease.regain()
    lease.check(BOX, ["1"])
    lease.release()


def test_a_lease_old_enough_to_be_refused_still_leaves_time_for_a_rollback():
    assert lease_module._SAFE_AGE + CHANGE_LIMIT + BACK_LIMIT <= LEASE_TTL


def test_after_an_unexpected_error_of_the_store_a_lease_is_renewed_at_the_next_attempt(
    store, run, clocks, monkeypatch
):
    monkeypatch.setattr(lease_module, "_POLL_INTERVAL", 0.01)
    failing = Failing(store, clocks)
    failing.error = OSError("no such device")
    lease = take(Leases(failing), run, ONE)
    failing.is_away = True
    clocks[0] = lease_module.HEARTBEAT + 1.0  # the thread gives a sign of life, and fails at it
    assert awaited(lambda: "OSError: no such device" in lease._renewal_error)
    failing.is_away = False
    clocks[0] += lease_module.HEARTBEAT + 1.0
    assert awaited(lambda: not lease._renewal_error)
    lease.check(BOX, ["1"])
    lease.release()


def awaited(condition):
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def test_an_unreadable_journal_counts_as_pending_undos(leases, store, run):
    os.mkfifo(run.journal)  # no regular file is read, so nothing is known of what it promised
    with holder(store, run, "1") as process:
        kill(process)
    with pytest.raises(RecoveryRequired, match=run.id):
        take(leases, run, ONE)
    run.journal.unlink()
    take(leases, run, ONE).release()


def test_a_dead_run_requires_recovery_after_a_reboot_too(leases, store, run):
    journal = Journal(run.journal)
    journal.record_undo("circuits", start={})
    journal.close()
    with holder(store, run, "1") as process:
        token = leases.find()[0].claim.token
        kill(process)
    with pytest.raises(RecoveryRequired, match=run.id):
        take(leases, run, ONE)
    liveness_file(token).unlink()  # as by whatever tidies up at a start
    started = Leases(FileStore(store, clock=lambda: time.time() + 61.0))
    with pytest.raises(RecoveryRequired, match=run.id):
        take(started, run, ONE)
    started.take_over(run, "recover").release()


TAKE = """
import sys
from testbed.record.lease_rules import Resource
from testbed.record.leases import Leases
lease = Leases().take([Resource(sys.argv[1])], "by default")
print("held", flush=True)
sys.stdin.read()
lease.release()
"""


def test_one_machine_has_one_lease_store_whatever_tmpdir_is(tmp_path):
    box = f"box-{uuid.uuid4()}"
    processes = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        started = subprocess.Popen(
            [sys.executable, "-c", TAKE, box],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path / name)},
        )
        processes.append(started)
        started.stdout.readline()
    _, (_, refused) = (process.communicate() for process in processes)
    assert f"{box}: held by" in refused
    assert SHARED.is_relative_to("/var/tmp")  # what the file hierarchy standard keeps at a start


def test_creating_the_lease_store_follows_no_planted_link(tmp_path):
    store, key = tmp_path / "shared" / "leases.sqlite", tmp_path / "key"
    key.write_text("private")
    key.chmod(0o600)
    done = threading.Event()

    def put_links_in_the_way():
        while not done.is_set():
            for draft in store.parent.glob(".*.sqlite"):
                with suppress(OSError):
                    draft.unlink()
                    draft.symlink_to(key)

    attacker = threading.Thread(target=put_links_in_the_way)
    attacker.start()
    for _ in range(20):
        with suppress(LabError):
            Leases(FileStore(store)).find()
        store.unlink(missing_ok=True)
    done.set()
    attacker.join()
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text() == "private"


def test_the_store_is_writable_by_all_and_has_the_sticky_bit(leases, store):
    leases.find()
    assert store.stat().st_mode & 0o7777 == 0o1666


def test_a_manual_lock_ends_by_expiry_or_by_its_user(store, run):
    moment = [1000.0]
    leases = Leases(FileStore(store, clock=lambda: moment[0]))
    leases.lock([WHOLE], "cleaning fibres", 7200.0)
    with pytest.raises(BusyError, match=r"by hand .*: cleaning fibres; "):
        take(leases, run, ONE)
    leases.unlock([WHOLE], forced=False)
    take(leases, run, ONE).release()
    leases.lock([WHOLE], "cleaning fibres", 7200.0)
    moment[0] += 7201.0
    take(leases, run, ONE).release()


def test_a_lease_is_lost_when_its_store_file_is_removed(leases, store, run):
    lease = take(leases, run, ONE)
    store.unlink()
    with pytest.raises(BusyError, match="the store no longer has it"):
        renewed(lease).check(BOX, ["1"])
    lease.release()


def test_a_store_file_that_is_not_a_database_is_reported_in_one_sentence(leases, store, run):
    store.write_text("not a database" * 100)
    with pytest.raises(LabError, match=r"the leases in .*leases.sqlite cannot be used: "):
        take(leases, run, ONE)


def test_threads_that_start_together_share_one_store_and_exclude_each_other(store, run):
    taken, wrong, gate = [], [], threading.Barrier(4)
    busy = threading.Lock()

    def take_turns():
        leases = Leases(FileStore(store))
        gate.wait()
        while len(taken) < 60:
            try:
                lease = take(leases, run, ONE, HOST)
            except BusyError:
                continue
            if not busy.acquire(blocking=False):
                wrong.append("two owners")
                return
            taken.append(1)
            busy.release()
            lease.release()

    threads = [threading.Thread(target=take_turns) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert Leases(FileStore(store)).find() == []


HAMMER = """
import random, sys
from pathlib import Path
from testbed.errors import BusyError
from testbed.record.lease_rules import Resource
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
store, owned, seed, turns = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
chance, leases = random.Random(seed), Leases(FileStore(store))
while turns:
    parts = chance.sample(range(8), 3)
    try:
        lease = leases.take([Resource("box", str(part)) for part in parts], "hammer")
    except BusyError:
        continue
    for part in parts:
        (owned / str(part)).touch(exist_ok=False)  # fails where there is an owner already
    for part in parts:
        (owned / str(part)).unlink()
    lease.release()
    turns -= 1
"""


def test_three_processes_never_hold_one_resource_together(store, tmp_path):
    hammered(store, tmp_path, processes=3, turns=15)


@pytest.mark.soak
def test_eight_processes_never_hold_one_resource_together_in_4000_turns(store, tmp_path):
    hammered(store, tmp_path, processes=8, turns=500)


def hammered(store, tmp_path, *, processes, turns):
    (tmp_path / "owned").mkdir()
    hammers = [
        subprocess.Popen(
            [sys.executable, "-c", HAMMER, store, tmp_path / "owned", str(seed), str(turns)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(processes)
    ]
    for hammer in hammers:
        _, complaint = hammer.communicate()
        assert hammer.returncode == 0, complaint
    assert Leases(FileStore(store)).find() == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
def test_another_user_is_refused_and_takes_over_from_a_killed_holder(commons):
    store = commons / "leases.sqlite"
    run = RunDirectory.create(commons, "lumion")
    with holder(store, run, "1") as process:
        other = take_as_nobody(store, run)
        assert f"ocs.1: held by run {run.id}" in other.stderr
        kill(process)
        assert take_as_nobody(store, run).returncode == 0
    take(Leases(FileStore(store)), run, ONE).release()


@pytest.fixture
def commons():
    """A directory where everybody may write; pytest's own are its user's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def take_as_nobody(store, run):
    """Take a lease and release it, as another user would."""
    script = f"import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n" + HOLD
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import concurrent.futures, testbed.record.leases\n" + script,
            BOX,
            store,
            run.path,
            "1",
        ],
        input="",
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("planted", ["leases.sqlite", "leases.sqlite-wal", "leases.sqlite-shm"])
@pytest.mark.parametrize("content", [b"", b"precious"])
def test_a_link_planted_beside_the_store_leads_no_write_elsewhere(tmp_path, planted, content):
    """Everybody may write to the directory of the store, which has no sticky bit."""
    victim = tmp_path / "victim"
    victim.write_bytes(content)
    path = tmp_path / "leases.sqlite"
    store = FileStore(path)
    with store.open() as ledger:
        assert ledger.claims() == {}
    (tmp_path / planted).unlink(missing_ok=True)
    (tmp_path / planted).symlink_to(victim)
    with pytest.raises(LabError, match="cannot be used"), store.open() as ledger:
        ledger.log_revocation("token", "somebody", "something")
    assert victim.read_bytes() == content
