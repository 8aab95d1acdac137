"""What all transports share: the choice between them, lines out of bytes, words for troubles."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from typing import Protocol

from testbed.bench.contracts import Cut, Transport
from testbed.clock import Deadline
from testbed.errors import BusyError, LinkLost, NoReply, TestbedError, UsageError
from testbed.plugins import kind
from testbed.resource import Ssh, Tcp, Tty, is_visa, place


class Dial(Protocol):
    """Open a line to one instrument; the shape of every plug-in of the group `transports`.

    `baud` counts on serial lines only. Errors: LinkLost, BusyError for a line held by another.
    """

    def __call__(
        self, instrument: str, resource: str, *, baud: int, deadline: Deadline
    ) -> Transport: ...


def dial_for(instrument: str, resource: str, transport: str) -> Dial:
    """Return the way to open a resource: by the transport named, else by how it is written.

    VISA names go through VISA, device names through pyserial, `tcp://…` straight to a socket,
    `ssh://…` through SSH.
    """
    where = place(resource)
    direct = "ssh" if isinstance(where, Ssh) else "tcp" if isinstance(where, Tcp) else "serial"
    name = transport or ("visa" if is_visa(resource) else direct)
    if name == "serial" and not isinstance(where, Tty):
        raise UsageError(f"{instrument}: {resource!r} is no serial line", hint="use 'visa'")
    if name == "tcp" and not isinstance(where, Tcp):
        raise UsageError(f"{instrument}: {resource!r} is no TCP port", hint="use 'serial'")
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

    def receive(self, end: bytes | Cut, deadline: Deadline) -> bytes:
        """Return bytes up to and including the terminator `end`, or as many as it cuts off."""
        cut = after(end) if isinstance(end, bytes) else end
        while not (count := cut(bytes(self._unread))):
            self._unread += self._arriving(deadline)
        message = bytes(self._unread[:count])
        del self._unread[:count]
        return message

    @abstractmethod
    def _arriving(self, deadline: Deadline) -> bytes:
        """Return at least one new byte; raise NoReply or LinkLost."""

    def _no_reply(self) -> NoReply:
        if not self._unread:
            return NoReply(self._instrument, "did not answer in time")
        begun = self._unread.decode("ascii", "backslashreplace")
        return NoReply(self._instrument, f"stopped answering after {begun!r}", reply=begun)


def after(terminator: bytes) -> Cut:
    """Return what cuts off a line with its terminator."""

    def cut(data: bytes) -> int:
        found = data.find(terminator)
        return 0 if found < 0 else found + len(terminator)

    return cut


def exactly(count: int) -> Cut:
    """Return what cuts off frames of a fixed number of bytes."""
    return lambda data: count if len(data) >= count else 0


def listen_out(line: Transport, seconds: float, deadline: Deadline) -> None:
    """Drop what arrives until nothing has for so long, or the deadline passes."""
    while not deadline.passed:
        try:
            line.receive(len, deadline.within(seconds))
        except NoReply:
            return


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
    errno.ETIMEDOUT: "is it on, is its address right, and does the name service answer?",
    errno.ECONNREFUSED: "nothing listens there; check the port and that remote control is enabled",
}
