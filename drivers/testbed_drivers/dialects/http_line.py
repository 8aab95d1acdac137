"""JSON over one keep-alive HTTP connection, host side (http.client of the standard library).

Exactly the bytes of an answer are read from the transport: surplus bytes are detected before the
next request. Headers are not in the transcript, because one of them is a password.
"""

from __future__ import annotations

import io
import json
import math
import socket
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, NamedTuple, cast

from testbed.bench.contracts import Tracer, Transport
from testbed.clock import Deadline
from testbed.concealed import excerpt, excerpt_of
from testbed.errors import Garbled, LinkLost, NoReply
from testbed.files import parse_json
from testbed.resource import Tcp
from testbed_drivers.transports.base import MAX_REPLY_BYTES, exactly

Json = Any
"""Data whose shape only the service's schema knows."""


class Reply(NamedTuple):
    """The answer of a service; an error page that is no JSON is kept as text."""

    status: int
    content: Json
    headers: Message


@dataclass(eq=False)
class HttpLine:
    """One connection to one web service.

    `headers` go with every request, and so does the last cookie of the service; `media` is the
    media type of the JSON. If the service closes the connection after an answer, the next request
    opens it again.
    """

    _instrument: str
    _where: Tcp
    _dial: Callable[[Deadline], Transport]
    _headers: Mapping[str, str]
    _media: str
    _tracer: Tracer
    deadline: InitVar[Deadline]

    def __post_init__(self, deadline: Deadline) -> None:
        self._headers = {"Accept": self._media, **self._headers}
        self._line: Transport | None = self._dial(deadline)

    def request(
        self,
        method: str,
        path: str,
        body: Json,
        deadline: Deadline,
        headers: Mapping[str, str] | None = None,
        limit: float = math.inf,
    ) -> Reply:
        """Send one request and return the service's answer; without content it is None.

        The service has `limit` seconds for the answer once the connection is open. Errors: NoReply,
        LinkLost, and Garbled for invalid HTTP or JSON.
        """
        request = f"{method} {path}"
        data = b"" if body is None else json.dumps(body).encode()
        self._tracer("send", f"{request}\r\n\r\n".encode() + data)
        try:
            self._line = self._line or self._dial(deadline)
            budget = deadline.within(limit)
            response, text = self._exchange(self._line, method, path, data, headers or {}, budget)
        except NoReply as error:
            raise NoReply(self._instrument, f"did not answer {request} in time") from error
        except (HTTPException, ValueError) as error:  # http.client raises both
            words = excerpt(repr(error))
            message = f"did not answer {request} with valid HTTP: {words}"
            raise Garbled(self._instrument, message) from error
        self._tracer("receive", f"{response.status}\r\n\r\n".encode() + text)
        content = self._content(request, response.status, text)
        return Reply(response.status, content, response.headers)

    def quiet(self) -> bool:
        """Return whether the idle connection is up and holds no unread bytes."""
        return self._line is None or self._line.quiet()

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        if self._line is not None:
            self._line.close()

    def _exchange(
        self,
        line: Transport,
        method: str,
        path: str,
        data: bytes,
        headers: Mapping[str, str],
        deadline: Deadline,
    ) -> tuple[HTTPResponse, bytes]:
        pipe = _SocketAdapter(line, deadline)
        http = HTTPConnection(self._where.host, self._where.port)
        http.sock = cast("socket.socket", pipe)
        content_type = {"Content-Type": self._media} if data else {}
        sent = {**self._headers, **content_type, **headers}
        http.request(method, path, body=data or None, headers=sent)
        line.send(bytes(pipe.request), deadline)
        response = http.getresponse()
        text = response.read()
        if response.will_close:
            line.close()
            self._line = None
        if cookie := response.headers.get("Set-Cookie"):
            self._headers = {**self._headers, "Cookie": cookie.partition(";")[0]}
        return response, text

    def _content(self, request: str, status: int, text: bytes) -> Json:
        try:
            return parse_json(text) if text else None
        except ValueError as error:
            words = excerpt_of(text, "utf-8")
            if status >= 400:
                return words
            raise Garbled(
                self._instrument, f"answered {request} without JSON: {words!r}", reply=words
            ) from error


class _SocketAdapter:
    """What http.client needs of a socket: it collects a request, and reads the answer."""

    def __init__(self, line: Transport, deadline: Deadline) -> None:
        self.request = bytearray()
        self._answer = _ResponseStream(line, deadline)

    def sendall(self, data: bytes) -> None:
        self.request += data

    def makefile(self, mode: str) -> io.BufferedIOBase:
        return self._answer

    def close(self) -> None:
        """Do nothing: the HttpLine closes the line."""


class _ResponseStream(io.BufferedIOBase):
    """An answer as it arrives. A line or a body that breaks off is a lost link.

    How much of it may come, and until when, is up to the transport, whatever the answer claims.
    """

    def __init__(self, line: Transport, deadline: Deadline) -> None:
        self._line = line
        self._deadline = deadline

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._line.receive(b"\n", self._deadline)

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            return self._rest()
        if size > MAX_REPLY_BYTES:
            raise HTTPException(f"a body of {size} bytes")
        return self._line.receive(exactly(size), self._deadline) if size else b""

    def _rest(self) -> bytes:
        """Return a body whose end is that of the connection."""
        body = b""
        while True:
            try:
                body += self._line.receive(len, self._deadline)
            except LinkLost:
                return body
