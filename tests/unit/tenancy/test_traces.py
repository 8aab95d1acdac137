"""Generated clients: the same for a seed everywhere, and distributed as the generator states."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, median, pstdev

import pytest

from testbed.tenancy.studies import COMPLETION, MANY_JOBS, ONE_JOB, UTILISATION
from testbed.tenancy.traces import DAY_MS, ClientTrace, Population, Trace, generate
from testbed.tenancy.workload import LEVELS, JobSpec, Mix, draw_jobs

INPUTS = {
    "utilisation": {
        1: "dd3dc2c5ec84e662cd31c42faed453c13b6005e0cd87448168dcc25af46ec9cd",
        2: "38154dcf7e572fc958e0db13c1c1fc64845555e09ef774bf9659db61ff8fae07",
        3: "7bc1334955c81c52185029a96281c1368bd9668b948dbaacd8f9090408726f2e",
        4: "034b0315a5e001053deb4493448a9727e7fdb6c33931e86efa1f2d390b2dcca1",
        5: "e304d2d961d6222981a6d46d7404854c39af04a703e0f86f3faafce2e21f93c7",
        6: "8ca88592920baf3dc55b4b678a7e2395d5a3288d63623d7bf5ded85475a9c27c",
    },
    "completion": {
        1: "f9416ccbb9db8185c9c112a1d99f05ad383f98bfc9864ab46df4dc4d63c30dbb",
        2: "a25d3038d5362a24d81891b4ce9bd043923a5d8f753c21c429973bdce69299bb",
        3: "96c2bea885c57de332a61d0147d9394ecfef3c72b3190de8eccd63f773fb7490",
        4: "e8fe2bab86d33f572a210b06c51a9d248207c113358daf87b5adfd626db2c800",
        5: "c444737fffa330a6126e5c0c35f07833d0d930387e3455cc8543bef7366416f0",
        6: "ae2c71046dc40c1747e54a923ad98f7c236419490503d649aa9e49699415a0c2",
    },
    "scarce": {
        1: "b6fbaeb4853d40db5818e95d14e5121d1a98fe8f47c29697de2b83c15b5a4940",
        2: "38f642cc9703941e1ecc7f35dd7e1eb97db6657dbc434be1a895e8da9ab95311",
        3: "f497d80129615c4a1c46730465e58ff0afa9e0f41f16d96cfb0842eda29d63bb",
        4: "9a9b83ce6922ab40f9cef1f9cfd3f0e032d9de2bafb16c69350c1fa09d6c2d80",
        5: "d888bc1686fca92846d8e03b9628a33926aa7569d6d43ac2a6ae163e31e7528c",
        6: "e27c8028e07795ee442fc6f070e7286c4dce90ba640e0583a032cee3fe25bd6f",
    },
    "many-jobs": {
        31: "db2c85521ae30690ad4313bdfb92942db4aa7696b2c7c81dc1d7bff455ea9960",
        32: "64ff42741a80301de130acddff3f06d8d1d3362b15c32497cdf7a49b5d3369db",
        33: "83df4a097c89d7ae568386db29f2327229d8a5fe04394dba9f120efa6f6d3317",
        34: "ba08a385f5001e81405f93a42a9bdd6ab574c5ab26d20f5b42922c741f428a5a",
        35: "d420f6af662537b3a61e0b24dbd2694f676db9eebd9fd2dbc17edcaeee8d810e",
        36: "c704c83437ddb2dc6d8455f7e01176be8636b8733cbfda2869eb0d90611badf8",
    },
    "one-job": {
        201: "06264ea2931a41390d56942cde82bb6d8d427ace570818f381c9f2d199f4c977",
        202: "be1c7533a87c690c18ce917ec0f8636730e3b2a747e6206a144e1135caafe616",
        203: "89e176eaed828f55a2c8abb4837425a82b97ea7c2dafa4efbdadbbafdd282281",
        204: "5a0c95fbf85b0ecde5323c814724aff57e07a741b37c562466b2ddd551ac0a5c",
        205: "59c7c17e82d62e31724c1382696503918cbfe15d77ac1d174d70a57621b95231",
        206: "b0df03729f3bfa28ab5cbb76eac6135ee3c1b8e3cdd562041245dd045af2f123",
    },
}
"""What the comparisons of policies start from; written down before their results were seen."""


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
        pytest.param(name, seed, marks=pytest.mark.soak if seed > min(known) else ())
        for name, known in INPUTS.items()
        for seed in known
    ],
)
def test_traces_equal_their_recorded_digests(name, seed):
    assert STUDIES[name].digest(seed) == INPUTS[name][seed]


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
