"""Time limits of a run: its own, around those of its steps, and then the clean-up's.

A command's deadline lies within its step's, a step's within its trial's or phase's. When the run's
passes, the wait under way ends, whatever it was for, and the clean-up begins; each of its steps has
a limit of its own, so that what hangs costs the others nothing.
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
    """Return the seconds that the clean-up may take when everything hangs that can."""
    faults = (len(trial.far_end_faults) + bool(trial.fault) for trial in plan.trials)
    return (_STEPS + max(faults, default=0)) * (RESTORE_LIMIT + GRACE)


def time_limit(seconds: float, inbox: Inbox) -> Timer:
    """Start the run's time: once it is over, the wait under way ends with LabError.

    Return what calls that off with `cancel`.
    """
    over = LabError(
        f"the run took longer than its limit of {seconds:g} s",
        hint="raise `limits: {run: …}`, or ask for fewer trials",
    )
    timer = Timer(seconds, inbox.stop, [over])
    timer.daemon = True
    timer.start()
    return timer
