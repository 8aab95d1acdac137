"""What the orchestrator knows of a running job, from what its ranks say."""

import threading
import time

import pytest

from testbed.clock import Deadline, now
from testbed.errors import HostError, LabError
from testbed.run.inbox import Report
from testbed.run.places import Place
from testbed.run.running_job import RankProcess

READY = {"event": "ready", "address": "10.0.0.1", "port": 4242, "state_bytes": 1000}


def says(host, **said):
    return Report(host, {"event": "rank", "slot": 0, "said": said}, 0.0)


def ends(host, code=1):
    return Report(host, {"event": "exit", "mono": 5.0, "slot": 0, "code": code}, 0.0)


@pytest.fixture
def seated(job):
    """A job whose processes were started and have said nothing yet."""
    job.inbox.handler = job.handle
    for place in (*job.places, *job.spares):
        job.processes[place] = RankProcess()
    return job


def tell(job, *reports):
    for report in reports:
        job.inbox.listen(report.host, report.message, report.received)


def test_a_rank_process_counts_as_ready_once_it_reports_its_address(seated):
    tell(seated, says("h2", **READY))
    seated.await_ready((Place("h2"),), Deadline.after(10))
    assert seated.processes[Place("h2")].is_ready
    assert not seated.processes[Place("h0")].is_ready
    assert seated.state_bytes == 1000


def test_a_process_that_reports_a_start_failure_is_not_waited_for(seated):
    tell(seated, says("h2", event="failed", why="MemoryError: 3 GiB"), ends("h2"))
    began = now()
    with pytest.raises(HostError, match="h2: its rank is not ready: MemoryError: 3 GiB; see logs/"):
        seated.await_ready((Place("h2"),), Deadline.after(30))
    assert now() - began < 20


def test_a_process_that_ends_without_a_report_is_not_waited_for(seated):
    tell(seated, ends("h2", -11))
    began = now()
    with pytest.raises(HostError, match="h2: its rank is not ready: it ended with code -11"):
        seated.await_ready((Place("h2"),), Deadline.after(30))
    assert now() - began < 20


def test_a_silent_process_is_named_at_the_deadline(seated):
    with pytest.raises(HostError, match="h2: its rank is not ready: it did not report in time"):
        seated.await_ready((Place("h2"),), Deadline.after(0.02))


def test_a_spare_that_cannot_start_does_not_break_the_job(seated):
    seated.handle(says("h2", event="failed", why="MemoryError"))
    assert seated.failure == ""
    seated.members.replace(0, "h2")
    seated.handle(says("h2", event="failed", why="MemoryError"))
    assert seated.failure == ""


@pytest.mark.parametrize("word", ["corrupt", "refused"])
def test_a_failed_rank_fails_the_job_and_is_named(seated, word):
    seated.handle(says("h1", event=word, why="the sum is wrong"))
    assert seated.failure == f"rank 1 on h1 {word}: the sum is wrong"


def test_a_rank_that_fails_in_its_first_step_does_not_fail_the_start_of_the_job(seated):
    probes = [says(host, event="probe", short_bytes=64) for host in seated.hosts]
    tell(seated, *probes[:-1], says("h1", event="corrupt", why="the sum is wrong"), probes[-1])
    seated.await_probes(10.0)
    assert len(seated.probes) == len(seated.hosts)
    assert seated.failure == "rank 1 on h1 corrupt: the sum is wrong"


@pytest.mark.parametrize(
    ("reports", "reason"),
    [
        ([says("h1", event="refused", why="no such peer")], "rank 1 on h1 refused: no such peer"),
        ([says("h1", event="probe", short_bytes=64)], "its links were not probed"),
    ],
)
def test_a_job_without_the_probes_of_all_ranks_did_not_start(seated, reports, reason):
    tell(seated, *reports)
    with pytest.raises(LabError, match=f"the job did not start: {reason}"):
        seated.await_probes(0.1)


@pytest.mark.parametrize(
    "reached",
    [
        {"event": "stage-reached", "generation": 1, "stage": ["dp0", 0, [0, 1], -1]},
        {"event": "circuits", "generation": 1, "number": 3, "circuits": 2, "of": [0, 1]},
    ],
)
def test_the_probes_of_a_job_are_awaited_while_its_ranks_reach_circuits(seated, reached):
    stage = says("h0", **reached)
    probes = [says(host, event="probe", short_bytes=64) for host in seated.hosts]

    def report():
        for _ in range(24):
            time.sleep(0.05)
            tell(seated, stage)
        tell(seated, *probes)

    ranks = threading.Thread(target=report)
    ranks.start()
    seated.await_probes(0.5)  # less than half of what it takes
    ranks.join()
    assert len(seated.probes) == len(seated.hosts)


def test_the_progress_of_a_job_is_that_of_its_slowest_rank(seated):
    assert seated.completed == 0
    seated.handle(says("h0", event="step", step=4, generation=1))
    assert seated.completed == 0
    seated.handle(says("h1", event="step", step=3, generation=1))
    assert seated.completed == 4
    seated.handle(says("h1", event="sample", step=9, generation=1))
    assert seated.completed == 5


def test_an_ended_rank_counts_as_having_completed_no_step(seated):
    for host in seated.hosts:
        seated.handle(says(host, event="step", step=4, generation=1))
    assert seated.completed == 5
    seated.handle(ends("h1"))
    assert seated.completed == 0


def test_a_spare_does_not_count_in_the_progress_of_the_job(seated):
    for host in seated.hosts:
        seated.handle(says(host, event="step", step=4, generation=1))
    assert seated.processes[Place("h2")].committed is None
    assert seated.completed == 5


def test_a_rank_that_left_has_reached_the_step_it_reports(seated):
    seated.handle(says("h0", event="left", committed=7, generation=1))
    assert seated.processes[Place("h0")].committed == 7


def test_the_job_has_ended_when_every_rank_reports_it(seated):
    seated.handle(says("h0", event="done", digest="abc"))
    seated.handle(says("h2", event="done", digest="abc"))
    assert not seated.has_ended
    seated.handle(says("h1", event="done", digest="abc"))
    assert seated.has_ended


def test_reports_from_a_host_without_our_process_are_ignored(job):
    job.handle(says("h0", **READY))
    assert job.processes == {}
