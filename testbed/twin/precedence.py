"""Have a twin's instruments, and the run that uses them, preempt its hosts.

In a lab they have processors of their own. On one machine with its hosts, a switch that settles in
25 ms would settle when the ranks of some job next wait (docs/decisions/0043).
"""

from __future__ import annotations

import os
from contextlib import suppress

_PRIORITY = 1
"""The lowest of those that preempt all normal processes (sched(7))."""


def take_precedence() -> None:
    """Have this thread, and all that it starts, preempt normal processes, where that is permitted.

    It takes CAP_SYS_NICE in the first user namespace, which no thread has that has entered another.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))


def give_up_precedence() -> None:
    """Have this thread, and what it starts from now on, be scheduled as all others."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def has_precedence() -> bool:
    """Tell whether this thread preempts normal processes."""
    return os.sched_getscheduler(0) == os.SCHED_RR
