"""Read from the run directories which experiments ran before, when and for how long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.files import read_file
from testbed.nightly.pairs import Pair
from testbed.record.lines import last_objects
from testbed.record.rundir import RunDirectory, runs
from testbed.schema.load import MAX_BYTES
from testbed.units import counted

_ENDLESS = 1e12
"""Seconds that no run lasts."""

_MEASURED = ("passed", "failed", "inconclusive")


@dataclass(frozen=True, slots=True)
class PastRun:
    """A recorded run: its files, date, duration, and number of trials of each arm.

    It is `whole` when it ended normally, and `timed` when all its trials were run; the duration of
    a run that was cut short is only a lower bound.
    """

    run: str
    experiment: str
    lab: str
    trials: int
    seconds: float
    is_whole: bool
    is_timed: bool
    texts: tuple[str, str]

    def is_of(self, pair: Pair) -> bool:
        """Return whether the run used the two files of a pair in their present version."""
        texts = pair.experiment.source.text, pair.lab.source.text
        return (self.experiment, self.lab) == pair.key and self.texts == texts


def past_runs(results: Path, on_progress: Callable[[str], None]) -> list[PastRun]:
    """Return the runs on twins below `results` that had no overrides, oldest first.

    Runs that cannot be read are left out. `on_progress` is called with a sentence on each run that
    has events without a valid time.
    """
    return [past for run in runs(results) if (past := _read(run, on_progress)) is not None]


def _read(run: RunDirectory, on_progress: Callable[[str], None]) -> PastRun | None:
    try:
        facts, plan = run.read_json("run.json"), run.read_json("plan.json")
        if facts["overrides"] or facts["label"] == "measured-hw":
            return None
        counts = Counter(s["arm"] for s in plan["steps"] if s["do"] == "RunTrial")
        texts = [
            read_file(run.path / name, MAX_BYTES).decode()
            for name in ("experiment.yaml", "lab.yaml")
        ]
        return PastRun(
            run=run.id,
            experiment=str(plan["experiment"]),
            lab=str(plan["lab"]),
            trials=min(counts.values()),
            seconds=_seconds(run, on_progress),
            is_whole=(outcome := _outcome(run)) in (*_MEASURED, "error"),
            is_timed=outcome in _MEASURED,
            texts=(texts[0], texts[1]),
        )
    except (UsageError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _outcome(run: RunDirectory) -> Any:
    try:
        return run.read_json("summary.json").get("outcome")
    except (UsageError, AttributeError):  # killed before it wrote that file
        return ""


def _seconds(run: RunDirectory, on_progress: Callable[[str], None]) -> float:
    """Return when the last event of a log was, in seconds since its run began.

    Events without a valid time do not count; ValueError where no other is left.
    """
    times = [event["t"] for event in last_objects(run.events) if "t" in event]
    valid = [float(time) for time in times if _is_valid(time)]
    if invalid := len(times) - len(valid):
        on_progress(f"{counted(invalid, 'event')} of {run.id} without a valid time left out")
    if invalid and not valid:
        raise ValueError(f"no event of {run.id} has a valid time")
    return max(valid, default=0.0)


def _is_valid(time: Any) -> bool:
    """Return whether a value can be the time of an event, in seconds since its run began."""
    return isinstance(time, int | float) and not isinstance(time, bool) and 0 <= time < _ENDLESS
