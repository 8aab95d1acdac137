"""Summarise the trials of each arm: how many were valid, and their outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.analysis.checks import too_few_valid
from testbed.analysis.grouping import grouped
from testbed.analysis.trial import TrialResult


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of a run: the number of its trials, and their outcomes."""

    trials: int
    outcomes: Mapping[str, int]
    """Number of trials by outcome: recovered, not recovered, done, failed, invalid."""
    too_few_valid: str
    """That too few of its trials are valid for any conclusion, and why; empty otherwise."""

    @property
    def valid(self) -> int:
        """Return the number of valid trials."""
        return self.trials - self.outcomes.get("invalid", 0)

    def to_json(self) -> dict[str, Any]:
        """Return the arm in the format of `summary.json`."""
        return {"trials": self.trials, "valid": self.valid, "outcomes": dict(self.outcomes)}


def arms(trials: Sequence[TrialResult], valid_share: float) -> dict[str, Arm]:
    """Return the arms of a run by name, in the order of their first trials."""
    return {
        name: Arm(
            len(of_arm),
            dict(sorted(Counter(trial.outcome for trial in of_arm).items())),
            too_few_valid(of_arm, valid_share),
        )
        for name, of_arm in grouped(trials, lambda trial: trial.arm).items()
    }
