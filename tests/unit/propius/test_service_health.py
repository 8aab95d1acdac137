"""The health of a service follows what it needs: its store, or its managers."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from testbed.propius.balancer import SERVICE as CLIENTS
from testbed.propius.balancer import Balancer
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.processes import ANY, ServiceProcess
from testbed.propius.redis_process import RedisProcess, redis_server
from testbed.propius.scheduler import Scheduler
from testbed.propius.serve import serving

PATIENCE = 60.0
SERVICES = {
    "job-manager": DESCRIPTOR.services_by_name["JobManager"].full_name,
    "client-manager": CLIENTS.full_name,
    "scheduler": DESCRIPTOR.services_by_name["Scheduler"].full_name,
    "balancer": CLIENTS.full_name,
}


class Health:
    """What a server says of one of its services, and of itself as a whole."""

    def __init__(self, stack: ExitStack, address: str, service: str) -> None:
        self._stub = health_pb2_grpc.HealthStub(stack.enter_context(grpc.insecure_channel(address)))
        self._names = (service, "")

    def wait_for(self, state: str) -> None:
        wanted = health_pb2.HealthCheckResponse.ServingStatus.Value(state)
        end = time.monotonic() + PATIENCE
        while (found := self._states()) != [wanted, wanted]:
            assert time.monotonic() < end, found
            time.sleep(0.05)

    def _states(self):
        asked = [health_pb2.HealthCheckRequest(service=name) for name in self._names]
        return [self._stub.Check(each, timeout=PATIENCE).status for each in asked]


@pytest.mark.skipif(redis_server() is None, reason="no redis-server on this machine")
def test_all_services_say_that_the_store_is_dead_and_that_it_is_back(tmp_path):
    server = RedisProcess(tmp_path)
    with ExitStack() as stack:
        stack.callback(server.kill)
        where = {
            role: stack.enter_context(serving(role, ANY, server.url))
            for role in ("job-manager", "client-manager", "scheduler")
        }
        managers = [where["client-manager"]]
        where["balancer"] = stack.enter_context(serving("balancer", ANY, managers=managers))
        all_health = [Health(stack, where[role], SERVICES[role]) for role in where]
        for health in all_health:
            health.wait_for("SERVING")
        server.kill()
        for health in all_health:
            health.wait_for("NOT_SERVING")
        server.start()
        for health in all_health:
            health.wait_for("SERVING")


def test_a_balancer_serves_while_one_of_its_managers_does(tmp_path):
    serve = partial(serving, "client-manager", store=str(tmp_path / "records.db"))
    with ExitStack() as stack:
        managers = [ServiceProcess(serve) for _ in range(2)]
        for each in managers:
            stack.callback(each.close)
        addresses = [each.address for each in managers]
        at = stack.enter_context(serving("balancer", ANY, managers=addresses))
        health = Health(stack, at, CLIENTS.full_name)
        health.wait_for("SERVING")
        managers[0].kill()
        balancer = Balancer(addresses)
        stack.callback(balancer.close)
        assert balancer.has_manager()
        managers[1].kill()
        health.wait_for("NOT_SERVING")
        managers[0].start()
        health.wait_for("SERVING")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_scheduler_whose_policy_fails_says_that_it_does_not_serve(tmp_path, monkeypatch):
    def fail(self):
        raise ZeroDivisionError

    store = str(tmp_path / "records.db")
    with serving("scheduler", ANY, store) as at, ExitStack() as stack:
        health = Health(stack, at, SERVICES["scheduler"])
        health.wait_for("SERVING")
        monkeypatch.setattr(Scheduler, "schedule", fail)
        health.wait_for("NOT_SERVING")


def test_a_balancer_without_a_manager_says_so_from_the_beginning():
    with ExitStack() as stack:
        at = stack.enter_context(serving("balancer", ANY, managers=["127.0.0.1:1"]))
        Health(stack, at, CLIENTS.full_name).wait_for("NOT_SERVING")
