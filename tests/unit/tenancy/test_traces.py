"""Generated clients: the same for a seed everywhere, and distributed as the generator states."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean, median, pstdev

import pytest

from testbed.tenancy.studies import COMPLETION, SEEDS, UTILISATION
from testbed.tenancy.traces import DAY_MS, ClientTrace, Population, Trace, generate
from testbed.tenancy.workload import LEVELS, JobSpec, Mix, draw_jobs

INPUTS = {
    "utilisation": {
        1: "ebed5d087532e4f8c11c4f60d111eb00dce90d0dc74c8365ed2a047bfef89d96",
        2: "330ae0de7607b4d62edad4b23497c298df55a89d8df26b18acc6919d89391ba7",
        3: "6cd9558879314a6fe8f78b515a78556e4eeecbb61573d5888cffe071f1cfb91b",
        4: "779a00e895affb2d4ba100bfca931fe26d18b2d22e9afd2ca18552545f62f714",
        5: "06567f00a5fa21d644ba45362f22482c4075fbb026ca318ea564adbe8cb21336",
        6: "d0cfdb14f2fc5c517ec2433b0641c97275af48cb15c4bd9a0240269aed9d77db",
    },
    "completion": {
        1: "b1433d5656f14257129fd89fb91e684bd366fde7807abdaf120264c26633c90a",
        2: "2c378f9eaaacefc65806908beaca15dcb93db368615e57afb705f015b33b0d8d",
        3: "0e546e2d9960bca69e380bbcccb4430adeb92c0499c9f6dc74348ad2c027e9ca",
        4: "df14aa5e17afd919b599a73fac9d297767212fec15655b0dd9100557fde50993",
        5: "0553bab513416557953c108298b3673d808d68b8f9f95bedd37cf1d3ac245af2",
        6: "53039f428f5f13601056a9058d7267f362188c001f30d8cc79031fb82f269c50",
    },
}
"""What the comparisons of policies start from; written down before their results were seen."""


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=pytest.mark.soak if s > 1 else ()) for s in SEEDS]
)
@pytest.mark.parametrize(
    ("name", "study"), [("utilisation", UTILISATION), ("completion", COMPLETION)]
)
def test_the_comparisons_start_from_what_was_written_down(name, study, seed):
    assert study.digest(seed) == INPUTS[name][seed]


def trace():
    return generate(Population(clients=100), 7)


def test_a_trace_is_the_same_for_a_seed_and_another_for_another():
    assert trace() == trace()
    assert trace().digest == trace().digest
    assert generate(Population(clients=100), 8).digest != trace().digest
    assert generate(Population(clients=100, gap=9000.0), 7).digest != trace().digest


def test_every_value_of_a_client_is_in_the_digest():
    client = ClientTrace("c", ((0, 10), (20, 30)), 50.0, 1000.0, 5, {"ram": 2.0})
    known = {Trace(40, (client,)).digest}
    for changed in (
        ClientTrace("d", ((0, 10), (20, 30)), 50.0, 1000.0, 5, {"ram": 2.0}),
        ClientTrace("c", ((0, 10), (20, 31)), 50.0, 1000.0, 5, {"ram": 2.0}),
        ClientTrace("c", ((0, 10),), 50.0, 1000.0, 5, {"ram": 2.0}),
        ClientTrace("c", ((0, 10), (20, 30)), 51.0, 1000.0, 5, {"ram": 2.0}),
        ClientTrace("c", ((0, 10), (20, 30)), 50.0, 1001.0, 5, {"ram": 2.0}),
        ClientTrace("c", ((0, 10), (20, 30)), 50.0, 1000.0, 6, {"ram": 2.0}),
        ClientTrace("c", ((0, 10), (20, 30)), 50.0, 1000.0, 5, {"ram": 3.0}),
    ):
        digest = Trace(40, (changed,)).digest
        assert digest not in known
        known.add(digest)
    assert Trace(41, (client,)).digest not in known


@pytest.mark.parametrize("spans", [((10, 10),), ((-1, 5),), ((0, 41),), ((0, 20), (10, 30))])
def test_availability_is_in_order_and_within_the_period(spans):
    with pytest.raises(ValueError, match="availability of c is not in order"):
        Trace(40, (ClientTrace("c", spans, 1.0, 1.0, 1, {}),))


def test_sessions_and_gaps_have_the_distributions_that_are_stated():
    population = Population(clients=500, days=8, diurnal=0.0)
    clients = generate(population, 3).clients
    whole = [
        (end - start) / 1000
        for client in clients
        for start, end in client.available
        if start > 0 and end < 8 * DAY_MS
    ]
    gaps = [
        (later[0] - earlier[1]) / 1000
        for client in clients
        for earlier, later in pairwise(client.available)
    ]
    # Long ones are cut off by the end more often, hence not closer.
    assert median(whole) == pytest.approx(population.session, rel=0.05)
    spread = pstdev(math.log(span) for span in whole)
    assert spread == pytest.approx(population.session_sigma, rel=0.05)
    assert fmean(gaps) == pytest.approx(population.gap, rel=0.05)
    assert median(gaps) == pytest.approx(population.gap * math.log(2), rel=0.05)


def test_clients_are_there_more_often_at_their_hour():
    clients = generate(Population(clients=1500, days=1, peak_spread=0.0), 4).clients
    starts = [start / 3.6e6 for client in clients for start, _ in client.available if start > 0]
    near = sum(min(abs(hour - 2), 24 - abs(hour - 2)) < 6 for hour in starts)
    assert near > 1.25 * (len(starts) - near)


def test_devices_have_the_distributions_that_are_stated():
    population = Population(clients=3000, days=1)
    clients = generate(population, 5).clients
    assert median(c.latency_per_sample for c in clients) == pytest.approx(50, rel=0.08)
    assert median(c.rate for c in clients) == pytest.approx(5000, rel=0.06)
    assert median(c.samples for c in clients) == pytest.approx(100, rel=0.06)
    assert min(c.rate for c in clients) >= 250
    fast = sorted(clients, key=lambda client: client.latency_per_sample)
    assert fmean(c.attributes["ram"] for c in fast[:700]) > 2 * fmean(
        c.attributes["ram"] for c in fast[-700:]
    )
    assert clients[0].speed == 1000 / clients[0].latency_per_sample


def test_jobs_are_drawn_from_the_mix():
    jobs = draw_jobs(Mix(jobs=2000, interval=100.0, rounds=(10, 15)), 1)
    gaps = [b.arrival - a.arrival for a, b in pairwise(jobs)]
    assert fmean(gaps) == pytest.approx(100, rel=0.08)
    assert {job.rounds for job in jobs} == set(range(10, 16))
    assert (min(j.demand for j in jobs), max(j.demand for j in jobs)) == (50, 400)
    assert all(1.2 * job.demand <= job.asked <= 1.3 * job.demand + 1 for job in jobs)
    assert {job.public for job in jobs} == set(LEVELS)
    fixed = draw_jobs(Mix(jobs=2, interval=0.0, rounds=(3, 3), demands=(20, 40)), 1)
    assert [(job.demand, job.rounds, job.arrival) for job in fixed] == [(20, 3, 0), (40, 3, 0)]


def test_a_task_takes_its_computation_and_both_transfers():
    client = ClientTrace("c", (), 50.0, 2_000.0, 100, {})
    job = JobSpec("j", 0.0, 1, 1, 1, (), (), samples=400, model=112_000.0)
    assert job.task_time(client) == 3 * 400 * 0.050 + 2 * 112_000 / 2_000
