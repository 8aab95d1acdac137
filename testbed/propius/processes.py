"""Services as processes of their own, which can be killed and started again at their address."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection

from testbed.errors import LabError
from testbed.propius.serve import serving

ANY = "127.0.0.1:0"
_SPAWN = get_context("spawn")
"""A fork would take the threads' locks of gRPC along."""
_START_S = 60.0
"""How long a process may take to listen, on a machine with other things to do."""
_ANSWER_S = 10.0

Serve = Callable[[str], AbstractContextManager[str]]
"""Serves at an address, which it yields with its port, until the context ends."""


class ServiceProcess:
    """A service in a process of its own, which ends when this one does."""

    def __init__(self, serve: Serve, address: str = ANY) -> None:
        """Start its process without waiting for it; `serve` must be picklable."""
        self._serve = serve
        self._address = address
        self._used = 0.0
        self.start()

    def start(self) -> None:
        """Begin to start it, again at its address if it was killed."""
        self._line, theirs = _SPAWN.Pipe()
        arguments = self._serve, self._address, theirs
        self._process = _SPAWN.Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._is_up = False

    @property
    def address(self) -> str:
        """Return where it listens, once it does; raise LabError if that takes longer than 60 s."""
        if not self._is_up:
            try:
                if not self._line.poll(_START_S):
                    raise EOFError
                self._address = self._line.recv()
            except EOFError:
                raise LabError(
                    f"a service that was to listen at {self._address} did not start",
                    hint="what it wrote to standard error has the reason",
                ) from None
            self._is_up = True
        return self._address

    def used(self) -> float:
        """Return the seconds of processor time of it and of those that were killed before it."""
        assert self.address
        self._line.send(None)
        if not self._line.poll(_ANSWER_S):
            raise LabError(f"the service at {self._address} did not answer", hint="was it stopped?")
        return self._used + float(self._line.recv())

    def kill(self) -> None:
        """End it by SIGKILL, and wait until it is gone."""
        self._used = self.used()
        self._process.kill()
        self._process.join()
        self._line.close()

    def close(self) -> None:
        """End it as a whole, or by SIGKILL if it takes longer than 10 s."""
        self._line.close()
        self._process.join(_ANSWER_S)
        self._process.kill()
        self._process.join()


class ControlPlane:
    """Job manager, scheduler, and client managers behind a balancer, each a process."""

    def __init__(
        self,
        stack: ExitStack,
        store: str,
        managers: int,
        address: str = ANY,
        policy: str = "fifo",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Start all, and have `stack` end them; clients call the balancer at `address`."""

        def started(role: str) -> ServiceProcess:
            serve = partial(serving, role, store=store, policy=policy, clock=clock)
            return _entered(stack, ServiceProcess(serve))

        self.job_manager, self.scheduler = started("job-manager"), started("scheduler")
        self.managers = [started("client-manager") for _ in range(managers)]
        behind = [manager.address for manager in self.managers]
        balance = partial(serving, "balancer", managers=behind)
        self.balancer = _entered(stack, ServiceProcess(balance, address))
        self.on_store = [self.job_manager, self.scheduler, *self.managers]
        self._all = [*self.on_store, self.balancer]
        for each in self._all:
            assert each.address

    def used(self) -> float:
        """Return the seconds of processor time of all processes."""
        return sum(each.used() for each in self._all)


def _entered(stack: ExitStack, process: ServiceProcess) -> ServiceProcess:
    stack.callback(process.close)
    return process


def _run(serve: Serve, address: str, line: Connection) -> None:
    """Serve, and tell the processor time whenever asked, until the other end is closed."""
    with serve(address) as where:
        line.send(where)
        while True:
            try:
                line.recv()
            except EOFError:
                return
            line.send(time.process_time())
