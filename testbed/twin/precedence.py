"""Have a twin's instruments, and the run that uses them, preempt its hosts, and agents its ranks.

In a lab they have processors of their own. On one machine with its hosts, a switch that settles in
25 ms would settle when the ranks of some job next wait, and an agent would hear of it when those of
another host do (docs/decisions/0043).
"""

from __future__ import annotations

import os
from contextlib import suppress

_INSTRUMENTS, _HOSTS = 2, 1
"""Priorities of those that preempt all normal processes, the higher ones first (sched(7))."""


def take_precedence() -> None:
    """Have this thread, and all that it starts, preempt normal processes, where that is permitted.

    It takes CAP_SYS_NICE in the first user namespace, which no thread has that has entered another.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_INSTRUMENTS))


def come_after_instruments() -> None:
    """Have this thread, and what it starts, preempt normal processes only."""
    if has_precedence():
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_HOSTS))


def keep_precedence_to_itself() -> None:
    """Have what this thread starts from now on be scheduled as all others, but not itself."""
    if has_precedence():
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(_HOSTS))


def give_up_precedence() -> None:
    """Have this thread, and what it starts from now on, be scheduled as all others."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def has_precedence() -> bool:
    """Tell whether this thread preempts normal processes."""
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
