"""One box has one owner, whatever labs call it, and two boxes are never taken for one."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from testbed.bench import addresses
from testbed.record.lease_store import FileStore, PostgresStore
from tests.unit.record.naming_world import NAMES, labs
from tests.unit.record.owners_machine import OwnersMachine
from tests.unit.record.postgres_server import binaries, running_server


@pytest.fixture
def _names(monkeypatch):
    known = {name: (address,) for name, address in NAMES.items()}
    monkeypatch.setattr(addresses, "_known", known)
    addresses.of_resource.cache_clear()
    addresses.of_target.cache_clear()
    yield
    addresses.of_resource.cache_clear()
    addresses.of_target.cache_clear()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    if request.param == "sqlite":
        yield FileStore(tmp_path / "leases.sqlite")
        return
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    if binaries() is None:
        pytest.skip("no PostgreSQL server is installed")
    with running_server() as server:
        yield PostgresStore(server.url())


def lived(store, some, examples, steps):
    run_state_machine_as_test(
        lambda: OwnersMachine(store, some),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            database=None,
            derandomize=examples < 100,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.usefixtures("_names")
def test_no_device_has_two_owners_under_different_names(store, tmp_path):
    """Fewer examples on a server, which is asked over a connection each time."""
    examples = 15 if isinstance(store, FileStore) else 5
    lived(store, labs(tmp_path, 12, seed=1), examples, 25)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("_names")
def test_no_device_has_two_owners_in_1000_random_sequences_in_200_labs(store, tmp_path):
    lived(store, labs(tmp_path, 200, seed=2), 1000, 40)
