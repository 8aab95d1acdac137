"""Find trials during which other programs kept the machine busy."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.analysis.trial import TrialResult

BUSY = 0.25
"""Share of the machine's processor time from which on other programs spoil what is measured."""


COUPLED = 0.7
"""Share of the processors' time in any second from which on paced jobs may have waited for them:
then what one of them takes slows the others down, and not the fabric alone."""


def is_busy(trial: TrialResult) -> bool:
    """Return whether other programs kept the machine busy during a trial."""
    return trial.others is not None and trial.others >= BUSY


def busy_in_words(trials: Sequence[TrialResult]) -> str:
    """Return a sentence on the trials in which the machine was busy; empty if there are none."""
    found = [trial.others for trial in trials if is_busy(trial) and trial.others is not None]
    if not found:
        return ""
    most = f"up to {100 * max(found):.0f} % of its processors' time went to other programs"
    return f"the machine was busy in {len(found)} of {len(trials)} trials: {most}"
