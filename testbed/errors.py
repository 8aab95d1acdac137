"""The errors of the testbed, cut by who must act.

    TestbedError
    ├── UsageError            the command line is wrong                      exit 2
    │   └── FileError         an experiment or lab file is wrong (line:col)  exit 2
    ├── LabError              an instrument, host or network misbehaved      exit 4
    │   ├── InstrumentError   one instrument: what was sent, what came back
    │   │   ├── Rejected      it understood and said no
    │   │   ├── NoReply       it did not answer in time (also a TimeoutError)
    │   │   ├── LinkLost      its line broke or never opened (also a ConnectionError)
    │   │   ├── Garbled       it answered what its protocol does not allow
    │   │   └── NotKnown      its state cannot be read and was not set by this process
    │   └── HostError         one host: SSH, agent or rank
    │       └── HostTimeout   it did not answer in time (also a TimeoutError)
    ├── BusyError             a port, instrument or host belongs to another  exit 5
    └── UnsafeError           clean-up or safe state could not be verified   exit 6

Every message is one sentence: what was tried, on what, what came back; `hint` says what to do next.
"""

from __future__ import annotations

from testbed.concealed import excerpt
from testbed.printable import printable

EXIT_PASSED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INCONCLUSIVE = 3
EXIT_LAB = 4
EXIT_BUSY = 5
EXIT_UNSAFE = 6
EXIT_BUG = 70
EXIT_SIGNALLED = 128
"""Exit codes above it say which signal ended a command."""


class TestbedError(Exception):
    """Base of all errors for users: what went wrong and what to do; shown without a traceback."""

    __test__ = False  # not a test class, whatever pytest thinks of the name
    exit_code = EXIT_LAB

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message}; {self.hint}" if self.hint else message


class UsageError(TestbedError):
    """Reject a command line or a value given on it."""

    exit_code = EXIT_USAGE


class FileError(UsageError):
    """Reject a file that a person wrote, at the place where it is wrong.

    `where` is `file:line:column`, counted from 1. What the file says is repeated in one short line,
    without control or escape sequences.
    """

    def __init__(self, where: str, message: str, *, hint: str = "") -> None:
        super().__init__(_in_one_line(message), hint=_in_one_line(hint))
        self.where = where

    def __str__(self) -> str:
        return f"{_in_one_line(self.where)}: {super().__str__()}"


_LONGEST = 1000


def _in_one_line(text: str) -> str:
    """Return text without control characters, and without its middle where it is long."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 80]} … {text[-80:]}"
    return printable(text)


class LabError(TestbedError):
    """Report that something in the lab did not do what it should."""


class InstrumentError(LabError):
    """Report a failed exchange with one instrument.

    `reply` is what came back, or an empty string when nothing did. What an instrument says is
    repeated without secrets, in one line of limited length, without control or escape sequences.
    """

    def __init__(self, instrument: str, message: str, *, reply: str = "", hint: str = "") -> None:
        super().__init__(_sanitised(f"{instrument}: {message}"), hint=_sanitised(hint))
        self.instrument = instrument
        self.reply = _sanitised(reply)


def _sanitised(text: str) -> str:
    return printable(excerpt(text, _LONGEST))


class Rejected(InstrumentError):
    """Report that an instrument understood a command and refused it."""


class NoReply(InstrumentError, TimeoutError):
    """Report that an instrument did not answer before the deadline."""


class LinkLost(InstrumentError, ConnectionError):
    """Report that the line to an instrument broke, or could not be opened."""


class Garbled(InstrumentError):
    """Report an answer that the instrument's protocol does not allow."""


class NotKnown(InstrumentError):
    """Report that the state of an instrument cannot be read, and nothing was commanded here."""


class HostError(LabError):
    """Report that a host, its agent or one of its ranks failed at something asked of it."""

    def __init__(self, host: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{host}: {message}", hint=hint)
        self.host = host


class HostTimeout(HostError, TimeoutError):
    """Report that a host did not answer before the deadline."""


class BusyError(TestbedError):
    """Report that a resource is in use by others."""

    exit_code = EXIT_BUSY


class UnsafeError(TestbedError):
    """Report that the lab could not be brought back to a known state."""

    exit_code = EXIT_UNSAFE
