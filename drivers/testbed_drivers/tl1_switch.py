"""What switches over TL1 do alike: a change against a fresh read-back, and refusals one by one.

A circuit is named there by one of its ends, or by a name that somebody else may have given it, so
what is there is read before anything is taken down. Nothing is set up on a port that a refused
removal has left in use: what a switch makes of that is not public.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager

from testbed.bench.contracts import Identity
from testbed.clock import Deadline, now
from testbed.errors import Rejected
from testbed.fabric.change import Change
from testbed.fabric.device import State
from testbed_drivers.switch import Done, Switch
from testbed_drivers.tl1 import Tl1

Refused = dict[int, str]
"""What was refused, by ingress, in the words of the switch."""


class Tl1Switch(Switch):
    """A `Switch` that speaks TL1."""

    def __init__(self, name: str, ports: frozenset[int], tl1: Tl1) -> None:
        super().__init__(name, ports)
        self._tl1 = tl1

    def identify(self, deadline: Deadline) -> Identity:
        """Ask who it is; refuse the wrong serial number."""
        return self._tl1.identify(deadline)

    def close(self) -> None:
        """Close the line; safe to call twice. Leaves all light as it is."""
        self._tl1.close()

    @abstractmethod
    def _take_down(self, pairs: State, deadline: Deadline) -> Refused:
        """Remove circuits that are there; return what was refused."""

    @abstractmethod
    def _set_up(self, pairs: State, deadline: Deadline) -> Refused:
        """Make circuits; return what was refused."""

    def _held(self, deadline: Deadline) -> AbstractContextManager[None]:
        return self._tl1.held(deadline)

    def _carry_out(self, change: Change, deadline: Deadline) -> Done:
        """Remove and add what the switch does not show yet."""
        needed = _outstanding(change, self.state(deadline))
        commanded = now()
        refused = self._take_down(needed.removes, deadline) if needed.removes else {}
        in_use = {port for i in refused for port in (i, needed.removes[i])}
        free = {i: e for i, e in needed.adds.items() if not in_use & {i, e}}
        refused |= self._set_up(free, deadline) if free else {}
        for ingress in needed.adds.keys() - free.keys() - refused.keys():
            refused[ingress] = "not tried: what was there was not removed"
        answered = now()
        return Done(commanded, answered, self._undone(needed, refused, deadline))

    def _undone(self, needed: Change, refused: Refused, deadline: Deadline) -> Mapping[int, str]:
        """Return what is refused and not done; raise Rejected when nothing at all was done."""
        if not refused:
            return refused
        missing = _outstanding(needed, self.state(deadline))
        if missing == needed:
            words = next(iter(refused.values()))
            raise Rejected(self._name, f"refused {needed}: {words}", reply=words)
        return {i: refused[i] for i in {*missing.removes, *missing.adds} if i in refused}


def _outstanding(change: Change, state: State) -> Change:
    """Return what of a change a state does not show."""
    removes = {i: e for i, e in change.removes.items() if state.get(i) == e}
    return Change(removes, {i: e for i, e in change.adds.items() if state.get(i) != e})
