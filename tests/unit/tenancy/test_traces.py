"""Generated clients: the same for a seed everywhere, and distributed as the generator states."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, pstdev

import pytest

from testbed.tenancy.studies import COMPLETION, MANY_JOBS, ONE_JOB, UTILISATION
from testbed.tenancy.traces import DAY_MS, ClientTrace, Population, Trace, generate
from testbed.tenancy.workload import LEVELS, JobSpec, Mix, draw_jobs

INPUTS = json.loads((Path(__file__).parent / "data" / "inputs.json").read_text())
"""The SHA-256 of what each comparison of policies starts from, by study and seed.

Those of utilisation 7 to 30, many-jobs 37 to 54 and one-job 207 to 296 were written down after
their results, all others before.
"""


STUDIES = {
    "utilisation": UTILISATION,
    "completion": COMPLETION,
    "scarce": replace(COMPLETION, population=replace(COMPLETION.population, clients=2_000)),
    "many-jobs": MANY_JOBS,
    "one-job": ONE_JOB,
}


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, int(seed), marks=() if at == 0 else pytest.mark.soak)
        for name, known in INPUTS.items()
        for at, seed in enumerate(known)
    ],
)
def test_traces_equal_their_recorded_digests(name, seed):
    assert STUDIES[name].digest(seed) == INPUTS[name][str(seed)]


def trace():
    return generate(Population(clients=100), 7)


def test_a_trace_depends_on_its_seed():
    assert trace() == trace()
    assert trace().digest == trace().digest
    assert generate(Population(clients=100), 8).digest != trace().digest
    assert generate(Population(clients=100, gap=9000.0), 7).digest != trace().digest
    assert generate(Population(clients=100, attribute_width=1.0), 7).digest != trace().digest


def test_the_digest_of_a_trace_covers_every_value_of_a_client():
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
def test_the_sessions_of_a_client_are_in_order_and_within_the_period(spans):
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


def test_clients_are_available_more_often_at_their_preferred_hour():
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


def test_the_time_of_a_task_is_its_computation_plus_both_transfers():
    client = ClientTrace("c", (), 50.0, 2_000.0, 100, {})
    job = JobSpec("j", 0.0, 1, 1, 1, (), (), samples=400, model=112_000.0)
    assert job.task_time(client) == 3 * 400 * 0.050 + 2 * 112_000 / 2_000
