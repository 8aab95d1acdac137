"""The anatomy of a recovery: its consecutive parts, which add up to the time from t0 to t10."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from testbed.analysis.grouping import grouped
from testbed.analysis.metrics import Sample
from testbed.analysis.summary import Summary
from testbed.analysis.trial import TrialResult
from testbed.plugins import PHASES, Phase, kinds
from testbed.report.wording import in_order, quantity

_NEGLIGIBLE = 1e-3
"""The uncertainty of t0, in seconds, below which it is not printed."""


@dataclass(frozen=True, slots=True)
class Duration(Sample):
    """The durations of one part in seconds, over the trials that recovered."""

    part: Phase


@dataclass(frozen=True, slots=True)
class Anatomy:
    """The recoveries of one arm."""

    arm: str
    trials: tuple[TrialResult, ...]

    @property
    def valid(self) -> tuple[TrialResult, ...]:
        """Return the trials that count."""
        return tuple(trial for trial in self.trials if trial.valid)

    @property
    def recovered(self) -> tuple[TrialResult, ...]:
        """Return the trials that count and whose job recovered."""
        return tuple(trial for trial in self.valid if trial.recovered)

    @property
    def parts(self) -> tuple[Duration, ...]:
        """Return the durations of the parts; empty where no trial recovered."""
        return tuple(_durations(self.recovered))

    @property
    def t0_uncertainty(self) -> str:
        """Return a sentence on how much earlier than the fault t0 may be; empty below 1 ms."""
        widths = [
            t0.late - t0.early for t in self.valid if t.marks and (t0 := t.marks.at.get("t0"))
        ]
        if max(widths, default=0.0) < _NEGLIGIBLE:
            return ""
        return (
            "t0 is the earliest moment at which the fault can have begun; it began up to "
            f"{quantity(max(widths), 's')} later, and times since t0 are too long by as much"
        )

    @property
    def lost_steps(self) -> int:
        """Return the number of steps in all trials that were committed, lost and repeated."""
        return sum(trial.lost_steps or 0 for trial in self.valid)


def split(trial: TrialResult) -> dict[str, float]:
    """Return the seconds of each part of a trial's recovery; they add up to t10 - t0.

    A part whose end the recovery does not have, such as fencing when only a fibre is
    relit, is missing, and its time belongs to the next.
    """
    ends = _ends(trial)
    if "t10" not in ends:
        return {}
    seconds, begin = {}, 0.0
    for part in phases(trial):
        if part.ends in ends:
            seconds[part.name] = ends[part.ends] - begin
            begin = ends[part.ends]
    return seconds


def phases(trial: TrialResult) -> Sequence[Phase]:
    """Return the phases of a trial's recovery, as the controller states them that decided it."""
    known = kinds("policies")
    return known[trial.controller].recovery.phases if trial.controller in known else PHASES


def anatomies(summary: Summary) -> list[Anatomy]:
    """Return the anatomy of every arm whose trials had a fault."""
    faulty = (trial for trial in summary.trials if trial.marks is not None)
    trials = grouped(faulty, lambda trial: trial.arm)
    return [Anatomy(arm, tuple(trials[arm])) for arm in in_order(set(trials))]


def first_seen(trials: Sequence[TrialResult]) -> dict[str, list[float]]:
    """Return, by observer, the delays after t0 in each trial; the earliest observer first."""
    seen: dict[str, list[float]] = {}
    for trial in trials:
        for source, after in trial.witnesses.items():
            seen.setdefault(source, []).append(after)
    return dict(sorted(seen.items(), key=lambda item: statistics.median(item[1])))


def _ends(trial: TrialResult) -> Mapping[str, float]:
    if trial.marks is None:
        return {}
    marks = trial.marks.relative()
    joining = trial.values.get("joining")
    if "t8" in marks and isinstance(joining, float):
        return marks | {"ready": marks["t8"] - joining}
    return marks


def _durations(recovered: Sequence[TrialResult]) -> Iterator[Duration]:
    splits = [split(trial) for trial in recovered]
    for part in dict.fromkeys(phase for trial in recovered for phase in phases(trial)):
        seconds = tuple(parts[part.name] for parts in splits if part.name in parts)
        terms = [
            t.predicted[part.predicted_as] for t in recovered if part.predicted_as in t.predicted
        ]
        if seconds:
            yield Duration(seconds, statistics.median(terms) if terms else None, part)
