"""AllReduce that starts before the straggler arrives: StragglAR, and the direct algorithm.

Both let the other n - 1 ranks reduce among themselves while they wait. After Devraj et al.,
"Efficient AllReduce with Stragglers" (arXiv 2505.23523). The code assumes that the straggler is the
last rank; another straggler swaps its number with the last rank.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from testbed.collectives.broadcasts import spread
from testbed.collectives.rings import around
from testbed.collectives.schedule import Numbers, Round, Schedule, Send
from testbed.collectives.stragglar_even import gossip_by_matching


def stragglar(ranks: int, straggler: int | None = None) -> Schedule:
    """Return StragglAR for an even number of ranks; the default straggler is the last rank.

    n - 2 rounds of ReduceScatter among the others come first, then n - 2 + log2 n rounds for a
    power of two, a few more for other even numbers. The buffer is cut into n - 1 chunks.
    """
    if ranks < 2 or ranks % 2:
        raise ValueError(f"StragglAR needs an even number of ranks, not {ranks}; use a ring")
    power_of_two = ranks & (ranks - 1) == 0
    gossip: Callable[[int], list[Round]] = gossip_of_power if power_of_two else gossip_by_matching
    rounds = (*around(range(ranks - 1), "reduce"), *gossip(ranks))
    return _with_straggler("stragglar", ranks, ranks - 1, rounds, straggler)


def direct(ranks: int, straggler: int | None = None) -> Schedule:
    """Return the AllReduce whose straggler adds its whole buffer to the sum of all others.

    The others reduce to one rank; the straggler and that rank exchange buffers; both broadcast the
    result: ceil(log2 n) rounds of the whole buffer.
    """
    if ranks < 2:
        raise ValueError(f"an AllReduce around a straggler needs at least 2 ranks, not {ranks}")
    chunks = ranks - 1
    met = [Send(0, chunks, 0, "reduce", chunks), Send(chunks, 0, 0, "reduce", chunks)]
    order = [0, chunks, *range(1, chunks)]
    rounds = (
        *around(range(chunks), "reduce"),
        *_gathered_at_first(chunks),
        Round.of(met),
        *spread(order, 2, chunks),
    )
    return _with_straggler("direct", ranks, chunks, rounds, straggler)


def _gathered_at_first(count: int) -> list[Round]:
    """Return the rounds that pass chunk i on from rank i along the ring, up to rank 0."""
    rounds = []
    for number in range(count - 1):
        place = np.arange(1 + number, count, dtype=np.int32)
        rounds.append(Round.alike(place, (place + 1) % count, place - number, "copy", 1))
    return rounds


def _with_straggler(
    name: str, ranks: int, chunks: int, rounds: tuple[Round, ...], straggler: int | None
) -> Schedule:
    last = ranks - 1
    late = last if straggler is None else straggler
    if not 0 <= late < ranks:
        raise ValueError(f"the straggler {late} is not one of the {ranks} ranks")
    names = np.arange(ranks, dtype=np.int32)
    names[[late, last]] = last, late
    if late != last:
        rounds = tuple(
            Round(names[step.source], names[step.destination], step.chunk, step.count, step.reduces)
            for step in rounds
        )
    return Schedule(name, "all-reduce", ranks, chunks, rounds, straggler=late)


def gossip_of_power(ranks: int) -> list[Round]:
    """Return the rounds from the straggler's arrival on, for a power of two.

    In round t rank t completes chunk t with the straggler. Meanwhile the others form L = log2 n
    groups by the newest complete chunk that they hold, of 1, 2, 4, … ranks from the newest to the
    oldest chunk t - L. Half of them hold the oldest; each of these exchanges with a rank of another
    group: then all ranks hold the oldest chunk, and twice as many as before hold each newer one.
    """
    exponent = ranks.bit_length() - 1
    newest = np.full(ranks, -1, np.int32)
    rounds = []
    for number in range(ranks - 2 + exponent):
        swaps = _warm_up if number < exponent else _doubling
        columns = swaps(number, newest, ranks, exponent)
        if number <= ranks - 2:
            rounds.append(_beside_straggler(number, ranks - 1, columns))
            newest[[number, ranks - 1]] = number
        else:
            rounds.append(Round.alike(*columns, "copy", 1))
    return rounds


Columns = tuple[Numbers, Numbers, Numbers]
"""Source, destination and chunk of some sends."""


def _beside_straggler(number: int, straggler: int, columns: Columns) -> Round:
    """Return a round in which rank t and the straggler add each other's chunk t, beside copies."""
    pair = np.array([number, straggler], np.int32)
    source = np.concatenate([pair, columns[0]])
    destination = np.concatenate([pair[::-1], columns[1]])
    chunk = np.concatenate([np.full(2, number, np.int32), columns[2]])
    counts = np.broadcast_to(np.int32(1), source.shape)
    return Round(source, destination, chunk, counts, np.arange(source.size) < 2)


def _warm_up(number: int, newest: Numbers, ranks: int, exponent: int) -> Columns:
    """Let each holder send its newest chunk to a rank that has none, and note it in `newest`.

    The ranks that meet the straggler soon after the start must be given chunks that are old enough
    by then: the one that met it last serves the L-th rank after itself.
    """
    holders = np.flatnonzero(newest[:-1] >= 0).astype(np.int32)
    empty = np.flatnonzero(newest[:-1] < 0).astype(np.int32)
    others = holders[holders != number - 1]
    free = empty[empty > 2 * (exponent - 1)][: others.size]
    source, destination = others[: free.size], free
    if number:
        source = np.append(source, np.int32(number - 1))
        destination = np.append(destination, np.int32(number - 1 + exponent))
    newest[destination] = newest[source]
    return source, destination, newest[source]


def _doubling(number: int, newest: Numbers, ranks: int, exponent: int) -> Columns:
    """Pair the holders of the oldest chunk with all others, and note in `newest` what they get.

    The next L - 1 ranks to meet the straggler are served first, and by ranks outside this window:
    those with the oldest chunk get the second-oldest there is, so that each holds the oldest chunk
    again when its turn comes.
    """
    pool = newest.copy()
    if number <= ranks - 2:
        pool[[number, ranks - 1]] = -1
    oldest = number - exponent
    window = range(number + 1, min(number + exponent, ranks - 1))
    due = np.zeros(ranks, np.bool_)
    due[window.start : window.stop] = True
    old = np.flatnonzero((pool == oldest) & ~due).astype(np.int32)
    new = np.flatnonzero((pool > oldest) & ~due).astype(np.int32)
    new = new[np.argsort(newest[new], kind="stable")]
    due_old = [rank for rank in window if pool[rank] == oldest]
    due_new = [rank for rank in window if pool[rank] > oldest]
    old = np.concatenate([np.array(due_old, np.int32), old[len(due_new) :], old[: len(due_new)]])
    new = np.concatenate([new, np.array(due_new, np.int32)])
    chunk = newest[new]
    newest[old] = chunk
    useful = new != ranks - 1  # the straggler has had each chunk since it was completed
    return (
        np.concatenate([old[useful], new]),
        np.concatenate([new[useful], old]),
        np.concatenate([np.full(int(useful.sum()), oldest, np.int32), chunk]),
    )
