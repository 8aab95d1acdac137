"""No double owner and no stuck lease, whatever five holders do with twenty resources."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from testbed.record import claim_registry
from testbed.record.lease_store import FileStore
from tests.unit.record.lease_machine import LeaseMachine, directories_of_runs


@pytest.fixture
def in_memory(tmp_path):
    """Return a directory in memory where there is one: what is synced is not looked at here."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


def lived(store, directories, examples, steps):
    """Let many random lives pass."""
    with pytest.MonkeyPatch.context() as patch:
        # A look at a dead run that takes longer, as on a busy machine, is not believed: rightly,
        # but the model knows nothing of seconds.
        patch.setattr(claim_registry, "_JOURNAL_LIMIT", 60.0)
        run_state_machine_as_test(
            lambda: LeaseMachine(store, directories),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                database=None,
                derandomize=examples < 100,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_random_lease_operations_match_the_model_on_sqlite(in_memory, tmp_path):
    lived(FileStore(in_memory / "leases.sqlite"), directories_of_runs(tmp_path), 15, 30)


@pytest.mark.soak
def test_2000_random_sequences_of_operations_match_the_model_on_sqlite(in_memory, tmp_path):
    lived(FileStore(in_memory / "leases.sqlite"), directories_of_runs(tmp_path), 2000, 50)
