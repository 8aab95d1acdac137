"""A fault of a job is confirmed at the end of its trial, if no agent has reported it before."""

import socket

import pytest

from testbed.analysis.clocks import Clocks
from testbed.jobs.descriptors import TrainOptions
from testbed.jobs.training import Train
from testbed.run.cleanup import Cleanup
from testbed.run.context import RunContext
from testbed.run.job_faults import JobFaults
from testbed.run.places import Membership, Place
from testbed.run.planning.steps import FaultPlan
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import RunningJob
from testbed.schema import load_experiment
from tests.unit.run.conftest import EXPERIMENT
from tests.unit.run.lab_at_far_ends import LabAtFarEnds, soon

PERMITTED = (), ("power-cut",)
UNLIT = "h4"
"""A host without circuits, so no other host loses its light."""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    lab = LabAtFarEnds(tmp_path, monkeypatch)
    yield lab
    lab.close()


@pytest.fixture
def bench(lab, monkeypatch):
    bench, _ = lab.bench(*PERMITTED)
    with socket.create_server(("127.0.0.1", 0)) as server:
        refused = f"127.0.0.1:{server.getsockname()[1]}"
    hosts = bench.lab.hosts
    monkeypatch.setitem(hosts, UNLIT, hosts[UNLIT].model_copy(update={"ssh": refused}))
    lease = lab.make_ready(bench)
    yield bench
    lease.release()
    lab.put_back(bench)


@pytest.mark.parametrize(
    ("hold", "seen"), [(None, [f"{UNLIT} SSH refuses connections"]), (0.0, [])]
)
def test_a_power_cut_that_no_agent_reported_is_confirmed_by_ssh_while_it_lasts(
    bench, lab, inbox, tmp_path, hold, seen
):
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT)
    train = Train(TrainOptions(ranks=2))
    job = RunningJob(bench, inbox, train, 7, 0.2, Membership((Place(UNLIT), Place("h0")), ()))
    _, log = lab.bench(*PERMITTED)
    context = RunContext(bench, inbox, bench._journal, log, Cleanup(inbox, log), None)
    faults = JobFaults(load_experiment(tmp_path / "experiment.yaml"), context)
    plan = FaultPlan("power-cut", 0, 10, 0.0, hold)
    assert faults.inject(plan, job, ResponseTracker(2, Clocks()), soon(), lambda: None) == ""
    faults.end_holds(soon())
    faults.confirm_and_undo()
    assert faults.have_struck(1) == bool(seen)
    assert [event.subject for event in lab.log_events if event.kind == "fault.receipt"] == seen
    assert lab.powered[UNLIT[1:]]
