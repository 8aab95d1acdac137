"""JSON over one kept-alive HTTP connection, host side (standard library).

Headers stay out of the transcript, because one of them is a password.
"""

from __future__ import annotations

import io
import json
import select
import socket
import ssl
from collections.abc import Mapping
from email.message import Message
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from testbed.bench.contracts import Tracer
from testbed.clock import Deadline
from testbed.errors import Garbled, InstrumentError, LinkLost, NoReply
from testbed.resource import Tcp
from testbed_drivers.transport import not_opened

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Json = Any
"""Data whose shape only the service's schema knows."""

_SHORTEST = 0.001
"""Seconds; a socket takes 0 for not waiting at all."""


class Reply(NamedTuple):
    """What a service answered; an error page that is no JSON is content as its text."""

    status: int
    content: Json
    headers: Message


def _is_about_tls(line: ssl.SSLSocket) -> bool:
    """Tell whether what arrived is of TLS itself, as its session tickets are after a handshake."""
    line.settimeout(0.0)
    try:
        line.recv(1)
    except ssl.SSLWantReadError:
        return True
    except OSError:
        return False
    return False


class HttpLine:
    """One connection to one service; http.client sets TCP_NODELAY on it.

    `headers` go with every request, and so does the cookie that the service gave last. A service
    that closes after each answer is connected again by the next request.
    """

    def __init__(
        self,
        instrument: str,
        connection: HTTPConnection,
        headers: Mapping[str, str],
        media: str,
        tracer: Tracer,
    ) -> None:
        self._instrument = instrument
        self._connection = connection
        self._headers = {"Accept": media, **headers}
        self._media = media
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
        media: str = "application/json",
    ) -> Self:
        """Connect, over TLS when a context is given; `media` is the kind of JSON spoken."""
        connection = (
            HTTPSConnection(where.host, where.port, context=tls)
            if tls
            else HTTPConnection(where.host, where.port)
        )
        line = cls(instrument, connection, headers, media, tracer)
        line._connect(deadline)
        return line

    def request(
        self,
        method: str,
        path: str,
        body: Json,
        deadline: Deadline,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Return what the service answered to one request; no content is None.

        Errors: NoReply, LinkLost, and Garbled for what is no HTTP or no JSON.
        """
        data = b"" if body is None else json.dumps(body).encode()
        self._tracer("send", f"{method} {path}\r\n\r\n".encode() + data)
        try:
            response, text = self._exchange(method, path, data, headers or {}, deadline)
        except (OSError, HTTPException) as error:
            raise self._failure(f"{method} {path}", error) from error
        self._tracer("receive", f"{response.status}\r\n\r\n".encode() + text)
        content = self._content(f"{method} {path}", response.status, text)
        return Reply(response.status, content, response.headers)

    def quiet(self) -> bool:
        """Tell whether the idle connection is up and holds no unread bytes."""
        line = self._connection.sock
        if line is None:  # the service closed it as announced; the next request connects
            return True
        if isinstance(line, ssl.SSLSocket) and line.pending():
            return False
        ready, _, _ = select.select([line], [], [], 0.0)
        return not ready or (isinstance(line, ssl.SSLSocket) and _is_about_tls(line))

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._connection.close()

    def _connect(self, deadline: Deadline) -> None:
        connection = self._connection
        connection.timeout = max(_SHORTEST, deadline.left)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise LinkLost(
                self._instrument,
                f"its certificate is not trusted: {error.verify_message}",
                hint="name the authority in 'ca_file', or set 'verify: false' on a closed network",
            ) from error
        except OSError as error:
            connection.close()
            where = f"{connection.host}:{connection.port}"
            raise not_opened(self._instrument, where, error) from error

    def _exchange(
        self, method: str, path: str, data: bytes, headers: Mapping[str, str], deadline: Deadline
    ) -> tuple[HTTPResponse, bytes]:
        if self._connection.sock is None:
            self._connect(deadline)
        self._connection.sock.settimeout(max(_SHORTEST, deadline.left))
        response_class = partial(_Response, deadline)
        self._connection.response_class = cast("type[HTTPResponse]", response_class)
        content_type = {"Content-Type": self._media} if data else {}
        sent = {**self._headers, **content_type, **headers}
        self._connection.request(method, path, body=data or None, headers=sent)
        response = self._connection.getresponse()
        text = response.read()
        if cookie := response.headers.get("Set-Cookie"):
            self._headers["Cookie"] = cookie.partition(";")[0]
        return response, text

    def _content(self, request: str, status: int, text: bytes) -> Json:
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            words = text[:80].decode("utf-8", "backslashreplace")
            if status >= 400:
                return words
            raise Garbled(
                self._instrument, f"answered {request} without JSON: {words!r}", reply=words
            ) from error

    def _failure(self, request: str, error: Exception) -> InstrumentError:
        if isinstance(error, TimeoutError):
            return NoReply(self._instrument, f"did not answer {request} in time")
        if isinstance(error, OSError | IncompleteRead):
            return LinkLost(self._instrument, f"{request} failed: {error}")
        return Garbled(self._instrument, f"answered {request} without HTTP: {error!r}")


def _is_quiet_inside(line: ssl.SSLSocket) -> bool:
    """Tell whether TLS delivers nothing; messages of its own may come at any time (RFC 8446)."""
    line.settimeout(0.0)
    try:
        line.recv(1)
    except ssl.SSLWantReadError:
        return True
    except OSError:
        return False
    return False  # an end, or a byte that is lost now, on a line that is given up


class _Response(HTTPResponse):
    """A response that is read until a deadline and whose head must be whole."""

    def __init__(self, deadline: Deadline, sock: socket.socket, *args: Any, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        self.fp.close()
        self.fp = _WholeLines(_Arriving(sock, deadline))


class _Arriving(io.RawIOBase):
    """What arrives on a socket until a deadline, however slowly the bytes drip in."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        # keeps the socket open for the rest of the body once http.client has let go of it
        self._bytes = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        if self._deadline.passed:
            raise TimeoutError
        self._sock.settimeout(max(_SHORTEST, self._deadline.left))
        return self._bytes.readinto(buffer)

    def close(self) -> None:
        self._bytes.close()
        super().close()


class _WholeLines(io.BufferedReader):
    """Refuse a line that breaks off: http.client takes a head that is cut for one that ends."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(-1 if size is None else size)
        if not line.endswith(b"\n") and len(line) != size:
            raise ConnectionResetError("the other side hung up in the middle of its answer")
        return line
