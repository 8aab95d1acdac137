"""What a run came to: outcome, reason and exit code, by its trials and checks."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from testbed.analysis.arms import Arm
from testbed.analysis.checks import CheckResult
from testbed.analysis.fault_effect import BASELINE
from testbed.analysis.rail_monitor import RemovedCircuits
from testbed.analysis.recover_attempts import RecoverAttempt
from testbed.analysis.trial import TrialResult
from testbed.errors import (
    EXIT_FAILED,
    EXIT_INCONCLUSIVE,
    EXIT_LAB,
    EXIT_PASSED,
    EXIT_SIGNALLED,
    EXIT_UNSAFE,
)

Outcome = Literal["passed", "failed", "inconclusive", "error", "aborted"]


def cleanup_of(end: Any, recovered: Sequence[RecoverAttempt], label: str = "") -> str:
    """Return whether all was taken back: by the run, or after it by the last `recover`."""
    if recovered:
        code = recovered[-1].exit_code
        return "unknown" if code is None else "failed" if code else "verified"
    if end:
        return str(end["cleanup"])
    return "verified" if label == "model" else "unknown"  # it changes no device


def left_of(end: Any, recovered: Sequence[RecoverAttempt]) -> tuple[str, ...]:
    """Return what could not be taken back."""
    if recovered:
        return tuple(recovered[-1].left)
    return tuple(end["left"]) if end else ()


def verdict_of(
    found: Mapping[str, Arm],
    trials: Sequence[TrialResult],
    checks: Sequence[CheckResult],
    end: Any,
    recovered: Sequence[RecoverAttempt],
    destroyed: Sequence[str],
    removed: RemovedCircuits,
) -> tuple[Outcome, str, int]:
    """Return outcome, reason and exit code; clean-up that failed wins over most others.

    So it does over the signal that ended the run: 128 + n says that all was taken back.
    """
    outcome, reason, code = _measured(found, trials, checks, end)
    if outcome == "passed" and removed.gaps:
        outcome, reason, code = "inconclusive", removed.gaps[0], EXIT_INCONCLUSIVE
    if removed.found and end and code <= EXIT_SIGNALLED:
        outcome, reason, code = "failed", removed.found[0], EXIT_FAILED
    if destroyed and end and code <= EXIT_SIGNALLED:
        outcome, reason, code = "failed", "; ".join(destroyed), EXIT_FAILED
    if end and end.get("signals") and code <= EXIT_SIGNALLED:
        first = signal.Signals(end["signals"][0])
        reason, code = f"{reason}; {first.name} came during the clean-up", EXIT_SIGNALLED + first
    wins = code in (EXIT_PASSED, EXIT_FAILED, EXIT_INCONCLUSIVE, EXIT_LAB) or code > EXIT_SIGNALLED
    unsafe = cleanup_of(end, recovered) == "failed"
    return outcome, reason, EXIT_UNSAFE if unsafe and wins else code


def _measured(
    found: Mapping[str, Arm],
    trials: Sequence[TrialResult],
    checks: Sequence[CheckResult],
    end: Any,
) -> tuple[Outcome, str, int]:
    if end is None:
        return "error", "the record ends before the run does", EXIT_LAB
    if end["exit_code"] > EXIT_SIGNALLED:
        return "aborted", end["error"], end["exit_code"]
    if end["exit_code"]:
        return "error", end["error"], end["exit_code"]
    valid = [trial for trial in trials if trial.valid]
    if not valid:
        why = trials[0].reason if trials and trials[0].reason else "no trial is valid"
        return "inconclusive", why, EXIT_INCONCLUSIVE
    lost = [trial for trial in valid if trial.job_failed]
    if lost:
        how = "did not end well" if lost[0].recovered is None else "did not recover"
        what = f"{len(lost)} of {len(trials)} trials {how}: {lost[0].reason}"
        return "failed", what, EXIT_FAILED
    for check in checks:
        if check.verdict == "failed":
            return "failed", f"{check.name.rpartition(' ')[0]}: {check.reason}", EXIT_FAILED
    return _without_a_miss(found, valid, trials, checks)


def _without_a_miss(
    found: Mapping[str, Arm],
    valid: Sequence[TrialResult],
    trials: Sequence[TrialResult],
    checks: Sequence[CheckResult],
) -> tuple[Outcome, str, int]:
    """Return whether enough was measured, where nothing that was measured missed its limit."""
    for name, arm in found.items():
        if arm.too_few_valid:
            return "inconclusive", f"{name}: {arm.too_few_valid}", EXIT_INCONCLUSIVE
    if unknown := sum(trial.outcome == "not known" for trial in valid):
        what = f"what {unknown} of {len(trials)} trials did to the fault is not known"
        return "inconclusive", f"{what}: fewer than {BASELINE} steps came before", EXIT_INCONCLUSIVE
    for check in checks:
        if check.verdict == "unknown":
            return "inconclusive", f"{check.name}: {check.reason}", EXIT_INCONCLUSIVE
    if not any(trial.values for trial in valid):
        return "inconclusive", "no trial measured anything", EXIT_INCONCLUSIVE
    return "passed", f"{len(valid)} of {len(trials)} trials are valid", EXIT_PASSED
