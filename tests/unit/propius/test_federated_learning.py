"""Two jobs that learn digits at once, over all services: as one process with the same draws."""

from __future__ import annotations

import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest

from testbed.propius import data_pb2 as messages
from testbed.propius.balancer import SERVICE as CLIENTS
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.federated_job import FederatedJob
from testbed.propius.participant import Participant
from testbed.propius.rpc import Caller
from testbed.propius.serve import serving
from testbed.propius.serve_data import LEAF, ROOT, serving_leaf, serving_root
from testbed.tenancy.aggregation import Code
from testbed.tenancy.tensors import TensorSpec, decode, encode

MODEL = (TensorSpec("weights", "float32", (64, 10)), TensorSpec("biases", "float32", (10,)))
ANY = "127.0.0.1:0"
CLIENT_COUNT, DEMAND, NEEDED = 24, 8, 6
RATES = {"slow": 0.05, "fast": 0.2}


class Digits:
    """The digits of scikit-learn, shared out to clients of unequal size; a fifth to test with."""

    def __init__(self):
        datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
        images, labels = datasets.load_digits(return_X_y=True)
        rng = np.random.default_rng(1)
        order = rng.permutation(len(labels))
        images, labels = images[order] / 16.0, labels[order]
        self.test = images[:360], labels[:360]
        cuts = np.sort(rng.choice(np.arange(370, 1790), CLIENT_COUNT - 1, replace=False))
        parts = zip(np.split(images, [360, *cuts]), np.split(labels, [360, *cuts]), strict=True)
        self.of = {f"client {number}": part for number, part in enumerate([*parts][1:])}

    def accuracy(self, values):
        images, labels = self.test
        return float((_scores(values, images).argmax(axis=1) == labels).mean())


def _scores(values, images):
    return images @ values[:640].reshape(64, 10) + values[640:]


def trained(values, images, labels, job, round, client):
    """Return parameters after 5 passes of gradient descent in batches of 16, drawn by the names."""
    rng = np.random.default_rng(zlib.crc32(f"{job} {round} {client}".encode()))
    values = values.copy()
    for _ in range(5):
        for batch in np.array_split(rng.permutation(len(labels)), max(1, len(labels) // 16)):
            shown, wanted = images[batch], labels[batch]
            scores = _scores(values, shown)
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            error = odds / odds.sum(axis=1, keepdims=True)
            error[np.arange(len(wanted)), wanted] -= 1.0
            error /= len(wanted)
            values[:640] -= RATES[job] * (shown.T @ error).ravel()
            values[640:] -= RATES[job] * error.sum(axis=0)
    return values


def rounded(values):
    """Return parameters as they travel: in float32."""
    return values.astype(np.float32).astype(np.float64)


def in_one_process(digits, job, members):
    """Yield the parameters of FedAvg with the given clients in each round, without any service."""
    values = np.zeros(650)
    for round, clients in enumerate(members, start=1):
        updates = [
            (rounded(trained(rounded(values), *digits.of[name], job, round, name)), len(part[1]))
            for name, part in digits.of.items()
            if name in clients
        ]
        values = sum(v * w for v, w in updates) / sum(w for _, w in updates)
        yield values


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
        images, labels = self._digits.of[name]
        leaf = self.leaves[zlib.crc32(name.encode()) % 2]
        me = Participant(self.clients, name, {"ram": 4.0}, {"samples": len(labels)}, 1.0)
        while not self.over.is_set():
            offer = me.seek()
            if offer is None:
                self.over.wait(0.05)
                continue
            found = leaf("Get", messages.Round(job=offer.job, round=offer.round))
            if found.code == Code.OK:
                values = decode(found.data, MODEL)
                values = trained(values, images, labels, offer.job, offer.round, name)
                update = encode([values[:640].reshape(64, 10), values[640:]], MODEL)
                asked = messages.Update(
                    job=offer.job,
                    round=offer.round,
                    client=name,
                    weight=len(labels),
                    data=update,
                )
                leaf("Push", asked)
            me.release(offer)

    def run_job(self, name, rounds):
        job = FederatedJob(name, MODEL, self.jobs, self.root)
        job.register(rounds, DEMAND, {"ram": 2.0}, {"samples": 5.0})
        values, done = np.zeros(650), []
        for number in range(1, rounds + 1):
            done.append(job.run_round(number, values, DEMAND, NEEDED, 30.0))
            values = done[-1].parameters
        job.finish()
        return done


def learn(tmp_path, rounds):
    digits = Digits()
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
        for had, alone in zip(done, in_one_process(digits, name, members), strict=True):
            assert np.abs(had.parameters - alone).max() <= 1e-6
        print(name, [f"{digits.accuracy(each.parameters):.3f}" for each in done])
    return digits, found


def test_two_jobs_learn_at_once_what_one_process_learns_with_the_same_clients(tmp_path):
    digits, found = learn(tmp_path, rounds=2)
    assert all(digits.accuracy(done[-1].parameters) > 0.5 for done in found.values())


@pytest.mark.soak
def test_two_jobs_that_share_clients_learn_digits_to_90_percent(tmp_path):
    digits, found = learn(tmp_path, rounds=20)
    for name, done in found.items():
        accuracies = [digits.accuracy(round.parameters) for round in done]
        print(name, [f"{accuracy:.3f}" for accuracy in accuracies])
        assert accuracies[-1] >= 0.9
