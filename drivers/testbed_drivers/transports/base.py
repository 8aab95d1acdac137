"""The base of transports: choosing one for a resource, splitting lines, error messages."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from testbed.bench.contracts import Cut, Tracer, Transport
from testbed.clock import Deadline
from testbed.concealed import excerpt_of
from testbed.errors import BusyError, Garbled, LinkLost, NoReply, TestbedError, UsageError
from testbed.plugins import kind
from testbed.resource import Ssh, Tcp, Tty, is_visa, place
from testbed_drivers.transports.options import LineOptions, Timeouts


class Dial(Protocol):
    """Opens a connection to one instrument; the interface of plug-ins of the group `transports`.

    `baud` is used on serial lines only. Errors: LinkLost, BusyError for a serial line in use by
    another process.
    """

    def __call__(
        self, instrument: str, resource: str, *, baud: int, deadline: Deadline
    ) -> Transport: ...


def dial_for(
    instrument: str, resource: str, transport: str, setting: LineOptions | None = None
) -> Dial:
    """Return the function that opens a resource: by the named transport, or by its spelling.

    VISA names go through VISA, device names through pyserial, `tcp://…` straight to a socket,
    `ssh://…` through SSH. `setting` has the settings of a serial line besides its speed.
    """
    where = place(resource)
    direct = "ssh" if isinstance(where, Ssh) else "tcp" if isinstance(where, Tcp) else "serial"
    name = transport or ("visa" if is_visa(resource) else direct)
    if name == "serial" and not isinstance(where, Tty):
        raise UsageError(
            f"{instrument}: {resource!r} is not a serial line", hint="use transport 'visa'"
        )
    if name == "tcp" and not isinstance(where, Tcp):
        raise UsageError(
            f"{instrument}: {resource!r} is not a TCP port", hint="use transport 'serial'"
        )
    load = kind("transports", name).load
    if setting and isinstance(where, Tty) and (setting.parity != "none" or setting.rtscts):
        return partial(load(), parity=setting.parity, rtscts=setting.rtscts)
    dial: Dial = load()
    return dial


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of an instrument, and the transport to it.

    `serial` is the expected serial number, None accepts any. `dial` replaces the function that
    opens its lines.
    """

    instrument: str
    resource: str
    serial: str | None
    options: Timeouts
    tracer: Tracer
    dial: Dial | None = None

    def require_no_serial(self, what: str) -> None:
        """Raise UsageError if a serial number is expected of a device that does not report any."""
        if self.serial is not None:
            raise UsageError(
                f"{self.instrument}: {what} does not report its serial number",
                hint="leave out 'identity', and name its adapter as in /dev/serial/by-id/…",
            )

    def opener(self) -> Callable[[Deadline], Transport]:
        """Return a function that opens a line as the options say, by default by its resource."""
        setting = self.options if isinstance(self.options, LineOptions) else None
        transport = getattr(self.options, "transport", "")
        dial = self.dial or dial_for(self.instrument, self.resource, transport, setting)
        baud = setting.baud if setting else 0
        return lambda deadline: dial(self.instrument, self.resource, baud=baud, deadline=deadline)


def is_serial(resource: str) -> bool:
    """Return whether a resource is a serial line, in any spelling."""
    return isinstance(place(resource), Tty)


MAX_REPLY_BYTES = 2 << 20
"""The most bytes that may arrive in one exchange."""


class BufferedTransport(ABC):
    """A transport whose library delivers bytes in any pieces; it splits them into messages.

    However much arrives, and in whatever pieces, a wait ends at its deadline and an exchange, which
    begins with `send`, at `MAX_REPLY_BYTES`.
    """

    def __init__(self, instrument: str) -> None:
        self._instrument = instrument
        self._unread = bytearray()
        self._arrived = 0
        """Bytes of this exchange so far."""

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of `data`; return when the kernel has accepted it."""
        self._arrived = 0
        self._send(data, deadline)

    def receive(self, end: bytes | Cut, deadline: Deadline) -> bytes:
        """Return bytes up to and including the terminator `end`, or as many as `end` computes."""
        try:
            while not (count := self._cut(end)):
                self._receive_more(deadline)
        except (NoReply, Garbled):
            self._abort_read()
            raise
        message = bytes(self._unread[:count])
        del self._unread[:count]
        return message

    @abstractmethod
    def _send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of `data`; raise NoReply or LinkLost."""

    @abstractmethod
    def _receive_some(self, deadline: Deadline) -> bytes:
        """Return at least one new byte; raise NoReply or LinkLost."""

    def _abort_read(self) -> None:  # noqa: B027 - most lines can tell nothing
        """Tell the other side, where that can be done, that its answer is not awaited any more."""

    def _cut(self, end: bytes | Cut) -> int:
        """Return how many of the bytes that arrived are the first message, 0 for none."""
        if not isinstance(end, bytes):
            return end(bytes(self._unread))
        found = self._unread.find(end)
        return 0 if found < 0 else found + len(end)

    def _receive_more(self, deadline: Deadline) -> None:
        """Take in what arrives next."""
        if deadline.passed:
            raise self._no_reply()
        data = self._receive_some(deadline)
        self._unread += data
        self._arrived += len(data)
        if self._arrived > MAX_REPLY_BYTES:
            begun = self._partial_reply()
            raise Garbled(
                self._instrument,
                f"sent more than {MAX_REPLY_BYTES >> 20} MiB without ending its reply {begun!r}",
                reply=begun,
                hint="check that 'driver' and 'resource' in the lab file name this device",
            )

    def _no_reply(self) -> NoReply:
        if not self._unread:
            return NoReply(self._instrument, "did not answer in time")
        begun = self._partial_reply()
        return NoReply(self._instrument, f"stopped answering after {begun!r}", reply=begun)

    def _lost(self, what: str, hint: str = "check its power and its cable") -> LinkLost:
        return LinkLost(self._instrument, what, hint=hint)

    def _partial_reply(self) -> str:
        """Return what has arrived of an answer that has no end."""
        return excerpt_of(bytes(self._unread))


def exactly(count: int) -> Cut:
    """Return a `Cut` for frames of a fixed number of bytes."""
    return lambda data: count if len(data) >= count else 0


def drain_input(line: Transport, seconds: float, deadline: Deadline) -> None:
    """Discard received bytes until none arrive for `seconds`, or the deadline passes."""
    while not deadline.passed:
        try:
            line.receive(len, deadline.within(seconds))
        except NoReply:
            return


def open_error(instrument: str, resource: str, error: Exception) -> TestbedError:
    """Return the error to show for a failed open; `error` came from the library."""
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
    errno.ETIMEDOUT: "check that it is on, its address, and that the name service answers",
    errno.ECONNREFUSED: "nothing listens there; check the port and that remote control is enabled",
}
