"""Switches that accept or refuse every circuit of a change separately.

The state is read first: a circuit of another client on a wanted port is never disturbed, even if
the switch would allow that, and no circuit is made on a port that a refused removal left in use.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping

from testbed.clock import Deadline, now
from testbed.errors import Rejected
from testbed.fabric.change import Change
from testbed.fabric.device import State
from testbed_drivers.switches.switch import AnyDialect, AnyOptions, ChangeResult, Switch

SECONDS_PER_CIRCUIT = 0.1
"""What a change may take longer for every circuit in it."""

Refused = dict[int, str]
"""What was refused, by ingress, in the words of the switch."""


class PerCircuitSwitch(Switch[AnyOptions, AnyDialect]):
    """A `Switch` whose changes may be carried out in part."""

    @abstractmethod
    def _disconnect(self, pairs: State, deadline: Deadline) -> Refused:
        """Remove circuits that are there; return what was refused."""

    @abstractmethod
    def _connect(self, pairs: State, deadline: Deadline) -> Refused:
        """Make circuits on ports that are free; return what was refused."""

    def _seconds(self, change: Change) -> float:
        circuits = len(change.removes) + len(change.adds)
        return super()._seconds(change) + SECONDS_PER_CIRCUIT * circuits

    def _carry_out(self, change: Change, deadline: Deadline) -> ChangeResult:
        """Remove and add what the switch does not show yet."""
        state = self.state(deadline)
        needed = _outstanding(change, state)
        commanded = now()
        refused = self._disconnect(needed.removes, deadline) if needed.removes else {}
        gone = needed.removes.keys() - refused.keys()
        blocked = _in_the_way({i: e for i, e in state.items() if i not in gone}, needed.adds)
        free = {i: e for i, e in needed.adds.items() if i not in blocked}
        refused = blocked | refused | (self._connect(free, deadline) if free else {})
        answered = now()
        return ChangeResult(commanded, answered, self._undone(needed, refused, deadline))

    def _undone(self, needed: Change, refused: Refused, deadline: Deadline) -> Mapping[int, str]:
        """Return what is refused and not done; raise Rejected when nothing at all was done."""
        if not refused:
            return refused
        missing = _outstanding(needed, self.state(deadline))
        if missing == needed:
            words = next(iter(refused.values()))
            raise Rejected(self._name, f"refused {needed}: {words}", reply=words)
        return {i: refused[i] for i in {*missing.removes, *missing.adds} if i in refused}


def order_each(pairs: State, order: Callable[[int, int], None]) -> Refused:
    """Send one order per circuit until one is refused; return the circuits not changed."""
    rows = iter(sorted(pairs.items()))
    for ingress, egress in rows:
        try:
            order(ingress, egress)
        except Rejected as error:
            why = f"not tried after {ingress}→{egress} was refused"
            return {ingress: error.reply or str(error), **{left: why for left, _ in rows}}
    return {}


def _outstanding(change: Change, state: State) -> Change:
    """Return what of a change a state does not show."""
    removes = {i: e for i, e in change.removes.items() if state.get(i) == e}
    return Change(removes, {i: e for i, e in change.adds.items() if state.get(i) != e})


def _in_the_way(state: State, adds: State) -> Refused:
    """Return the adds whose ports a state has in use, by ingress, with what is in the way."""
    by_egress = {e: i for i, e in state.items()}
    blocked: Refused = {}
    for ingress, egress in adds.items():
        if ingress in state:
            blocked[ingress] = f"not tried: {ingress}→{state[ingress]} is in the way"
        elif egress in by_egress:
            blocked[ingress] = f"not tried: {by_egress[egress]}→{egress} is in the way"
    return blocked
