"""What is silent, killed or emptied leaves no demand stuck: jobs, clients, the store."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest

from testbed.errors import LabError
from testbed.propius import control_pb2 as messages
from testbed.propius.client_manager import ClientManager
from testbed.propius.digits import MODEL, SIZE
from testbed.propius.federated_job import FederatedJob
from testbed.propius.job_manager import JobManager
from testbed.propius.opening import open_store
from testbed.propius.participant import Participant
from testbed.propius.redis_process import RedisProcess, redis_server
from testbed.propius.root_server import RootServer
from testbed.propius.scheduler import Scheduler
from testbed.tenancy.clients import CLIENT_LIFE
from testbed.tenancy.jobs import JOB_LIFE, SILENCE
from testbed.tenancy.replies import Reply


class Plane:
    """The services on one store, called without a network, at a time that tests set."""

    def __init__(self, store):
        self.now = 1_000.0
        self.store = store
        self.jobs = JobManager(store, lambda: self.now)
        self.clients = ClientManager(store, lambda: self.now)
        self.scheduler = Scheduler(store, "fifo", lambda: self.now)

    def register(self, job, demand):
        asked = messages.Registration(job=job, rounds=3, demand=demand)
        reply = self.jobs.register(asked).reply
        self.jobs.request(messages.RoundRequest(job=job, round=1, demand=demand))
        self.scheduler.schedule()
        return reply

    def client(self, name):
        acts = {
            "CheckIn": self.clients.check_in,
            "Accept": self.clients.accept,
            "Release": self.clients.release,
        }
        return Participant(lambda method, asked: acts[method](asked), name, {}, {}, 1.0)

    def phase(self, job):
        return {each.id: each.phase for each in self.store.jobs()}.get(job)


def test_a_silent_job_is_pruned_and_its_clients_are_free_for_others(store):
    plane = Plane(store)
    plane.register("silent", 2)
    client = plane.client("c")
    offer = client.seek()
    assert offer.job == "silent"
    plane.now += SILENCE / 2
    plane.register("alive", 1)
    plane.now += SILENCE / 2
    plane.jobs.hear(messages.JobName(job="alive"))
    plane.scheduler.schedule()
    assert (plane.phase("silent"), plane.phase("alive")) == ("pruned", "open")
    client.release(offer)
    plane.scheduler.schedule()
    assert client.seek().job == "alive"
    assert plane.jobs.request(messages.RoundRequest(job="silent", round=2, demand=1)).reply == (
        Reply.NOT_OPEN
    )
    plane.now += JOB_LIFE
    plane.scheduler.schedule()
    assert plane.store.jobs() == []


def test_a_client_that_vanishes_is_forgotten_and_its_round_goes_on(store):
    plane = Plane(store)
    plane.register("a", 2)
    assert plane.client("gone").seek().job == "a"
    plane.now += CLIENT_LIFE
    plane.scheduler.schedule()
    assert plane.store.clients() == []
    assert plane.client("other").seek().job == "a"
    assert plane.phase("a") == "executing"
    assert plane.jobs.end_request(messages.JobRound(job="a", round=1)).reply == Reply.OK


@pytest.mark.skipif(redis_server() is None, reason="no redis-server on this machine")
@pytest.mark.parametrize("keeps", [True, False], ids=["with its file", "without"])
def test_after_a_restart_of_redis_jobs_go_on_or_are_told_that_they_are_unknown(tmp_path, keeps):
    server = RedisProcess(tmp_path, keeps)
    with ExitStack() as stack:
        stack.callback(server.kill)
        plane = Plane(open_store(server.url))
        stack.callback(plane.store.close)
        plane.register("a", 2)
        first = plane.client("one").seek()
        server.kill()
        with pytest.raises(LabError, match="did not do what it was asked for"):
            plane.client("two").seek()
        server.start()
        asked = messages.JobName(job="a")
        if keeps:
            assert list(plane.jobs.hear(asked).members) == ["one"]
            assert plane.client("one").seek() == first
            assert plane.client("two").seek() == first
        else:
            assert plane.jobs.hear(asked).reply == Reply.UNKNOWN
            assert plane.client("one").seek() is None
            assert plane.register("a", 1) == Reply.OK
            assert plane.client("two").seek().job == "a"
        assert plane.phase("a") == "executing"


@pytest.mark.parametrize("method", ["Request", "Hear", "EndRequest"])
def test_a_job_whose_record_is_lost_registers_again_and_goes_on_with_its_round(store, method):
    plane, root, left = Plane(store), RootServer(), [method]
    acts = {
        "Register": plane.jobs.register,
        "Request": plane.jobs.request,
        "Hear": plane.jobs.hear,
        "EndRequest": plane.jobs.end_request,
        "Finish": plane.jobs.finish,
    }
    at_root = {"Put": root.put, "Result": root.result, "Close": root.close}

    def jobs(said, asked):
        known = {job.id: job for job in store.jobs()}
        if said in left and (said == "Request" or known["a"].round == 2):
            left.clear()
            store.change_job("a", lambda job: (Reply.OK, None))
        return acts[said](asked)

    job = FederatedJob("a", MODEL, jobs, lambda said, asked: at_root[said](asked))
    job.register(3, 4, {"ram": 2.0}, {"samples": 5.0})
    for number in (1, 2):
        job.run_round(number, np.zeros(SIZE), 4, 1, 0.1)
        (known,) = store.jobs()
        assert (known.round, known.rounds, dict(known.public)) == (number, 3, {"ram": 2.0})
        # One that registered again after its last word asks for no clients of a round that is over.
        lost_at_the_end = method == "EndRequest" and number == 2
        assert known.phase == ("idle" if lost_at_the_end else "executing")
    job.run_round(3, np.zeros(SIZE), 4, 1, 0.1)
    job.finish()
    assert (plane.phase("a"), job.registered_again, left) == ("finished", 1, [])
