"""What all transports share: the choice between them, lines out of bytes, words for troubles."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from typing import Protocol

from testbed.bench.contracts import Transport
from testbed.clock import Deadline
from testbed.errors import BusyError, LinkLost, NoReply, TestbedError, UsageError
from testbed.plugins import kind
from testbed.resource import Tty, is_visa, place


class Dial(Protocol):
    """Open a line to one instrument; the shape of every plug-in of the group `transports`.

    `baud` counts on serial lines only. Errors: LinkLost, BusyError for a line held by another.
    """

    def __call__(
        self, instrument: str, resource: str, *, baud: int, deadline: Deadline
    ) -> Transport: ...


def dial_for(instrument: str, resource: str, transport: str) -> Dial:
    """Return the way to open a resource: by the transport named, else by how it is written.

    VISA names go through VISA, device names through pyserial.
    """
    name = transport or ("visa" if is_visa(resource) else "serial")
    if name == "serial" and not is_serial(resource):
        raise UsageError(f"{instrument}: {resource!r} is no serial line", hint="use 'visa'")
    dial: Dial = kind("transports", name).load()
    return dial


def is_serial(resource: str) -> bool:
    """Tell whether a resource is a serial line, however it is written."""
    return isinstance(place(resource), Tty)


class BufferedTransport(ABC):
    """A transport whose library hands over bytes in any pieces; lines are cut here."""

    def __init__(self, instrument: str) -> None:
        self._instrument = instrument
        self._unread = bytearray()

    def receive(self, terminator: bytes, deadline: Deadline) -> bytes:
        """Return bytes up to and including `terminator`."""
        while (end := self._unread.find(terminator)) < 0:
            self._unread += self._arriving(terminator, deadline)
        line = bytes(self._unread[: end + len(terminator)])
        del self._unread[: len(line)]
        return line

    @abstractmethod
    def _arriving(self, terminator: bytes, deadline: Deadline) -> bytes:
        """Return at least one new byte; raise NoReply or LinkLost."""

    def _no_reply(self) -> NoReply:
        if not self._unread:
            return NoReply(self._instrument, "did not answer in time")
        begun = self._unread.decode("ascii", "backslashreplace")
        return NoReply(self._instrument, f"stopped answering after {begun!r}", reply=begun)


def not_opened(instrument: str, resource: str, error: Exception) -> TestbedError:
    """Return what a failed open means to a person; `error` came from the library."""
    number = error.errno if isinstance(error, OSError) and error.errno else 0
    if number in (errno.EAGAIN, errno.EBUSY):
        return BusyError(
            f"{instrument}: {resource} is open in another program",
            hint="close that program; `fuser` with the device name tells which",
        )
    reason = os.strerror(number) if number else str(error).partition("\n")[0]
    hint = _HINTS.get(number, "check its power, its cable and the resource in the lab file")
    return LinkLost(instrument, f"opening {resource} failed: {reason}", hint=hint)


_HINTS = {
    errno.EACCES: "join the device's group, as with: sudo usermod -aG dialout $USER",
    errno.ENOENT: "plug it in, or correct the device name in the lab file",
    errno.ECONNREFUSED: "nothing listens there; check the port and that remote control is enabled",
}
