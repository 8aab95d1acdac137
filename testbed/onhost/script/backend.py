"""The backend `testbed` of torch.distributed: gloo, whose groups on a rail ask for their circuits.

PyTorch registers it as it is imported, by the entry point `torch.backends`, so that a script only
names it. The world is on the management network, and so are the stores by which processes find each
other. A group of the job's mesh on a rail is connected over its circuits: of two processes by gloo,
which connects all pairs of a group, and of more by our executor, as circuits join these in pairs.
Where no rank says that the job is on rails, all groups are gloo's own.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist

from ..communication.stages import Stage
from .operations import Begin
from .pairwise_group import PairwiseGroup
from .rails import Rails, rails_of_process
from .work import RailWork

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


def register() -> None:
    """Register the backend; PyTorch calls this."""
    dist.Backend.register_backend(NAME, _group, extended_api=True, devices=["cpu"])


def _group(options: Any, _: Any) -> Any:
    """Return what a group of processes communicates by; raise ValueError for one of no rail."""
    ranks, store = list(options.global_ranks_in_group), options.store
    place, timeout = (options.group_rank, options.group_size), options.timeout
    rails, is_world = rails_of_process(), not dist.is_initialized()
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
    if (schedules := rails.in_pairs(name)) is not None:
        return PairwiseGroup(rails, name, ranks, schedules, store, *place, timeout)
    return RailGroup(rails, name, ranks, store, *place, timeout)


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
            own, _ = rails.ends(stage)
            self._library = _gloo(store, rank, size, timeout, hostname=rails.address(own))
            rails.note_connections()

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
