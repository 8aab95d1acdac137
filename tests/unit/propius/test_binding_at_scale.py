"""64 clients at once over real processes, whose managers are killed: every binding is one act."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack

import pytest

from testbed.errors import LabError
from testbed.propius import control_pb2 as messages
from testbed.propius.balancer import SERVICE as CLIENTS
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.participant import Participant
from testbed.propius.rpc import Caller
from testbed.tenancy.replies import Reply

JOBS, THREADS, OF_EACH, DEMAND = 6, 64, 12, 40


class Services:
    """The control plane as processes of its own."""

    def __init__(self, stack, store):
        self._stack = stack
        self._store = store
        self.jobs = self.start("job-manager")[1]
        self.start("scheduler")
        self.managers = [self.start("client-manager") for _ in range(3)]
        named = ",".join(where for _, where in self.managers)
        self.balancer = self.start("balancer", "--managers", named)[1]

    def start(self, role, *more, listen="127.0.0.1:0"):
        words = [role, "--listen", listen, *more]
        words += ["--store", self._store] if role != "balancer" else []
        process = subprocess.Popen(
            [sys.executable, "-m", "testbed.cli", "propius", *words],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.stdout.close)
        self._stack.callback(process.kill)
        return process, re.search(r"listens at (\S+);", process.stdout.readline())[1]

    def restart(self, number):
        """Kill a manager and start one at the same address."""
        process, where = self.managers[number]
        process.kill()
        process.wait()
        self.managers[number] = self.start("client-manager", listen=where)


class Play:
    """What clients were told, and whom each round of a job had when it was full."""

    def __init__(self, services, accepts):
        self._services = services
        self._wanted = accepts
        self.over = threading.Event()
        self.told = defaultdict(set)
        self.had = {}
        self.answers = Counter()
        self.accepts = self.lost = 0
        self.wrong = []
        self._lock = threading.Lock()

    def run_job(self, name):
        jobs = Caller(self._services.jobs, DESCRIPTOR.services_by_name["JobManager"])
        registration = messages.Registration(job=name, rounds=9, demand=DEMAND)
        assert jobs("Register", registration).reply == Reply.OK
        round = 0
        while not self.over.is_set():
            round += 1
            asked = messages.RoundRequest(job=name, round=round, demand=DEMAND)
            assert jobs("Request", asked).reply == Reply.OK
            while True:
                state = jobs("Hear", messages.JobName(job=name))
                if state.phase == "executing" or self.over.is_set():
                    break
                time.sleep(0.02)
            self.had[name, round] = set(state.members)
            if len(state.members) > DEMAND:
                self.wrong.append((name, round, len(state.members)))
        jobs("EndRequest", messages.JobRound(job=name, round=round))
        self.had[name, round] = set(jobs("Hear", messages.JobName(job=name)).members)
        jobs.close()

    def run_clients(self, thread):
        managers = Caller(self._services.balancer, CLIENTS)
        rng = random.Random(thread)
        names = [f"client {thread}.{number}" for number in range(OF_EACH)]
        mine = [Participant(managers, name, {"ram": 4.0}, {}, 1.0) for name in names]
        while not self.over.is_set():
            which = rng.randrange(OF_EACH)
            try:
                offer = mine[which].seek()
                if offer is not None:
                    with self._lock:
                        self.told[offer.job, offer.round].add(names[which])
                        self.accepts += 1
                    mine[which].release(offer)
            except LabError:
                self.lost += 1
            with self._lock:
                refused = sum(mine[which].refused.values())
                self.answers.update(mine[which].refused)
                mine[which].refused.clear()
                self.accepts += refused
                if self.accepts >= self._wanted:
                    self.over.set()
        for name, client in zip(names, mine, strict=True):  # of lost answers the rest is heard
            managers("Ping", messages.ClientName(client=name))
            found = managers("CheckIn", messages.Presence(client=name, attributes={"ram": 4.0}))
            if found.reply == Reply.BOUND:
                with self._lock:
                    self.told[found.job, found.round].add(name)
            del client
        managers.close()


def play(store, accepts):
    with ExitStack() as stack:
        services = Services(stack, store)
        game = Play(services, accepts)
        threads = [threading.Thread(target=game.run_job, args=(f"job {n}",)) for n in range(JOBS)]
        threads += [threading.Thread(target=game.run_clients, args=(n,)) for n in range(THREADS)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        killed = 0
        while not game.over.wait(2.0):
            services.restart(killed % 3)
            killed += 1
        for thread in threads:
            thread.join()
        took = time.monotonic() - begun
    bound = sum(map(len, game.had.values()))
    rate = game.answers[Reply.OVER_ASSIGN] / game.accepts
    print(
        f"\n{game.accepts} acceptances in {took:.0f} s, {bound} bound in {len(game.had)} rounds, "
        f"over-assigned {100 * rate:.1f} %, {dict(game.answers)}, {killed} managers killed, "
        f"{game.lost} messages without an answer"
    )
    assert not game.wrong
    assert {key: names for key, names in game.told.items() if names} == {
        key: names for key, names in game.had.items() if names
    }
    return killed


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_100000_acceptances_exceed_no_demand_and_bind_no_client_twice(store_url):
    assert play(store_url, 100_000) > 0
