"""A program for the ranks of a job `command`: two jobs that learn while something fails.

    python3 -m testbed.propius.faults_program FAULT ADDRESS_OF_RANK_0

Rank 0 has the control plane, whose parts are processes, the root and both jobs; every other rank is
a site with a leaf, a process too, and six clients. FAULT is one of `nothing`, `leaf`, `managers`,
`store`, `store-lost`, `silent-job` and `line`; it strikes in the third round of a job. A round
waits for all of its eight clients, 3 s at most, so that none can be lost without being missed. Rank
0 prints what had the records, Redis or, where this machine has no server of it, the embedded store,
and what came of the rounds.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from threading import Event, Thread

import numpy as np

from testbed.clock import Deadline
from testbed.errors import LabError
from testbed.propius import control_pb2 as messages
from testbed.propius.balancer import SERVICE as CLIENTS
from testbed.propius.calls import Repeated
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.digits import MODEL, SIZE, Digits
from testbed.propius.federated_job import FederatedJob, Round
from testbed.propius.learner import learning
from testbed.propius.opening import open_store
from testbed.propius.processes import ControlPlane, ServiceProcess
from testbed.propius.rank_lines import RankLine, line_to_first, lines_to_ranks
from testbed.propius.redis_process import RedisProcess, redis_server
from testbed.propius.rpc import calling
from testbed.propius.serve_data import LEAF, ROOT, serving_leaf, serving_root
from testbed.propius.service_faults import DEAD_S, AdvancedClock, cut_line, restart, silence

ROUNDS, OF_A_SITE, DEMAND = 6, 6, 8
RATES = {"slow": 0.1, "fast": 0.2}
STRUCK = "fast", 3
FAULTS = ("nothing", "leaf", "managers", "store", "store-lost", "silent-job", "line")
FLUSH_AFTER, ROUND_S, CUT_S = 0.5, 3.0, 4.0
"""A line is cut for longer than a round may last."""
CONTROL, LINES, DATA = 7000, 7001, 7010
"""Ports: of the balancer, of the lines to other ranks, and of root and leaves."""
_MEETING_S = 60.0
_PATIENCE_S = 20.0
"""How long a job repeats a message."""
_LOOK_EVERY = 0.005
_HUNG_S = 3 * ROUND_S
"""What is longer than this is no round that was ended by its time."""
_LONGEST_S = 60.0
_RIGHT = 1e-6
"""How far parameters may be from those of one process."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A round, and when it began and ended."""

    round: Round
    begun: float
    ended: float

    @property
    def took(self) -> float:
        """Return its seconds."""
        return self.ended - self.begun


class Plane:
    """All that rank 0 serves, and the faults of it."""

    def __init__(self, stack: ExitStack, first: str, keeps: bool) -> None:
        self._directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.redis = RedisProcess(self._directory, keeps) if redis_server() else None
        if self.redis is not None:
            stack.callback(self.redis.kill)
        self._url = self.redis.url if self.redis else str(self._directory / "records.db")
        self.clock = AdvancedClock()
        self.control = ControlPlane(stack, self._url, 2, f"{first}:{CONTROL}", clock=self.clock)
        self.store = open_store(self._url)
        stack.callback(lambda: self.store.close())
        self.registered_again = 0
        """How often a job registered again, as its record was lost."""
        service = DESCRIPTOR.services_by_name["JobManager"]
        at = self.control.job_manager.address
        self.jobs = Repeated(stack.enter_context(calling(at, service)), _PATIENCE_S)
        root = stack.enter_context(serving_root(f"{first}:{DATA}", FLUSH_AFTER))
        self.root = stack.enter_context(calling(root, ROOT))

    def kept_by(self) -> str:
        """Return a line on what had the records, which begins with how many servers of Redis."""
        if self.redis is None:
            return "0 servers of Redis: the embedded store had the records, as none is installed"
        return "1 server of Redis had the records"

    def strike(self, fault: str, lines: Mapping[int, RankLine]) -> None:
        """Have a fault happen, and return when it was taken back."""
        if fault in ("leaf", "line"):
            sites = Counter(site_of(client) for client in self._wait_for_members(DEMAND))
            site = lines[sites.most_common(1)[0][0]]  # one without a client would not be missed
            site.say(fault)
            assert site.hear(_MEETING_S) == "done"
        elif fault == "managers":
            self._wait_for_members(1)
            restart(self.control.managers)
        elif fault == "store":
            self._wait_for_members(1)
            restart([self.redis] if self.redis else self.control.on_store)
        elif fault == "store-lost":
            self._wait_for_members(1)
            self._lose_store()
        elif fault == "silent-job":
            silence(self.jobs, self.store, self.clock, len(lines) * OF_A_SITE + 1)

    def _lose_store(self) -> None:
        """Have all records be lost: Redis starts again without a file, or the file is deleted."""
        if self.redis:
            restart([self.redis])
            return
        for each in self.control.on_store:
            each.kill()
        self.store.close()
        for path in self._directory.glob("records.db*"):
            path.unlink()
        time.sleep(DEAD_S)
        for each in self.control.on_store:
            each.start()
            assert each.address
        self.store = open_store(self._url)

    def _wait_for_members(self, least: int) -> Sequence[str]:
        """Return the clients of the round that is to be struck, once there are so many."""
        name, number = STRUCK
        state, deadline = None, Deadline.after(_PATIENCE_S)
        while not deadline.passed and (state is None or state.round <= number):
            state = self.jobs("Hear", messages.JobName(job=name))
            if state.round == number and len(state.members) >= least:
                return list(state.members)
            time.sleep(_LOOK_EVERY)
        raise LabError(
            f"round {number} was over before it had {least} clients, so nothing was struck",
            hint="run it again on a machine with less other work",
        )


def site_of(client: str) -> int:
    """Return the rank that has a client."""
    return int(client.split()[1]) // OF_A_SITE + 1


def main(fault: str, first: str, rank: int, ranks: int, seed: int) -> None:
    """Be the jobs, or a site of clients, until both jobs have finished."""
    if fault not in FAULTS:
        raise SystemExit(f"unknown fault {fault!r}; known: {', '.join(FAULTS)}")
    digits = Digits((ranks - 1) * OF_A_SITE, seed)
    if rank == 0:
        _be_jobs(fault, first, digits, ranks)
    else:
        _be_site(first, rank, digits)


def _be_jobs(fault: str, first: str, digits: Digits, ranks: int) -> None:
    with ExitStack() as stack:
        plane = Plane(stack, first, keeps=fault != "store-lost")
        lines = stack.enter_context(lines_to_ranks(f"{first}:{LINES}", ranks, _MEETING_S))
        for line in lines.values():
            line.say("begin")
        struck, done = Event(), {name: list[Timed]() for name in RATES}
        runs = [(name, plane, struck, done[name]) for name in RATES]
        jobs = [Thread(target=_run, args=each, daemon=True) for each in runs]
        for job in jobs:
            job.start()
        assert struck.wait(_LONGEST_S), "the round that is to be struck did not begin"
        begun, deadline = time.perf_counter(), Deadline.after(_LONGEST_S)
        plane.strike(fault, lines)
        span = begun, time.perf_counter()
        for job in jobs:
            job.join(deadline.left)  # one that hangs is counted, and ends with this process
        for line in lines.values():
            line.say("end")
        _report(done, digits, span)
        print(plane.kept_by())
        print(f"{plane.registered_again} times a job registered again")
        stuck = sum(job.demand - job.amount for job in plane.store.jobs() if job.phase == "open")
        print(f"{stuck} clients demanded that nobody waits for")


def _run(name: str, plane: Plane, struck: Event, done: list[Timed]) -> None:
    job = FederatedJob(name, MODEL, plane.jobs, plane.root)
    values = np.zeros(SIZE)
    try:
        job.register(ROUNDS, DEMAND, {"ram": 2.0}, {"samples": 5.0})
        for number in range(1, ROUNDS + 1):
            begun = time.perf_counter()
            if (name, number) == STRUCK:
                struck.set()
            found = job.run_round(number, values, DEMAND, DEMAND, ROUND_S)
            done.append(Timed(found, begun, time.perf_counter()))
            values = found.parameters
        job.finish()
    except LabError as error:
        print(f"job {name} ended early: {error}", file=sys.stderr)
    plane.registered_again += job.registered_again


def _report(done: Mapping[str, Sequence[Timed]], digits: Digits, span: tuple[float, float]) -> None:
    """Print what came of the rounds; `span` is from the beginning of the fault to its end."""
    ended = [each for rounds in done.values() for each in rounds]
    during, others = list[Timed](), list[Timed]()
    for each in ended:
        (during if each.begun <= span[1] and each.ended >= span[0] else others).append(each)
    hung = len(RATES) * ROUNDS - sum(each.took <= _HUNG_S for each in ended)
    missing = sum(DEMAND - len(each.round.clients) for each in during)
    print(f"{len(ended)} rounds ended, {hung} hung, {_wrong(done, digits)} sums wrong")
    print(
        f"struck for {span[1] - span[0]:.3f} s, {missing} clients missing from {len(during)} rounds"
    )
    if during:
        print(f"longest round with the fault {max(each.took for each in during):.3f} s")
    for each in others:
        print(f"another round {each.took:.3f} s")


def _wrong(done: Mapping[str, Sequence[Timed]], digits: Digits) -> int:
    """Return how many rounds differ from FedAvg in one process with the same clients."""
    wrong = 0
    for name, rounds in done.items():
        alone = digits.in_one_process(RATES[name], name, [each.round.clients for each in rounds])
        for had, own in zip(rounds, alone, strict=False):
            wrong += not np.abs(had.round.parameters - own).max() <= _RIGHT
    return wrong


def _be_site(first: str, rank: int, digits: Digits) -> None:
    own = str(ip_address(first) + rank)
    names = [name for name in digits.of if site_of(name) == rank]
    serve = partial(serving_leaf, root=f"{first}:{DATA}", flush_after=FLUSH_AFTER)
    with ExitStack() as stack:
        line = stack.enter_context(line_to_first(f"{first}:{LINES}", rank, _MEETING_S))
        process = ServiceProcess(serve, f"{own}:{DATA}")
        stack.callback(process.close)
        assert line.hear(_MEETING_S) == "begin"
        managers = stack.enter_context(calling(f"{first}:{CONTROL}", CLIENTS))
        leaf = stack.enter_context(calling(process.address, LEAF))
        stack.enter_context(learning(names, digits, RATES, managers, leaf))
        while (word := line.hear(3 * _LONGEST_S)) != "end":
            if word == "leaf":
                restart([process])
            else:
                cut_line(os.environ["TESTBED_NEXT_INTERFACE"], CUT_S)
            line.say("done")


if __name__ == "__main__":
    main(
        sys.argv[1],
        sys.argv[2],
        int(os.environ["TESTBED_RANK"]),
        int(os.environ["TESTBED_RANKS"]),
        int(os.environ["TESTBED_SEED"]),
    )
