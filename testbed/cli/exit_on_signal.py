"""Exit on signals: INT, TERM and HUP end a command, with exit code 128 + their number."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from testbed.cli.standard_streams import flushed, redirect_closed_streams_to_devnull
from testbed.errors import EXIT_BUG, EXIT_SIGNALLED
from testbed.twin.signals import ENDING

_SOON = 0.01

_PATIENCE = 2.0
"""Seconds that a command ended by a signal waits for the reader of its last lines."""


class _SignalExit(SystemExit):
    """Raised to end this process on a signal."""

    def __init__(self, number: int, code: int) -> None:
        super().__init__(code or EXIT_SIGNALLED + number)
        self.number = number
        self.words: list[str] = []
        """Lines printed at the exit."""


def end_on_signals() -> None:
    """Make signals end this process by an exception, so that open resources are closed.

    A signal that was ignored at the start (`nohup`, a background job) stays ignored. Signals that
    the parent process blocked are delivered from here on.
    """
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            _on(number, exit_for_signal)
    sys.unraisablehook = _exit_although_ignored
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _exit_although_ignored(ignored: sys.UnraisableHookArgs) -> None:
    """Exit a moment later where Python ignores exceptions: in a finaliser or a callback."""
    if not isinstance(ignored.exc_value, _SignalExit):
        sys.__unraisablehook__(ignored)
        return
    number = ignored.exc_value.number
    _soon(lambda: exit_for_signal(number))


def _soon(action: Callable[[], None]) -> None:
    _on(signal.SIGALRM, lambda _: action())
    signal.setitimer(signal.ITIMER_REAL, _SOON)


def _on(number: int, action: Callable[[int], None]) -> None:
    def handle(received: int, frame: FrameType | None) -> None:
        if received == signal.SIGHUP:
            redirect_closed_streams_to_devnull()  # the terminal is closed
        if _is_ignored_exception(frame):
            _soon(lambda: action(received))
        else:
            action(received)

    signal.signal(number, handle)


def _is_ignored_exception(frame: FrameType | None) -> bool:
    """Return whether Python would ignore an exception raised here: inside the hook above."""
    while frame and frame.f_code is not _exit_although_ignored.__code__:
        frame = frame.f_back
    return frame is not None


def exit_for_signal(number: int, code: int = 0) -> None:
    """End this process on a signal; `code` replaces the exit code 128 + number."""
    raise _SignalExit(number, code)


@contextmanager
def explain_signal_exit(words: Callable[[], list[str]]) -> Iterator[None]:
    """Print these lines if a signal ends the process during this block."""
    try:
        yield
    except _SignalExit as left:
        left.words = left.words or words()
        raise


@contextmanager
def record_signals(note: Callable[[int], None]) -> Iterator[None]:
    """Call `note` for each signal, between two bytecodes, instead of ending the process."""
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
    """Defer signals until the end of the block, which must have its own time limit.

    Before `has_begun` returns true, a signal ends the process at once.
    """
    noted: list[int] = []

    def defer(number: int) -> None:
        if has_begun():
            noted.append(number)
        else:
            exit_for_signal(number)

    with explain_signal_exit(lambda: ["nothing was changed"]), record_signals(defer):
        yield
    if noted:
        exit_for_signal(noted[0])


def end(code: object, left: SystemExit | None) -> NoReturn:
    """Flush the output and end this process with an exit code, or EXIT_BUG without one.

    `left` is the exception that ended it early, if any.
    """
    number = code if isinstance(code, int) else EXIT_BUG
    with record_signals(_exit_at_second_signal()):
        if number > EXIT_SIGNALLED or isinstance(left, _SignalExit):
            signal.signal(signal.SIGALRM, lambda *_: os._exit(number))
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        with suppress(OSError, ValueError):  # the reader is gone
            if isinstance(left, _SignalExit):
                print(f"testbed: ended by {signal.Signals(left.number).name}", file=sys.stderr)
                for line in left.words:
                    print(line, file=sys.stderr)
            number = flushed(number)
            sys.stderr.flush()
        # Not sys.exit: workers may still wait for a lab that does not answer.
        os._exit(number)


def _exit_at_second_signal() -> Callable[[int], None]:
    """Return a handler for signals once the exit code is known: a first no longer changes it.

    A second ends the process, which waits for the reader of its last lines.
    """
    received: list[int] = []

    def note(number: int) -> None:
        received.append(number)
        if len(received) > 1:
            os._exit(EXIT_SIGNALLED + received[0])

    return note
