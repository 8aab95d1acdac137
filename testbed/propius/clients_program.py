"""A program for the ranks of a job `federated`: jobs that learn from clients that are processes.

    python3 -m testbed.propius.clients_program RUN ADDRESS_OF_RANK_0

RUN is the text of a `testbed.tenancy.learning_run.LearningRun`. Rank 0 has the control plane, the
root and both jobs. Every other rank is a site: one process forks a process for each client when it
comes, and kills it when it goes; its leaf is a process, too. The addresses of ranks follow each
other. Rank 0 prints what came of the jobs and of the clients.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from threading import Event
from typing import Any

from testbed.clock import now
from testbed.propius.balancer import SERVICE as CLIENTS
from testbed.propius.client_processes import ClientProcesses
from testbed.propius.devices import Device, device_of
from testbed.propius.digit_jobs import CONTROL, DATA, RATES, Wanted, report, run_job, served
from testbed.propius.digits import Digits
from testbed.propius.federated_job import Round
from testbed.propius.learner import Learner
from testbed.propius.processes import ServiceProcess
from testbed.propius.rank_lines import RankLine, line_to_first, lines_to_ranks
from testbed.propius.rpc import calling
from testbed.propius.serve_data import LEAF, serving_leaf
from testbed.propius.task_counts import Field, TaskCounts
from testbed.tenancy.aggregation import Code
from testbed.tenancy.learning_run import LearningRun, run_of
from testbed.tenancy.presence import Change, changes
from testbed.tenancy.traces import Trace

LINES = 7001
"""The port of the lines to other ranks."""
FLUSH_AFTER = 0.05
_MEETING_S, _END_S = 60.0, 60.0
_LOOK_EVERY = 0.5
"""Seconds from one look for processes that ended by themselves to the next."""
CONSTRAINTS: Mapping[str, Mapping[str, float]] = {"slow": {"ram": 2.0}, "fast": {"ram": 6.0}}
"""What each job demands of its clients in public."""


def main(run: LearningRun, first: str, rank: int, ranks: int, seed: int) -> None:
    """Be the jobs, or a site of clients, until both jobs have finished."""
    digits = Digits(run.clients, seed)
    if rank == 0:
        _be_jobs(run, first, ranks, digits)
    else:
        _be_site(run, first, rank, ranks, digits)


def _be_jobs(run: LearningRun, first: str, ranks: int, digits: Digits) -> None:
    with ExitStack() as stack:
        jobs, root = served(stack, first, run.policy, FLUSH_AFTER)
        lines = stack.enter_context(lines_to_ranks(f"{first}:{LINES}", ranks, _MEETING_S))
        for line in lines.values():
            line.hear(_MEETING_S)  # its leaf is up
        for line in lines.values():
            line.say("begin")
        begun = time.perf_counter()
        with ThreadPoolExecutor(len(RATES)) as pool:
            found = {
                name: pool.submit(run_job, name, _wanted(run, name), jobs, root) for name in RATES
            }
            done = {name: job.result() for name, job in found.items()}
        took = time.perf_counter() - begun
        for line in lines.values():
            line.say("end")
        sites = [line.hear(_END_S) for line in lines.values()]
    _report(run, done, digits, sites)
    print(f"both jobs took {took:.3f} s", flush=True)


def _wanted(run: LearningRun, job: str) -> Wanted:
    return Wanted(run.rounds, run.demand, run.needed, run.patience, CONSTRAINTS[job])


def _report(
    run: LearningRun,
    done: Mapping[str, list[Round]],
    digits: Digits,
    sites: list[dict[str, Any]],
) -> None:
    for name, rounds in done.items():
        report(name, rounds, digits)
    all_of = {key: sum(site[key] for site in sites) for key in sites[0] if key != "lag"}
    short = sum(len(each.clients) < run.needed for rounds in done.values() for each in rounds)
    print(f"{sum(map(len, done.values()))} rounds ended, {short} of them short")
    print(f"{all_of['started']} client processes were started, {all_of['most']} at once")
    print(f"{all_of['vanished']} clients vanished in a round")
    print(f"{all_of['tasks']} tasks, {all_of['overran']} computed longer than their trace says")
    print("pushes " + ", ".join(f"{all_of[code.name]} {code.name.lower()}" for code in Code))
    print(f"{all_of['wasted']} acceptances were not bound")
    late = all_of["told_REFUSED"] + all_of["told_STALE"]
    print(f"{all_of['told_OK']} updates were told in time, {late} too late")
    print(f"clients worked {100 * all_of['worked'] / all_of['there']:.2f} % of their time")
    print(f"came and went {max(site['lag'] for site in sites):.3f} s late at most", flush=True)


@dataclass
class Site:
    """The clients of one rank, and how they come and go."""

    processes: ClientProcesses
    there: float = 0.0
    """Seconds for which clients were there, of all."""
    lag: float = 0.0
    """The most seconds after its time at which one came or went."""

    def obey(self, line: RankLine, due: Iterator[Change], speedup: float) -> None:
        """Have clients come and go until rank 0 says that it is over."""
        begun = last = now()
        for change in due:
            at = begun + change.at / 1000 / speedup
            while not (is_over := line.is_there(min(_LOOK_EVERY, at - now()))) and now() < at:
                self.processes.check()
            last = self._pass(last)
            if is_over:
                return
            self.lag = max(self.lag, now() - at)
            act = self.processes.start if change.is_arrival else self.processes.end
            act(change.client)
        while not line.is_there(_LOOK_EVERY):
            self.processes.check()
        self._pass(last)

    def _pass(self, last: float) -> float:
        """Count the time of those that are there."""
        self.there += len(self.processes.here) * (now() - last)
        return now()

    def found(self) -> dict[str, float]:
        """Return what became of the clients, whose processes have ended, for rank 0."""
        rows = self.processes.rows.sum(axis=0)
        named = {field.name.lower(): rows[field] for field in (Field.WORKED,)}
        counts = (Field.TASKS, Field.OVERRAN, Field.VANISHED, Field.WASTED)
        named |= {field.name.lower(): int(rows[field]) for field in counts}
        codes = {code.name: int(rows[Field.CODES + code]) for code in Code}
        codes |= {f"told_{code.name}": int(rows[Field.OUTCOMES + code]) for code in Code}
        own = {"started": self.processes.started, "most": self.processes.most}
        return {**named, **codes, **own, "there": self.there, "lag": self.lag}


def _be_site(run: LearningRun, first: str, rank: int, ranks: int, digits: Digits) -> None:
    own = str(ip_address(first) + rank)
    numbers, trace = run.of(rank, ranks), _trace_at(run, rank, ranks)
    devices = [Device(_BEST)] * len(numbers)
    due = iter([Change(0, True, place) for place in range(len(numbers))])
    if trace is not None:
        devices = [device_of(each, run.model, run.speedup) for each in trace.clients]
        due = changes(trace.clients, trace.period, run.start)

    def be(place: int, counts: TaskCounts) -> None:
        name = f"client {numbers[place]}"
        at_managers, at_leaf = f"{first}:{CONTROL}", f"{own}:{DATA}"
        with calling(at_managers, CLIENTS) as managers, calling(at_leaf, LEAF) as leaf:
            given = (devices[place], counts, run.ask_every)
            Learner(name, digits, RATES, managers, leaf, *given).run(Event())

    with ExitStack() as stack:
        line = stack.enter_context(line_to_first(f"{first}:{LINES}", rank, _MEETING_S))
        serve: Callable[[str], Any] = partial(
            serving_leaf, root=f"{first}:{DATA}", flush_after=FLUSH_AFTER
        )
        leaf = ServiceProcess(serve, f"{own}:{DATA}")
        stack.callback(leaf.close)
        site = Site(ClientProcesses(len(numbers), be))
        line.say(leaf.address)
        line.hear(_MEETING_S)
        try:
            site.obey(line, due, run.speedup)
        finally:
            site.processes.close()
        line.hear(_END_S)
        line.say(site.found())


_BEST = {"cpu_f": 10.0, "ram": 12.0, "fp16_mem": 1600.0, "android_os": 10.0}
"""What clients have of which no trace says anything: all constraints are met."""


def _trace_at(run: LearningRun, rank: int, ranks: int) -> Trace | None:
    """Return the trace of the clients of a rank."""
    if run.seed is None or (trace := run.trace()) is None:
        return run.traced
    return Trace(trace.period, tuple(trace.clients[client] for client in run.of(rank, ranks)))


if __name__ == "__main__":
    main(
        run_of(sys.argv[1]),
        sys.argv[2],
        int(os.environ["TESTBED_RANK"]),
        int(os.environ["TESTBED_RANKS"]),
        int(os.environ["TESTBED_SEED"]),
    )
