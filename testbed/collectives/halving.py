"""AllReduce by recursive halving and doubling (Rabenseifner, 2004).

For powers of two partners are 1, 2, 4, … ranks apart, so every round is a matching that joins all
ranks in pairs. For other numbers there are two ways to eliminate the ranks beyond a power of two:
3-2 elimination, with which papers compare, and the fold, which many libraries use.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.collectives.schedule import Numbers, Operation, Pair, Round, Schedule, Send


def halving_doubling(ranks: int) -> Schedule:
    """Return the AllReduce by halving and doubling, in 2 ceil(log2 n) rounds.

    For a power of two each half sends (n - 1) / n of the buffer in total. For other numbers, by 3-2
    elimination (Rabenseifner and Träff, 2004), each half sends 1 - 1 / 2^floor(log2 n) + 1 / 2^k of
    it, where 2^(k - 1) is the greatest power of two that divides n: as published for an odd n, less
    for an even one, because the first halvings then need no elimination.
    """
    power = _greatest_power("halving-doubling", ranks)
    rounds = _among_power(power) if ranks == power else _by_elimination(ranks, power)
    return Schedule("rhd", "all-reduce", ranks, power, tuple(rounds))


def folded_halving_doubling(ranks: int) -> Schedule:
    """Return the AllReduce whose ranks above a power of two send their buffer to a partner first.

    They receive the result at the end: two rounds of the whole buffer besides 2 floor(log2 n)
    rounds.
    """
    power = _greatest_power("the fold", ranks)
    rounds = _among_power(power)
    if ranks > power:
        beyond = np.arange(power, ranks, dtype=np.int32)
        rounds.insert(0, _whole(beyond, beyond - power, "reduce", power))
        rounds.append(_whole(beyond - power, beyond, "copy", power))
    return Schedule("fold", "all-reduce", ranks, power, tuple(rounds))


def in_pairs(ranks: int) -> tuple[Schedule, ...]:
    """Return the collectives of ranks with one port each, of which every round is a matching.

    The AllReduce is by the fold. Its halves are a ReduceScatter, after which rank r has chunk r,
    and an AllGather, where the number of ranks is a power of two. Raise ValueError below 1 rank.
    """
    whole = folded_halving_doubling(ranks)
    if whole.chunks < ranks:
        return (whole,)
    first, second = whole.rounds[: len(whole.rounds) // 2], whole.rounds[len(whole.rounds) // 2 :]
    return (
        whole,
        Schedule("halving", "reduce-scatter", ranks, ranks, first),
        Schedule("doubling", "all-gather", ranks, ranks, second),
    )


def pairs_met(ranks: int) -> tuple[tuple[Pair, ...], ...]:
    """Return the pairs of ranks that meet in `in_pairs`, as matchings; each pair is in one."""
    seen: set[Pair] = set()
    matchings = []
    for step in in_pairs(ranks)[0].rounds:
        if new := tuple(pair for pair in step.pairs if pair not in seen):
            matchings.append(new)
            seen.update(new)
    return tuple(matchings)


def _greatest_power(name: str, ranks: int) -> int:
    if ranks < 1:
        raise ValueError(f"{name} takes at least 1 rank, not {ranks}")
    return 1 << (ranks.bit_length() - 1)


def _among_power(power: int) -> list[Round]:
    spans = [1 << exponent for exponent in range(power.bit_length() - 1)]
    halving = [_halve(power, span) for span in reversed(spans)]
    return halving + [_double(power, span) for span in spans]


def _halve(power: int, span: int) -> Round:
    """Exchange halves of what 2 × span ranks reduce: each keeps the half that its own chunk is in.

    The lower of two partners sends the upper half.
    """
    rank = np.arange(power, dtype=np.int32)
    first = (rank & ~(2 * span - 1)) + np.where(rank & span, 0, span).astype(np.int32)
    return Round.alike(rank, rank ^ span, first, "reduce", span)


def _double(power: int, span: int) -> Round:
    rank = np.arange(power, dtype=np.int32)
    return Round.alike(rank, rank ^ span, rank & ~(span - 1), "copy", span)


def _whole(source: Numbers, destination: Numbers, operation: Operation, chunks: int) -> Round:
    return Round.alike(source, destination, np.zeros_like(source), operation, chunks)


def _by_elimination(ranks: int, power: int) -> list[Round]:
    """Return the rounds of a ReduceScatter among all, and the same backwards as an AllGather."""
    halving: list[list[Send]] = [[] for _ in range(power.bit_length())]
    _eliminate(range(ranks), 0, power, halving)
    doubling = [
        [Send(s.destination, s.source, s.chunk, "copy", s.count) for s in step]
        for step in reversed(halving)
    ]
    return [Round.of(step) for step in halving + doubling]


def _eliminate(
    members: Sequence[int], first: int, span: int, rounds: list[list[Send]], *, late: bool = False
) -> None:
    """Add to `rounds` what reduces some chunks, which all members hold: one of them for each chunk.

    Pairs exchange halves. Of three, two do so; the third then gives the one the lower half, and has
    from the other the upper half, of both. That takes a round more, so the last member may be
    `late`: a round behind the others, and never two.
    """
    if span == 1:
        return
    half = span // 2
    lower, upper = first, first + half
    now = len(rounds) - span.bit_length()  # the first round halves everything
    pairs = len(members) // 2
    trio = len(members) % 2
    low, high = [], []
    for place in range(pairs):
        one, other = members[2 * place : 2 * place + 2]
        last = place == pairs - 1
        step = rounds[now + (late and last and not trio)]
        step += [Send(one, other, upper, "reduce", half), Send(other, one, lower, "reduce", half)]
        third = members[-1] if trio and last else None
        if third is not None:
            rounds[now + 1] += [
                Send(third, one, lower, "reduce", half),
                Send(other, third, upper, "reduce", half),
            ]
        low.append(one)
        high.append(other if third is None else third)
    behind = bool(trio) or late
    _eliminate(low, lower, half, rounds, late=behind)
    _eliminate(high, upper, half, rounds, late=behind)
