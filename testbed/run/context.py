"""What every part of a live run works with."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.bench.bench import Bench
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Inbox
from testbed.run.pause_detector import PauseDetector
from testbed.run.twin_control import FarEndControl


@dataclass(frozen=True, slots=True)
class RunContext:
    """The bench, the record and the clean-up of one run."""

    bench: Bench
    inbox: Inbox
    journal: Journal
    log: EventLog
    cleanup: Cleanup
    pauses: PauseDetector
    far_ends: FarEndControl | None = None
    """None on hardware."""
