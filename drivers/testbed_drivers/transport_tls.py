"""TCP ports inside TLS, through the standard library's ssl."""

from __future__ import annotations

import ssl

from testbed.clock import Deadline
from testbed.errors import LinkLost
from testbed.resource import Tcp
from testbed_drivers.transport import not_opened
from testbed_drivers.transport_tcp import TcpTransport, connected


def dial(instrument: str, where: Tcp, tls: ssl.SSLContext, deadline: Deadline) -> TlsTransport:
    """Connect to a TCP port and agree on TLS there."""
    line = connected(instrument, where, deadline)
    line.settimeout(max(0.001, deadline.left))
    try:
        return TlsTransport(instrument, tls.wrap_socket(line, server_hostname=where.host))
    except ssl.SSLCertVerificationError as error:
        line.close()
        raise LinkLost(
            instrument,
            f"its certificate is not trusted: {error.verify_message}",
            hint="name the authority in 'ca_file', or set 'verify: false' on a closed network",
        ) from error
    except OSError as error:
        line.close()
        raise not_opened(instrument, f"{where.host}:{where.port}", error) from error


class TlsTransport(TcpTransport):
    """One connection inside TLS, whose own messages may come at any time (RFC 8446)."""

    def quiet(self) -> bool:
        """Tell whether the idle line is up and holds no unread bytes."""
        if self._unread or self._line.fileno() < 0:
            return False
        self._line.settimeout(0.0)
        try:
            self._unread += self._line.recv(1)
        except ssl.SSLWantReadError:
            return True
        except OSError:
            return False
        return False
