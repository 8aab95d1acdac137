"""The time limits of a run, of its steps, and of its clean-up.

A command's deadline lies within its step's, a step's within its trial's or phase's. When the run's
time limit passes, the present wait ends and the clean-up begins; each step of the clean-up has a
limit of its own, so that a step that hangs does not take time from the others.
"""

from __future__ import annotations

from threading import Timer

from testbed.errors import LabError
from testbed.run.inbox import GRACE, Inbox
from testbed.run.planning.plan import Plan

RESTORE_LIMIT = 15.0
"""Seconds that one step of the clean-up may take at most."""

_STEPS = 9
"""Of a clean-up without faults: what was under way, lost leases, ranks, circuits, attenuation,
power, agents, instruments, leases."""


def longest_restore(plan: Plan) -> float:
    """Return the longest time in seconds that the clean-up may take."""
    faults = (len(trial.far_end_faults) + len(trial.faults) for trial in plan.trials)
    return (_STEPS + max(faults, default=0)) * (RESTORE_LIMIT + GRACE)


def time_limit(seconds: float, inbox: Inbox) -> Timer:
    """Start the time limit of a run: when it passes, the present wait ends with LabError.

    Return a timer; its `cancel` removes the limit.
    """
    over = LabError(
        f"the run took longer than its limit of {seconds:g} s",
        hint="raise `limits: {run: …}`, or ask for fewer trials",
    )
    timer = Timer(seconds, inbox.stop, [over])
    timer.daemon = True
    timer.start()
    return timer
