"""The store in Redis: a hash for each record, a set for the members of a job.

A client is bound by one script, which the server runs as one act: one round trip. Other changes
are optimistic transactions, as those of Propius are: watch, read, compute, write if unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, TypeVar

import redis

from testbed.clock import Deadline
from testbed.errors import LabError, UsageError
from testbed.propius.records import client_fields, client_of, job_fields, job_of
from testbed.propius.store import ClientAct, JobAct
from testbed.tenancy.clients import CLIENT_LIFE, Client
from testbed.tenancy.jobs import SILENCE, Job
from testbed.tenancy.replies import Reply

_ANSWER_S = 5.0
"""How long the server may take to answer."""
_TURN_S = 20.0
"""How long a transaction is tried again, as others change what it reads."""
_OFFERS = "offers"
_R = TypeVar("_R")


class RedisStore:
    """Records on a server, which managers on any machine share."""

    def __init__(self, url: str) -> None:
        self._url = url
        try:
            self._redis: Any = redis.Redis.from_url(
                url,
                decode_responses=True,
                socket_timeout=_ANSWER_S,
                socket_connect_timeout=_ANSWER_S,
            )
        except ValueError as error:
            raise UsageError(
                f"the store {url} has no such address: {error}", hint="write redis://HOST:PORT"
            ) from error
        with self._answering():
            self._redis.ping()
            script = (files("testbed.propius") / "binding.lua").read_text()
            self._bind: Any = self._redis.register_script(script)

    def jobs(self) -> list[Job]:
        with self._answering():
            names = sorted(self._redis.smembers("jobs"))
            pipe = self._redis.pipeline()
            for name in names:
                pipe.hgetall(_job(name))
                pipe.smembers(_members(name))
            found = pipe.execute()
        pairs = zip(found[::2], found[1::2], strict=True)
        return [job_of(fields, members) for fields, members in pairs if fields]

    def clients(self) -> list[Client]:
        with self._answering():
            pipe = self._redis.pipeline(transaction=False)
            for key in self._redis.scan_iter(_client("*"), count=1000):
                pipe.hgetall(key)
            found = pipe.execute()
        return [client_of(fields) for fields in found if fields]

    def change_job(self, job: str, act: JobAct) -> tuple[Reply, Job | None]:
        keys = _job(job), _members(job)

        def attempt(pipe: Any) -> tuple[Reply, Job | None]:
            fields, members = pipe.hgetall(keys[0]), pipe.smembers(keys[1])
            before = job_of(fields, members) if fields else None
            reply, after = act(before)
            pipe.multi()
            if after != before:
                _write_job(pipe, job, before, after)
            return reply, after

        return self._optimistic(keys, attempt)

    def change_client(self, client: str, act: ClientAct) -> tuple[Reply, Client | None]:
        key = _client(client)

        def attempt(pipe: Any) -> tuple[Reply, Client | None]:
            fields = pipe.hgetall(key)
            before = client_of(fields) if fields else None
            reply, after = act(before)
            pipe.multi()
            if after is None:
                pipe.delete(key)
            elif after != before:
                pipe.hset(key, mapping=client_fields(after))
                pipe.expire(key, int(CLIENT_LIFE))
            return reply, after

        return self._optimistic((key,), attempt)

    def bind(self, job: str, client: str, round: int, now: float) -> Reply:
        keys = [_job(job), _members(job), _client(client)]
        arguments: list[str | float] = [job, client, round, repr(now), SILENCE, int(CLIENT_LIFE)]
        with self._answering():
            return Reply(self._bind(keys, arguments))

    def publish(self, offers: str) -> None:
        with self._answering():
            self._redis.set(_OFFERS, offers)

    def published(self) -> str:
        with self._answering():
            return self._redis.get(_OFFERS) or ""

    def close(self) -> None:
        self._redis.close()

    def _optimistic(self, keys: tuple[str, ...], attempt: Callable[[Any], _R]) -> _R:
        """Carry a transaction out, anew as long as its keys are changed in between."""
        deadline = Deadline.after(_TURN_S)
        with self._answering(), self._redis.pipeline() as pipe:
            while True:
                try:
                    pipe.watch(*keys)
                    answer = attempt(pipe)
                    pipe.execute()
                except redis.WatchError as error:
                    if deadline.passed:
                        raise LabError(
                            f"{keys[0]} in the store {self._url} was changed by others for "
                            f"{_TURN_S:g} s",
                            hint="start fewer managers, or ask less often",
                        ) from error
                else:
                    return answer

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except redis.WatchError:
            raise
        except (redis.RedisError, OSError) as error:
            raise LabError(
                f"the store {self._url} did not do what it was asked for: {error}",
                hint="is its server up, and its memory not full?",
            ) from error


def _write_job(pipe: Any, name: str, before: Job | None, after: Job | None) -> None:
    if after is None:
        pipe.delete(_job(name), _members(name))
        pipe.srem("jobs", name)
        return
    pipe.hset(_job(name), mapping=job_fields(after))
    pipe.sadd("jobs", name)
    if before is None or before.members != after.members:
        pipe.delete(_members(name))
        if after.members:
            pipe.sadd(_members(name), *after.members)


def _job(name: str) -> str:
    return f"job:{name}"


def _members(name: str) -> str:
    return f"members:{name}"


def _client(name: str) -> str:
    return f"client:{name}"
