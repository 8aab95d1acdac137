"""Models on workers of Dask: the same numbers in the same order, whatever dies meanwhile."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.plugins import kind
from testbed.run.model_workers import ModelTask, in_batches, one_after_another, workers_at

LOCAL = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}

distributed = pytest.importorskip("distributed", reason="pip install '.[workers]'")

ROOT = Path(__file__).parents[3]


def fleet_tasks(count, racks=1):
    options = kind("jobs", "fleet-model").options(racks=racks)
    return [ModelTask("fleet-model", options, seed) for seed in range(count)]


def no_check():
    return None


@pytest.fixture(scope="module")
def two_workers():
    with workers_at("2") as compute:
        yield compute


def test_two_workers_return_the_results_of_this_process_in_order(two_workers):
    tasks = fleet_tasks(12)
    assert list(two_workers(tasks, no_check)) == list(one_after_another(tasks, no_check))


@pytest.mark.parametrize(
    ("arms", "size", "batches"), [(1, 4, [4, 4, 2]), (9, 4, [9] * 10), (3, 7, [9, 9, 9, 3])]
)
def test_tasks_of_one_seed_are_in_one_batch(arms, size, batches):
    tasks = [task for task in fleet_tasks(10) for _ in range(arms)]
    found = in_batches(tasks, size)
    assert [len(batch) for batch in found] == batches
    assert [task for batch in found for task in batch] == tasks


@pytest.mark.parametrize("count", [40, pytest.param(10_000, marks=pytest.mark.soak)])
@pytest.mark.timeout(1800)
def test_the_results_are_the_same_when_a_worker_is_killed_midway(count):
    tasks = fleet_tasks(count)
    found = []
    with workers_at("2") as compute:
        client = distributed.default_client()
        workers = client.run(os.getpid)
        assert len(set(workers.values())) == 2
        for values in compute(tasks, no_check):
            found.append(values)
            if len(found) == count // 4:
                os.kill(killed := min(workers.values()), signal.SIGKILL)
        assert killed not in client.run(os.getpid).values()
    assert found == list(one_after_another(tasks, no_check))


def clients_task(clients, seed, **more):
    given = {"study": "scale", "load": "light", "policy": "fifo", **more}
    return ModelTask(
        "clients-model", kind("jobs", "clients-model").options(**given, clients=clients), seed
    )


@pytest.mark.parametrize(
    ("workers", "clients"),
    [
        ("2", [11_000]),
        pytest.param("2", [22_000, 11_000], marks=pytest.mark.soak),
        pytest.param("1", [22_000, 11_000], marks=pytest.mark.soak),
    ],
)
def test_clients_of_one_trial_are_drawn_in_parts_by_workers_with_the_same_result(workers, clients):
    """Parts of trials with several, between trials that have one or none."""
    tasks = [
        *fleet_tasks(3),
        *(clients_task(count, seed, by="formula") for seed, count in enumerate(clients, 1)),
        clients_task(600, 3),
    ]
    alone = list(one_after_another(tasks, no_check))
    with workers_at(workers) as compute:
        assert list(compute(tasks, no_check)) == alone
    assert len({values["inputs"] for values in alone[3:]}) == len(clients) + 1


def test_an_error_of_the_check_for_signals_ends_the_wait_for_results():
    class Ended(Exception):
        pass

    def ended():
        raise Ended

    with pytest.raises(Ended), workers_at("1") as compute:
        next(compute(fleet_tasks(4, racks=400), ended))


def test_a_wait_that_ends_while_a_result_is_fetched_loses_nothing(monkeypatch, two_workers):
    """Dask raises UnboundLocalError where a fetch of one is cut off."""
    monkeypatch.setattr("testbed.run.model_workers._LOOK_EVERY_S", 0.001)
    looks = []
    tasks = fleet_tasks(300)
    assert len(list(two_workers(tasks, lambda: looks.append(None)))) == len(tasks)
    assert looks


def test_a_time_out_in_a_model_is_raised_and_not_taken_for_a_wait(monkeypatch, two_workers):
    # A busy machine may take long for one task, and looks for signals meanwhile; not within this.
    monkeypatch.setattr("testbed.run.model_workers._LOOK_EVERY_S", 60)

    class SlowOptions:
        def __getattr__(self, name):
            error = AttributeError if name.startswith("__") else TimeoutError
            raise error(f"reading {name}")

    looks = []
    with pytest.raises(TimeoutError, match="reading"):
        list(two_workers([ModelTask("fleet-model", SlowOptions(), 1)], lambda: looks.append(None)))
    assert looks == []


def test_the_workers_of_a_dask_scheduler_elsewhere_compute_a_model():
    tasks = fleet_tasks(6)
    with distributed.LocalCluster(n_workers=1, **LOCAL) as cluster:
        where = cluster.scheduler_address.removeprefix("tcp://")
        with workers_at(where) as compute:
            assert list(compute(tasks, no_check)) == list(one_after_another(tasks, no_check))


def test_a_dask_scheduler_without_workers_is_refused():
    with distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        where = cluster.scheduler_address.removeprefix("tcp://")
        with pytest.raises(TestbedError, match=f"at {where} has no workers"), workers_at(where):
            pass


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("0", "0 workers are not from 1 to 256"),
        ("257", "257 workers are not from 1 to 256"),
        ("127.0.0.1:1", "connecting to a Dask scheduler at 127.0.0.1:1 failed"),
        ("nothing", "connecting to a Dask scheduler at nothing failed"),
    ],
)
def test_invalid_numbers_and_unreachable_schedulers_are_refused(where, why, monkeypatch):
    monkeypatch.setattr("testbed.run.model_workers._CONNECT_S", 0.5)
    with pytest.raises(TestbedError, match=why), workers_at(where):
        pass


def summary_of(tmp_path, name, *arguments):
    fleet = ["experiments/morphlux-fleet.yaml", "-S", "jobs.main.racks=1", "--repeat", "2"]
    where = ["--results", str(tmp_path / name), "--json", "--no-report"]
    done = subprocess.run(
        [sys.executable, "-m", "testbed.cli", "run", *fleet, *where, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.stderr


def test_a_run_on_workers_has_the_numbers_of_a_run_without(tmp_path):
    alone, _ = summary_of(tmp_path, "alone")
    beside, said = summary_of(tmp_path, "beside", "--workers", "2")
    for key in ("trials", "metrics", "checks", "outcome", "label"):
        assert beside[key] == alone[key]
    assert "distributed" not in said


def test_workers_are_refused_where_hosts_do_the_work():
    done = subprocess.run(
        [sys.executable, "-m", "testbed.cli", "run", "lumion", "--twin", "--workers", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "--workers computes models, and lumion runs on hosts" in done.stderr
