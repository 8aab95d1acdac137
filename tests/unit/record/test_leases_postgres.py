"""The same leases on a PostgreSQL server, which the test starts itself."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread

import pytest

from testbed.cli import run as command_line
from testbed.errors import BusyError, LabError
from testbed.record.claim_registry import holder_here
from testbed.record.lease_rules import Claim, Resource
from testbed.record.lease_store import PostgresStore
from testbed.record.leases import Leases
from testbed.record.rundir import RunDirectory
from testbed.secret import masked
from tests.unit.record.lease_machine import directories_of_runs
from tests.unit.record.postgres_server import PASSWORD, binaries, running_server
from tests.unit.record.test_leases_machine import lived

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL server is installed")

ONE, TWO = Resource("192.0.2.10:5025", "1", "ocs.1"), Resource("192.0.2.10:5025", "2", "ocs.2")


@pytest.fixture(scope="module")
def server():
    with running_server() as server:
        yield server


@pytest.fixture
def store(server):
    store = PostgresStore(server.url())
    yield store
    with store.open() as ledger:
        ledger.write(ledger.claims(), {})


@pytest.fixture
def leases(store):
    return Leases(store)


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path / "results", "lumion")


def test_two_controllers_share_a_switch_port_by_port(store, run):
    here, there = Leases(store), Leases(store, look=lambda claim: None)
    first, second = here.take([ONE], "lumion", run), there.take([TWO], "lumion")
    with pytest.raises(BusyError, match=rf"ocs\.1: held by run {run.id} of "):
        there.take([ONE, TWO], "lumion")
    first.release()
    second.release()
    assert here.find() == []


def test_a_revocation_is_recorded_and_ends_the_lease(leases, run):
    lease = leases.take([ONE], "lumion", run)
    leases.unlock([ONE], forced=True)
    lease._renew()
    with pytest.raises(BusyError, match=r"is lost: \w+ \(process \d+ on .*\) took ocs\.1 at 20"):
        lease.check(ONE.box, ["1"])
    lease.release()


def test_a_transaction_that_raises_is_rolled_back(leases, store):
    leases.lock([ONE], "cleaning", 60.0)
    with pytest.raises(ValueError), store.open() as ledger:
        ledger.write(ledger.claims(), {})
        raise ValueError
    assert [found.claim.resources for found in leases.find()] == [{ONE}]


def test_the_primary_key_refuses_a_second_owner(leases, store):
    leases.lock([ONE], "cleaning", 60.0)
    with pytest.raises(LabError, match="duplicate key"), store.open() as ledger:
        (claim,) = ledger.claims().values()
        ledger.write({}, {"another": replace(claim, token="another")})


def test_a_failed_login_is_reported_without_the_password(server):
    store = PostgresStore(server.url("a-wrong-password"))
    with pytest.raises(LabError, match="password authentication failed") as refusal:
        Leases(store).find()
    assert "a-wrong-password" not in str(refusal.value)
    PostgresStore(server.url())
    assert masked(f"said: {PASSWORD}") == "said: ***"


def test_a_password_in_the_query_of_a_url_is_masked_encoded_and_decoded():
    PostgresStore("postgresql://me@db/x?sslmode=require&password=caf%C3%A9-word")
    assert masked("caf%C3%A9-word") == masked("café-word") == "***"
    assert masked("sslmode=require") == "sslmode=require"


def test_random_lease_operations_match_the_model_on_postgresql(store, tmp_path):
    lived(store, directories_of_runs(tmp_path), 3, 15)


@pytest.mark.soak
def test_100_random_sequences_of_operations_match_the_model_on_postgresql(store, tmp_path):
    lived(store, directories_of_runs(tmp_path), 100, 30)


HAMMER = """
import sys
from pathlib import Path
from testbed.errors import BusyError
from testbed.record.lease_rules import Resource
from testbed.record.lease_store import PostgresStore
from testbed.record.leases import Leases
leases, owned, turns = Leases(PostgresStore(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3])
while turns:
    try:
        lease = leases.take([Resource("box", "1"), Resource("box", "2")], "hammer")
    except BusyError:
        continue
    owned.touch(exist_ok=False)  # fails where there is an owner already
    owned.unlink()
    lease.release()
    turns -= 1
"""


def test_three_processes_never_hold_one_resource_together_on_postgresql(server, store, tmp_path):
    hammers = [
        subprocess.Popen(
            [sys.executable, "-c", HAMMER, server.url(), tmp_path / "owned", "5"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for hammer in hammers:
        _, complaint = hammer.communicate()
        assert hammer.returncode == 0, complaint
    assert Leases(store).find() == []


def test_a_dead_lease_server_is_reported_and_used_again_after_its_restart(server, leases, run):
    lease = leases.take([ONE], "lumion", run)
    server.kill()
    with pytest.raises(LabError, match=r"the leases on 127\.0\.0\.1/postgres cannot be used: "):
        leases.find()
    lease._renew()
    lease.check(ONE.box, ["1"])  # for its claim still lasts
    server.start_again()
    assert [found.standing for found in leases.find()] == ["held"]
    lease.release()


def test_connecting_to_a_frozen_server_ends_at_the_limit(server):
    hurried = Leases(PostgresStore(server.url(), limit=0.5))
    with server.frozen(), pytest.raises(LabError, match=r"it did not answer within 0\.5 s"):
        hurried.find()


def test_a_transaction_on_a_frozen_server_ends_at_the_limit(server, store):
    hurried = PostgresStore(server.url(), limit=0.5)
    with (
        pytest.raises(LabError, match=r"it did not answer within 0\.5 s"),
        frozen_backend(server, hurried) as ledger,
    ):
        ledger.claims()
    assert Leases(store).find() == []


@contextmanager
def frozen_backend(server, store):
    """Be in a transaction with a process of the server that does nothing any more."""
    with psycopg.connect(server.url(), autocommit=True) as watch, store.open() as ledger:
        statement = "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'"
        ((process,),) = watch.execute(statement).fetchall()
        os.kill(process, signal.SIGSTOP)
        try:
            yield ledger
        finally:
            os.kill(process, signal.SIGCONT)


BE_IN = """
import sys
from testbed.record.lease_store import PostgresStore
with PostgresStore(sys.argv[1], limit=0.5).open():
    print("in", flush=True)
    sys.stdin.read()
"""


def test_a_controller_that_stops_in_a_transaction_blocks_no_other(server, leases):
    asleep = subprocess.Popen(
        [sys.executable, "-c", BE_IN, server.url()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert asleep.stdout.readline() == "in\n"
    asleep.send_signal(signal.SIGSTOP)
    assert leases.find() == []
    asleep.kill()
    asleep.communicate()


def test_a_transaction_that_waited_reads_committed_rows_under_any_default_isolation_level(
    server, store
):
    box, refused = Resource(ONE.box, "", "ocs"), []

    def take_a_part():
        try:
            Leases(store).take([ONE], "a part of it").release()
        except BusyError as error:
            refused.append(str(error))

    with psycopg.connect(server.url(), autocommit=True) as watch:
        watch.execute("ALTER ROLE keeper SET default_transaction_isolation = 'repeatable read'")
        try:
            with store.open() as ledger:
                waiter = Thread(target=take_a_part)
                waiter.start()
                while not watch.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                    watch.execute("SELECT pg_sleep(0.01)")
                whole = Claim("t", holder_here(0), frozenset({box}), ledger.now + 60.0)
                ledger.write({}, {"t": whole})
            waiter.join()
        finally:
            watch.execute("ALTER ROLE keeper RESET default_transaction_isolation")
    assert len(refused) == 1 and refused[0].startswith("ocs: held by")


LAB = """\
lab: shared
hosts: {h0: {ssh: h0}}
switches: {ocs: {driver: polatis, resource: "tcp://192.0.2.10:5025", ports: [1-16]}}
leases: {url: {env: LEASES_URL}}
"""


def test_the_lease_server_is_that_of_the_lab_file(server, store, tmp_path, monkeypatch, capsys):
    (tmp_path / "lab.yaml").write_text(LAB)
    lab = ["--lab", str(tmp_path / "lab.yaml")]
    monkeypatch.setenv("LEASES_URL", server.url())
    assert command_line(["lock", "ocs.1", "h0", "--reason", "cleaning", "--for", "2h", *lab]) == 0
    assert {str(r) for found in Leases(store).find() for r in found.claim.resources} == {
        *("ocs.1", "h0")
    }
    capsys.readouterr()
    assert command_line(["who", "--json", *lab]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["standing"], row["reason"], row["pid"]) == ("held", "cleaning", 0)
    assert command_line(["unlock", "ocs.1", "h0", *lab]) == 0
    monkeypatch.delenv("LEASES_URL")
    assert command_line(["who", *lab]) == 2
    assert "LEASES_URL is not set" in capsys.readouterr().err


def test_without_psycopg_the_error_says_what_to_install(server):
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from testbed.record.lease_store import PostgresStore\n"
        "from testbed.record.leases import Leases\n"
        f"Leases(PostgresStore({server.url()!r})).find()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "pip install 'optical-testbed[postgres]'" in done.stderr
