"""Refusals of changes of one switch: by us, for circuits of others, and by the switch itself."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.bench.ownership import OwnedPorts
from testbed.commands import typed
from testbed.errors import BusyError, Rejected, UsageError
from testbed.fabric.change import Change, ForeignCircuit
from testbed.fabric.device import State, spans


def occupied_at_start(ours: OwnedPorts, foreign: State) -> BusyError:
    """Return the error for circuits that others have on ports which are wanted."""
    ports = [str(port) for pair in sorted(foreign.items()) for port in pair]
    return BusyError(
        f"{ours.name} already has other circuits on ports that are needed: {ours.named(foreign)}",
        hint="wait for their owner, or take them down with "
        f"`{typed('switch', ours.name, 'disconnect', *ports)}`",
    )


def in_the_way(ours: OwnedPorts, error: ForeignCircuit, others: Mapping[str, State]) -> BusyError:
    """Return the error for circuits in the way of a change.

    Where they are of one of `others`, the other owners in this run, it is named, and so are the
    cells of a mesh that would move.
    """
    named = ours.named(error.foreign)
    if owner := _owner_of(error.foreign, others):
        cells = f", by moving the cells {spans(error.cells)} in their way" if error.cells else ""
        return BusyError(
            f"{ours.name} cannot be changed without darkening {named} of {owner}{cells}",
            hint="use other ports, or wait until those circuits are gone",
        )
    return BusyError(
        f"{ours.name} has circuits of another client on ports that this change needs: {named}",
        hint="find the other user of this switch, and have these circuits removed",
    )


def changed_by_others(ours: OwnedPorts, cross: State, became: str) -> BusyError:
    """Return the error for cross-connects on our ports that have gone, or come, without us."""
    return BusyError(
        f"{ours.name} has changed since the last command of this run: {ours.named(cross)} {became}",
        hint="find out whether another client changed it, or it restarted",
    )


def is_refused(change: Change, error: BaseException, switch: str) -> bool:
    """Return whether a change is known to have been refused as a whole.

    A refusal of one circuit among several says nothing about the others.
    """
    if isinstance(error, Rejected) and error.instrument == switch:
        return len(change.removes) + len(change.adds) == 1
    return isinstance(error, UsageError | BusyError)


def _owner_of(foreign: State, others: Mapping[str, State]) -> str:
    return next((who for who, cross in others.items() if foreign.items() & cross.items()), "")
