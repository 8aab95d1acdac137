"""The error classes of the testbed, by the party that can correct the error.

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
    """The base of all errors that users see: a message and a hint, without a traceback."""

    __test__ = False  # not a test class, whatever pytest thinks of the name
    exit_code = EXIT_LAB

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message}; {self.hint}" if self.hint else message


class UsageError(TestbedError):
    """The command line, or a value on it, is wrong."""

    exit_code = EXIT_USAGE


class FileError(UsageError):
    """A user's file is wrong, at a known place.

    `where` is `file:line:column`, counted from 1. Text from the file is quoted in one short line,
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
    """An instrument, host or network of the lab failed."""


class InstrumentError(LabError):
    """An exchange with one instrument failed.

    `reply` is the answer, or an empty string if there was none. Text from an instrument is quoted
    in one line of limited length, without secrets, control characters or escape sequences.
    """

    def __init__(self, instrument: str, message: str, *, reply: str = "", hint: str = "") -> None:
        super().__init__(_sanitised(f"{instrument}: {message}"), hint=_sanitised(hint))
        self.instrument = instrument
        self.reply = _sanitised(reply)


def _sanitised(text: str) -> str:
    return printable(excerpt(text, _LONGEST))


class Rejected(InstrumentError):
    """An instrument understood a command and refused it."""


class NoReply(InstrumentError, TimeoutError):
    """An instrument did not answer before the deadline."""


class LinkLost(InstrumentError, ConnectionError):
    """The connection to an instrument broke, or could not be opened."""


class Garbled(InstrumentError):
    """An instrument gave an answer that its protocol does not allow."""


class NotKnown(InstrumentError):
    """The state of an instrument cannot be read, and this process has set none."""


class HostError(LabError):
    """A request to a host, its agent or one of its ranks failed."""

    def __init__(self, host: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{host}: {message}", hint=hint)
        self.host = host


class HostTimeout(HostError, TimeoutError):
    """A host did not answer before the deadline."""


class BusyError(TestbedError):
    """A resource is in use by another run or user."""

    exit_code = EXIT_BUSY


class UnsafeError(TestbedError):
    """The lab could not be brought back to a known state."""

    exit_code = EXIT_UNSAFE
