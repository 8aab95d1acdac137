"""StragglAR for even numbers of ranks that are no power of two: a matching for every round.

The groups of a power of two do not come out even, so each round is a matching of greatest weight
among the ranks that are free (Edmonds' algorithm, from rustworkx): exchanges count twice, one-way
sends once. The rule for who may be given what is that of the authors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import rustworkx

from testbed.collectives.schedule import Flags, Round, Send


def gossip_by_matching(ranks: int) -> list[Round]:
    """Return the rounds from the straggler's arrival on; about n - 2 + ceil(log2 n) of them."""
    held = np.zeros((ranks, ranks - 1), np.bool_)
    rounds: list[Round] = []
    while not held.all():
        rounds.append(_round(len(rounds), held))
    return rounds


def _round(number: int, held: Flags) -> Round:
    """Return the next round and note in `held` what it brings."""
    straggler = len(held) - 1
    lead = straggler.bit_length()
    free = np.ones(len(held), np.bool_)
    sends = []
    if number < straggler:
        pair = number, straggler
        sends += [Send(a, b, number, "reduce") for a, b in (pair, pair[::-1])]
        free[list(pair)] = False
    if 0 < number < lead:
        last = number - 1
        sends.append(Send(last, last + lead, last, "copy"))
        free[[last, last + lead]] = False
    brings = held.astype(np.float32) @ (~held).T.astype(np.float32) > 0
    allowed = _starting(held, lead) if number < lead else ~_too_new(held, lead, number)
    for one, other in _matched(brings, allowed & free & free[:, None]):
        sends += [
            Send(a, b, _useful(held[a] & ~held[b], lowest=number < straggler), "copy")
            for a, b in ((one, other), (other, one))
            if brings[a, b]
        ]
    for send in sends:
        held[send.destination, send.chunk] = True
    return Round.of(sends)


def _starting(held: Flags, lead: int) -> Flags:
    """Return which pairs may meet at first: one who has something with one who has nothing.

    The first 2 lead - 1 ranks have turns of their own.
    """
    something = held.any(axis=1)
    starts = np.logical_and(~something, np.arange(len(held)) > 2 * (lead - 1))
    return _either_way(np.logical_and.outer(something, starts))


def _too_new(held: Flags, lead: int, number: int) -> Flags:
    """Return which pairs may not meet: a rank that is due at the straggler within `lead` rounds.

    It must by then be among those with the oldest chunk, so it takes no newer one.
    """
    rank = np.arange(len(held))
    due = (rank > number) & (rank < number + lead)
    newest = np.where(held, np.arange(held.shape[1]), -1).max(axis=1)
    return _either_way(due[:, None] & (newest > rank[:, None] - lead))


def _either_way(pairs: npt.NDArray[Any]) -> Flags:
    return np.asarray(pairs | pairs.T, np.bool_)


def _matched(brings: Flags, allowed: Flags) -> list[tuple[int, int]]:
    """Return the pairs of a matching that brings most, of as many pairs as possible."""
    worth = brings.astype(np.int64) + brings.T
    graph = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(len(brings)))
    ends = np.argwhere(np.triu(allowed & (worth > 0), 1))
    graph.add_edges_from([(a, b, int(worth[a, b])) for a, b in ends.tolist()])
    pairs = rustworkx.max_weight_matching(graph, max_cardinality=True, weight_fn=int)
    return sorted((min(pair), max(pair)) for pair in pairs)


def _useful(chunks: Flags, *, lowest: bool) -> int:
    """Return the chunk to send: the oldest while more are to come, the newest at the end."""
    return int(np.flatnonzero(chunks)[0 if lowest else -1])
