"""The attempts to recover a dead run with `testbed recover`, from the run's own events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from testbed.events import Event


@dataclass(slots=True)
class UndoStep:
    """One undo of a recovery: its subject, and its problem or an empty string."""

    what: str
    problem: str
    notes: list[str] = field(default_factory=list)
    """What a person should know of it."""


@dataclass(slots=True)
class RecoverAttempt:
    """One `testbed recover` of a run.

    An attempt that was itself killed has no exit code.
    """

    at: str
    """When it began, UTC."""
    promises: Sequence[str]
    """The open entries of the journal."""
    steps: list[UndoStep] = field(default_factory=list)
    left: Sequence[str] = ()
    """What is still changed, or did not answer."""
    exit_code: int | None = None


def recoveries(events: Sequence[Event]) -> list[RecoverAttempt]:
    """Return every `testbed recover` in the events of a run, in their order."""
    found: list[RecoverAttempt] = []
    for event in events:
        if event.kind == "recover.begin":
            found.append(RecoverAttempt(event.data["utc"], event.data["promises"]))
        elif found:
            _take(found[-1], event)
    return found


def _take(recovered: RecoverAttempt, event: Event) -> None:
    match event.kind:
        case "cleanup.begin":
            recovered.steps.append(UndoStep(event.subject, "it was not finished"))
        case "note" if recovered.steps:
            recovered.steps[-1].notes.append(f"{event.subject}: {event.data['text']}")
        case "cleanup.end":
            recovered.steps[-1].problem = event.data["problem"]
        case "recover.end":
            recovered.left = event.data["left"]
            recovered.exit_code = event.data["exit_code"]
