"""JSON over one kept-alive HTTP connection, host side (standard library).

The deadline bounds each read of the socket; a box that drips bytes can stretch one exchange.
Headers stay out of the transcript, because one of them is a password.
"""

from __future__ import annotations

import json
import select
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any

from testbed.bench.contracts import Tracer
from testbed.clock import Deadline
from testbed.errors import Garbled, InstrumentError, LinkLost, NoReply
from testbed.resource import Tcp
from testbed_drivers.transport import not_opened

Json = Any
"""Data whose shape only the service's schema knows."""


class HttpLine:
    """One connection to one service; http.client sets TCP_NODELAY on it."""

    def __init__(
        self,
        instrument: str,
        connection: HTTPConnection,
        headers: Mapping[str, str],
        tracer: Tracer,
    ) -> None:
        self._instrument = instrument
        self._connection = connection
        self._headers = dict(headers)
        self._tracer = tracer

    @classmethod
    def dial(
        cls,
        instrument: str,
        where: Tcp,
        tls: ssl.SSLContext | None,
        headers: Mapping[str, str],
        tracer: Tracer,
        deadline: Deadline,
    ) -> HttpLine:
        """Connect, over TLS when a context is given; `headers` go with every request."""
        seconds = max(0.001, deadline.left)
        connection = (
            HTTPSConnection(where.host, where.port, timeout=seconds, context=tls)
            if tls
            else HTTPConnection(where.host, where.port, timeout=seconds)
        )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise LinkLost(
                instrument,
                f"its certificate is not trusted: {error.verify_message}",
                hint="name the authority in 'ca_file', or set 'verify: false' on a closed network",
            ) from error
        except OSError as error:
            connection.close()
            raise not_opened(instrument, f"{where.host}:{where.port}", error) from error
        return cls(instrument, connection, headers, tracer)

    def request(self, method: str, path: str, body: Json, deadline: Deadline) -> tuple[int, Json]:
        """Return status and JSON answer (None when empty) of one request.

        Errors: NoReply, LinkLost, and Garbled for what is no HTTP or no JSON.
        """
        data = b"" if body is None else json.dumps(body).encode()
        self._tracer("send", f"{method} {path}\r\n\r\n".encode() + data)
        try:
            status, text = self._exchange(method, path, data, deadline)
        except (OSError, HTTPException) as error:
            raise self._failure(f"{method} {path}", error) from error
        self._tracer("receive", f"{status}\r\n\r\n".encode() + text)
        try:
            return status, json.loads(text) if text else None
        except ValueError as error:
            words = text[:80].decode("utf-8", "backslashreplace")
            raise Garbled(
                self._instrument, f"answered {method} {path} without JSON: {words!r}", reply=words
            ) from error

    def _exchange(
        self, method: str, path: str, data: bytes, deadline: Deadline
    ) -> tuple[int, bytes]:
        headers = self._headers | ({"Content-Type": "application/json"} if data else {})
        self._connection.sock.settimeout(max(0.001, deadline.left))
        self._connection.request(method, path, body=data or None, headers=headers)
        response = self._connection.getresponse()
        self._connection.sock.settimeout(max(0.001, deadline.left))
        return response.status, response.read()

    def quiet(self) -> bool:
        """Tell whether the idle connection is up and holds no unread bytes."""
        if self._connection.sock is None:  # the service announced `Connection: close`
            return False
        ready, _, _ = select.select([self._connection.sock], [], [], 0.0)
        return not ready

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._connection.close()

    def _failure(self, request: str, error: Exception) -> InstrumentError:
        if isinstance(error, TimeoutError):
            return NoReply(self._instrument, f"did not answer {request} in time")
        if isinstance(error, OSError):
            return LinkLost(self._instrument, f"{request} failed: {error}")
        return Garbled(self._instrument, f"answered {request} without HTTP: {error!r}")
