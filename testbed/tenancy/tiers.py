"""Speed tiers: a job that waits for its slowest client may gain from clients of similar speed.

Source: tier matching in the code of Propius ("Venn"). With T tiers a job waits about T times as
long for its clients; a tier's clients are all as fast as the slowest of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from testbed.tenancy.grouping import Tier
from testbed.tenancy.requests import LastRound, Request


def tiers(speeds: Iterable[float], number: int) -> tuple[Tier, ...]:
    """Return the tiers of waiting clients, slowest first; sizes differ by at most one.

    With fewer clients than tiers there are none. Clients of one speed may be in two.
    """
    order = sorted(speeds)
    cuts = [len(order) * part // number for part in range(number + 1)]
    if len(order) < number:
        return ()
    return tuple(Tier(order[first], order[after - 1]) for first, after in pairwise(cuts))


def pays(last: LastRound, tier: Tier, number: int) -> bool:
    """Return whether a tier shortens a round: T + g c < c + 1.

    c is the response time over the scheduling time of the last round, g the speed of the slowest
    client of that round over that of the tier. Where scheduling took no time, g < 1 decides.
    """
    gain = last.slowest / tier.slowest
    return (number - 1) * last.scheduling < (1 - gain) * last.response


def tier_for(first: Request, speeds: Iterable[float], number: int) -> Tier | None:
    """Return the tier to which the first job of a group is restricted, or None.

    The tier is drawn anew for each round. A job in its first round is not restricted.
    """
    if number < 2 or first.last is None:
        return None
    known = tiers(speeds, number)
    if not known:
        return None
    drawn = known[int(first.round_draw * number)]
    return drawn if pays(first.last, drawn, number) else None
