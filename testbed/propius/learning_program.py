"""A program for the ranks of a job `command`: two jobs that learn digits from shared clients.

    python3 -m testbed.propius.learning_program POLICY ADDRESS_OF_RANK_0

Rank 0 has the control plane, the root and both jobs; every other rank is a site with six clients
and a leaf. The addresses of ranks follow each other. Rank 0 prints what came of each job.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

import numpy as np

from testbed.propius import control_pb2 as messages
from testbed.propius.balancer import SERVICE as CLIENTS
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.digits import MODEL, SIZE, Digits
from testbed.propius.federated_job import FederatedJob, Round
from testbed.propius.learner import learning
from testbed.propius.rpc import Caller, calling
from testbed.propius.serve import serving
from testbed.propius.serve_data import LEAF, ROOT, serving_leaf, serving_root

ROUNDS, OF_A_SITE, DEMAND, NEEDED = 15, 6, 8, 6
RATES = {"slow": 0.1, "fast": 0.2}
FLUSH_AFTER = 0.05
CONTROL, DATA = 7000, 7010
"""Ports: of the balancer, and of root and leaves."""
_ROUND_S, _MEETING_S = 30.0, 30.0
_LONGEST_S = 2 * ROUNDS * _ROUND_S
"""What all rounds of both jobs may take."""


def main(policy: str, first: str, rank: int, ranks: int) -> None:
    """Be the jobs, or a site of clients, until both jobs have finished."""
    digits = Digits((ranks - 1) * OF_A_SITE)
    if rank == 0:
        _be_jobs(policy, first, digits)
    else:
        _be_site(first, rank, digits)


def _be_jobs(policy: str, first: str, digits: Digits) -> None:
    with ExitStack() as stack:
        store = str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "records.db")
        at = stack.enter_context(serving("job-manager", "127.0.0.1:0", store))
        stack.enter_context(serving("scheduler", "127.0.0.1:0", store, policy))
        managers = [
            stack.enter_context(serving("client-manager", "127.0.0.1:0", store)) for _ in range(2)
        ]
        stack.enter_context(serving("balancer", f"{first}:{CONTROL}", managers=managers))
        where = stack.enter_context(serving_root(f"{first}:{DATA}", FLUSH_AFTER))
        jobs = stack.enter_context(calling(at, DESCRIPTOR.services_by_name["JobManager"]))
        root = stack.enter_context(calling(where, ROOT))
        with ThreadPoolExecutor(len(RATES)) as pool:
            begun = time.perf_counter()
            found = {name: pool.submit(_run, name, jobs, root) for name in RATES}
            for name, job in found.items():
                _report(name, job.result(), digits)
            print(f"both jobs took {time.perf_counter() - begun:.3f} s", flush=True)


def _run(name: str, jobs: Caller, root: Caller) -> list[Round]:
    job = FederatedJob(name, MODEL, jobs, root)
    job.register(ROUNDS, DEMAND, {"ram": 2.0}, {"samples": 5.0})
    values, done = np.zeros(SIZE), []
    for number in range(1, ROUNDS + 1):
        done.append(job.run_round(number, values, DEMAND, NEEDED, _ROUND_S))
        values = done[-1].parameters
    job.finish()
    return done


def _report(name: str, done: list[Round], digits: Digits) -> None:
    members = [each.clients for each in done]
    alone = digits.in_one_process(RATES[name], name, members)
    off = max(
        float(np.abs(had.parameters - own).max()) for had, own in zip(done, alone, strict=True)
    )
    accuracy = 100 * digits.accuracy(done[-1].parameters)
    print(f"{name}: {accuracy:.2f} % of test digits, off by {1e6 * off:.4f} millionths", flush=True)


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
    )
