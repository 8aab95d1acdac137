"""Sums of weighted client updates, as leaf servers and the root server keep them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from testbed.tenancy.tensors import Refusal, Values

MAX_WEIGHT = 10**9
"""The most samples that a client may claim: more would dominate the sum."""


class Code(IntEnum):
    """The answer codes of a parameter server, with the numbers of Propius."""

    OK = 1
    STALE = 2
    """It is about a round before the present one."""
    MISS = 3
    """There is nothing of that round here: a leaf asks the root, a client tries later."""
    REFUSED = 4
    REPEATED = 5
    """It was sent before, and is counted once. The published codes leave this number free."""
    PENDING = 6
    """The round has too few updates as yet; of an update: it is at a leaf, and not at the root."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A code, with a reason if it is `REFUSED`."""

    code: Code
    reason: Refusal | None = None
    clients: frozenset[str] = frozenset()
    """Of a sum that is refused, its clients that are counted already."""


OK, STALE, MISS, REPEATED, PENDING = (Answer(code) for code in Code if code is not Code.REFUSED)


def refused(reason: Refusal, clients: frozenset[str] = frozenset()) -> Answer:
    """Return the answer for a refused update or sum; of a sum with whom it shares."""
    return Answer(Code.REFUSED, reason, clients)


@dataclass(frozen=True, slots=True)
class Push:
    """A client's update, trained from the parameters of `round` on `weight` samples."""

    client: str
    round: int
    weight: int
    data: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """The sum of several clients' updates, each times its weight, in double precision."""

    values: Values
    weight: int
    clients: frozenset[str]

    @classmethod
    def of(cls, client: str, values: Values, weight: int) -> Sum:
        """Return the sum of one client's update."""
        with np.errstate(over="ignore"):  # whether it is finite is looked at when it is added
            return cls(values * weight, weight, frozenset((client,)))

    def plus(self, other: Sum) -> Sum:
        """Return the sum of both, which must have no client in common."""
        if self.clients & other.clients:
            raise ValueError("two sums with a common client cannot be added")
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.values + other.values
        return Sum(values, self.weight + other.weight, self.clients | other.clients)

    @property
    def mean(self) -> Values:
        """Return the weighted mean (FedAvg: McMahan et al., AISTATS 2017)."""
        return self.values / self.weight

    @property
    def is_finite(self) -> bool:
        """Return whether no value has overflowed."""
        return bool(np.isfinite(self.values).all())


@dataclass(frozen=True, slots=True, eq=False)
class Flush:
    """A message of a leaf to the root: the sum of several clients' updates."""

    leaf: str
    sequence: int
    """Counted by the leaf, so that what is sent again is known again."""
    round: int
    total: Sum
    updates: tuple[Push, ...] = ()
    """What it is the sum of: kept by the leaf until the root has answered, and not sent."""
