"""What the event log says of a change of circuits; its origin names whose circuits they are."""

from __future__ import annotations

from testbed.bench.multi_switch_change import FabricChange, is_rolled_back
from testbed.errors import TestbedError
from testbed.fabric.circuits import Matching
from testbed.record.log import EventLog


def log_change(log: EventLog, by: str, circuits: Matching, done: FabricChange) -> None:
    """Log a change that was made; `circuits` are those of all owners after it."""
    log.append(
        "fabric.change",
        by,
        circuits=sorted(map(str, circuits)),
        removed=sorted(map(str, done.removed)),
        added=sorted(map(str, done.added)),
        disturbed=sorted(map(str, done.disturbed)),
        commanded=log.at(done.commanded),
        read_back=log.at(done.read_back),
        steady=None if done.steady is None else log.at(done.steady),
        lit=None if done.lit is None else log.at(done.lit),
    )


def log_failure(log: EventLog, by: str, wanted: Matching, error: TestbedError) -> None:
    """Log a change that failed; `wanted` are the circuits that all owners would have had."""
    log.append(
        "fabric.failed",
        by,
        circuits=sorted(map(str, wanted)),
        reason=str(error),
        rolled_back=is_rolled_back(error),
    )
