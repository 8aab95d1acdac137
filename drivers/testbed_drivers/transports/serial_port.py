"""Serial lines through pyserial; the only module that imports it.

The line has eight data bits and one stop bit; by default, no parity and no flow control. Modem
lines are never read, since a pseudo-terminal has none.
"""

from __future__ import annotations

import serial

from testbed.clock import Deadline
from testbed.errors import LinkLost, NoReply, UsageError
from testbed.resource import Tty, place
from testbed_drivers.transports.base import BufferedTransport, open_error


def dial(
    instrument: str,
    resource: str,
    *,
    baud: int,
    deadline: Deadline,
    parity: str = "none",
    rtscts: bool = False,
) -> SerialTransport:
    """Open a serial device exclusively, and discard bytes that were received before."""
    where = place(resource)
    if not isinstance(where, Tty):
        raise UsageError(f"{instrument}: {resource!r} is not a serial line")
    try:
        port = serial.Serial(
            where.path,
            baud,
            parity=parity[0].upper(),  # pyserial names them by their initials
            rtscts=rtscts,
            write_timeout=deadline.left,
            exclusive=True,
        )
    except ValueError as error:
        raise UsageError(f"{instrument}: {baud} baud on {resource} is impossible") from error
    except serial.SerialException as error:
        raise open_error(instrument, resource, error) from error
    return SerialTransport(instrument, port)


class SerialTransport(BufferedTransport):
    """One open serial device."""

    def __init__(self, instrument: str, port: serial.Serial) -> None:
        super().__init__(instrument)
        self._port = port

    def _send(self, data: bytes, deadline: Deadline) -> None:
        try:
            self._port.write_timeout = deadline.left
            self._port.write(data)
        except serial.SerialTimeoutException as error:
            raise NoReply(
                self._instrument, f"did not accept all of {len(data)} bytes in time"
            ) from error
        except OSError as error:
            raise self._failed("sending", error) from error

    def _receive_some(self, deadline: Deadline) -> bytes:
        try:
            self._port.timeout = deadline.left
            data: bytes = self._port.read(max(1, self._port.in_waiting))
        except OSError as error:
            raise self._failed("receiving", error) from error
        if not data:
            raise self._no_reply()
        return data

    def quiet(self) -> bool:
        """Return whether the idle line is up and holds no unread bytes."""
        try:
            return not self._unread and not self._port.in_waiting
        except OSError:
            return False

    def close(self) -> None:
        """Close the device; safe to call twice."""
        self._port.close()

    def _failed(self, doing: str, error: OSError) -> LinkLost:
        hint = "check the cable and whether the adapter is still plugged in"
        return self._lost(f"{doing} on {self._port.name} failed: {error}", hint)
