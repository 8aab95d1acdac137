"""Two jobs that learn digits at once, over all services: as one process with the same draws."""

from __future__ import annotations

import struct
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest

from testbed.propius import data_pb2 as data
from testbed.propius.balancer import SERVICE as CLIENTS
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.digits import MODEL, SIZE, Digits
from testbed.propius.federated_job import FederatedJob
from testbed.propius.learner import Learner, learning
from testbed.propius.rpc import Caller, calling
from testbed.propius.serve import serving
from testbed.propius.serve_data import LEAF, ROOT, serving_leaf, serving_root
from testbed.tenancy.tensors import decode, size
from tests.unit.propius.tap import Tap, messages_in

ANY = "127.0.0.1:0"
CLIENT_COUNT, DEMAND, NEEDED = 24, 8, 6
RATES = {"slow": 0.05, "fast": 0.2}


class Rig:
    """Control plane and data plane with two leaves, and clients as threads."""

    def __init__(self, stack, tmp_path, digits):
        self._stack = stack
        self._digits = digits
        store = str(tmp_path / "records.db")
        control = DESCRIPTOR.services_by_name
        self.jobs = self._at(serving("job-manager", ANY, store), control["JobManager"])
        stack.enter_context(serving("scheduler", ANY, store, "random"))
        managers = [stack.enter_context(serving("client-manager", ANY, store)) for _ in range(2)]
        self.clients = self._at(serving("balancer", ANY, managers=managers), CLIENTS)
        root = stack.enter_context(serving_root(ANY, flush_after=0.05))
        self.root = Caller(root, ROOT)
        stack.callback(self.root.close)
        self.leaves = [self._at(serving_leaf(ANY, root, flush_after=0.05), LEAF) for _ in range(2)]
        self.over = threading.Event()

    def _at(self, served, service):
        caller = Caller(self._stack.enter_context(served), service)
        self._stack.callback(caller.close)
        return caller

    def run_client(self, name):
        leaf = self.leaves[zlib.crc32(name.encode()) % 2]
        Learner(name, self._digits, RATES, self.clients, leaf).run(self.over)

    def run_job(self, name, rounds):
        job = FederatedJob(name, MODEL, self.jobs, self.root)
        job.register(rounds, DEMAND, {"ram": 2.0}, {"samples": 5.0})
        values, done = np.zeros(SIZE), []
        for number in range(1, rounds + 1):
            done.append(job.run_round(number, values, DEMAND, NEEDED, 30.0))
            values = done[-1].parameters
        job.finish()
        return done


def learn(tmp_path, rounds):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    digits = Digits(CLIENT_COUNT)
    with ExitStack() as stack, ThreadPoolExecutor(CLIENT_COUNT + 2) as pool:
        rig = Rig(stack, tmp_path, digits)
        clients = [pool.submit(rig.run_client, name) for name in digits.of]
        jobs = {name: pool.submit(rig.run_job, name, rounds) for name in RATES}
        try:
            found = {name: job.result() for name, job in jobs.items()}
        finally:
            rig.over.set()
        for client in clients:
            client.result()
    for name, done in found.items():
        members = [round.clients for round in done]
        assert all(len(each) >= NEEDED for each in members)
        alone = digits.in_one_process(RATES[name], name, members)
        for had, own in zip(done, alone, strict=True):
            assert np.abs(had.parameters - own).max() <= 1e-6
    return digits, found


def test_two_jobs_learn_at_once_what_one_process_learns_with_the_same_clients(tmp_path):
    digits, found = learn(tmp_path, rounds=2)
    accuracy = {name: digits.accuracy(done[-1].parameters) for name, done in found.items()}
    # Of 150 random choices of clients the worst gave 0.33 to the slow job, 0.65 to the fast one.
    assert accuracy["fast"] > 0.5 and accuracy["slow"] > 0.2, "guessing is right one time in ten"


def test_a_push_has_its_weight_and_its_tensors_and_no_private_attribute(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    digits, name = Digits(CLIENT_COUNT), "client 3"
    samples = len(digits.of[name][1])
    with ExitStack() as stack:
        rig = Rig(stack, tmp_path, digits)
        job = FederatedJob("slow", MODEL, rig.jobs, rig.root)
        job.register(1, 1, {"ram": 2.0}, {"samples": float(samples)})
        tap = Tap(stack, rig.leaves[0].address)
        leaf = stack.enter_context(calling(tap.address, LEAF))
        with learning([name], digits, RATES, rig.clients, leaf):
            found = job.run_round(1, np.zeros(SIZE), 1, 1, 30.0)
        heard = bytes(tap.heard)
    assert found.clients == {name}
    asked, pushed, *others = messages_in(heard)
    after = data.ClientRound(job="slow", round=1, client=name).SerializeToString()
    assert {*others} <= {after}
    assert asked == data.Round(job="slow", round=1).SerializeToString()
    update = data.Update.FromString(pushed)
    assert len(update.data) == size(MODEL)
    assert np.abs(decode(update.data, MODEL) - found.parameters).max() <= 1e-6
    only = data.Update(
        job="slow", round=1, client=name, weight=samples, data=update.data, size=size(MODEL)
    )
    assert pushed == only.SerializeToString()
    assert b"samples" not in heard and struct.pack("<d", samples) not in heard


@pytest.mark.soak
def test_two_jobs_that_share_clients_learn_digits_to_90_percent(tmp_path):
    digits, found = learn(tmp_path, rounds=20)
    for name, done in found.items():
        accuracies = [digits.accuracy(round.parameters) for round in done]
        print(name, [f"{accuracy:.3f}" for accuracy in accuracies])
        assert accuracies[-1] >= 0.9
