"""A line in memory, on a clock that only moves during a wait: hours of silence cost nothing.

On a connection every client has a conversation of its own, and what comes after it was closed is
lost. A cable has one conversation for all openings: an old answer may still come out of it.
"""

from testbed.bench.sites import SshFarEnd
from testbed.errors import LinkLost, Rejected
from testbed_drivers.transports.base import BufferedTransport

WIRE_SECONDS = 0.001
"""What every message takes on its way."""


class MemoryWire:
    """A far end that drivers dial in memory; `cable` makes it a serial line."""

    def __init__(self, far_end, time, *, cable):
        self._far_end = far_end
        self.time = time
        self._open = None
        self._session = far_end.session(self._on_cable, serial=True) if cable else None

    def dial(self, instrument, resource, *, baud, deadline):
        """Open a line, and log in where that is part of it; the shape of a driver's `dial`."""
        if isinstance(self._far_end, SshFarEnd) and not self._far_end.admits("lab", None):
            raise Rejected(instrument, "refused the login")
        line = MemoryTransport(instrument, self.time)
        self._open = line
        line.session = self._session or self._far_end.session(line.hear, hang_up=line.hang_up)
        return line

    def _on_cable(self, data):
        if self._open is not None:
            self._open.hear(data)


class MemoryTransport(BufferedTransport):
    """One open line."""

    session = None

    def __init__(self, instrument, time):
        super().__init__(instrument)
        self._time = time
        self._inbox = b""
        self._is_open = True
        self._is_hung_up = False

    def _send(self, data, deadline):
        """Hand all of `data` to the far end."""
        if self._is_hung_up:
            raise LinkLost(self._instrument, "the other side closed the connection")
        self._time.advance(WIRE_SECONDS)
        self.session.receive(data)

    def hear(self, data):
        """Take what the far end sends, while the line is open."""
        if self._is_open and not self._is_hung_up:
            self._inbox += data

    def hang_up(self):
        """End the line from the far side; what was said before still arrives."""
        self._is_hung_up = True

    def _receive_some(self, deadline):
        until = self._time.now() + deadline.left
        while not self._inbox:
            if self._is_hung_up:
                raise LinkLost(self._instrument, "the other side closed the connection")
            if not self._time.step(until) and not self._inbox:
                raise self._no_reply()
        data, self._inbox = self._inbox, b""
        return data

    def quiet(self):
        """Tell whether the idle line is up and holds no unread bytes."""
        return not (self._unread or self._inbox or self._is_hung_up)

    def close(self):
        """Close the line; safe to call twice."""
        self._is_open = False
