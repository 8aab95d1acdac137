"""A leaf parameter server of one job: caches the parameters, and sums updates for the root.

Source: the data plane of Propius. There a push of a newer round than the leaf's replaces its sum;
here the leaf then answers `MISS`, and its service asks the root whether there is such a round, as
for parameters: a client that sends a false round number could else wipe out what others pushed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from testbed.tenancy.aggregation import (
    MAX_WEIGHT,
    MISS,
    OK,
    STALE,
    Answer,
    Flush,
    Sum,
    refused,
)
from testbed.tenancy.tensors import Model, Refusal, Refused, decode

PARAMETERS_LIFE = 300.0
"""Seconds for which a leaf answers with parameters without asking the root again."""
FLUSH_AFTER = 10.0
"""Seconds without a push after which a leaf sends its sum to the root."""


@dataclass(frozen=True, slots=True)
class Push:
    """A client's update, trained from the parameters of `round` on `weight` samples."""

    client: str
    round: int
    weight: int
    data: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """The state of a leaf server.

    `name` identifies one start of its process; flushes are numbered from 0 after each start.
    """

    name: str
    model: Model
    round: int = 0
    """The newest round that the root told of; 0: none."""
    parameters: bytes | None = None
    fetched: float = 0.0
    counted: frozenset[str] = frozenset()
    """Clients whose update of this round is in a sum, here or at the root."""
    total: Sum | None = None
    touched: float = 0.0
    """When the last push was added."""
    flushes: int = 0
    unacknowledged: tuple[Flush, ...] = ()
    """To be sent, and sent again, until the root answers."""


def get(leaf: Leaf, round: int, now: float) -> tuple[Answer, bytes | None]:
    """Return the parameters of a round; `MISS` if the root must be asked, `STALE` if over."""
    if round < leaf.round:
        return STALE, None
    is_fresh = leaf.parameters is not None and now - leaf.fetched < PARAMETERS_LIFE
    return (OK, leaf.parameters) if round == leaf.round and is_fresh else (MISS, None)


def fill(
    leaf: Leaf, round: int, parameters: bytes, now: float, counted: Iterable[str] = ()
) -> Leaf:
    """Return the leaf after the root's answer: a round's parameters, and the clients it counted.

    A newer round drops the sum of the one before: the root has ended that round.
    """
    if round < leaf.round:
        return leaf
    leaf = replace(leaf, parameters=parameters, fetched=now)
    if round == leaf.round:
        return replace(leaf, counted=leaf.counted | frozenset(counted))
    return replace(leaf, round=round, counted=frozenset(counted), total=None)


def push(leaf: Leaf, update: Push, now: float) -> tuple[Answer, Leaf]:
    """Add a client's update to the sum of its round; a repetition is `OK` and adds nothing."""
    if update.round != leaf.round or leaf.round == 0:
        return (STALE if update.round < leaf.round else MISS), leaf
    if update.client in leaf.counted:
        return OK, leaf
    if isinstance(update.weight, bool) or not 1 <= update.weight <= MAX_WEIGHT:
        return refused(Refusal.BAD_WEIGHT), leaf
    try:
        one = Sum.of(update.client, decode(update.data, leaf.model), update.weight)
    except Refused as refusal:
        return refused(refusal.reason), leaf
    total = one if leaf.total is None else leaf.total.plus(one)
    if not total.is_finite:
        return refused(Refusal.NOT_FINITE), leaf
    counted = leaf.counted | {update.client}
    return OK, replace(leaf, counted=counted, total=total, touched=now)


def flush(leaf: Leaf, now: float, at_once: bool = False) -> Leaf:
    """Return the leaf with its sum ready to send, if no push came for 10 s, or if `at_once`."""
    if leaf.total is None or not (at_once or now - leaf.touched >= FLUSH_AFTER):
        return leaf
    sent = Flush(leaf.name, leaf.flushes, leaf.round, leaf.total)
    return replace(
        leaf,
        total=None,
        flushes=leaf.flushes + 1,
        unacknowledged=(*leaf.unacknowledged, sent),
    )


def acknowledge(leaf: Leaf, sequence: int) -> Leaf:
    """Return the leaf without a flush that the root has answered, with whatever result."""
    kept = tuple(sent for sent in leaf.unacknowledged if sent.sequence != sequence)
    return replace(leaf, unacknowledged=kept)
