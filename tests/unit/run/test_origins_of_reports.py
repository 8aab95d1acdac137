"""Which job and which cause the record names for what agents report and for what follows."""

import pytest

from testbed.clock import now
from testbed.events.origin import Origin
from testbed.jobs.descriptors import TrainOptions
from testbed.jobs.training import Train
from testbed.run.cleanup import Cleanup
from testbed.run.context import RunContext
from testbed.run.job_lifecycle import JobLifecycle
from testbed.run.places import Membership, Place
from testbed.run.planning.arm_plans import planned_arm
from testbed.run.planning.placement import place
from testbed.run.planning.plan import Plan
from testbed.run.planning.steps import RunTrial
from testbed.run.running_job import RankProcess, RunningJob
from testbed.run.running_jobs import RunningJobs
from testbed.run.start_controllers import start_controllers
from testbed.run.trial import Trial
from testbed.schema import load_experiment
from tests.unit.run.conftest import EXPERIMENT
from tests.unit.run.lab_at_far_ends import HOSTS, LabAtFarEnds, soon

RANKS = HOSTS[:2]
PLACES = tuple(map(Place, RANKS))


def living_with(experiment, job, context):
    job.job.controllers = ("circuit-requests",)
    return start_controllers(experiment, {"main": job}, context, "job")


def between_trials(experiment, job, context):
    lab = context.bench.lab
    arms = [planned_arm(arm, place(arm.experiment, lab), ()) for arm in experiment.arms()]
    plan = Plan("small", lab.lab, 7, (), arms=tuple(arms))
    lifecycle = JobLifecycle(experiment, context, plan)
    lifecycle._jobs = RunningJobs({"main": job})
    lifecycle._controllers = living_with(experiment, job, context)
    return lifecycle.handle


def in_a_trial(experiment, job, context):
    beside, jobs = living_with(experiment, job, context), RunningJobs({"main": job})
    controllers = start_controllers(experiment, jobs, context, beside=beside)
    trial = Trial(RunTrial(0, "warm", ()), experiment, jobs, controllers, {}, context)
    return trial._handle


@pytest.fixture
def lab(tmp_path, monkeypatch):
    lab = LabAtFarEnds(tmp_path, monkeypatch)
    yield lab
    lab.close()


@pytest.fixture(params=[between_trials, in_a_trial])
def job(request, lab, inbox, tmp_path):
    """A job of two ranks that may ask for no circuits at all; its reports are handled."""
    bench, log = lab.bench((), ())
    lease = lab.make_ready(bench)
    train = Train(TrainOptions(ranks=2, spares=1))
    job = RunningJob(bench, inbox, train, 7, 0.2, Membership(PLACES, (Place("h2"),)))
    job.processes |= {place: RankProcess(port=1) for place in PLACES}
    job.requests = (frozenset(),)
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT)
    experiment = load_experiment(tmp_path / "experiment.yaml")
    context = RunContext(bench, inbox, bench._journal, log, Cleanup(inbox, log), None)
    inbox.handler = request.param(experiment, job, context)
    yield job
    lease.release()
    lab.put_back(bench)


def report(job, host, **said):
    told = {"event": "rank", "slot": 0, "said": {"mono": 1.0, **said}}
    job.inbox.listen(host, told, now())


def of_kinds(lab, *kinds):
    return [event for event in lab.log_events if event.kind in kinds]


def test_reports_name_the_job(job, lab):
    report(job, "h1", event="left", generation=1, committed=7, started=True)
    report(job, "h2", event="ready", address="10.0.0.5", port=1, state_bytes=8)
    assert job.inbox.wait(lambda: bool(of_kinds(lab, "rank.ready")), soon())
    found = {event.subject: event.origin for event in of_kinds(lab, "rank.left", "rank.ready")}
    assert found == {"rank 1": Origin("main"), "h2": Origin("main")}


def test_circuits_that_ranks_ask_for_are_caused_by_the_last_request(job, lab):
    request = {"event": "circuits", "generation": 1, "number": 1, "circuits": 0, "of": [0, 1]}
    for host in RANKS:
        report(job, host, **request)
    assert job.inbox.wait(lambda: bool(of_kinds(lab, "circuits.lit")), soon())
    first, last = of_kinds(lab, "circuits.asked")
    assert (first.origin, last.origin) == (Origin("main"), Origin("main"))
    (change,) = of_kinds(lab, "fabric.change")
    assert change.data["circuits"] == ["h0.p0–h2.p1", "h1.p1–h2.p0"], "those of the spare stay"
    assert change.origin == Origin(
        "main", owner="main", controller="circuit-requests", cause=last.seq
    )
    (lit,) = of_kinds(lab, "circuits.lit")
    assert lit.origin == Origin("main", controller="circuit-requests", cause=last.seq)
