"""AllReduce by recursive halving and doubling (Rabenseifner, 2004): few rounds, least bytes.

Partners are 1, 2, 4, … ranks apart, so every round is a matching that joins all ranks in pairs.
"""

from __future__ import annotations

import numpy as np

from testbed.collectives.schedule import Numbers, Operation, Round, Schedule


def halving_doubling(ranks: int) -> Schedule:
    """Return the AllReduce in 2 log2 n rounds of (n - 1) / n of the buffer in all, twice.

    Where n is no power of two, the ranks above the last one hand their whole buffer to a partner
    first and are given the result in the end: two rounds more, of the whole buffer each.
    """
    power = 1 << (ranks.bit_length() - 1)
    spans = [1 << exponent for exponent in range(power.bit_length() - 1)]
    rounds = [_halve(power, span) for span in reversed(spans)]
    rounds += [_double(power, span) for span in spans]
    if ranks > power:
        beyond = np.arange(power, ranks, dtype=np.int32)
        rounds.insert(0, _whole(beyond, beyond - power, "reduce", power))
        rounds.append(_whole(beyond - power, beyond, "copy", power))
    return Schedule("rhd", "all-reduce", ranks, power, tuple(rounds))


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
