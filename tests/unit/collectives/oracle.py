"""What a schedule really does, worked out the slow way: a bag of contributions for every chunk.

Shares no code with the verifier: dictionaries and counts, one send at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from testbed.collectives.schedule import Round, Schedule, Send

Bags = list[list[Counter[int]]]
Sends = list[list[Send]]


def sends_of(schedule: Schedule) -> Sends:
    return [list(step) for step in schedule.rounds]


def most_peers(schedule: Schedule) -> int:
    """Return the ports that a rank needs where every pair of a round is a circuit."""
    return max(max(Counter(chain(*step.pairs)).values()) for step in schedule.rounds)


def with_sends(schedule: Schedule, sends: Sends) -> Schedule:
    return replace(schedule, rounds=tuple(Round.of(step) for step in sends))


def without(sends: Sends, number: int, place: int) -> Sends:
    rest = [list(step) for step in sends]
    del rest[number][place]
    return rest


def holds_at_first(schedule: Schedule, rank: int, chunk: int) -> bool:
    ranks = schedule.ranks
    return {
        "all-reduce": True,
        "reduce-scatter": True,
        "all-gather": rank == chunk,
        "all-to-all": rank == chunk // ranks,
        "chain": rank == 0,
    }[schedule.collective]


def needs_in_the_end(schedule: Schedule, rank: int, chunk: int) -> bool:
    ranks = schedule.ranks
    return {
        "all-reduce": True,
        "reduce-scatter": rank == chunk,
        "all-gather": True,
        "all-to-all": rank == chunk % ranks,
        "chain": rank == ranks - 1,
    }[schedule.collective]


def carried_out(schedule: Schedule, sends: Sends) -> Bags | None:
    """Return the bags in the end, or None when somebody sent or reduced what it did not have."""
    bags = [
        [
            Counter([rank] if holds_at_first(schedule, rank, chunk) else [])
            for chunk in range(schedule.chunks)
        ]
        for rank in range(schedule.ranks)
    ]
    for step in sends:
        before = [[Counter(bag) for bag in row] for row in bags]
        for send in step:
            for chunk in range(send.chunk, send.chunk + send.count):
                sent = before[send.source][chunk]
                if not sent:
                    return None
                if send.operation == "copy":
                    bags[send.destination][chunk] = Counter(sent)
                elif bags[send.destination][chunk]:
                    bags[send.destination][chunk] += sent
                else:
                    return None
    return bags


def is_right(schedule: Schedule, sends: Sends) -> bool:
    """Say whether every rank ends with each contribution once to each chunk that it needs."""
    bags = carried_out(schedule, sends)
    if bags is None:
        return False
    for chunk in range(schedule.chunks):
        givers = [r for r in range(schedule.ranks) if holds_at_first(schedule, r, chunk)]
        for rank in range(schedule.ranks):
            needed = needs_in_the_end(schedule, rank, chunk)
            if needed and bags[rank][chunk] != Counter(givers):
                return False
    return True


def crowded(sends: Sends) -> bool:
    """Say whether a rank sends or receives twice in a round."""
    return any(
        most(send.source for send in step) > 1 or most(send.destination for send in step) > 1
        for step in sends
    )


def breaks_word(schedule: Schedule, sends: Sends) -> bool:
    """Say whether the straggler is not late, or a rank has two peers once it is there."""
    late = schedule.straggler
    met = [any(late in (send.source, send.destination) for send in step) for step in sends]
    if late is None or True not in met:
        return False
    peers = [
        {(rank, peer) for s in step for rank, peer in (ends(s), ends(s)[::-1])}
        for step in sends[met.index(True) :]
    ]
    return (met[0] and schedule.ranks > 2) or any(
        most(rank for rank, _ in step) > 1 for step in peers
    )


def ends(send: Send) -> tuple[int, int]:
    return send.source, send.destination


def most(ranks: Iterable[int]) -> int:
    return max(Counter(ranks).values(), default=0)


def needless(schedule: Schedule, sends: Sends) -> bool:
    """Say whether a chunk of some send could be left out of a schedule that is right."""
    cut = [[piece for send in step for piece in pieces(send)] for step in sends]
    return any(
        is_right(schedule, without(cut, number, place))
        for number, step in enumerate(cut)
        for place in range(len(step))
    )


def pieces(send: Send) -> list[Send]:
    return [replace(send, chunk=send.chunk + behind, count=1) for behind in range(send.count)]


def mutants(schedule: Schedule) -> list[tuple[str, Sends]]:
    """Return the schedule with one send changed, in every way there is."""
    original = sends_of(schedule)
    found: list[tuple[str, Sends]] = []
    for number, step in enumerate(original):
        for place, send in enumerate(step):
            rest = without(original, number, place)
            found.append((f"round {number}: drop {send}", rest))
            for other in variations(schedule, send):
                found.append((f"round {number}: {send} as {other}", put(rest, number, other)))
            for where in (number - 1, number + 1):
                if 0 <= where < len(original):
                    moved = put(rest, where, send)
                    twice = put(original, where, send)
                    found.append((f"round {number}: {send} in round {where}", moved))
                    found.append((f"round {number}: {send} also in round {where}", twice))
    return found


def put(sends: Sends, number: int, send: Send) -> Sends:
    changed = [list(step) for step in sends]
    changed[number].append(send)
    return changed


def variations(schedule: Schedule, send: Send) -> list[Send]:
    """Return the send with one of its fields changed, as far as it stays a send."""
    ranks, chunks = schedule.ranks, schedule.chunks
    sources = [r for r in range(ranks) if r not in (send.source, send.destination)]
    places = [c for c in range(chunks - send.count + 1) if c != send.chunk]
    return [
        *(replace(send, source=rank) for rank in sources),
        *(replace(send, destination=rank) for rank in sources),
        *(replace(send, chunk=chunk) for chunk in places),
        replace(send, operation="copy" if send.operation == "reduce" else "reduce"),
        *([replace(send, count=send.count - 1)] if send.count > 1 else []),
        *([replace(send, count=send.count + 1)] if send.chunk + send.count < chunks else []),
    ]
