"""64 clients at once over real processes, whose managers are killed: every binding is one act."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from testbed.propius import control_pb2 as messages
from testbed.propius.binding_load import ClientLoad, JobLoad, told_otherwise
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.processes import ControlPlane
from testbed.propius.rpc import calling
from testbed.tenancy.replies import Reply

JOBS, THREADS, OF_EACH, DEMAND = 6, 64, 12, 40


def bind(store, accepts, kill_every, threads=THREADS):
    """Run all jobs and clients until there were so many acceptances; return what came of it."""
    with ExitStack() as stack:
        plane = ControlPlane(stack, store, 3)
        jobs = JobLoad(plane.job_manager.address, JOBS, DEMAND)
        clients = ClientLoad(plane.balancer.address, "client", threads, OF_EACH)
        over, killed, begun = threading.Event(), 0, time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            running = [pool.submit(jobs.run, over), pool.submit(clients.run, over)]
            try:
                while clients.found.accepts < accepts:
                    assert not any(each.done() for each in running)
                    time.sleep(kill_every)
                    plane.managers[killed % 3].kill()
                    plane.managers[killed % 3].start()
                    assert plane.managers[killed % 3].address
                    killed += 1
            finally:
                over.set()
            for each in running:
                each.result()
    found = clients.found
    print(
        f"\n{found.accepts} acceptances in {time.monotonic() - begun:.0f} s, {jobs.bound} bound in "
        f"{len(jobs.had)} rounds, over-assigned "
        f"{100 * found.answers[Reply.OVER_ASSIGN] / found.accepts:.1f} %, {dict(found.answers)}, "
        f"{found.tried_twice} that were bound accepted once more, {killed} managers killed, "
        f"{found.lost} messages without an answer"
    )
    return jobs, found


def check(jobs, found):
    assert jobs.beyond == 0
    assert told_otherwise(found.told, jobs.had) == 0
    assert found.bound_twice == 0
    assert found.tried_twice > 0


def test_while_managers_are_killed_rounds_have_exactly_the_clients_that_were_told_so(store_url):
    jobs, found = bind(store_url, 200, kill_every=0.5, threads=8)
    check(jobs, found)
    assert jobs.bound > DEMAND


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_100000_acceptances_exceed_no_demand_and_bind_no_client_twice(store_url):
    check(*bind(store_url, 100_000, kill_every=2.0))


def test_a_killed_service_listens_at_its_address_again_and_its_time_is_counted(tmp_path):
    with ExitStack() as stack:
        plane = ControlPlane(stack, str(tmp_path / "records.db"), 1)
        (manager,) = plane.managers
        before, where = manager.used(), manager.address
        manager.kill()
        manager.start()
        assert manager.address == where
        assert manager.used() > before > 0
        with calling(plane.job_manager.address, DESCRIPTOR.services_by_name["JobManager"]) as jobs:
            absent = jobs("Hear", messages.JobName(job="nobody"))
        assert absent.reply == Reply.UNKNOWN
