"""Jobs that learn digits: services that they need on one rank, their rounds, what came of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.digits import MODEL, SIZE, Digits
from testbed.propius.federated_job import FederatedJob, Round
from testbed.propius.rpc import Caller, calling
from testbed.propius.serve import serving
from testbed.propius.serve_data import ROOT, serving_root

RATES = {"slow": 0.1, "fast": 0.2}
"""By job, the rate at which its clients learn."""
CONTROL, DATA = 7000, 7010
"""Ports: of the balancer, and of root and leaves."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a job asks for."""

    rounds: int
    demand: int
    needed: int
    seconds: float
    """After which a round ends with the updates that came."""
    public: Mapping[str, float] = field(default_factory=lambda: {"ram": 2.0})


def served(stack: ExitStack, first: str, policy: str, flush_after: float) -> tuple[Caller, Caller]:
    """Serve control plane and root in this process; return callers of job manager and root."""
    store = str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "records.db")
    at = stack.enter_context(serving("job-manager", "127.0.0.1:0", store))
    stack.enter_context(serving("scheduler", "127.0.0.1:0", store, policy))
    managers = [
        stack.enter_context(serving("client-manager", "127.0.0.1:0", store)) for _ in range(2)
    ]
    stack.enter_context(serving("balancer", f"{first}:{CONTROL}", managers=managers))
    where = stack.enter_context(serving_root(f"{first}:{DATA}", flush_after))
    jobs = stack.enter_context(calling(at, DESCRIPTOR.services_by_name["JobManager"]))
    return jobs, stack.enter_context(calling(where, ROOT))


def run_job(name: str, wanted: Wanted, jobs: Caller, root: Caller) -> list[Round]:
    """Run all rounds of a job, and return them."""
    job = FederatedJob(name, MODEL, jobs, root)
    job.register(wanted.rounds, wanted.demand, wanted.public, {"samples": 5.0})
    values, done = np.zeros(SIZE), list[Round]()
    for number in range(1, wanted.rounds + 1):
        done.append(job.run_round(number, values, wanted.demand, wanted.needed, wanted.seconds))
        values = done[-1].parameters
    job.finish()
    return done


def report(name: str, done: Sequence[Round], digits: Digits) -> None:
    """Print what a job learned, beside what one process learns with the same clients."""
    members = [each.clients for each in done]
    alone = digits.in_one_process(RATES[name], name, members)
    off = max(
        float(np.abs(had.parameters - own).max()) for had, own in zip(done, alone, strict=True)
    )
    accuracy = 100 * digits.accuracy(done[-1].parameters)
    print(f"{name}: {accuracy:.2f} % of test digits, off by {1e6 * off:.4f} millionths", flush=True)
