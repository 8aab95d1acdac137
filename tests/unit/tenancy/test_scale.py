"""Studies of any size: clients drawn in parts, and a formula for what many of them do."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from testbed.plugins import kind
from testbed.tenancy import scale
from testbed.tenancy.attributes import constraints, is_eligible
from testbed.tenancy.client_sums import GRID, demands_of, meets, sums_of
from testbed.tenancy.fluid import predict
from testbed.tenancy.scale import SCALE
from testbed.tenancy.settings import Settings
from testbed.tenancy.simulation import simulate
from testbed.tenancy.traces import SHARD, ClientTrace, Population, generate_shard
from testbed.tenancy.workload import JobSpec, draw_jobs

DAY = 86_400_000


def study(clients):
    return replace(SCALE, population=replace(SCALE.population, clients=clients))


def test_the_clients_of_a_smaller_study_are_the_first_of_a_larger_one():
    small, large = study(1_500).trace(3).clients, study(2_100).trace(3).clients
    assert (len(small), len(large)) == (1_500, 2_100)
    assert large[:1_500] == small
    assert len({client.id for client in large}) == 2_100
    assert len({client.latency_per_sample for client in large}) > 2_000  # no two shards are alike


def test_a_shard_depends_on_seed_number_and_distributions():
    population = Population(clients=3 * SHARD)
    one = generate_shard(population, 1, 2)
    assert generate_shard(replace(population, clients=9 * SHARD), 1, 2) == one
    assert generate_shard(population, 2, 2) != one
    assert generate_shard(replace(population, gap=9_000.0), 1, 2) != one


def test_the_sums_of_parts_are_those_of_all_clients(monkeypatch):
    monkeypatch.setattr(scale, "PART", 1)
    whole = study(2_500)
    assert whole.parts == 3
    parts = [whole.part(4, number) for number in range(3)]
    clients = whole.trace_of(part.clients for part in parts).clients
    assert [len(part.clients) for part in parts] == [1_000, 1_000, 500]
    added = parts[2].sums + parts[0].sums + parts[1].sums
    summed = sums_of(clients, 2 * DAY, added.demands)
    assert np.array_equal(added.here, summed.here)
    assert np.array_equal(added.sessions, summed.sessions)
    assert added.types == pytest.approx(summed.types)


def test_sums_count_what_clients_have():
    demand = constraints({"ram": 4.0}), constraints({"samples": 50.0})
    clients = [
        ClientTrace("a", ((0, 90_000), (240_000, 300_500)), 50.0, 1_000.0, 100, {"ram": 4.0}),
        ClientTrace("b", ((60_000, 120_000),), 50.0, 1_000.0, 10, {"ram": 4.0}),
        ClientTrace("c", (), 50.0, 1_000.0, 100, {"ram": 4.0}),
    ]
    sums = sums_of(clients, 600_000, (demand,))
    assert list(sums.here) == [1, 2, 0, 0, 1, 1, 0, 0, 0, 0]
    assert {int(n): sums.sessions[n] for n in np.flatnonzero(sums.sessions)} == {
        60: 1,
        61: 1,
        90: 1,
    }
    there, latency, per_kbit = sums.types[:, meets(1, 0)].sum(axis=1)
    assert there == pytest.approx(150.5)
    assert latency / there == pytest.approx(50.0)
    assert per_kbit / there == pytest.approx(0.001)
    assert sums.types[0].sum() == pytest.approx(210.5)
    assert GRID == 60


def test_jobs_are_the_same_at_every_size_but_for_their_demands():
    base = draw_jobs(SCALE.loads["light"], 5)
    for clients in (1_000, 60_000):
        jobs = study(clients).jobs("light", 5)
        for job, known in zip(jobs, base, strict=True):
            assert job.demand == round(known.demand * clients / 6_000)
            assert job.asked == round(known.asked * clients / 6_000)
            assert job.arrival == known.arrival + 43_200
            assert replace(job, demand=1, asked=1, arrival=0.0) == replace(
                known, demand=1, asked=1, arrival=0.0
            )


def always_there(count):
    """Clients of one speed that stay: 60 s of computation and 20 s of transfer."""
    return [ClientTrace(f"c{n}", ((0, DAY),), 50.0, 1_000.0, 100, {}) for n in range(count)]


def job(name, rounds, asked, demand, arrival=0.0):
    return JobSpec(name, arrival, rounds, demand, asked, (), (), 400, 10_000.0)


def predicted(clients, jobs, **settings):
    return predict(sums_of(clients, DAY, demands_of(jobs)), jobs, Settings(**settings))


def test_what_can_be_worked_out_by_hand_is_what_the_formula_says():
    found = predicted(always_there(1_000), [job("a", 1, 400, 360)])
    # 400 of 1 000 that ask every 10 s: 4 s and half a second. Results come 80 s after a binding;
    # the formula has them a twentieth sooner or later.
    assert found.scheduling == pytest.approx(4.5, rel=0.001)
    assert found.response == pytest.approx(80, rel=0.05)
    assert found.completion == pytest.approx(found.scheduling + found.response)
    assert found.bound == 400
    assert found.utilisation == pytest.approx(400 * 80 / (1_000 * found.completion), rel=0.02)


def test_clients_at_work_for_another_job_are_not_waiting():
    jobs = [job("a", 1, 500, 500), job("b", 1, 250, 250, arrival=20.0)]
    found = predicted(always_there(1_000), jobs)
    assert found.scheduling == pytest.approx(0.5 + fmean([5.0, 5.0]), rel=0.01)


def test_a_job_that_wants_more_than_there_are_waits_until_others_return():
    jobs = [job("a", 1, 700, 700), job("b", 1, 600, 600, arrival=30.0)]
    found = predicted(always_there(1_000), jobs)
    alone, later = 7.5, found.scheduling * 2 - 7.5
    # The last 300 of b are those that a bound first, 0.5 s to 3.5 s after its request.
    assert later == pytest.approx(alone + 80 + 0.5 - 30 - 4, abs=5)


def test_a_round_without_enough_results_ends_at_its_deadline():
    clients = [
        ClientTrace(f"c{n}", ((0, 90_000), (180_000, 270_000)), 50.0, 1_000.0, 100, {})
        for n in range(100)
    ]
    found = predicted(clients, [job("a", 1, 50, 50)], deadline=600.0)
    assert found.response == pytest.approx(600.0, abs=0.01)


@pytest.mark.parametrize("seed", [21, pytest.param(22, marks=pytest.mark.soak)])
def test_ten_thousand_clients_do_about_what_the_formula_says(seed):
    small = study(10_000)
    part = small.part(seed, 0)
    jobs = small.jobs("light", seed)[:6]
    expected = predict(part.sums, jobs, small.settings)

    fifo = kind("scheduling_policies", "fifo").load()(None)
    found = simulate(small.trace_of([part.clients]), jobs, "online", fifo, seed, small.settings)
    assert found.bound == expected.bound
    assert found.utilisation == pytest.approx(expected.utilisation, rel=0.1)
    assert found.mean_completion_time == pytest.approx(expected.completion, rel=0.1)


def test_eligible_clients_of_a_part_are_those_that_its_sums_count():
    part = study(1_000).part(2, 0)
    for number, (public, private) in enumerate(part.sums.demands):
        seconds = sum(
            (end - start) / 1000
            for client in part.clients
            if is_eligible(client.attributes, public)
            and is_eligible({"samples": float(client.samples)}, private)
            for start, end in client.available
        )
        counted = part.sums.types[0, meets(len(part.sums.demands), number)].sum()
        assert counted == pytest.approx(seconds)
