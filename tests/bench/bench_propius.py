"""Binds per second: our stores beside the published algorithm's own steps, on one Redis.

Run with `make bench ARGS='-k propius'`. The published steps are written from the description of the
algorithm (optimistic, on plain hashes: watch, read, count up if there is room, write the client's
record), not taken from its code. Processes are the managers; each accepts for its own clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import redis

from testbed.propius.opening import open_store
from testbed.propius.redis_process import RedisProcess, redis_server
from testbed.tenancy import clients, jobs
from testbed.tenancy.replies import Reply

EACH = 1_000
"""Clients of a manager."""


@contextmanager
def redis_in(directory: Path) -> Iterator[str]:
    server = RedisProcess(directory)
    try:
        yield server.url
    finally:
        server.kill()


def prepared(url: str, managers: int) -> None:
    """Fill a store: a job with room for all clients, and the clients."""
    store = open_store(url)
    demand = managers * EACH

    def registered(known: Any) -> Any:
        _, job = jobs.register("job", (), (), 1, demand, 0.0)
        assert job is not None
        return jobs.request(job, 1, demand, 0.0)

    store.change_job("job", registered)
    for number in range(demand):
        store.change_client(
            f"c{number}",
            partial(clients.check_in, id=f"c{number}", attributes={}, speed=1.0, now=0.0),
        )
    store.close()


def ours(url: str, manager: int) -> tuple[float, float]:
    """Accept for the clients of one manager; return seconds, and seconds of its processor."""
    store = open_store(url)
    begun, used = time.perf_counter(), time.process_time()
    for number in range(manager * EACH, (manager + 1) * EACH):
        assert store.bind("job", f"c{number}", 1, 1.0) is Reply.OK
    return time.perf_counter() - begun, time.process_time() - used


def published(url: str, manager: int) -> tuple[float, float]:
    """Do the published steps for as many clients."""
    server: Any = redis.Redis.from_url(url, decode_responses=True)
    begun, used = time.perf_counter(), time.process_time()
    for number in range(manager * EACH, (manager + 1) * EACH):
        with server.pipeline() as pipe:
            while True:
                try:
                    pipe.watch("plain-job")
                    amount, demand = pipe.hmget("plain-job", "amount", "demand")
                    assert int(amount) < int(demand)
                    pipe.multi()
                    pipe.hincrby("plain-job", "amount", 1)
                    pipe.execute()
                    break
                except redis.WatchError:
                    continue
        server.hset(f"plain-client:{number}", mapping={"job": "job", "round": 1})
    return time.perf_counter() - begun, time.process_time() - used


def rate(
    work: Callable[[str, int], tuple[float, float]], url: str, managers: int
) -> tuple[float, float]:
    """Return binds per second of all managers, and the share of one processor that each used."""
    with ProcessPoolExecutor(managers) as pool:
        list(pool.map(time.sleep, [0.1] * managers))  # so that all are started
        found = list(pool.map(partial(work, url), range(managers)))
    return managers * EACH / max(took for took, _ in found), sum(u / t for t, u in found) / managers


@pytest.mark.skipif(redis_server() is None, reason="no redis-server on this machine")
@pytest.mark.parametrize("managers", [1, 2, 4])
def test_binds_per_second_beside_the_published_steps(tmp_path: Path, managers: int) -> None:
    rates: dict[str, list[float]] = {
        "ours on Redis": [],
        "published steps": [],
        "ours embedded": [],
    }
    shares: dict[str, list[float]] = {name: [] for name in rates}
    for turn in range(5):
        with redis_in(tmp_path) as url:
            file = str(tmp_path / f"{turn}.db")
            prepared(url, managers)
            prepared(file, managers)
            plain: Any = redis.Redis.from_url(url)
            plain.hset("plain-job", mapping={"amount": 0, "demand": managers * EACH})
            for name, work, where in (
                ("ours on Redis", ours, url),
                ("published steps", published, url),
                ("ours embedded", ours, file),
            ):
                found, share = rate(work, where, managers)
                rates[name].append(found)
                shares[name].append(share)
    for name, found in rates.items():
        print(
            f"\n{managers} managers, {name}: {median(found):.0f} binds/s "
            f"[{min(found):.0f}, {max(found):.0f}], each "
            f"{100 * median(shares[name]):.0f} % of a processor"
        )
    ratio = [o / p for o, p in zip(rates["ours on Redis"], rates["published steps"], strict=True)]
    print(
        f"ours over the published steps: {median(ratio):.2f} [{min(ratio):.2f}, {max(ratio):.2f}]"
    )
    assert min(ratio) >= 2


@pytest.mark.skipif(redis_server() is None, reason="no redis-server on this machine")
def test_round_trips_per_bind(tmp_path: Path) -> None:
    with redis_in(tmp_path) as url:
        prepared(url, 1)
        plain: Any = redis.Redis.from_url(url)
        plain.hset("plain-job", mapping={"amount": 0, "demand": EACH})
        sent = 0
        original = redis.UnixDomainSocketConnection.send_packed_command

        def counted(self: Any, *arguments: Any, **named: Any) -> Any:
            nonlocal sent
            sent += 1
            return original(self, *arguments, **named)

        redis.UnixDomainSocketConnection.send_packed_command = counted  # type: ignore[method-assign]
        try:
            for name, work in (("ours", ours), ("published", published)):
                sent = 0
                work(url, 0)
                print(f"\n{name}: {sent / EACH:.2f} round trips per bind")
        finally:
            redis.UnixDomainSocketConnection.send_packed_command = original  # type: ignore[method-assign]
