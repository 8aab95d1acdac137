"""TLS connections by the standard library's ssl.

TLS has messages of its own, which may come at any time (RFC 8446) and are no data. OpenSSL would
read them from a socket without a limit; so here it is given the bytes received so far, and every
wait for more has a deadline.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from testbed.clock import Deadline
from testbed.errors import InstrumentError, LinkLost
from testbed.resource import Tcp
from testbed_drivers.transports.base import open_error
from testbed_drivers.transports.tcp import TcpTransport, open_socket

_MAX_READ = 65536
_OWN_SECONDS = 0.1
"""How long an idle line may go on with messages of TLS until it counts as one that is not quiet."""

Result = TypeVar("Result")


def dial(instrument: str, where: Tcp, tls: ssl.SSLContext, deadline: Deadline) -> TlsTransport:
    """Connect to a TCP port and perform the TLS handshake."""
    line = open_socket(instrument, where, deadline)
    made = TlsTransport(instrument, line, tls, where.host)
    try:
        made.handshake(deadline)
    except ssl.SSLCertVerificationError as error:
        line.close()
        raise LinkLost(
            instrument,
            f"its certificate is not trusted: {error.verify_message}",
            hint="name the authority in 'ca_file', or set 'verify: false' on a closed network",
        ) from error
    except InstrumentError:
        line.close()
        raise
    except OSError as error:
        line.close()
        raise open_error(instrument, f"{where.host}:{where.port}", error) from error
    return made


class TlsTransport(TcpTransport):
    """One TLS connection."""

    def __init__(
        self, instrument: str, line: socket.socket, tls: ssl.SSLContext, host: str
    ) -> None:
        super().__init__(instrument, line)
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._received, self._to_send, server_hostname=host)

    def handshake(self, deadline: Deadline) -> None:
        """Perform the TLS handshake; raise ssl.SSLError where it fails."""
        self._complete(self._tls.do_handshake, deadline)

    def quiet(self) -> bool:
        """Return whether the idle line is up and holds no unread bytes."""
        if self._unread or self._line.fileno() < 0:
            return False
        limit = Deadline.after(_OWN_SECONDS)
        try:
            while not limit.passed:
                try:
                    self._unread += self._tls.read(1)
                    return False
                except ssl.SSLWantReadError:
                    ready, _, _ = select.select([self._line], [], [], 0.0)
                    if not ready:
                        return True
                    self._received.write(super()._receive_some(limit))
        except OSError:
            pass
        return False

    def _send(self, data: bytes, deadline: Deadline) -> None:
        self._complete(lambda: self._tls.write(data), deadline)

    def _receive_some(self, deadline: Deadline) -> bytes:
        try:
            data = self._complete(lambda: self._tls.read(_MAX_READ), deadline)
        except ssl.SSLError as error:
            raise self._lost(f"receiving failed: {error.reason}") from error
        if not data:
            raise self._lost("the other side closed the connection")
        return data

    def _complete(self, act: Callable[[], Result], deadline: Deadline) -> Result:
        """Return what came of a step of TLS, with all that it had to say and to hear."""
        while True:
            try:
                result = act()
            except ssl.SSLWantReadError:
                self._flush(deadline)
                if deadline.passed:
                    raise self._no_reply() from None
                self._received.write(super()._receive_some(deadline))
            except ssl.SSLError:
                with suppress(OSError):  # the other side is told why, if it listens
                    self._flush(deadline)
                raise
            else:
                self._flush(deadline)
                return result

    def _flush(self, deadline: Deadline) -> None:
        if data := self._to_send.read():
            super()._send(data, deadline)
