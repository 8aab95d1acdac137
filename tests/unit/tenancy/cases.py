"""Random clients and requests, and what the policies' rules give when taken word by word."""

from __future__ import annotations

import math
from fractions import Fraction

from testbed.tenancy.attributes import constraints
from testbed.tenancy.requests import LastRound, Request

NAMES = ("cpu_f", "ram", "fp16_mem")


def random_attributes(chance):
    """Few values, so that clients are alike and often have just what is demanded."""
    had = {name: float(chance.randint(0, 3)) for name in NAMES}
    if chance.random() < 0.1:
        had.pop(chance.choice(NAMES))
    return had


def random_constraints(chance):
    chosen = chance.sample(NAMES, chance.randint(0, 2))
    return constraints({name: float(chance.randint(1, 3)) for name in chosen})


def random_requests(chance, most=9):
    kinds = [random_constraints(chance) for _ in range(chance.randint(1, 4))]
    return [
        Request(
            job=f"job{number}",
            constraints=chance.choice(kinds),
            registered=float(chance.randint(0, 5)),
            demand=(demand := chance.randint(1, 8)),
            amount=chance.randint(0, demand),
            draw=chance.choice((0.25, chance.random())),
            round_draw=chance.random(),
            last=chance.choice((None, random_round(chance))),
        )
        for number in range(chance.randint(0, most))
    ]


def random_round(chance):
    scheduling = chance.choice((0.0, chance.uniform(1, 50)))
    return LastRound(scheduling, chance.uniform(0, 500), chance.uniform(0.1, 2))


def meets(client, demanded):
    """Tell by looking whether nothing that is demanded is lacking."""
    lacking = [name for name, least in demanded if name not in client or client[name] < least]
    return not lacking


def in_order(requests, goes_before):
    """Return requests in the only order that the rule allows, by asking it of every pair."""
    left = list(requests)
    order = []
    while left:
        (first,) = [r for r in left if all(goes_before(r, o) for o in left if o is not r)]
        order.append(first)
        left.remove(first)
    return order


def irs_regions(requests, clients):
    """Return the regions as sets of client numbers, by constraints: the rule on sets themselves."""
    everyone = range(len(clients))
    jobs = {}
    for request in requests:
        jobs.setdefault(request.constraints, []).append(request)
    for of in jobs.values():
        of.sort(key=lambda r: (r.demand, r.registered, r.job))
    eligible = {g: {n for n in everyone if meets(clients[n], g)} for g in jobs}
    scarce_first = sorted(jobs, key=lambda g: (len(eligible[g]), g))
    region, taken = {}, set()
    for group in scarce_first:
        region[group] = eligible[group] - taken
        taken |= eligible[group]
    share = {g: Fraction(len(region[g]), max(len(clients), 1)) for g in jobs}

    def queue_time(group, demand):
        p = Fraction(len(eligible[group]), max(len(clients), 1))
        return demand / p if p else math.inf

    def over(jobs_in_turn, a):
        return jobs_in_turn / a if a else math.inf

    for at, group in reversed(list(enumerate(scarce_first))):
        for scarcer in reversed(scarce_first[:at]):
            limit = queue_time(scarcer, sum(r.demand for r in jobs[scarcer]))
            waited, m = 0, 0
            for request in jobs[group]:
                m += 1
                waited += request.demand
                if queue_time(group, waited) > limit:
                    break
            if not over(m, share[group]) > over(len(jobs[scarcer]), share[scarcer]):
                break
            both = eligible[group] & region[scarcer]
            region[group] = region[group] | both
            region[scarcer] = region[scarcer] - region[group]
    return region, jobs
