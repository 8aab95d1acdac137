"""Start one of the services of the control plane or of the data plane."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from threading import Event, Thread

from testbed.errors import LabError, UsageError
from testbed.propius import control_pb2 as messages
from testbed.propius.balancer import Balancer
from testbed.propius.client_manager import ClientManager
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.job_manager import JobManager
from testbed.propius.opening import open_store, own_store
from testbed.propius.rpc import Server
from testbed.propius.scheduler import Scheduler
from testbed.propius.serve_data import serving_leaf, serving_root
from testbed.propius.store import Store

ON_STORE = ("job-manager", "client-manager", "scheduler")
ROLES = (*ON_STORE, "balancer", "root", "leaf")


@contextmanager
def serving(
    role: str,
    address: str,
    store: str = "",
    policy: str = "fifo",
    managers: Sequence[str] = (),
    root: str = "",
    clock: Callable[[], float] = time.time,
) -> Iterator[str]:
    """Serve a role at `HOST:PORT` until the context ends; yield the address with its port.

    A balancer needs the addresses of `managers`, a leaf that of its root; a root needs nothing, and
    all others open the store of a URL, or this user's own. By `clock` they tell what has been
    silent.
    """
    with ExitStack() as stack:
        if role == "root":
            yield stack.enter_context(serving_root(address))
        elif role == "leaf":
            if not root:
                raise UsageError("a leaf needs its root", hint="name it by --root")
            yield stack.enter_context(serving_leaf(address, root))
        elif role == "balancer":
            if not managers:
                raise UsageError("a balancer needs client managers", hint="name them by --managers")
            balancer = Balancer(managers)
            stack.callback(balancer.close)
            served = _server(address, "ClientManager", balancer, balancer.has_manager)
            yield stack.enter_context(served)
        else:
            records = open_store(store or own_store())
            stack.callback(records.close)
            yield stack.enter_context(_on_records(role, address, records, policy, clock))


def _on_records(
    role: str, address: str, store: Store, policy: str, clock: Callable[[], float]
) -> AbstractContextManager[str]:
    is_able = partial(_answers, store)
    if role == "job-manager":
        return _server(address, "JobManager", JobManager(store, clock), is_able)
    if role == "client-manager":
        return _server(address, "ClientManager", ClientManager(store, clock), is_able)
    return _scheduling(Scheduler(store, policy, clock), address, is_able)


def _answers(store: Store) -> bool:
    """Return whether a store can be read."""
    try:
        store.published()
    except LabError:
        return False
    return True


@contextmanager
def _server(
    address: str, service: str, implementation: object, is_able: Callable[[], bool]
) -> Iterator[str]:
    services = [(DESCRIPTOR.services_by_name[service], implementation)]
    server = Server(address, services, is_able=is_able)
    try:
        yield server.address
    finally:
        server.close()


@contextmanager
def _scheduling(scheduler: Scheduler, address: str, is_able: Callable[[], bool]) -> Iterator[str]:
    stop = Event()
    thread = Thread(target=scheduler.run, args=(stop,), name="scheduler")
    thread.start()

    def schedules() -> bool:
        return thread.is_alive() and is_able()

    try:
        with _server(address, "Scheduler", Schedules(scheduler), schedules) as where:
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
