"""Regions of IRS, held against the rule on sets of clients; and its speed tiers."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from testbed.tenancy.attributes import constraints
from testbed.tenancy.descriptors import IrsOptions, TieredIrsOptions
from testbed.tenancy.grouping import Tier
from testbed.tenancy.irs import Irs, TieredIrs, divide
from testbed.tenancy.requests import Census, LastRound, Request, census, signature
from testbed.tenancy.tiers import pays, tiers
from tests.unit.tenancy.cases import irs_regions, meets, random_attributes, random_requests

CASES = [pytest.param(60), pytest.param(1000, marks=pytest.mark.soak)]

HIGH, LOW, ANY = constraints({"cpu_f": 2.0}), constraints({"cpu_f": 1.0}), ()


@pytest.mark.parametrize("cases", CASES)
def test_regions_and_orders_of_jobs_equal_those_computed_with_sets_of_clients(cases):
    chance = Random(5)
    moved = 0
    for _ in range(cases):
        requests = random_requests(chance)
        clients = [random_attributes(chance) for _ in range(chance.randint(0, 30))]
        expected, jobs = irs_regions(requests, clients)
        known = census(clients, expected)
        division = Irs(IrsOptions()).divide(requests, known)
        owners = [division.region_of(signature(client, expected)) for client in clients]
        found = {
            group.constraints: {n for n, owner in enumerate(owners) if owner == number}
            for number, group in enumerate(division.groups)
        }
        assert found == expected
        assert {g.constraints: list(g.jobs) for g in division.groups} == jobs
        moved += bool(division.transfers)
    assert moved > cases / 10


@pytest.mark.parametrize("cases", CASES)
def test_regions_are_disjoint_and_eligible_also_for_uncounted_clients(cases):
    chance = Random(6)
    for _ in range(cases):
        requests = random_requests(chance)
        groups = {request.constraints for request in requests}
        known = census([random_attributes(chance) for _ in range(20)], groups)
        division = divide(requests, known)
        for newcomer in (random_attributes(chance) for _ in range(20)):
            met = signature(newcomer, groups)
            owner = division.region_of(met)
            assert (owner is None) == (not met)
            if owner is not None:
                assert meets(newcomer, division.groups[owner].constraints)
                assert set(division.offers(met, 1.0)) == {
                    job.job for job in division.groups[owner].jobs
                }


def test_scarce_clients_are_kept_for_the_jobs_that_need_them():
    requests = [Request("common", ANY, 0.0, 4), Request("scarce", HIGH, 1.0, 4)]
    clients = [{"cpu_f": 2.0}] * 4 + [{"cpu_f": 0.0}] * 16
    division = divide(requests, census(clients, {HIGH, ANY}))
    assert division.transfers == ()
    assert division.offers(frozenset({HIGH, ANY}), 1.0) == ("scarce",)
    assert division.offers(frozenset({ANY}), 1.0) == ("common",)


def test_a_long_queue_of_common_jobs_takes_scarce_clients():
    common = [Request(f"common{n}", ANY, 0.0, 1) for n in range(9)]
    requests = [*common, Request("scarce", HIGH, 1.0, 9)]
    clients = [{"cpu_f": 2.0}] * 10 + [{"cpu_f": 0.0}] * 10
    division = divide(requests, census(clients, {HIGH, ANY}))
    assert division.offers(frozenset({HIGH, ANY}), 1.0) == tuple(job.job for job in common)


def literal_regions(eligible, taker, giver, region):
    """The rule as the published code has it: all that both are eligible for goes to the taker."""
    region = {group: set(held) for group, held in region.items()}
    region[taker] |= eligible[taker] & eligible[giver]
    region[giver] -= region[taker]
    return region


def test_the_published_rule_assigns_a_client_to_two_groups_and_ours_does_not():
    """A third, scarcer group may hold part of what two groups are eligible for."""
    clients = [{"cpu_f": 2.0}] * 3 + [{"cpu_f": 1.0}] * 3 + [{"cpu_f": 0.0}] * 3
    requests = [
        *(Request(f"any{n}", ANY, 0.0, 1) for n in range(5)),
        Request("low", LOW, 0.0, 6),
        *(Request(f"high{n}", HIGH, 0.0, 3) for n in range(9)),
    ]
    division = divide(requests, census(clients, {ANY, LOW, HIGH}))
    names = [group.constraints for group in division.groups]
    assert names == [HIGH, LOW, ANY]
    assert [(t.giver, t.taker) for t in division.transfers] == [(1, 2)]
    initial = {HIGH: {0, 1, 2}, LOW: {3, 4, 5}, ANY: {6, 7, 8}}
    eligible = {HIGH: {0, 1, 2}, LOW: set(range(6)), ANY: set(range(9))}
    literal = literal_regions(eligible, ANY, LOW, initial)
    assert literal[ANY] & literal[HIGH] == {0, 1, 2}
    met = [signature(client, names) for client in clients]
    assert [division.region_of(one) for one in met] == [0] * 3 + [2] * 6


# --- tiers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cases", CASES)
def test_tiers_divide_the_waiting_clients_by_speed_into_equal_parts(cases):
    chance = Random(7)
    for _ in range(cases):
        number = chance.randint(1, 5)
        speeds = [chance.uniform(0.1, 3) for _ in range(chance.randint(0, 30))]
        found = tiers(speeds, number)
        if len(speeds) < number:
            assert found == ()
            continue
        sizes = [sum(speed in tier for speed in speeds) for tier in found]
        assert sum(sizes) == len(speeds)
        assert max(sizes) - min(sizes) <= 1
        for slower, faster in pairwise(found):
            assert slower.fastest < faster.slowest


@pytest.mark.parametrize("cases", CASES)
def test_the_first_job_uses_a_tier_only_where_that_makes_a_round_shorter(cases):
    chance = Random(8)
    restricted = 0
    for _ in range(cases):
        requests = random_requests(chance)
        groups = {request.constraints for request in requests}
        clients = [random_attributes(chance) for _ in range(20)]
        speeds = [chance.uniform(0.1, 3) for _ in clients]
        waiting = {}
        for client, speed in zip(clients, speeds, strict=True):
            waiting.setdefault(signature(client, groups), []).append(speed)
        known = Census(census(clients, groups).clients, waiting)
        plain, division = divide(requests, known), TieredIrs(TieredIrsOptions()).divide
        for number, group in enumerate(division(requests, known).groups):
            here = sorted(
                speed
                for client, speed in zip(clients, speeds, strict=True)
                if plain.region_of(signature(client, groups)) == number
            )
            assert group.tier == expected_tier(group.jobs[0], here, 3)
            restricted += group.tier is not None
    assert restricted > cases / 10


def expected_tier(job, speeds, number):
    if job.last is None or len(speeds) < number:
        return None
    parts = [[] for _ in range(number)]
    for at, speed in enumerate(speeds):
        part = next(p for p in range(number) if at < len(speeds) * (p + 1) // number)
        parts[part].append(speed)
    drawn = parts[int(job.round_draw * number)]
    gain = job.last.slowest / min(drawn)
    if job.last.scheduling == 0:
        shorter = gain < 1 and job.last.response > 0
    else:
        c = job.last.response / job.last.scheduling
        shorter = number + gain * c < c + 1
    return Tier(min(drawn), max(drawn)) if shorter else None


def test_a_tier_pays_where_the_response_time_outweighs_the_wait():
    slow_round = LastRound(scheduling=10.0, response=100.0, slowest=1.0)
    assert pays(slow_round, Tier(2.0, 3.0), 3)  # 3 + 0.5 * 10 < 11
    assert not pays(slow_round, Tier(1.0, 1.9), 3)
    assert not pays(LastRound(10.0, 30.0, 1.0), Tier(2.0, 3.0), 3)  # 3 + 1.5 > 4


def test_clients_outside_the_tier_are_offered_the_other_jobs_of_the_group():
    last = LastRound(scheduling=1.0, response=100.0, slowest=1.0)
    first = Request("first", ANY, 0.0, 1, round_draw=0.9, last=last)
    requests = [first, Request("second", ANY, 0.0, 2)]
    met = frozenset({ANY})
    known = Census({met: 6}, {met: [1.0, 1.0, 2.0, 2.0, 4.0, 4.0]})
    division = TieredIrs(TieredIrsOptions(tiers=3)).divide(requests, known)
    assert division.groups[0].tier == Tier(4.0, 4.0)
    assert division.offers(met, 4.0) == ("first", "second")
    assert division.offers(met, 2.0) == ("second",)
