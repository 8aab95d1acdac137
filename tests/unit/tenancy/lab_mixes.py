"""Mixes of experiments on a rack, and references for how soon they could all have ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from testbed.tenancy.lab_queue import Waiting
from testbed.tenancy.lab_replay import Experiment

HOSTS = 16
PEOPLE = 5
_PARTS = 0b1111
"""Of each host: itself, two ports of the switch, an outlet."""


def parts_of(hosts: Sequence[int]) -> int:
    return sum(_PARTS << (4 * host) for host in hosts)


def mix(seed: int, count: int, spread: float = 0.0, misjudged: float = 0.0) -> list[Experiment]:
    """Draw experiments of five people on a rack of 16 hosts.

    Most want two or four hosts, some the whole rack; a third take the first hosts, as plans do that
    name none. They take ten minutes in the median (log-normal, σ 0.8), arrive within `spread` of
    the time that the most wanted host is needed for, and are misjudged by a log-normal factor.
    """
    rng = Random(seed)
    wishes = [(_hosts(rng), rng.lognormvariate(math.log(600.0), 0.8)) for _ in range(count)]
    busiest = max(sum(d for hosts, d in wishes if host in hosts) for host in range(HOSTS))
    return [
        Experiment(
            Waiting(
                f"{number:02}-person-{rng.randrange(PEOPLE)}",
                parts_of(hosts),
                spread * busiest * rng.random(),
                duration * rng.lognormvariate(0.0, misjudged),
                rng.random(),
            ),
            duration,
        )
        for number, (hosts, duration) in enumerate(wishes)
    ]


def _hosts(rng: Random) -> Sequence[int]:
    count = rng.choice([1, 2, 2, 2, 4, 4, 4, 5, 8, 16])
    kind = rng.random()
    if kind < 0.3:
        return range(count)
    if kind < 0.5:
        return rng.sample(range(HOSTS), count)
    first = rng.randrange(HOSTS - count + 1)
    return range(first, first + count)


def makespan(experiments: Sequence[Experiment], starts: dict[str, float]) -> float:
    return max(starts[one.entry.name] + one.duration for one in experiments)


def list_schedule(order: Sequence[Experiment]) -> float:
    """Return when all have ended that start in this order as soon as they are there and can."""
    left, running, now, last = list(order), [], 0.0, 0.0
    while left:
        running = [(end, needs) for end, needs in running if end > now]
        taken = 0
        for _, needs in running:
            taken |= needs
        later = []
        for one in left:
            if one.entry.arrived > now or one.entry.needs & taken:
                later.append(one)
            else:
                taken |= one.entry.needs
                running.append((now + one.duration, one.entry.needs))
                last = max(last, now + one.duration)
        left = later
        next_ = [end for end, _ in running]
        next_ += [one.entry.arrived for one in left if one.entry.arrived > now]
        now = min(next_, default=now)
    return last


def best_of_lists(experiments: Sequence[Experiment], seed: int, count: int) -> float:
    """Return the shortest makespan of list schedules in random orders."""
    rng = Random(seed)
    return min(list_schedule(rng.sample(experiments, len(experiments))) for _ in range(count))


def optimum(experiments: Sequence[Experiment]) -> float:
    """Return the shortest makespan of all schedules of experiments that are all there at 0.

    Every schedule can be made one in which each experiment, in the order of the starts, begins when
    its last part is free; so all orders are tried, but for those that can only be worse.
    """
    hosts = [[h for h in range(HOSTS) if one.entry.needs >> (4 * h) & 1] for one in experiments]
    best = math.inf

    def extend(free: tuple[float, ...], left: frozenset[int], since: float) -> None:
        nonlocal best
        if not left:
            best = min(best, max(free))
            return
        for host in range(HOSTS):
            rest = sum(experiments[number].duration for number in left if host in hosts[number])
            if free[host] + rest >= best:
                return
        for number in left:
            start = max(free[host] for host in hosts[number])
            if start >= since:
                end = start + experiments[number].duration
                after = tuple(end if h in hosts[number] else at for h, at in enumerate(free))
                extend(after, left - {number}, start)

    extend((0.0,) * HOSTS, frozenset(range(len(experiments))), 0.0)
    return best
