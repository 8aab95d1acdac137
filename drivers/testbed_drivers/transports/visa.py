"""VISA resources through pyvisa; the only module that imports it.

pyvisa-py is used unless PYVISA_LIBRARY asks for another library. Its raw sockets and serial lines
are hardened here, because with it alone (0.8.1, measured): opening a closed port succeeds; a closed
peer costs a full timeout at 100 % CPU; Nagle's algorithm turns two writes in a row into 44 ms; a
serial line is not locked; raw OSErrors leak. So `PolledVisaTransport` waits for bytes itself, on
the descriptor underlying the VISA session, and lets VISA read exactly what is there. Resources are
never listed: that broadcasts on the lab's network.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import termios
from contextlib import suppress
from typing import Any

import pyvisa
from pyvisa.constants import ControlFlow, Parity, SerialTermination, StatusCode
from pyvisa.resources import MessageBasedResource, Resource, SerialInstrument, TCPIPSocket

from testbed.clock import Deadline, bounded
from testbed.errors import InstrumentError
from testbed.resource import Tty, place
from testbed_drivers.transports.base import BufferedTransport, open_error
from testbed_drivers.transports.tcp import set_socket_options

_CHUNK = 4096
"""Bytes per write: what pyvisa-py sends at once, and what a socket that is ready always takes."""
_MAX_READ = 65536
"""The most bytes that are read at once."""
_CLEAR_SECONDS = 0.5
_GRACE = 0.1
"""Seconds that a library gets to say by itself that its timeout is over."""
_RAISED = (OSError, RuntimeError, pyvisa.Error)
"""What libraries raise; pyvisa-py has a RuntimeError for HiSLIP that is none."""


def dial(
    instrument: str,
    resource: str,
    *,
    baud: int,
    deadline: Deadline,
    parity: str = "none",
    rtscts: bool = False,
) -> VisaTransport:
    """Open a VISA resource, or a device name as a VISA serial resource."""
    where = place(resource)
    name = f"ASRL{where.path}::INSTR" if isinstance(where, Tty) else resource

    def connect() -> Resource:
        manager = pyvisa.ResourceManager(os.environ.get("PYVISA_LIBRARY", "@py"))
        return manager.open_resource(name, open_timeout=_open_timeout(deadline))

    try:
        opened = bounded(connect, deadline, _close)
    except Exception as error:  # pyvisa-py raises bare Exception, ValueError and OSError here
        silent = str(StatusCode.error_timeout) in str(error)
        reason = OSError(errno.ETIMEDOUT, str(error)) if silent else error
        raise open_error(instrument, resource, reason) from error
    assert isinstance(opened, MessageBasedResource)
    try:
        underlying = _underlying(opened)
        _configure(opened, underlying, baud)
        if isinstance(opened, SerialInstrument) and parity != "none":
            opened.parity = Parity[parity]
        if isinstance(opened, SerialInstrument) and rtscts:
            if underlying is None:
                opened.flow_control = ControlFlow.rts_cts
            else:  # pyvisa-py touches DTR and DSR too, which not every line has
                underlying.rtscts = True
    except (OSError, pyvisa.VisaIOError) as error:
        _close(opened)
        raise open_error(instrument, resource, error) from error
    if underlying is None:
        return VisaTransport(instrument, opened)
    return PolledVisaTransport(instrument, opened, underlying.fileno())


class VisaTransport(BufferedTransport):
    """One open VISA session; all waiting is left to the VISA library."""

    def __init__(self, instrument: str, resource: MessageBasedResource) -> None:
        super().__init__(instrument)
        self._resource = resource
        self._stream = isinstance(resource, (TCPIPSocket, SerialInstrument))

    def _send(self, data: bytes, deadline: Deadline) -> None:
        try:
            self._write(data, deadline)
        except _RAISED as error:
            raise self._failure("sending", error) from error

    def quiet(self) -> bool:
        """Return whether this transport holds no unread bytes; the VISA library may buffer some."""
        return not self._unread

    def close(self) -> None:
        """Close the session; safe to call twice."""
        _close(self._resource)

    def _write(self, data: bytes, deadline: Deadline) -> None:
        """Write a message as one: only its last byte may carry the sign that it ends."""
        self._resource.timeout = _milliseconds(deadline)
        bounded(lambda: self._resource.write_raw(data), deadline.later(_GRACE), _ignore)

    def _receive_some(self, deadline: Deadline) -> bytes:
        try:
            return self._read(deadline)
        except _RAISED as error:
            raise self._failure("receiving", error) from error

    def _read(self, deadline: Deadline) -> bytes:
        """Return what arrived: one byte of a stream, which has no end, else a piece of a message.

        A whole message at once would be as long as its sender likes, and the library's own timeout
        may begin anew with each of its packets.
        """
        self._resource.timeout = _milliseconds(deadline)
        with self._resource.ignore_warning(StatusCode.success_max_count_read):
            if self._stream:
                return self._resource.read_bytes(1)
            session, read = self._resource.session, self._resource.visalib.read
            return bounded(
                lambda: bytes(read(session, _MAX_READ)[0]), deadline.later(_GRACE), _ignore
            )

    def _abort_read(self) -> None:
        """Clear a box on GPIB or USB: it keeps the rest of its answer for the next query."""
        if self._stream:
            return
        with suppress(NotImplementedError, *_RAISED):
            deadline = Deadline.after(_CLEAR_SECONDS)
            self._resource.timeout = _milliseconds(deadline)
            bounded(self._resource.clear, deadline, _ignore)

    def _failure(self, doing: str, error: Exception) -> InstrumentError:
        if isinstance(error, TimeoutError) or _timed_out(error):
            return self._no_reply()
        return self._lost(f"{doing} failed: {error}")


class PolledVisaTransport(VisaTransport):
    """One open pyvisa-py session; the transport itself waits on its socket or serial port."""

    def __init__(self, instrument: str, resource: MessageBasedResource, descriptor: int) -> None:
        super().__init__(instrument, resource)
        self._descriptor = descriptor

    def quiet(self) -> bool:
        """Return whether the idle line is up and holds no unread bytes."""
        return super().quiet() and not self._readable(0.0)

    def _write(self, data: bytes, deadline: Deadline) -> None:
        for start in range(0, len(data), _CHUNK):
            _, ready, _ = select.select([], [self._descriptor], [], deadline.left)
            if not ready:
                raise TimeoutError
            self._resource.write_raw(data[start : start + _CHUNK])

    def _read(self, deadline: Deadline) -> bytes:
        if not self._readable(deadline.left):
            raise TimeoutError
        count = _bytes_waiting(self._descriptor)
        if not count:
            raise ConnectionResetError("the other side closed the connection")
        return self._resource.read_bytes(min(count, _MAX_READ))

    def _readable(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        return bool(ready)


def _close(resource: Resource) -> None:
    """Close a session and have pyvisa-py forget it.

    By itself it keeps every closed session, 2 kB each (0.8.1), for as long as any other is open.
    """
    try:
        session, library = resource.session, resource.visalib
    except pyvisa.errors.InvalidSession:
        return  # closed before
    resource.close()
    for kept in ("sessions", "_last_status_in_session", "_ignore_warning_in_session"):
        getattr(library, kept, {}).pop(session, None)


def _open_timeout(deadline: Deadline) -> int:
    """Return milliseconds such that pyvisa-py, which overshoots by a tenth, keeps the deadline."""
    return max(1, int(1000 * min(deadline.left / 1.1, deadline.left - 0.1)))


def _underlying(resource: Resource) -> Any:
    """Return the socket or serial port under a pyvisa-py session; None with other libraries."""
    session = getattr(resource.visalib, "sessions", {}).get(resource.session)
    underlying = getattr(session, "interface", None)
    return underlying if hasattr(underlying, "fileno") else None


def _configure(resource: Resource, underlying: Any, baud: int) -> None:
    """Finish the opening of a new session; raise the OSError of a connection that failed silently.

    A serial line is locked for this process; where its bytes are polled here, no byte ends input.
    """
    if isinstance(resource, SerialInstrument):
        resource.baud_rate = baud
        if underlying is not None:
            resource.end_input = SerialTermination.none
            underlying.exclusive = True
    if isinstance(underlying, socket.socket):
        if number := underlying.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(number, os.strerror(number))
        underlying.getpeername()
        set_socket_options(underlying)


def _ignore(result: object) -> None:
    """Do nothing with what came too late."""


def _timed_out(error: Exception) -> bool:
    return getattr(error, "error_code", None) == StatusCode.error_timeout


def _bytes_waiting(descriptor: int) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    return int(count)


def _milliseconds(deadline: Deadline) -> int:
    return max(1, int(deadline.left * 1000))
