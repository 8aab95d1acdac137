"""How long leases of ten thousand ports take beside ten thousand others, on either store.

Wall-clock seconds, each the median of some rounds: taken, refused because of one port, renewed,
and given back. The others are one claim, or a hundred.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest

from testbed.errors import BusyError
from testbed.record.claim_registry import ClaimRegistry
from testbed.record.lease_rules import Claim, Holder, Resource
from testbed.record.lease_store import FileStore, LeaseStore, PostgresStore
from tests.unit.record.postgres_server import binaries, running_server

PORTS = 10_000
LIMIT_S = 1.0
ROUNDS = 5
HOLDER = Holder("bench", "a machine", 0)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LeaseStore]:
    if request.param == "sqlite":
        path: Path = tmp_path_factory.mktemp("leases") / "leases.sqlite"
        yield FileStore(path)
        return
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    if binaries() is None:
        pytest.skip("no PostgreSQL server is installed")
    with running_server() as server:
        yield PostgresStore(server.url())


@pytest.mark.parametrize("others", [1, 100])
def test_ten_thousand_ports_beside_ten_thousand(store: LeaseStore, others: int) -> None:
    registry = ClaimRegistry(store, look=lambda claim: None)
    each = PORTS // others
    held = [_claim(f"other-{n}", "far", range(n * each, (n + 1) * each)) for n in range(others)]
    for claim in held:
        registry.claim(claim, 3600.0)
    mine, hindered = _claim("mine", "near", range(PORTS)), _claim("mine", "far", range(1, PORTS))
    hindered = Claim("mine", HOLDER, hindered.resources | mine.resources, 0.0)
    took = {
        "refused": _timed(lambda: _refused(registry, hindered)),
        "taken": _timed(lambda: registry.claim(mine), lambda: registry.end("mine")),
    }
    registry.claim(mine, 3600.0)
    took["renewed"] = _timed(lambda: registry.renew(mine))
    took["given back"] = _timed(lambda: registry.end("mine"), None, lambda: registry.claim(mine))
    for claim in held:
        registry.end(claim.token)
    words = ", ".join(f"{what} {seconds * 1e3:.0f} ms" for what, seconds in took.items())
    print(f"\n{type(store).__name__}: {PORTS} ports beside {PORTS} in {others} claims: {words}")
    assert max(took.values()) < LIMIT_S


def _claim(token: str, box: str, parts: range) -> Claim:
    wanted = frozenset(Resource(box, str(part), f"ocs.{part}") for part in parts)
    return Claim(token, HOLDER, wanted, 0.0)


def _refused(registry: ClaimRegistry, claim: Claim) -> None:
    with pytest.raises(BusyError):
        registry.claim(claim)


def _timed(
    action: Callable[[], object],
    after: Callable[[], object] | None = None,
    before: Callable[[], object] | None = None,
) -> float:
    """Return the median of some rounds; what is done before and after each is not counted."""
    spans = []
    for _ in range(ROUNDS):
        if before:
            before()
        begin = time.perf_counter()
        action()
        spans.append(time.perf_counter() - begin)
        if after:
            after()
    return median(spans)
