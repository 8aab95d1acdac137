"""The clients of a round, as a set that grows by one client at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from itertools import islice


class Members(Set[str]):
    """An immutable set of clients, to which adding one takes the same time at every size.

    Sets that come from one another share a table with the number of each client; a set has those
    whose number is below its size. Only adding to a set that another came from copies the table.
    Threads must not share one.
    """

    __slots__ = ("_numbers", "_size")

    def __init__(self, clients: Iterable[str] = ()) -> None:
        self._numbers: dict[str, int] = {}
        for client in clients:
            self._numbers.setdefault(client, len(self._numbers))
        self._size = len(self._numbers)

    def __contains__(self, client: object) -> bool:
        return self._numbers.get(client, self._size) < self._size  # type: ignore[call-overload, no-any-return]

    def __iter__(self) -> Iterator[str]:
        return islice(self._numbers, self._size)

    def __len__(self) -> int:
        return self._size

    def __hash__(self) -> int:
        return self._hash()

    def __repr__(self) -> str:
        return f"Members({list(self)})"

    def joined_by(self, client: str) -> Members:
        """Return the set with one client more; it stays as it is."""
        if client in self:
            return self
        is_newest = len(self._numbers) == self._size
        grown = object.__new__(Members)
        grown._numbers = self._numbers if is_newest else {c: n for n, c in enumerate(self)}
        grown._numbers[client] = self._size
        grown._size = self._size + 1
        return grown
