"""Change several switches as one: all changes are verified, or all are rolled back.

Every switch is commanded before the first answer is awaited, so that their mirrors move in
parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from testbed.bench.contracts import Applied
from testbed.bench.crossbar import Crossbar
from testbed.bench.verification import Verified
from testbed.clock import Deadline, now
from testbed.errors import InstrumentError, LabError, TestbedError, UnsafeError
from testbed.fabric.change import Change
from testbed.fabric.circuits import CrossConnect
from testbed.fabric.device import State


class ForeignCircuitsLost(UnsafeError):
    """A change removed circuits of other clients.

    The message says what happened to the circuits of this run.
    """


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A planned change of one switch, with its current read-back in `state`."""

    crossbar: Crossbar
    state: State
    change: Change


@dataclass(frozen=True, slots=True)
class VerifiedChange:
    """The answer of one switch to its change, and how far the change was verified."""

    applied: Applied
    verified: Verified


@dataclass(frozen=True, slots=True)
class FabricChange:
    """The result of one change, with instants on this machine's monotonic clock."""

    commanded: float
    read_back: float
    steady: float | None
    """When every switch reported its part in order; None where one cannot report it."""
    lit: float | None
    """When the light that was measured was right; None where a switch measures none."""
    removed: frozenset[CrossConnect]
    added: frozenset[CrossConnect]
    disturbed: frozenset[CrossConnect]
    """What changed or went dark for a moment although no circuit of the change needs it."""


def change_all(moves: Sequence[PlannedChange], deadline: Deadline) -> list[VerifiedChange]:
    """Carry out planned changes and verify each as far as its switch can; return the changed ones.

    A switch without any change gets no command. When one fails, or a signal interrupts, every
    switch that was commanded is rolled back and that is verified; then raise LabError with what
    failed (InstrumentError where a switch did), or UnsafeError with what could not be rolled back.
    """
    told: list[PlannedChange] = []
    applied: list[Applied] = []
    try:
        for move in (move for move in moves if move.change):
            told.append(move)
            applied.append(move.crossbar.command(move.state, move.change, deadline))
        verified = [
            move.crossbar.verify(move.change, done, deadline)
            for move, done in zip(told, applied, strict=True)
        ]
    except LabError as error:
        _take_back(told, error)
        raise _rolled_back(error) from error
    except BaseException as error:  # Ctrl-C leaves nothing half made either
        _take_back(told, error)
        raise
    for move in moves:
        move.crossbar.accept()
    return [VerifiedChange(*pair) for pair in zip(applied, verified, strict=True)]


def is_rolled_back(error: TestbedError) -> bool:
    """Return whether a change that failed with this error was completely rolled back."""
    return isinstance(error, ForeignCircuitsLost) or not isinstance(error, UnsafeError)


def take_back_verified(move: PlannedChange, error: InstrumentError) -> NoReturn:
    """Roll back a verified change that its switch now contradicts; always raise an error."""
    move.crossbar.forget_lag()
    _take_back([move], error)
    raise _rolled_back(error) from error


def _take_back(told: list[PlannedChange], error: BaseException) -> None:
    problems: list[UnsafeError] = []
    done: list[str] = []
    for move in reversed(told):
        try:
            move.crossbar.roll_back(move.change, error)
            done.append(move.crossbar.name)
        except UnsafeError as problem:
            problems.append(problem)
    if problems:
        known = isinstance(error, TestbedError)
        why = str(error.args[0]) if known else "ended in the middle of a change"
        raise not_all_back(problems, done, why) from error
    if others := "; ".join(filter(None, (move.crossbar.others_gone() for move in told))):
        why = str(error.args[0]) if isinstance(error, TestbedError) else "ended in the middle"
        raise ForeignCircuitsLost(f"{why}; the change was rolled back, but {others}") from error


def not_all_back(
    problems: Sequence[TestbedError], done: Sequence[str], why: str = ""
) -> UnsafeError:
    """Return one error for the switches that could not be restored; `done` are the others."""
    said = [why] if why else []
    said += [str(problem.args[0]) for problem in problems]
    said += [f"{name} was brought back" for name in sorted(done)]
    hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
    return UnsafeError("; ".join(said), hint="; ".join(hints))


def _rolled_back(error: LabError) -> LabError:
    """Return the error with the addition that the change was rolled back."""
    if not isinstance(error, InstrumentError):  # the light was wrong, not the switch
        return LabError(f"{error.args[0]}; the change was rolled back", hint=error.hint)
    said = str(error.args[0]).removeprefix(f"{error.instrument}: ")
    message = f"{said}; the change was rolled back"
    return type(error)(error.instrument, message, reply=error.reply, hint=error.hint)


def summed(planned: list[PlannedChange], moved: list[VerifiedChange], began: float) -> FabricChange:
    """Combine the changes of all switches into one result."""
    changes = [(move.crossbar.name, move.change) for move in planned]
    return FabricChange(
        commanded=min((m.applied.commanded for m in moved), default=began),
        read_back=max((m.applied.read_back for m in moved), default=now()),
        steady=_latest([m.verified.steady for m in moved]),
        lit=_latest([m.verified.lit for m in moved]),
        removed=frozenset(CrossConnect(n, i, e) for n, c in changes for i, e in c.removes.items()),
        added=frozenset(CrossConnect(n, i, e) for n, c in changes for i, e in c.adds.items()),
        disturbed=frozenset(CrossConnect(n, i, e) for n, c in changes for i, e in c.disturbs),
    )


def _latest(instants: list[float | None]) -> float | None:
    """Return the last of the instants; None when there is none, or one of them is not known."""
    known = [instant for instant in instants if instant is not None]
    return max(known) if known and len(known) == len(instants) else None
