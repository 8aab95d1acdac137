"""StragglAR for even numbers of ranks that are no power of two, by one matching per round.

The groups that a power of two allows have unequal sizes here, so each round is a matching of
maximum weight among the free ranks (Edmonds' algorithm, from rustworkx). The rule which chunks a
rank may receive before it meets the straggler is that of the authors; the weights are not:
exchanges count twice, one-way sends once, and among these the matching prefers to spread the newest
chunks, to ranks that hold no other new one. Each rank can send one chunk in a round, so one that
holds two new ones delays one of them. Ties are broken at random, so that some tries need fewer
rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import rustworkx

from testbed.collectives.schedule import Flags, Numbers, Round, Send

TRIES = 8
"""Seeded tries at most. To 128 ranks the first one or two suffice."""

_SEND, _SECOND, _AGE, _CHANCE = 1000, 20, 10, 40
"""What a send is worth; what it loses where its receiver holds another new chunk, and for each
round since its chunk was completed; and the most that chance adds to a pair."""


def fewest_rounds(ranks: int) -> int:
    """Return n - 2 + ceil(log2 n), the least number of rounds from the straggler's arrival on.

    The straggler sends one of its n - 1 chunks in a round. Its last chunk is then at two ranks, and
    at twice as many after each further round.
    """
    return ranks - 2 + (ranks - 1).bit_length()


def gossip_by_matching(ranks: int) -> list[Round]:
    """Return the rounds from the straggler's arrival on; the shortest result of `TRIES` tries."""
    best = _tried(ranks, 0)
    for seed in range(1, TRIES):
        if len(best) == fewest_rounds(ranks):
            break
        best = min(best, _tried(ranks, seed), key=len)
    return best


def _tried(ranks: int, seed: int) -> list[Round]:
    held = np.zeros((ranks, ranks - 1), np.bool_)
    chance = np.random.default_rng(seed)
    rounds: list[Round] = []
    while not held.all():
        rounds.append(_round(len(rounds), held, chance))
    return rounds


def _round(number: int, held: Flags, chance: np.random.Generator) -> Round:
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
    if held.any():
        allowed = _starting(held, lead) if number < lead else ~_too_new(held, lead, number)
        offers = _Offers.of(held, number, lead)
        sends += offers.matched(allowed & free & free[:, None], chance)
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
    due = (rank > number) & (rank < number + lead) & (rank < len(held) - 1)
    newest = np.where(held, np.arange(held.shape[1]), -1).max(axis=1)
    return _either_way(due[:, None] & (newest > rank[:, None] - lead))


def _either_way(pairs: npt.NDArray[Any]) -> Flags:
    return np.asarray(pairs | pairs.T, np.bool_)


@dataclass(frozen=True, slots=True)
class _Offers:
    """What each rank (a row) would send each other one (a column) in a round."""

    useful: Flags
    chunk: Numbers
    """The newest that the one holds and the other lacks."""
    worth: Numbers

    @classmethod
    def of(cls, held: Flags, number: int, lead: int) -> _Offers:
        spreading = np.flatnonzero(held.any(axis=0) & ~held.all(axis=0))
        mine = held[:, spreading]
        news = mine[:, None, :] & ~mine[None, :, :]
        useful = np.asarray(news.any(axis=2), np.bool_)
        place = len(spreading) - 1 - news[:, :, ::-1].argmax(axis=2)
        age = np.minimum(number - spreading, lead)
        new = age < lead - 1  # there are rounds left to double it in after this one
        second = (mine & new).sum(axis=1)[None, :] + new[place] - 1
        last_rounds = number >= len(held) - 1  # no chunk is new any more
        loss = _AGE * age[place] + (0 if last_rounds else _SECOND * np.maximum(second, 0))
        return cls(useful, spreading[place], np.where(useful, _SEND - loss, 0))

    def matched(self, allowed: Flags, chance: np.random.Generator) -> list[Send]:
        """Return the sends of a matching of greatest weight among those with the most pairs."""
        ranks = len(allowed)
        one, other = np.nonzero(np.triu(allowed & _either_way(self.useful), 1))
        worth = self.worth[one, other] + self.worth[other, one]
        worth += chance.integers(0, _CHANCE + 1, (ranks, ranks))[one, other]
        graph = rustworkx.PyGraph(multigraph=False)
        graph.add_nodes_from(range(ranks))
        edges = zip(one.tolist(), other.tolist(), worth.tolist(), strict=True)
        graph.add_edges_from(list(edges))
        pairs = rustworkx.max_weight_matching(graph, max_cardinality=True, weight_fn=int)
        return [
            Send(a, b, int(self.chunk[a, b]), "copy")
            for pair in sorted((min(pair), max(pair)) for pair in pairs)
            for a, b in (pair, pair[::-1])
            if self.useful[a, b]
        ]
