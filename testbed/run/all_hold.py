"""Whether a condition holds of each of many items, asked again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class AllHold(Generic[_Item]):
    """Tell whether a condition holds of all items.

    A wait for a thousand ranks asks after each report. The item that it did not hold of last
    is looked at first: so as long as that has not changed, an answer takes one look.
    """

    def __init__(
        self, items: Callable[[], Sequence[_Item]], holds: Callable[[_Item], bool]
    ) -> None:
        """Ask of what `items` returns whether it `holds`; both may change either way."""
        self._items = items
        self._holds = holds
        self._first = 0

    def __call__(self) -> bool:
        """Return whether it holds of all of them now."""
        items = self._items()
        for _ in items:
            self._first %= len(items)
            if not self._holds(items[self._first]):
                return False
            self._first += 1
        return True
