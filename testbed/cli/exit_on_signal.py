"""What signals do to a command: INT, TERM and HUP end it, with exit code 128 + their number."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from testbed.cli.standard_streams import flushed, redirect_closed_streams_to_devnull
from testbed.errors import EXIT_BUG
from testbed.twin.signals import ENDING

EXIT_SIGNALLED = 128

_SOON = 0.01

_PATIENCE = 2.0
"""Seconds that a command which a signal ends waits for whoever reads its last words."""


class _SignalExit(SystemExit):
    """The end of this process for a signal."""

    def __init__(self, number: int, code: int) -> None:
        super().__init__(code or EXIT_SIGNALLED + number)
        self.number = number
        self.words: list[str] = []
        """What whoever sent the signal is told."""


def end_on_signals() -> None:
    """Let a signal end this process from wherever it is, with whatever it must close on its way.

    One that was ignored from the start (`nohup`, a job in the background) stays ignored. Whoever
    started this process may have held signals back until now; they count from here on.
    """
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            _on(number, exit_for_signal)
    sys.unraisablehook = _exit_although_ignored
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _exit_although_ignored(ignored: sys.UnraisableHookArgs) -> None:
    """Leave a moment later where Python ignores exceptions: in a finaliser or a callback."""
    if not isinstance(ignored.exc_value, _SignalExit):
        sys.__unraisablehook__(ignored)
        return
    number = ignored.exc_value.number
    _soon(lambda: exit_for_signal(number))


def _soon(action: Callable[[], None]) -> None:
    _on(signal.SIGALRM, lambda _: action())
    signal.setitimer(signal.ITIMER_REAL, _SOON)


def _on(number: int, action: Callable[[int], None]) -> None:
    def hear(received: int, frame: FrameType | None) -> None:
        if received == signal.SIGHUP:
            redirect_closed_streams_to_devnull()  # the terminal is
        if _is_ignored_exception(frame):
            _soon(lambda: action(received))
        else:
            action(received)

    signal.signal(number, hear)


def _is_ignored_exception(frame: FrameType | None) -> bool:
    """Return whether an exception raised here would be printed and forgotten: within that hook."""
    while frame and frame.f_code is not _exit_although_ignored.__code__:
        frame = frame.f_back
    return frame is not None


def exit_for_signal(number: int, code: int = 0) -> None:
    """End this process for a signal; with another exit code where that says more."""
    raise _SignalExit(number, code)


@contextmanager
def explain_signal_exit(words: Callable[[], list[str]]) -> Iterator[None]:
    """Have whoever ends the process by a signal from here told these lines."""
    try:
        yield
    except _SignalExit as left:
        left.words = left.words or words()
        raise


@contextmanager
def record_signals(note: Callable[[int], None]) -> Iterator[None]:
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
def defer_signals(has_begun: Callable[[], bool]) -> Iterator[None]:
    """Let a signal end the process only after what is inside, which must have its own limit.

    Before that has begun to change anything, a signal ends the process at once.
    """
    noted: list[int] = []

    def hear(number: int) -> None:
        if has_begun():
            noted.append(number)
        else:
            exit_for_signal(number)

    with explain_signal_exit(lambda: ["nothing was changed"]), record_signals(hear):
        yield
    if noted:
        exit_for_signal(noted[0])


def end(code: object, left: SystemExit | None) -> NoReturn:
    """Hand over what was said and end this process with an exit code, or as a bug without one.

    `left` is what ended it early, if anything did.
    """
    number = code if isinstance(code, int) else EXIT_BUG
    with record_signals(_exit_at_second_signal()):
        if number > EXIT_SIGNALLED or isinstance(left, _SignalExit):
            signal.signal(signal.SIGALRM, lambda *_: os._exit(number))
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        with suppress(OSError, ValueError):  # nobody reads any more
            if isinstance(left, _SignalExit):
                print(f"testbed: ended by {signal.Signals(left.number).name}", file=sys.stderr)
                for line in left.words:
                    print(line, file=sys.stderr)
            number = flushed(number)
            sys.stderr.flush()
        # Not sys.exit: workers may still wait for a lab that is dead, and nobody waits for them.
        os._exit(number)


def _exit_at_second_signal() -> Callable[[int], None]:
    """Return what signals do once the exit code is known: a first is too late to change it.

    Whoever sends a second waits for this process, which waits for a reader of its last words.
    """
    heard: list[int] = []

    def note(number: int) -> None:
        heard.append(number)
        if len(heard) > 1:
            os._exit(EXIT_SIGNALLED + heard[0])

    return note
