"""Both stores do what the rules say, and bind in one act however many ask at once."""

from __future__ import annotations

import random
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Barrier, Thread
from unittest.mock import ANY

import pytest

from testbed.errors import LabError
from testbed.propius.opening import open_store, own_store
from testbed.tenancy import clients, jobs
from testbed.tenancy.attributes import constraints
from testbed.tenancy.binding import accept
from testbed.tenancy.replies import Reply

JOBS = {"a": {}, "b": {"ram": 4.0}, "c": {"ram": 8.0, "cpu_f": 2.5}}


class Records:
    """The rules on records in two dictionaries, with which a store is compared."""

    def __init__(self):
        self.jobs, self.clients = {}, {}

    def change_job(self, job, act):
        return self._change(self.jobs, job, act)

    def change_client(self, client, act):
        return self._change(self.clients, client, act)

    def bind(self, job, client, round, now):
        reply, after, known = accept(self.jobs.get(job), self.clients.get(client), round, now)
        self._keep(self.jobs, job, after)
        self._keep(self.clients, client, known)
        return reply

    def _change(self, records, name, act):
        reply, after = act(records.get(name))
        self._keep(records, name, after)
        return reply, after

    @staticmethod
    def _keep(records, name, after):
        if after is None:
            records.pop(name, None)
        else:
            records[name] = after


def register(store, job, public, now=0.0, draw=0.25):
    return store.change_job(
        job,
        lambda known: jobs.register(job, constraints(public), (), 5, 2, now, draw, known),
    )


def request(store, job, round, demand, now=0.0):
    def act(known):
        return (Reply.UNKNOWN, None) if known is None else jobs.request(known, round, demand, now)

    return store.change_job(job, act)


def check_in(store, client, ram=8.0, now=0.0):
    had = {"ram": ram, "cpu_f": ram / 3}
    return store.change_client(client, lambda known: clients.check_in(known, client, had, ram, now))


def release(store, client, job, round, now=0.0):
    return store.change_client(client, lambda known: clients.release(known, job, round, now))


def end(store, job, now):
    def act(known):
        return (Reply.UNKNOWN, None) if known is None else jobs.end_request(known, known.round, now)

    return store.change_job(job, act)


def messages(seed, count):
    """Yield random messages of three jobs and six clients, as functions of a store."""
    rng, now = random.Random(seed), 0.0
    for job, public in JOBS.items():
        yield partial(register, job=job, public=public)
    for _ in range(count):
        now += 700.0 if rng.random() < 0.02 else rng.choice([0.0, 0.5, 1.0])
        job, client = rng.choice("abc"), f"client {rng.randrange(6)}"
        round = rng.randint(1, 3)
        yield rng.choice(
            [
                partial(request, job=job, round=round, demand=rng.randint(0, 4), now=now),
                partial(end, job=job, now=now),
                partial(register, job=job, public=JOBS[job], now=now),
                partial(check_in, client=client, ram=rng.choice([2.0, 4.0, 9.0, 9.5]), now=now),
                partial(release, client=client, job=job, round=round, now=now),
                *[lambda it, j=job, c=client, r=round, t=now: it.bind(j, c, r, t)] * 5,
            ]
        )


def compare(store, seed, count):
    """Say the same to a store and to records; return the answers to acceptances."""
    records, answers = Records(), Counter()
    for message in messages(seed, count):
        found, wanted = message(store), message(records)
        assert found == wanted
        if isinstance(found, Reply):
            answers[found] += 1
    assert {job.id: job for job in store.jobs()} == records.jobs
    assert {client.id: client for client in store.clients()} == records.clients
    return answers


def test_a_store_answers_and_keeps_what_the_rules_say(store):
    answers = compare(store, seed=1, count=600)
    assert {*answers} >= {*Reply} - {Reply.STILL_OPEN, Reply.REFUSED}


@pytest.mark.soak
def test_a_store_answers_and_keeps_what_the_rules_say_in_30000_messages(store):
    compare(store, seed=2, count=30_000)


def accepting(url, worker, workers, demand, rounds, clients):
    """Have one of several processes accept for its clients; return who was bound, and answers."""
    store, rng = open_store(url), random.Random(worker)
    bound, answers = [], Counter()
    mine = [f"client {number}" for number in range(worker, clients, workers)]
    for client in mine:
        check_in(store, client)
    for round in range(1, rounds + 1):
        rng.shuffle(mine)
        for client in mine:
            for job in rng.sample("xyz", 3):
                reply = store.bind(job, client, round, 1.0)
                answers[reply] += 1
                if reply is Reply.OK:
                    bound.append((round, job, client))
    store.close()
    return bound, answers


def bind_concurrently(url, store, pool, workers, demand, clients):
    """Let many ask at once for three jobs of one round; hold what they were told for true."""
    for job in "xyz":
        register(store, job, {})
        request(store, job, 1, demand)
    work = partial(accepting, url, workers=workers, demand=demand, rounds=1, clients=clients)
    answers, bound = Counter(), []
    for mine, told in pool.map(work, range(workers)):
        bound += mine
        answers += told
    assert max(Counter(client for _, _, client in bound).values()) == 1
    for job in store.jobs():
        assert job.members == {client for _, name, client in bound if name == job.id}
        assert job.amount <= job.demand
    assert sum(job.amount for job in store.jobs()) == min(3 * demand, clients)
    return answers


@contextmanager
def switching_often():
    """Have threads interrupt each other as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_embedded_stores_that_open_a_new_file_at_once_can_all_write_to_it(tmp_path):
    """SQLite refuses some of them at once and waits for none, in every sixth file or so."""
    together = Barrier(8)

    def opened(number, path):
        together.wait(10)
        register(open_store(path), f"job {number}", {})

    for number in range(40):
        path = str(tmp_path / f"{number}.db")
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(partial(opened, path=path), range(8))) == [None] * 8
        assert len(open_store(path).jobs()) == 8


def test_threads_that_accept_at_once_exceed_no_demand_and_bind_no_client_twice(store_url, store):
    with switching_often(), ThreadPoolExecutor(8) as pool:
        answers = bind_concurrently(store_url, store, pool, workers=8, demand=15, clients=64)
    assert answers[Reply.OK] == 45
    assert answers[Reply.OVER_ASSIGN] > 0


@pytest.mark.soak
def test_processes_that_accept_at_once_exceed_no_demand_and_bind_no_client_twice(store_url, store):
    with ProcessPoolExecutor(8) as pool:
        answers = bind_concurrently(store_url, store, pool, workers=8, demand=800, clients=3_000)
    total = answers.total()
    print(f"{store_url}: {total} acceptances, {answers}")
    assert answers[Reply.OK] == 2_400


def test_a_binding_beside_a_change_of_the_job_is_not_lost(store_url, store):
    register(store, "a", {})
    request(store, "a", 1, 1)
    check_in(store, "c")
    other, calls = open_store(store_url), []

    def heard(job):
        calls.append(Thread(target=other.bind, args=("a", "c", 1, 1.0)))
        if len(calls) == 1:
            calls[0].start()
            calls[0].join(0.2)  # the embedded store has it wait, Redis has this act called again
        return jobs.hear(job, 5.0)

    store.change_job("a", heard)
    calls[0].join()
    (job,) = store.jobs()
    assert (job.members, job.heard, job.phase) == ({"c"}, 5.0, "executing")
    other.close()


def test_records_outlive_the_connection_to_a_store(store_url, store):
    register(store, "a", {"ram": 4.0})
    check_in(store, "c")
    store.publish("offers")
    other = open_store(store_url)
    assert [job.id for job in other.jobs()] == ["a"]
    assert [client.id for client in other.clients()] == ["c"]
    assert other.published() == "offers"
    other.close()


def test_redis_keeps_a_client_for_its_life_after_each_word_of_it(redis_url):
    import redis

    store, life = open_store(redis_url), int(clients.CLIENT_LIFE)
    with redis.Redis.from_url(redis_url) as server:
        server.flushall()
        register(store, "a", {})
        request(store, "a", 1, 1)
        for word, reply in (
            (partial(check_in, store, "c", now=1.0), (Reply.OK, ANY)),
            (partial(store.bind, "a", "c", 1, 2.0), Reply.OK),
            (partial(store.bind, "a", "c", 1, 3.0), Reply.OK),  # said again
            (partial(store.bind, "b", "c", 1, 4.0), Reply.NOT_OPEN),
            (partial(release, store, "c", "a", 1, 5.0), (Reply.OK, ANY)),
        ):
            server.expire("client:c", 7)
            assert word() == reply
            assert 7 < server.ttl("client:c") <= life
    store.close()


def test_a_store_that_is_not_there_is_reported_in_one_sentence(tmp_path):
    for url in ("redis://127.0.0.1:1", str(tmp_path / "missing" / "records.db")):
        with pytest.raises(LabError, match=r"the store .* (cannot be opened|did not do)"):
            open_store(url)


def test_services_without_a_store_share_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first, second = open_store(own_store()), open_store(own_store())
    register(first, "a", {})
    assert [job.id for job in second.jobs()] == ["a"]
    for each in (first, second):
        each.close()


def test_a_store_is_in_the_home_of_its_user_where_no_absolute_path_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for named in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", named)
        assert own_store().startswith(str(tmp_path / ".local/state/testbed/propius-"))
