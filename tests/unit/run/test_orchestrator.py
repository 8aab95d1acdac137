"""A run of one host, on real lines: whatever ends it, everything is taken back."""

import os
from contextlib import closing, suppress
from pathlib import Path

import pytest

from testbed.bench.sites import SwitchSite
from testbed.errors import EXIT_BUG
from testbed.record.journal import open_entries
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.log import EventLog, read_events
from testbed.record.rundir import RunDirectory
from testbed.run.orchestrator import Orchestrator
from testbed.run.planning.planner import make_plan
from testbed.run.run_leases import RunLeases
from testbed.schema import load_experiment, load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd

LAB = """\
lab: small
hosts:
  h0:
    ssh: 127.0.0.1:{ssh}
    network: existing
    ports: {{p0: {{interface: lo, address: 127.0.0.1/8, tx: ocs.1, rx: ocs.5}}}}
switches:
  ocs: {{driver: polatis, resource: "TCPIP::127.0.0.1::{ocs}::SOCKET", ports: [1-8]}}
"""
EXPERIMENT = """\
experiment: small
question: Is the program gone when the run is over?
needs: {hosts: 1, fabric: circuit}
jobs: {main: {kind: command, ranks: 1, command: [sleep, "PROGRAM"]}}
"""
PROGRAM = f"60.{os.getpid()}"
"""Seconds for which no other test's program sleeps."""


@pytest.fixture
def lab(tmp_path, ssh_host):
    """A lab whose host is this machine."""
    scheduler = WallScheduler()
    sides = frozenset(range(1, 5)), frozenset(range(5, 9))
    site = SwitchSite(*sides, "S1", 0.001, 1, scheduler, lambda lit: None)
    with closing(scheduler), closing(serve_tcp(PolatisFarEnd(site))) as wire, ssh_host.at_home():
        (tmp_path / "lab.yaml").write_text(LAB.format(ssh=ssh_host.port, ocs=wire.port))
        yield load_lab(tmp_path / "lab.yaml")


@pytest.mark.parametrize(
    ("moment", "promises"),
    [
        ("instrument.ready", set()),
        ("host.ready", {"agent"}),
        ("fabric.change", {"agent", "circuits"}),
        ("program.begin", {"agent", "circuits"}),
    ],
)
def test_an_unexpected_error_is_reported_as_a_bug_and_the_clean_up_is_done(
    moment, promises, lab, inbox, tmp_path
):
    run = RunDirectory.create(tmp_path / "results", "small")
    leases = Leases(FileStore(tmp_path / "leases.sqlite"))
    promised = []

    def fail(event):
        if event.kind == moment:
            promised.append({entry["undo"] for entry in open_entries(run.journal)})
            raise ZeroDivisionError("a bug")

    (tmp_path / "experiment.yaml").write_text(EXPERIMENT.replace("PROGRAM", PROGRAM))
    experiment = load_experiment(tmp_path / "experiment.yaml")
    with closing(EventLog(run.events)) as log:
        log.subscribe(fail)
        plan, run_leases = (
            make_plan(experiment, lab, seed=1),
            RunLeases(leases, run, "small", log, inbox),
        )
        Orchestrator(plan, experiment, lab, run, log, inbox, None, run_leases).run()

    *_, end = read_events(run.events)
    assert (end.kind, end.data["exit_code"]) == ("run.end", EXIT_BUG)
    assert end.data["error"] == "ZeroDivisionError: a bug"
    assert "ZeroDivisionError: a bug" in (run.path / "traceback.txt").read_text()
    assert (end.data["cleanup"], end.data["left"]) == ("verified", [])
    assert promised[0] == promises and open_entries(run.journal) == []
    assert leases.find() == [] and not program_runs()


def program_runs():
    """Tell whether a process of the experiment's program is on this machine."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # one that ends just now
            if line.read_text() == f"sleep\0{PROGRAM}\0":
                return True
    return False
