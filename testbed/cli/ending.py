"""What signals do to a command: INT, TERM and HUP end it, with exit code 128 + their number."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from testbed.twin.namespaces import ENDING

EXIT_SIGNALLED = 128

_SOON = 0.01


class _Leaving(SystemExit):
    """The end of this process for a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(EXIT_SIGNALLED + number)
        self.number = number


def end_on_signals() -> None:
    """Let a signal end this process from wherever it is, with whatever it must close on its way.

    One that was ignored from the start (`nohup`, a job in the background) stays ignored. Whoever
    started this process may have held signals back until now; they count from here on.
    """
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            _on(number, leave)
    sys.unraisablehook = _leave_all_the_same
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _leave_all_the_same(ignored: sys.UnraisableHookArgs) -> None:
    """Leave a moment later where Python ignores exceptions: in a finaliser or a callback."""
    if not isinstance(ignored.exc_value, _Leaving):
        sys.__unraisablehook__(ignored)
        return
    number = ignored.exc_value.number
    signal.signal(signal.SIGALRM, lambda *_: leave(number))
    signal.setitimer(signal.ITIMER_REAL, _SOON)


def _on(number: int, action: Callable[[int], None]) -> None:
    def hear(received: int, _: object) -> None:
        if received == signal.SIGHUP:
            _let_go_of_a_dead_terminal()
        action(received)

    signal.signal(number, hear)


def _let_go_of_a_dead_terminal() -> None:
    """Say what is still to be said to nobody, where the terminal has been closed."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            nobody = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nobody, descriptor)
            os.close(nobody)


def leave(number: int) -> None:
    """End this process for a signal."""
    raise _Leaving(number)


@contextmanager
def noting_signals(note: Callable[[int], None]) -> Iterator[None]:
    """Have signals noted instead of ending the process; `note` runs between any two steps."""
    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            _on(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def finishing_first() -> Iterator[None]:
    """Let a signal end the process only after what is inside, which must have its own limit."""
    noted: list[int] = []
    with noting_signals(noted.append):
        yield
    if noted:
        leave(noted[0])
