"""Start one of the services of the control plane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread

from testbed.errors import UsageError
from testbed.propius import control_pb2 as messages
from testbed.propius.balancer import Balancer
from testbed.propius.client_manager import ClientManager
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.job_manager import JobManager
from testbed.propius.rpc import Server
from testbed.propius.scheduler import Scheduler
from testbed.propius.store import open_store

ROLES = ("job-manager", "client-manager", "scheduler", "balancer")


@contextmanager
def serving(
    role: str, address: str, store: str = "", policy: str = "fifo", managers: Sequence[str] = ()
) -> Iterator[str]:
    """Serve a role at `HOST:PORT` until the context ends; yield the address with its port.

    A balancer needs the addresses of `managers`, all others the URL of a store.
    """
    if role == "balancer":
        if not managers:
            raise UsageError("a balancer needs client managers", hint="name them by --managers")
        balancer = Balancer(managers)
        with _server(address, "ClientManager", balancer) as where:
            yield where
        balancer.close()
        return
    if not store:
        raise UsageError(f"a {role} needs a store", hint="name it by --store")
    records = open_store(store)
    try:
        if role == "job-manager":
            with _server(address, "JobManager", JobManager(records)) as where:
                yield where
        elif role == "client-manager":
            with _server(address, "ClientManager", ClientManager(records)) as where:
                yield where
        else:
            with _scheduling(Scheduler(records, policy), address) as where:
                yield where
    finally:
        records.close()


@contextmanager
def _server(address: str, service: str, implementation: object) -> Iterator[str]:
    server = Server(address, [(DESCRIPTOR.services_by_name[service], implementation)])
    try:
        yield server.address
    finally:
        server.close()


@contextmanager
def _scheduling(scheduler: Scheduler, address: str) -> Iterator[str]:
    stop = Event()
    thread = Thread(target=scheduler.run, args=(stop,), name="scheduler")
    thread.start()
    try:
        with _server(address, "Scheduler", Schedules(scheduler)) as where:
            yield where
    finally:
        stop.set()
        thread.join()


class Schedules:
    """Answers requests for new offers."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def schedule(self, asked: messages.Nothing) -> messages.Answer:
        """Publish offers at once."""
        return messages.Answer(reply=self._scheduler.schedule())
