"""A leaf parameter server of one job: caches the parameters, and sums updates for the root.

Source: the data plane of Propius. There a push of a newer round than the leaf's replaces its sum;
here the leaf then answers `MISS`, and its service asks the root whether there is such a round, as
for parameters: a client that sends a false round number could else wipe out what others pushed.

Updates are kept until the root has answered: where it has some of their clients already, from
another leaf, the sum is made again without these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from testbed.tenancy.aggregation import (
    MAX_WEIGHT,
    MISS,
    OK,
    PENDING,
    REPEATED,
    STALE,
    Answer,
    Code,
    Flush,
    Push,
    Sum,
    refused,
)
from testbed.tenancy.tensors import Model, Refusal, Refused, decode

PARAMETERS_LIFE = 300.0
"""Seconds for which a leaf answers with parameters without asking the root again."""
FLUSH_AFTER = 10.0
"""Seconds without a push after which a leaf sends its sum to the root."""
MOST_KEPT = 2**30
"""Bytes of updates after which a leaf sends its sum without waiting."""
FORGOTTEN_AFTER = 2_000.0
"""Seconds without an answer of the root about a job until it is forgotten: the root keeps no sum
for longer."""


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
    reached: frozenset[str] = frozenset()
    """Those of them that are in the sum at the root, as it has said."""
    failed: Mapping[str, Answer] = field(default_factory=dict)
    """By client, why the root did not take the sum that its update was in."""
    former: tuple[int, frozenset[str]] = (0, frozenset())
    """The round before this one, and the clients that had reached the root in it."""
    total: Sum | None = None
    updates: tuple[Push, ...] = ()
    """What `total` is the sum of."""
    touched: float = 0.0
    """When the last push was added."""
    flushes: int = 0
    unacknowledged: tuple[Flush, ...] = ()
    """To be sent, and sent again, until the root answers."""

    @property
    def is_complete(self) -> bool:
        """Return whether the root has said that the sum of the round is final."""
        return any(answer.reason is Refusal.COMPLETE for answer in self.failed.values())

    @property
    def kept(self) -> int:
        """Return the bytes of updates that are not in a flush yet."""
        return sum(len(update.data) for update in self.updates)


def is_forgotten(leaf: Leaf, now: float) -> bool:
    """Return whether nothing of a job is kept any more; what is still to be sent is."""
    is_sent = leaf.total is None and not leaf.unacknowledged
    return is_sent and now - leaf.fetched >= FORGOTTEN_AFTER


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
    there = frozenset(counted)
    if round == leaf.round:
        known, reached = leaf.counted | there, leaf.reached | there
        return replace(leaf, parameters=parameters, fetched=now, counted=known, reached=reached)
    return Leaf(
        leaf.name,
        leaf.model,
        round,
        parameters,
        now,
        counted=there,
        reached=there,
        former=(leaf.round, leaf.reached),
        touched=leaf.touched,
        flushes=leaf.flushes,
        unacknowledged=leaf.unacknowledged,
    )


def push(leaf: Leaf, update: Push, now: float) -> tuple[Answer, Leaf]:
    """Add a client's update to the sum of its round; a repetition adds nothing.

    An update that is too late for a sum that is final is refused, once the leaf knows it.
    """
    if update.round != leaf.round or leaf.round == 0:
        return (STALE if update.round < leaf.round else MISS), leaf
    if update.client in leaf.counted:
        return leaf.failed.get(update.client, REPEATED), leaf
    if leaf.is_complete:
        return refused(Refusal.COMPLETE), leaf
    if isinstance(update.weight, bool) or not 1 <= update.weight <= MAX_WEIGHT:
        return refused(Refusal.BAD_WEIGHT), leaf
    try:
        one = Sum.of(update.client, decode(update.data, leaf.model), update.weight)
    except Refused as refusal:
        return refused(refusal.reason), leaf
    total = one if leaf.total is None else leaf.total.plus(one)
    if not total.is_finite:
        return refused(Refusal.NOT_FINITE), leaf
    counted, updates = leaf.counted | {update.client}, (*leaf.updates, update)
    return OK, replace(leaf, counted=counted, total=total, updates=updates, touched=now)


def outcome(leaf: Leaf, client: str, round: int) -> Answer:
    """Return what has become of a client's update of a round.

    `OK`: it is in the sum at the root; `PENDING`: it is here; `REFUSED`: the root did not take it,
    with the reason; `STALE`: the round is over, and it is not known to be in its sum; `MISS`: none
    came.
    """
    if round < leaf.round:
        number, reached = leaf.former
        return OK if round == number and client in reached else STALE
    if round > leaf.round or client not in leaf.counted:
        return MISS
    if client in leaf.reached:
        return OK
    return leaf.failed.get(client, PENDING)


def flush(leaf: Leaf, now: float, at_once: bool = False) -> Leaf:
    """Return the leaf with its sum ready to send, if no push came for 10 s, or if `at_once`."""
    if leaf.total is None or not (at_once or now - leaf.touched >= FLUSH_AFTER):
        return leaf
    sent = Flush(leaf.name, leaf.flushes, leaf.round, leaf.total, leaf.updates)
    return replace(
        leaf,
        total=None,
        updates=(),
        flushes=leaf.flushes + 1,
        unacknowledged=(*leaf.unacknowledged, sent),
    )


def acknowledge(leaf: Leaf, sequence: int, answer: Answer = OK) -> Leaf:
    """Return the leaf after the root's answer to a flush.

    Where the root has some of its clients already, the flush is to be sent again without these.
    """
    sent = next((each for each in leaf.unacknowledged if each.sequence == sequence), None)
    if sent is None:
        return leaf
    doubled = answer.clients & sent.total.clients
    others = sent.total.clients - doubled
    comes_again = answer.reason is Refusal.DOUBLED
    if comes_again and not doubled:  # the answer to what it was before
        return leaf
    left = _without(sent, doubled, leaf.model) if comes_again else None
    kept = [left if each is sent else each for each in leaf.unacknowledged]
    leaf = replace(leaf, unacknowledged=tuple(each for each in kept if each is not None))
    leaf = _told(leaf, sent.round, doubled, OK)
    return leaf if comes_again else _told(leaf, sent.round, others, answer)


def _without(sent: Flush, doubled: frozenset[str], model: Model) -> Flush | None:
    """Return a flush without some of its clients, or None if nobody is left."""
    total: Sum | None = None
    updates = tuple(update for update in sent.updates if update.client not in doubled)
    for update in updates:
        one = Sum.of(update.client, decode(update.data, model), update.weight)
        total = one if total is None else total.plus(one)
    return None if total is None else replace(sent, total=total, updates=updates)


def _told(leaf: Leaf, round: int, clients: frozenset[str], answer: Answer) -> Leaf:
    """Return the leaf with the outcome of some clients' updates.

    Where the root knew of no such round, they may come again.
    """
    is_there = answer.code in (Code.OK, Code.REPEATED)
    if round != leaf.round:
        number, reached = leaf.former
        if is_there and round == number:
            return replace(leaf, former=(number, reached | clients))
        return leaf
    if is_there:
        return replace(leaf, reached=leaf.reached | clients)
    if answer.code is not Code.REFUSED:
        return replace(leaf, counted=leaf.counted - clients)
    return replace(leaf, failed={**leaf.failed, **dict.fromkeys(clients, answer)})
