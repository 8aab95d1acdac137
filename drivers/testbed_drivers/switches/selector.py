"""Switches that move as a whole, so that a new position ends the one before: 1×N and 2×2."""

from __future__ import annotations

from abc import abstractmethod

from testbed.clock import Deadline, now
from testbed.errors import Rejected, UsageError
from testbed.fabric.change import Change, after
from testbed.fabric.device import State
from testbed_drivers.switches.switch import AnyDialect, AnyOptions, ChangeResult, Switch


class Selector(Switch[AnyOptions, AnyDialect]):
    """The base of switches that are commanded to a position, and leave the one before unasked.

    So the position is read before each move, and a move that would end a circuit which the change
    does not remove is refused. A switch with `positions` is never dark: a change leads from one of
    them to another.
    """

    def _check(self, change: Change) -> None:
        super()._check(change)
        positions = self.capabilities.positions
        if positions and not any(change.adds.items() <= state.items() for state in positions):
            raise self._impossible(change.adds)

    def _carry_out(self, change: Change, deadline: Deadline) -> ChangeResult:
        """Move straight to the position that the change asks for, when it is not there yet."""
        begin = self.state(deadline)
        taken = set(change.adds.values())
        in_the_way = {
            i: e
            for i, e in begin.items()
            if change.removes.get(i) != e
            and (i in change.adds or e in taken)
            and change.adds.get(i) != e
        }
        for ingress, egress in in_the_way.items():
            raise Rejected(
                self._name,
                f"was not sent {change}: that would remove {ingress}→{egress}, which is in use",
                hint="remove it in the same change, if it is yours",
            )
        wanted = after(begin, change)
        if self.capabilities.positions and wanted not in self.capabilities.positions:
            raise self._impossible(wanted)
        if wanted == begin:
            return ChangeResult(stamp := now(), stamp)
        return self._move(begin, wanted, deadline)

    @abstractmethod
    def _move(self, begin: State, wanted: State, deadline: Deadline) -> ChangeResult:
        """Send what takes the switch from one state to another, and return when it answered."""

    def _impossible(self, wanted: State) -> UsageError:
        known = "; ".join(map(_words, self.capabilities.positions))
        return UsageError(
            f"{self._name} cannot be at {_words(wanted)}", hint=f"it is always at one of: {known}"
        )


def channels(count: int) -> tuple[State, ...]:
    """Return the positions of a 1×N selector: channel n leaves at port n + 1."""
    return tuple({1: port} for port in range(2, count + 2))


def positions_of(inputs: int) -> tuple[State, State]:
    """Return bar and cross of an element with two outputs and `inputs` inputs."""
    if inputs == 1:
        return {1: 2}, {1: 3}
    return {1: 3, 2: 4}, {1: 4, 2: 3}


def _words(state: State) -> str:
    return " ".join(f"{i}→{e}" for i, e in sorted(state.items())) or "dark"
