"""The root parameter server of one job: it has a round's parameters, and sums the leaves' sums.

Source: the data plane of Propius.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from testbed.tenancy.aggregation import (
    MISS,
    OK,
    PENDING,
    REPEATED,
    STALE,
    Answer,
    Flush,
    Sum,
    refused,
)
from testbed.tenancy.tensors import Model, Refusal, elements

PARAMETERS_LIFE = 1_000.0
"""Seconds for which the parameters of a round are kept."""
SUM_LIFE = 2_000.0
"""Seconds after its beginning for which the sum of a round is kept."""
FORGOTTEN_AFTER = PARAMETERS_LIFE + SUM_LIFE
"""Seconds after the beginning of its last round until a job is forgotten, and its name free.

By then no leaf has anything of it: one that got the parameters as late as it could forgets them
`SUM_LIFE` later.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """The state of the root server."""

    model: Model
    round: int = 0
    demand: int = 0
    """Updates that complete the round."""
    parameters: bytes = b""
    begun: float = 0.0
    total: Sum | None = None
    taken: frozenset[tuple[str, int]] = frozenset()
    """Flushes of this round that are in the sum, by leaf and number."""
    is_closed: bool = False
    """The job ended the round with what there was."""

    @property
    def count(self) -> int:
        """Return the number of clients whose updates are in the sum."""
        return 0 if self.total is None else len(self.total.clients)

    @property
    def is_complete(self) -> bool:
        """Return whether the sum is final."""
        return self.is_closed or (self.round > 0 and self.count >= self.demand)


def is_forgotten(root: Root, now: float) -> bool:
    """Return whether nothing of a job is kept any more."""
    return now - root.begun >= FORGOTTEN_AFTER


def put(root: Root, round: int, demand: int, parameters: bytes, now: float) -> tuple[Answer, Root]:
    """Begin a round, which deletes the previous one; a repetition changes nothing."""
    if (round, demand, parameters) == (root.round, root.demand, root.parameters):
        return OK, root
    if round <= root.round:
        return STALE, root
    return OK, Root(root.model, round, demand, parameters, now)


def get(root: Root, round: int, now: float) -> tuple[Answer, bytes | None]:
    """Return the parameters of a round for a leaf."""
    if round < root.round:
        return STALE, None
    is_kept = round == root.round > 0 and now - root.begun < PARAMETERS_LIFE
    return (OK, root.parameters) if is_kept else (MISS, None)


def add(root: Root, flush: Flush, now: float) -> tuple[Answer, Root]:
    """Add a leaf's sum to the round, once; a repetition adds nothing.

    A sum with clients that are already counted cannot be split here: the answer names them, and the
    leaf sends it again without these.
    """
    if flush.round != root.round or root.round == 0:
        return (STALE if flush.round < root.round else MISS), root
    if (flush.leaf, flush.sequence) in root.taken:
        return REPEATED, root
    there = frozenset[str]() if root.total is None else root.total.clients
    doubled = there & flush.total.clients
    reason = _refusal(root, flush.total, now) or (Refusal.DOUBLED if doubled else None)
    if reason is not None:
        return refused(reason, doubled), root
    total = flush.total if root.total is None else root.total.plus(flush.total)
    if not total.is_finite:
        return refused(Refusal.NOT_FINITE), root
    return OK, replace(root, total=total, taken=root.taken | {(flush.leaf, flush.sequence)})


def _refusal(root: Root, total: Sum, now: float) -> Refusal | None:
    if root.is_complete or now - root.begun >= SUM_LIFE:
        return Refusal.COMPLETE
    if total.values.shape != (elements(root.model),):
        return Refusal.WRONG_SHAPE
    if total.weight < 1 or not total.clients:
        return Refusal.BAD_WEIGHT
    return None


def result(root: Root, round: int, now: float) -> tuple[Answer, Sum | None]:
    """Return the sum of a complete round; a closed round without updates has none."""
    if round < root.round:
        return STALE, None
    if round > root.round or root.round == 0 or now - root.begun >= SUM_LIFE:
        return MISS, None
    return (OK, root.total) if root.is_complete else (PENDING, None)


def close(root: Root, round: int) -> tuple[Answer, Root]:
    """End a round with the updates received so far, as a job does when its time is over."""
    if round != root.round or root.round == 0:
        return (STALE if round < root.round else MISS), root
    return OK, replace(root, is_closed=True)
