"""Every scheduling policy gives what its rule says, taken word by word, on random cases."""

from __future__ import annotations

import math
from random import Random

import pytest

from testbed.plugins import kinds
from testbed.tenancy.attributes import constraints, is_eligible
from testbed.tenancy.baselines import RandomSelection, StaticPartition
from testbed.tenancy.grouping import FifoGroup
from testbed.tenancy.online import Fifo, RandomScore, SmallestRemainingDemand, offers, ranked
from testbed.tenancy.requests import Request, census, signature
from tests.unit.tenancy.cases import in_order, meets, random_attributes, random_requests

CASES = [pytest.param(60), pytest.param(1000, marks=pytest.mark.soak)]


def tie(a, b):
    return (a.registered, a.job) < (b.registered, b.job)


def older(a, b):
    return tie(a, b)


def luckier(a, b):
    return a.draw > b.draw or (a.draw == b.draw and tie(a, b))


def smaller(a, b):
    left, right = a.demand - a.amount, b.demand - b.amount
    return left < right or (left == right and tie(a, b))


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize(
    ("policy", "goes_before"),
    [(Fifo(), older), (RandomScore(), luckier), (SmallestRemainingDemand(), smaller)],
)
def test_a_client_is_offered_its_eligible_open_jobs_in_the_order_of_the_policy(
    policy, goes_before, cases
):
    chance = Random(1)
    for _ in range(cases):
        requests, client = random_requests(chance), random_attributes(chance)
        shuffled = chance.sample(requests, len(requests))
        ranking = ranked((policy.score(request), request) for request in shuffled)
        assert ranking == in_order(requests, goes_before)
        open_to_it = [
            request.job
            for request in in_order(requests, goes_before)
            if request.amount < request.demand and meets(client, request.constraints)
        ]
        assert offers(ranking, client) == tuple(open_to_it)


def test_only_srsf_computes_the_score_of_a_job_again_in_each_round():
    again = [Fifo.each_round, RandomScore.each_round, SmallestRemainingDemand.each_round]
    assert again == [False, False, True]


def test_random_scores_lie_between_0_and_10():
    draws = (0.0, 0.5, math.nextafter(1, 0))
    scores = [RandomScore().score(Request("j", (), 0.0, 1, draw=draw)) for draw in draws]
    assert scores == [0.0, 5.0, pytest.approx(10.0)]


def test_a_client_is_offered_20_jobs_at_most():
    requests = [Request(f"job{n:02}", (), float(n), 1) for n in range(25)]
    assert offers(requests, {}) == tuple(f"job{n:02}" for n in range(20))


@pytest.mark.parametrize("cases", CASES)
def test_offline_fifo_gives_each_client_the_oldest_job_that_it_can_serve(cases):
    chance = Random(2)
    for _ in range(cases):
        requests = random_requests(chance)
        clients = [random_attributes(chance) for _ in range(20)]
        groups = {request.constraints for request in requests}
        division = FifoGroup().divide(requests, census(clients, groups))
        for client in clients:
            able = [r for r in requests if meets(client, r.constraints)]
            expected = tuple(request.job for request in in_order(able, older))
            assert division.offers(signature(client, groups), 1.0) == expected


@pytest.mark.parametrize("cases", CASES)
def test_a_static_partition_draws_a_clients_job_in_proportion_to_demands(cases):
    chance = Random(3)
    for _ in range(cases):
        requests, client = random_requests(chance), random_attributes(chance)
        draw = chance.random()
        jobs = {request.job: (request.constraints, request.demand) for request in requests}
        places = [r.job for r in requests if meets(client, r.constraints) for _ in range(r.demand)]
        expected = places[math.floor(draw * len(places))] if places else None
        assert StaticPartition().select(jobs, client, draw) == expected


@pytest.mark.parametrize("cases", CASES)
def test_random_selection_draws_among_all_jobs_whether_a_client_can_serve_them_or_not(cases):
    chance = Random(4)
    for _ in range(cases):
        requests, client = random_requests(chance), random_attributes(chance)
        draw = chance.random()
        jobs = {request.job: (request.constraints, request.demand) for request in requests}
        expected = requests[math.floor(draw * len(requests))].job if requests else None
        assert RandomSelection().select(jobs, client, draw) == expected


def test_a_client_is_eligible_only_with_the_demanded_value_of_every_attribute():
    demanded = constraints({"ram": 2.0, "cpu_f": 3.0})
    assert demanded == (("cpu_f", 3.0), ("ram", 2.0))
    assert is_eligible({"cpu_f": 3.0, "ram": 2.0, "more": 0.0}, demanded)
    assert not is_eligible({"cpu_f": 2.9, "ram": 9.0}, demanded)
    assert not is_eligible({"cpu_f": 9.0}, demanded)
    assert not is_eligible({"cpu_f": math.nan, "ram": 9.0}, demanded)
    assert is_eligible({}, ())
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="must be finite"):
            constraints({"ram": value})


def test_every_policy_of_the_papers_can_be_created_from_its_options():
    roles = {name: kind.role for name, kind in kinds("scheduling_policies").items()}
    published = {
        **dict.fromkeys(("fifo", "random", "srsf"), "online"),
        **dict.fromkeys(("fifo-offline", "irs", "irs-tiers"), "offline"),
        **dict.fromkeys(("static-partition", "random-selection"), "baseline"),
    }
    assert published.items() <= roles.items()
    method = {"online": "score", "offline": "divide", "baseline": "select"}
    for kind in kinds("scheduling_policies").values():
        assert callable(getattr(kind.load()(kind.options()), method[kind.role]))
