"""Hosts after a trial: one that does not answer is given up, and the record says so and why."""

import pytest

from testbed.jobs.descriptors import TrainOptions
from testbed.jobs.training import Train
from testbed.run.cleanup import Cleanup
from testbed.run.context import RunContext
from testbed.run.host_reset import end_ranks_or_agents, reset_hosts
from testbed.run.places import Membership, Place
from testbed.run.running_job import RankProcess, RunningJob
from tests.unit.run.killed_run import KilledRun, end, soon

HOSTS = ("h0", "h1")
PLACES = tuple(map(Place, HOSTS))


@pytest.fixture
def run(tmp_path, ssh_host):
    """Return a run with agents on two hosts, of which that on h1 was killed."""
    with ssh_host.at_home():
        run = KilledRun(tmp_path, ssh_host.port)
        run.begin()
        run.agents = {host: run.start_agent(host)[0] for host in HOSTS}
        end(run.agents["h1"])
        yield run
        run.kill()
        run.recover()
        run.close()


@pytest.fixture
def context(run):
    cleanup = Cleanup(run.inbox, run.log)
    return RunContext(run.bench, run.inbox, run.journal, run.log, cleanup, None)


def given_up(run):
    """Return what notes say of hosts that were given up."""
    notes = [(event.subject, event.data["text"]) for event in run.events("note")]
    return [note for note in notes if "its agent is given up" in note[1] or "ended with" in note[1]]


def test_a_host_that_does_not_answer_after_a_trial_is_logged_and_reopened(run, context):
    job = RunningJob(run.bench, run.inbox, Train(TrainOptions(ranks=2)), 7, 0.2, Membership(PLACES))
    job.processes |= {place: RankProcess(port=1) for place in PLACES}
    reset_hosts(context, [job], HOSTS, 10.0)
    ((host, text),) = given_up(run)
    assert host == "h1"
    assert text.startswith("its agent is given up after the trial: h1: ")
    assert set(job.processes) == {Place("h0")}, "no process of a dead agent is counted on"
    agents = {host: run.bench.hosts[host].facts["pid"] for host in HOSTS}
    assert agents["h0"] == run.agents["h0"] and agents["h1"] != run.agents["h1"]


def test_a_host_whose_ranks_cannot_be_ended_is_logged(run, context):
    end_ranks_or_agents(context, soon())
    ((host, text),) = given_up(run)
    assert host == "h1"
    assert text.startswith("its ranks are ended with its agent: h1: ")
    assert set(run.bench.hosts) == {"h0"}
