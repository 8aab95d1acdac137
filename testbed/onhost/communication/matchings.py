"""Matchings of the ranks of a group, in which each two of them meet once.

On a rail a port has one peer at a time, so an exchange between all ranks of a group is one matching
after the other; they are given as plain data, by the ranks' numbers in the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

Matching = Sequence[Sequence[int]]
"""Pairs of ranks, each rank in one of them at most."""

Matchings = Mapping[str, Sequence[Matching]]
"""By dimension of a mesh whose groups are joined in pairs, one matching after the other."""


def partner_in(matching: Matching, rank: int) -> Optional[int]:
    """Return whom a rank meets in a matching; None where it pauses."""
    for one, other in matching:
        if rank in (one, other):
            return other if rank == one else one
    return None
