"""A photonic mesh cannot be asked what it holds: recovering a run says so, or knows why it can."""

import time

import pytest

from testbed.bench.bench import Bench
from testbed.bench.lease_resources import needs, whole_of
from testbed.bench.sites import SwitchSite
from testbed.clock import Deadline, utc
from testbed.fabric.circuits import Circuit
from testbed.record.journal import Journal, open_entries
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.crash_recovery.recover import recover
from testbed.run.inbox import Inbox
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.photonic_mesh import PhotonicMeshOptions
from testbed_drivers.switches.photonic_mesh_far_end import PhotonicMeshFarEnd
from testbed_drivers.switches.switch import sides

LAB = """\
lab: small
hosts:
  h0: {{ssh: h0, ports: {{p0: {{interface: e, address: 10.0.0.1/8, tx: ocs.1, rx: ocs.4}}}}}}
  h1: {{ssh: h1, ports: {{p0: {{interface: e, address: 10.0.0.2/8, tx: ocs.2, rx: ocs.5}}}}}}
switches:
  ocs:
    {{driver: photonic-mesh, resource: "tcp://127.0.0.1:{port}", ports: [1-6], width: 3, height: 3}}
"""
ONE = Circuit.parse("h0.p0", "h1.p0")
CROSSED = {1: 5, 2: 4}


class DeadMeshRun:
    """A run that lit a circuit on a mesh and was killed."""

    def __init__(self, directory):
        self._scheduler = WallScheduler()
        self.lit = {}
        site = SwitchSite(*sides(3, 3), "S1", 0.0, 1, self._scheduler, self._hear)
        self._wire = serve_tcp(PhotonicMeshFarEnd(site, PhotonicMeshOptions(width=3, height=3)))
        self.directory = RunDirectory.create(directory / "results", "killed")
        (self.directory.path / "lab.yaml").write_text(LAB.format(port=self._wire.port))
        self.lab = load_lab(self.directory.path / "lab.yaml")
        facts = {"run": self.directory.id, "started": utc(), "label": "measured-hw", "lab": "small"}
        self.directory.write_json("run.json", facts)
        self.leases = Leases(FileStore(directory / "leases.sqlite"))
        self.inbox = Inbox()
        self._light_and_die()

    def _hear(self, lit):
        self.lit = lit

    def is_lit(self, circuits, limit=5.0):
        """Tell whether these circuits are lit, at most `limit` seconds from now."""
        until = time.monotonic() + limit
        while self.lit != circuits and time.monotonic() < until:
            time.sleep(0.002)
        return self.lit == circuits

    def _light_and_die(self):
        journal, log = Journal(self.directory.journal), EventLog(self.directory.events)
        log.append("run.begin", "killed", **self.directory.read_json("run.json"))
        lease = self.leases.take(needs(self.lab, self.lab.hosts), "killed", self.directory)
        bench = Bench(self.lab, self.directory, journal, log, lambda *report: None)
        bench.guard.hold(lease)
        bench.open_instruments(["ocs"], soon())
        bench.open_fabric(self.lab.wiring())
        bench.fabric.adopt({"job": frozenset({ONE})}, soon())
        bench.fabric.set_circuits("job", frozenset({ONE}), soon())
        bench.close_instruments()
        lease.abandon()
        journal.close()
        log.close()

    def recover(self):
        return recover(self.directory, self.lab, self.leases, self.inbox)

    def said(self):
        return self.directory.events.read_text()

    def close(self):
        self._wire.close()
        self._scheduler.close()
        self.inbox.close()
        self.leases.take_over(self.directory, "end of the test").release()


@pytest.fixture
def run(tmp_path):
    run = DeadMeshRun(tmp_path)
    assert run.is_lit(CROSSED)
    yield run
    run.close()


def soon():
    return Deadline.after(10)


def test_recover_removes_all_circuits_of_a_mesh_that_only_the_run_leased(run):
    assert "it cannot be asked which circuits it holds" in run.said()
    assert run.recover() == 0
    assert run.is_lit({}) and open_entries(run.directory.journal) == []


def test_recover_does_not_change_a_mesh_that_others_may_have_used_and_gives_a_hint(run):
    run.leases.unlock(whole_of(run.lab, "ocs"), forced=True)
    assert run.recover() == 6
    assert "others may have used it since that run lost its lease" in run.said()
    assert "testbed switch ocs apply wanted.yaml --force" in run.said()
    assert run.is_lit(CROSSED) and open_entries(run.directory.journal)


def test_a_mesh_whose_lease_was_lost_for_a_while_counts_as_used_by_others(run):
    log = EventLog.resume(run.directory.events)
    log.append("lease.regained", "")
    log.close()
    assert run.recover() == 6
    assert run.is_lit(CROSSED)
