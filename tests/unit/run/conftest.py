"""A lab and an experiment of a few lines, and what the planner says of changes to them."""

from pathlib import Path

import pytest

from testbed.bench.bench import Bench
from testbed.errors import FileError
from testbed.jobs.descriptors import TrainOptions
from testbed.jobs.training import Train
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.inbox import Inbox
from testbed.run.places import Membership, Place
from testbed.run.planning.planner import make_plan
from testbed.run.running_job import RunningJob
from testbed.schema import load_experiment, load_lab

LAB = """\
lab: bench
hosts:
  h0:
    ssh: h0
    power: pdu.1
    ports:
      p0: {interface: eth1, address: 10.0.0.1/24, tx: ocs.1, rx: ocs.17}
      p1: {interface: eth2, address: 10.0.0.2/24, tx: ocs.2, rx: ocs.18}
  h1:
    ssh: h1
    power: pdu.2
    ports:
      p0: {interface: eth1, address: 10.0.0.3/24, tx: ocs.3, rx: ocs.19}
      p1: {interface: eth2, address: 10.0.0.4/24, tx: ocs.4, rx: ocs.20}
  h2:
    ssh: h2
    power: pdu.3
    ports:
      p0: {interface: eth1, address: 10.0.0.5/24, tx: ocs.5, rx: ocs.21}
      p1: {interface: eth2, address: 10.0.0.6/24, tx: ocs.6, rx: ocs.22}
switches:
  ocs: {driver: polatis, resource: "TCPIP::192.0.2.10::5025::SOCKET", ports: [1-32]}
power:
  pdu: {driver: redfish, resource: "https://192.0.2.11"}
allow: [power-cut, rank-kill, dark-circuit]
fence: [power, network, process]
"""

EXPERIMENT = """\
experiment: small
question: How soon does the job complete its next step?
needs: {hosts: 3, fabric: circuit}
jobs:
  main: {kind: train, ranks: 2, spares: 1, topology: ring}
faults:
  - {kind: power-cut, target: random, at: {step: 8}}
policy: {kind: splice}
variants:
  warm: {policy.standby: warm}
  cold: {policy.standby: cold}
trials: 3
checks:
  warm.recovery_time: {every: "< 1 s"}
"""


class Desk:
    """Two files in a directory of their own, read anew for every plan."""

    def __init__(self):
        self.lab = LAB
        self.experiment = EXPERIMENT

    def change(self, file, old, new):
        text = getattr(self, file)
        assert text.count(old) == 1, old
        setattr(self, file, text.replace(old, new))
        return self

    def plan(self, *, seed=7, repeat=None, overrides=()):
        Path("lab.yaml").write_text(self.lab)
        Path("experiment.yaml").write_text(self.experiment)
        experiment = load_experiment("experiment.yaml", overrides)
        return make_plan(experiment, load_lab("lab.yaml"), seed=seed, repeat=repeat)

    def refusal(self, **how):
        with pytest.raises(FileError) as refused:
            self.plan(**how)
        return str(refused.value)


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Desk()


@pytest.fixture
def inbox():
    inbox = Inbox()
    yield inbox
    inbox.close()


@pytest.fixture
def log(tmp_path):
    log = EventLog(tmp_path / "log.jsonl")
    yield log
    log.close()


@pytest.fixture
def bench(tmp_path, inbox, log):
    """A lab before anything in it is opened."""
    (tmp_path / "lab.yaml").write_text(LAB)
    run = RunDirectory.create(tmp_path / "results", "small")
    journal = Journal(run.journal)
    yield Bench(load_lab(tmp_path / "lab.yaml"), run, journal, log, inbox.listen)
    journal.close()


@pytest.fixture
def job(bench, inbox):
    """Two ranks on h0 and h1, and a spare."""
    train = Train(TrainOptions(ranks=2, spares=1))
    members = Membership((Place("h0"), Place("h1")), (Place("h2"),))
    return RunningJob(bench, inbox, train, 7, 0.2, members)
