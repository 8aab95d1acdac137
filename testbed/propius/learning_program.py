"""A program for the ranks of a job `command`: two jobs that learn digits from shared clients.

    python3 -m testbed.propius.learning_program POLICY ADDRESS_OF_RANK_0

Rank 0 has the control plane, the root and both jobs; every other rank is a site with six clients
and a leaf. The addresses of ranks follow each other. Rank 0 prints what came of each job.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from ipaddress import ip_address

from testbed.propius import control_pb2 as messages
from testbed.propius.balancer import SERVICE as CLIENTS
from testbed.propius.digit_jobs import CONTROL, DATA, RATES, Wanted, report, run_job, served
from testbed.propius.digits import Digits
from testbed.propius.learner import learning
from testbed.propius.rpc import calling
from testbed.propius.serve_data import LEAF, serving_leaf

OF_A_SITE = 6
WANTED = Wanted(rounds=15, demand=8, needed=6, seconds=30.0)
FLUSH_AFTER = 0.05
_MEETING_S = 30.0
_LONGEST_S = 2 * WANTED.rounds * WANTED.seconds
"""What all rounds of both jobs may take."""


def main(policy: str, first: str, rank: int, ranks: int, seed: int) -> None:
    """Be the jobs, or a site of clients, until both jobs have finished."""
    digits = Digits((ranks - 1) * OF_A_SITE, seed)
    if rank == 0:
        _be_jobs(policy, first, digits)
    else:
        _be_site(first, rank, digits)


def _be_jobs(policy: str, first: str, digits: Digits) -> None:
    with ExitStack() as stack:
        jobs, root = served(stack, first, policy, FLUSH_AFTER)
        with ThreadPoolExecutor(len(RATES)) as pool:
            begun = time.perf_counter()
            found = {name: pool.submit(run_job, name, WANTED, jobs, root) for name in RATES}
            for name, job in found.items():
                report(name, job.result(), digits)
            print(f"both jobs took {time.perf_counter() - begun:.3f} s", flush=True)


def _be_site(first: str, rank: int, digits: Digits) -> None:
    own, root = str(ip_address(first) + rank), f"{first}:{DATA}"
    names = [f"client {number}" for number in range((rank - 1) * OF_A_SITE, rank * OF_A_SITE)]
    with ExitStack() as stack:
        managers = stack.enter_context(calling(f"{first}:{CONTROL}", CLIENTS))
        anybody = messages.ClientName(client="nobody")
        managers.wait_until_up("Ping", anybody, _MEETING_S)
        where = stack.enter_context(serving_leaf(f"{own}:{DATA}", root, FLUSH_AFTER))
        leaf = stack.enter_context(calling(where, LEAF))
        with learning(names, digits, RATES, managers, leaf):
            managers.wait_until_down("Ping", anybody, _LONGEST_S)


if __name__ == "__main__":
    main(
        sys.argv[1],
        sys.argv[2],
        int(os.environ["TESTBED_RANK"]),
        int(os.environ["TESTBED_RANKS"]),
        int(os.environ["TESTBED_SEED"]),
    )
