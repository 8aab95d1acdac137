"""A program for the ranks of a job `command`: how fast, and how safely, clients are bound.

    python3 -m testbed.propius.binding_program MANAGERS KILLED [POLICY [LEVELS]] ADDRESS_OF_RANK_0

Rank 0 has the control plane, with so many client managers, each part a process, and six jobs, which
ask for 40 clients again and again; every other rank has 192 clients, 16 of them at once. With
KILLED, `yes`, one manager after the other is killed and started again. With LEVELS, `levels`, jobs
have the constraints that Propius was evaluated with, and clients the devices of simulated traces,
many of which do not meet them. Rank 0 prints what came of it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from testbed.clock import Deadline
from testbed.propius.binding_load import ClientLoad, Findings, JobLoad, told_otherwise
from testbed.propius.processes import ControlPlane
from testbed.propius.rank_lines import RankLine, line_to_first, lines_to_ranks
from testbed.tenancy.replies import Reply
from testbed.tenancy.workload import LEVELS

JOBS, DEMAND, THREADS, OF_EACH = 6, 40, 16, 12
MEASURED_S, KILL_EVERY_S = 6.0, 1.0
CONTROL, LINES = 7000, 7001
"""Ports: of the balancer, and of the lines to the other ranks."""
_MEETING_S = 60.0
_END_S = 60.0
"""How long the last answers may take."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a trial is to measure."""

    managers: int
    killed: bool
    policy: str
    constrained: bool


def main(load: Load, first: str, rank: int, ranks: int, seed: int) -> None:
    """Be the control plane and the jobs, or clients, until the time is over."""
    if rank == 0:
        _be_control_plane(load, first, ranks)
    else:
        _be_clients(load, first, rank, seed)


def _be_control_plane(load: Load, first: str, ranks: int) -> None:
    with ExitStack() as stack:
        store = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "records.db"
        plane = ControlPlane(stack, str(store), load.managers, f"{first}:{CONTROL}", load.policy)
        meeting = lines_to_ranks(f"{first}:{LINES}", ranks, _MEETING_S)
        lines = stack.enter_context(meeting)
        over, levels = Event(), LEVELS if load.constrained else ((),)
        jobs = JobLoad(plane.job_manager.address, JOBS, DEMAND, levels)
        pool = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(over.set)
        asking = pool.submit(jobs.run, over)
        begun, used, busy = time.perf_counter(), plane.used(), _processors()
        for line in lines.values():
            line.say("begin")
        restarts = _pass_time(plane, load.killed)
        bound, took = jobs.bound, time.perf_counter() - begun
        used, share = plane.used() - used, _busy_share(busy, _processors())
        found, theirs = _findings(lines)
        over.set()
        asking.result(_END_S)
        differ = told_otherwise(found.told, jobs.had)
        wasted = found.accepts - found.answers[Reply.OK]
        over_assigned = found.answers[Reply.OVER_ASSIGN] / max(1, found.accepts)
        print(f"{found.accepts} acceptances, {len(jobs.had)} rounds")
        print(f"{bound / took:.1f} clients bound per second")
        print(f"over-assigned {100 * over_assigned:.2f} %")
        print(f"not bound {100 * wasted / max(1, found.accepts):.2f} % of acceptances")
        print(f"{jobs.beyond} bound beyond demand, {differ} told otherwise than recorded")
        print(f"{found.bound_twice} bound twice of {found.tried_twice} that tried")
        print(f"{restarts} managers killed, {found.lost} messages without an answer")
        print(f"control plane {100 * used / took:.1f} % of a processor")
        print(f"clients {100 * theirs:.1f} % of a processor, machine {share:.1f} % busy")


def _pass_time(plane: ControlPlane, killed: bool) -> int:
    """Let the time pass that is measured; return how many managers were killed in it."""
    deadline, restarts = Deadline.after(MEASURED_S), 0
    while killed and deadline.left > KILL_EVERY_S:
        time.sleep(KILL_EVERY_S)
        victim = plane.managers[restarts % len(plane.managers)]
        victim.kill()
        victim.start()
        assert victim.address
        restarts += 1
    time.sleep(deadline.left)
    return restarts


def _findings(lines: Mapping[int, RankLine]) -> tuple[Findings, float]:
    """End the clients of all ranks; return what they were told, and the processors they took."""
    found, share = Findings(), 0.0
    for line in lines.values():
        line.say("end")
    for line in lines.values():
        fields = line.hear(_END_S)
        found.add(fields)
        share += fields["share"]
    return found, share


def _be_clients(load: Load, first: str, rank: int, seed: int) -> None:
    name = f"client {seed}.{rank}"  # from which they draw
    clients = ClientLoad(f"{first}:{CONTROL}", name, THREADS, OF_EACH, drawn=load.constrained)
    over = Event()
    with line_to_first(f"{first}:{LINES}", rank, _MEETING_S) as line, ThreadPoolExecutor(1) as pool:
        assert line.hear(_MEETING_S) == "begin"
        begun, used = time.perf_counter(), time.process_time()
        running = pool.submit(clients.run, over)
        try:
            assert line.hear(MEASURED_S + _END_S) == "end"
        finally:
            over.set()
        share = (time.process_time() - used) / (time.perf_counter() - begun)
        running.result(_END_S)
        line.say({**clients.found.fields(), "share": share})


def _processors() -> tuple[int, int]:
    """Return how long all processors of this machine were busy, and how long in all."""
    ticks = [int(text) for text in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)  # idle, and waiting for a disk


def _busy_share(before: tuple[int, int], after: tuple[int, int]) -> float:
    return 100 * (after[0] - before[0]) / max(1, after[1] - before[1])


if __name__ == "__main__":
    managers, killed, *more, first = sys.argv[1:]
    main(
        Load(int(managers), killed == "yes", (more or ["fifo"])[0], more[1:] == ["levels"]),
        first,
        int(os.environ["TESTBED_RANK"]),
        int(os.environ["TESTBED_RANKS"]),
        int(os.environ["TESTBED_SEED"]),
    )
