"""Rounds that send one rank's buffer to other ranks: to all, or along a chain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.collectives.schedule import Round, Schedule, Send


def spread(order: Sequence[int], holders: int, chunks: int) -> tuple[Round, ...]:
    """Return the rounds that send all chunks from the first `holders` ranks of an order to all."""
    members = np.array(order, np.int32)
    rounds = []
    while holders < len(members):
        receivers = members[holders : 2 * holders]
        senders = members[: len(receivers)]
        rounds.append(Round.alike(senders, receivers, np.zeros_like(senders), "copy", chunks))
        holders += len(receivers)
    return tuple(rounds)


def chain(ranks: int, chunks: int = 1) -> Schedule:
    """Return the forwarding of a buffer from rank 0 through all others to the last rank.

    Each chunk is one round behind the one before, so it takes n - 2 + chunks rounds: the cost of
    forwarding over n - 1 circuits.
    """
    rounds = [
        Round.of(
            Send(rank, rank + 1, number - rank, "copy")
            for rank in range(ranks - 1)
            if 0 <= number - rank < chunks
        )
        for number in range(ranks - 2 + chunks)
    ]
    return Schedule("chain", "chain", ranks, chunks, tuple(rounds) if ranks > 1 else ())
