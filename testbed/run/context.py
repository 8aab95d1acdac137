"""The objects that all parts of a live run share."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.faults.contracts import Undo
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.run.cleanup import Action, Cleanup, CleanupStep
from testbed.run.inbox import Inbox
from testbed.run.machine_watch import PauseDetector
from testbed.run.twin_control import TwinControl


@dataclass(frozen=True, slots=True)
class RunContext:
    """The bench, the event log, the journal and the clean-up of one run."""

    bench: Bench
    inbox: Inbox
    journal: Journal
    log: EventLog
    cleanup: Cleanup
    pauses: PauseDetector
    twin: TwinControl | None = None
    """None on hardware."""

    def push_undo(self, what: str, undo: Action, limit: float, entry: Undo | None) -> CleanupStep:
        """Record the undo of a change in the journal and the clean-up, before the change.

        Without `entry` only the clean-up has it: the change is in the journal already, or leaves
        nothing behind.
        """
        number = self.journal.record_undo(entry.kind, **entry.arguments) if entry else None

        def act(deadline: Deadline) -> None:
            undo(deadline)
            if number is not None:
                self.journal.settle(number)

        return self.cleanup.push(what, act, limit)
