"""The job `federated`: learning jobs whose clients are processes on the hosts.

Its program is `testbed.propius.clients_program`; the hosts have the testbed installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from ipaddress import ip_address

from testbed.errors import UsageError
from testbed.jobs.federated_descriptors import FederatedOptions
from testbed.jobs.programs import Program
from testbed.jobs.trace_files import read_trace
from testbed.schema import Host
from testbed.tenancy.learning_run import LearningRun
from testbed.tenancy.traces import Trace


class Federated(Program):
    """Control plane and jobs on the first host, clients and a leaf on each of the others."""

    def __init__(self, options: FederatedOptions) -> None:
        super().__init__(options.ranks, None, options.metrics)
        self._options = options

    @cached_property
    def run(self) -> LearningRun:
        """Return what the program is told; raise ValueError for a trace that cannot be read."""
        own = self._options
        told = LearningRun(
            policy=own.policy,
            clients=own.clients,
            rounds=own.rounds,
            demand=own.demand,
            needed=own.needed,
            patience=own.patience,
            ask_every=own.ask_every,
            model=own.model,
        )
        if own.trace is None:
            return told
        return replace(
            told,
            seed=own.trace.seed,
            traced=_first(own.trace.files, own.clients) if own.trace.files else None,
            speedup=own.trace.speedup,
            start=round(own.trace.start * 1000),
        )

    def command_lines(self, hosts: Sequence[Host]) -> tuple[tuple[str, ...], ...]:
        """Return the command line for each rank's host, which has the trace of its own clients.

        Raise ValueError for a trace that cannot be read, and where addresses do not follow each
        other.
        """
        for rank, host in enumerate(hosts):
            if not host.ports:
                raise ValueError(f"the host of rank {rank} has no fabric port")
        addresses = [next(iter(host.ports.values())).address.ip for host in hosts]
        first = addresses[0]
        for rank, address in enumerate(addresses):
            if address != (due := ip_address(first) + rank):
                raise ValueError(
                    f"rank {rank} must have the address {due}, {rank} after that of the first "
                    f"host, and has {address}"
                )
        program = ("python3", "-m", "testbed.propius.clients_program")
        return tuple(
            (*program, self.run.text_for(rank, len(hosts)), str(first))
            for rank in range(len(hosts))
        )


def _first(files: Sequence[str], clients: int) -> Trace:
    """Return the first clients of the trace in files."""
    try:
        trace = read_trace(files)
    except UsageError as error:
        raise ValueError(str(error)) from error
    if len(trace.clients) < clients:
        raise ValueError(
            f"the trace in {' and '.join(files)} has {len(trace.clients)} clients, and the job "
            f"{clients}"
        )
    return Trace(trace.period, trace.clients[:clients])
