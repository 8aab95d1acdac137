"""What ranks write to standard error: kept beside the record, not in it."""

import pytest

from testbed.bench.bench import Bench
from testbed.bench.lease_resources import needs
from testbed.record.journal import Journal
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.schema import load_lab
from tests.unit.bench.agent_on_pipes import EventRecorder, configuration, soon


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path, "small")


@pytest.fixture
def events():
    return EventRecorder()


@pytest.fixture
def bench(run, events, tmp_path, ssh_host):
    """A lab of one host without ports, whose agent was started over SSH."""
    host = f"{{ssh: '127.0.0.1:{ssh_host.port}', network: existing}}"
    (tmp_path / "lab.yaml").write_text(f"lab: small\nhosts:\n  h0: {host}\n")
    journal, log = Journal(run.journal), EventLog(run.events)
    bench = Bench(load_lab(tmp_path / "lab.yaml"), run, journal, log, events)
    lease = Leases(FileStore(tmp_path / "leases.sqlite")).take(
        needs(bench.lab, ["h0"]), "test", run
    )
    bench.guard.hold(lease)
    with ssh_host.at_home():
        bench.open_hosts(["h0"], soon())
    yield bench
    bench.close_hosts(soon())
    lease.release()
    journal.close()
    log.close()


def complain(bench, events, count):
    """Start a rank that cannot do its job, and wait for its end."""
    host = bench.hosts["h0"]
    host.start_rank(0, soon())
    host.send_to_rank(0, {"do": "configure"} | configuration() | {"job": {"kind": "nonsense"}})
    events.wait_for("exit", count)


def test_every_line_that_a_rank_prints_is_in_the_log_of_its_host_and_no_event(bench, events, run):
    complain(bench, events, 1)
    lines = (run.path / "logs" / "h0" / "ranks.log").read_text().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "nonsense" in lines[-1]
    assert not events.of("log")
    complain(bench, events, 2)
    assert (run.path / "logs" / "h0" / "ranks.log").read_text().splitlines() == lines * 2


def test_a_secret_in_a_line_that_a_rank_prints_is_masked(bench, events, run):
    host = bench.hosts["h0"]
    host.start_rank(0, soon())
    nonsense = {"kind": "A_TOKEN=planted"}
    host.send_to_rank(0, {"do": "configure"} | configuration() | {"job": nonsense})
    events.wait_for("exit", 1)
    log = (run.path / "logs" / "h0" / "ranks.log").read_text()
    assert "planted" not in log and "A_TOKEN=***" in log


def test_a_full_disk_does_not_cost_the_link_to_the_host(bench, events, run, full_disk):
    with full_disk():
        complain(bench, events, 1)
        bench.hosts["h0"].link.ask("alive", soon())
    assert (run.path / "logs" / "h0" / "ranks.log").read_text() == ""
