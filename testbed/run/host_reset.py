"""Reset hosts between trials and at the end of a run: end their ranks, restart their agents."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from testbed.bench.host import BenchHost
from testbed.bench.parallel import run_parallel
from testbed.clock import Deadline
from testbed.errors import HostError
from testbed.run.context import RunContext
from testbed.run.running_job import RunningJob

RANKS_LIMIT = 10.0
_POWER_LIMIT = 15.0
_ANSWER_LIMIT = 1.0


def reset_hosts(
    context: RunContext, jobs: Collection[RunningJob], hosts: tuple[str, ...], boot: float
) -> None:
    """Restore power and agent of every host; processes on other hosts are removed from their job.

    A host that must boot may take `boot` seconds to answer.
    """
    bench, in_worker = context.bench, context.inbox.in_worker
    in_worker("asking the hosts", partial(_drop_silent, context), Deadline.after(_ANSWER_LIMIT))
    in_worker("giving power back", bench.power.restore_all, Deadline.after(_POWER_LIMIT))
    for host in hosts:
        if host not in bench.hosts:
            for job in jobs:
                for place in [place for place in job.processes if place.host == host]:
                    del job.processes[place]
            in_worker(f"opening {host}", partial(bench.reopen_host, host), Deadline.after(boot))


def end_ranks(context: RunContext) -> None:
    """Kill every rank and verify that it is gone; hosts without power have none."""
    bench = context.bench

    def end(deadline: Deadline) -> None:
        bench.drop_cut_hosts()
        run_parallel(lambda host: host.end_ranks(deadline), list(bench.hosts.values()))

    context.inbox.in_worker("ending the ranks", end, Deadline.after(RANKS_LIMIT))


def end_ranks_or_agents(context: RunContext, deadline: Deadline) -> None:
    """Kill every rank; where that cannot be verified, start a new agent to do it."""
    context.bench.drop_cut_hosts()
    text = "its ranks are ended with its agent"
    _drop_failing(context, lambda host: host.end_ranks(deadline), text)


def _drop_silent(context: RunContext, deadline: Deadline) -> None:
    """Forget the agents that do not answer; their hosts are opened anew, if they are there."""
    text = "its agent is given up after the trial"
    _drop_failing(context, lambda host: host.link.ask("alive", deadline), text)


def _drop_failing(context: RunContext, action: Callable[[BenchHost], object], text: str) -> None:
    """Do something on all hosts side by side; drop those on which it fails."""
    bench = context.bench

    def act(name: str) -> None:
        try:
            action(bench.hosts[name])
        except HostError as error:
            context.log.append("note", name, text=f"{text}: {error}")
            bench.drop_host(name)

    run_parallel(act, list(bench.hosts))
