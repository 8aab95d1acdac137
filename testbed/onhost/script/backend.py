"""The backend `testbed` of torch.distributed: gloo, whose groups on a rail ask for their circuits.

PyTorch registers it as it is imported, by the entry point `torch.backends`, so that a script only
names it. The world is on the management network, and so are the stores by which processes find each
other. A group of the job's mesh on a rail has two processes and is connected over its circuits:
gloo connects all pairs of a group, and by the first port of a host. Where no rank says that the job
is on rails, all groups are gloo's own.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Optional

import torch
import torch.distributed as dist

from ..communication.connections import unacknowledged
from ..communication.rails import LONGEST_WAIT, OWN_STAGES, RailStages
from ..communication.script_line import RAILS, RailLine
from ..communication.stages import Stage
from ..errors import PeerLost
from .operations import Begin, Operations

NAME = "testbed"

_COLLECTIVES = (
    *("allreduce", "allreduce_coalesced", "broadcast", "reduce", "barrier"),
    *("allgather", "_allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced"),
    *("all_gather_single", "all_gather_single_coalesced", "gather", "scatter"),
    *("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced"),
    *("reduce_scatter_single", "reduce_scatter_single_coalesced"),
    *("alltoall", "alltoall_base", "all_to_all_single"),
)
"""By the names of their methods."""

_LOOK_AGAIN = 100e-6


def register() -> None:
    """Register the backend; PyTorch calls this."""
    dist.Backend.register_backend(NAME, _group, extended_api=True, devices=["cpu"])


def _group(options: Any, _: Any) -> Any:
    """Return what a group of processes communicates by; raise ValueError for one of no rail."""
    ranks, store = list(options.global_ranks_in_group), options.store
    place, timeout = (options.group_rank, options.group_size), options.timeout
    rails, is_world = _rails(), not dist.is_initialized()
    if rails is not None and is_world and rails.rank != options.group_rank:
        raise ValueError(
            f"this process has rank {options.group_rank} in the script, and {rails.rank} in the "
            "job: give torchrun the job's with --node-rank"
        )
    if rails is None or is_world or rails.has_no_rail(ranks):
        return _gloo(store, *place, timeout, hostname=_management_address())
    if rails.is_inside_a_host(ranks):
        return _gloo(store, *place, timeout, hostname="127.0.0.1")
    name = rails.name_of(ranks)
    if len(ranks) != 2:
        raise ValueError(
            f"group {name} has {len(ranks)} ranks: gloo connects all pairs of a group, and "
            "circuits join two of them at a time"
        )
    return RailGroup(rails, name, ranks, store, *place, timeout)


class Rails:
    """The rails of this process: the line to its rank, and its operations in order."""

    def __init__(self, line: RailLine) -> None:
        told = line.greeting
        self.rank: int = told["rank"]
        named: dict[str, list[int]] = told["groups"]
        self._groups = {frozenset(ranks): name for name, ranks in named.items()}
        self._hosts: list[str] = told["hosts"]
        self._addresses: list[str] = told["addresses"]
        self._stages = RailStages(line, told["generation"], OWN_STAGES)  # type: ignore[arg-type]
        self._connections: list[socket.socket] = []
        self.operations = Operations(self._stages, self._drain)

    def has_no_rail(self, ranks: Sequence[int]) -> bool:
        """Tell whether these are one rank, or all of the job that the mesh does not join."""
        is_all = len(ranks) == len(self._hosts)
        return len(ranks) == 1 or (is_all and frozenset(ranks) not in self._groups)

    def is_inside_a_host(self, ranks: Sequence[int]) -> bool:
        """Tell whether all of these ranks are on one host."""
        return len({self._hosts[rank] for rank in ranks}) == 1

    def name_of(self, ranks: Sequence[int]) -> str:
        """Return the name of a group; raise ValueError for ranks that are none of the mesh."""
        if name := self._groups.get(frozenset(ranks)):
            return name
        known = ", ".join(f"{name} {sorted(of)}" for of, name in self._groups.items())
        raise ValueError(
            f"ranks {sorted(ranks)} are no group of the job's mesh, for which circuits could be "
            f"had; write a `mesh` that has it in the job. Its groups are {known}"
        )

    def connect(
        self, stage: Stage, store: dist.Store, place: tuple[int, int], timeout: timedelta
    ) -> Any:
        """Return gloo between the ranks that the circuits of a stage join, connected over them.

        `place` is the number of this process among them, and how many there are.
        """
        own = next(
            port
            for link in self._stages.links(stage)
            for (rank, port), _ in (link, link[::-1])
            if rank == self.rank
        )
        found = _gloo(store, *place, timeout, hostname=self._addresses[own])
        before, self._connections = self._connections, _connections(self._addresses)
        for connection in before:
            connection.close()
        return found

    def _drain(self) -> None:
        """Wait until all that was sent over fabric ports has been acknowledged.

        Raise PeerLost where it is not in the time in which circuits must come.
        """
        limit = time.monotonic() + LONGEST_WAIT
        for connection in self._connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        while any(map(unacknowledged, self._connections)):
            if time.monotonic() >= limit:
                raise PeerLost("other", f"nothing was acknowledged in {LONGEST_WAIT:g} s")
            time.sleep(_LOOK_AGAIN)


class RailGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A group on a rail: every operation begins when its circuits are lit."""

    def __init__(
        self,
        rails: Rails,
        name: str,
        ranks: Sequence[int],
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
    ) -> None:
        """Take the ranks in the job of both members; block until they are connected."""
        super().__init__(rank, size)
        self._rails, self._name, self._ranks = rails, name, ranks
        self._library: Any = None

        def connect(stage: Stage) -> None:
            self._library = rails.connect(stage, store, (rank, size), timeout)

        self._run(lambda stage: lambda: connect(stage), None).wait()

    def getBackendName(self) -> str:  # noqa: N802
        """Return the name by which scripts know it."""
        return NAME

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> RailWork:
        """Send to the other process."""
        return self.operation("send", (tensors, peer, tag))

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> RailWork:
        """Receive from the other process."""
        return self.operation("recv", (tensors, peer, tag))

    def operation(self, method: str, arguments: Sequence[Any]) -> RailWork:
        """Run a method of gloo when the circuits are lit."""

        def begin(_: Stage) -> Callable[[], object]:
            wait: Callable[[], object] = getattr(self._library, method)(*arguments).wait
            return wait

        return self._run(begin, arguments[0] if arguments else None)

    def _run(self, begin: Begin, result: Any) -> RailWork:
        work = RailWork(result)
        self._rails.operations.submit(self._name, self._ranks, begin, work.end)
        return work


def _method(name: str) -> Any:
    def run(self: RailGroup, *arguments: Any, **named: Any) -> RailWork:
        return self.operation(name, (*arguments, *named.values()))

    run.__name__, run.__doc__ = name, f"Run {name} of gloo when the circuits are lit."
    return run


for _name in _COLLECTIVES:
    setattr(RailGroup, _name, _method(_name))


class RailWork(dist.Work):  # type: ignore[misc]
    """An operation that was begun, or waits for its circuits."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._result = result
        self._future: torch.futures.Future[Any] = torch.futures.Future()

    def end(self, error: Optional[Exception]) -> None:
        """Note that the operation is over."""
        if error is None:
            self._future.set_result(self._result)
        else:
            self._future.set_exception(error)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until the operation is over, whatever the timeout; raise what it failed with."""
        self._future.wait()
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        """Return the future, which has the tensors when the operation is over."""
        return self._future

    def is_completed(self) -> bool:
        """Tell whether the operation is over."""
        return bool(self._future.done())

    def result(self) -> Any:
        """Return the tensors."""
        return self._result


@cache
def _rails() -> Optional[Rails]:
    """Return the rails of this process; None where its rank has none."""
    name = os.environ.get(RAILS)
    return None if name is None else Rails(RailLine(name))


def _gloo(
    store: dist.Store, rank: int, size: int, timeout: timedelta, hostname: Optional[str]
) -> Any:
    """Return a group of gloo at an address of this host; None leaves the choice to gloo."""
    if hostname is None:
        return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=hostname)]
    options._timeout = timeout
    return dist.ProcessGroupGloo(store, rank, size, options)


def _management_address() -> Optional[str]:
    """Return the address of this host on the way to where processes meet; None without one."""
    master = os.environ.get("MASTER_ADDR")
    if master is None or "GLOO_SOCKET_IFNAME" in os.environ:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((master, 9))  # sends nothing
        return str(probe.getsockname()[0])


def _connections(addresses: Sequence[str]) -> list[socket.socket]:
    """Return the TCP connections of this process from these addresses."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.socket(fileno=os.dup(int(path.name))) as one:
            if one.family != socket.AF_INET or one.type != socket.SOCK_STREAM:
                continue
            if one.getpeername() and one.getsockname()[0] in addresses:
                # `dup` of a socket would make the library's one block.
                found.append(socket.socket(fileno=one.detach()))
    return found
