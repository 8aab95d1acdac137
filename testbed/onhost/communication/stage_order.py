"""The stages of one rank in its groups on a rail, in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from .matchings import Matching, Matchings, partner_in
from .stages import Stage


class StageOrder:
    """The stages of one rank in its groups on a rail, each of which is one operation."""

    def __init__(
        self,
        rank: int,
        members: Mapping[str, Sequence[int]],
        numbers: Mapping[str, int],
        hosts: Sequence[str],
        matchings: Matchings,
    ) -> None:
        self.on_rail = tuple(
            n for n, ranks in members.items() if len({hosts[r] for r in ranks}) > 1
        )
        """The dimensions along which this rank's group is on several hosts."""
        self._members, self._numbers = members, numbers
        self._joined = {
            name: tuple(_pairs(rank, ranks, matchings[name])) if name in matchings else (ranks,)
            for name, ranks in members.items()
        }
        self._begun: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def group(self, dimension: str) -> str:
        """Return the name of this rank's group along a dimension."""
        return f"{dimension}{self._numbers[dimension]}"

    def joined(self, dimension: str) -> Sequence[Sequence[int]]:
        """Return the ranks that circuits join this one with at once: its group, or pair by pair."""
        return self._joined[dimension]

    def next(self, dimension: str, place: int = 0, joined: Optional[Sequence[int]] = None) -> Stage:
        """Return the next stage of the group, or of the ranks of it that are joined."""
        ranks = tuple(self._members[dimension] if joined is None else joined)
        return Stage(self.group(dimension), self._begun[dimension, ranks], ranks, place)

    def begin(self, dimension: str, place: int, joined: Sequence[int]) -> Stage:
        """Return the next stage of the ranks that are joined, which has begun now."""
        stage = self.next(dimension, place, joined)
        self._begun[dimension, stage.ranks] += 1
        return stage


def _pairs(
    rank: int, members: Sequence[int], matchings: Sequence[Matching]
) -> Iterator[tuple[int, int]]:
    """Yield a rank with whom it meets in each matching of its group, in the order of the group."""
    own = members.index(rank)
    for matching in matchings:
        other = partner_in(matching, own)
        if other is not None:
            yield members[min(own, other)], members[max(own, other)]
