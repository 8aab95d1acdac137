"""HTTP/1.1, device side: parses requests from bytes, encodes answers; no sockets (RFC 9110, 9112).

Understands what drivers and `curl` send: a body of known length, kept-alive connections and several
requests in one piece. Refuses chunked bodies (411). The server never closes a connection; the
client does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.parser import Parser
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote

from testbed_drivers.dialects.client_connection import ClientConnection


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    def __str__(self) -> str:
        return f"{self.method} {self.target}"

    @property
    def path(self) -> str:
        """Return the path without its query and its last slash."""
        return unquote(self.target.partition("?")[0]).rstrip("/")

    @property
    def query(self) -> Mapping[str, str]:
        """Return the query parameters; of a repeated name, the last value."""
        fields = parse_qs(self.target.partition("?")[2], keep_blank_values=True)
        return {name: values[-1] for name, values in fields.items()}

    @property
    def content(self) -> Any:
        """Parse the body as JSON; raise ValueError if it is not JSON."""
        return json.loads(self.body)


class Answer(NamedTuple):
    """An answer: `content` is sent as JSON, bytes unchanged, None as no body."""

    status: int
    content: Any = None
    headers: Mapping[str, str] = {}


class RequestReader:
    """Splits the bytes of one connection into requests."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, data: bytes) -> list[Request]:
        """Return the requests that are now complete; raise ValueError for invalid HTTP."""
        self._unread += data
        try:
            return list(iter(self._next, None))
        except ValueError:
            self._unread = b""
            raise

    def _next(self) -> Request | None:
        head, found, rest = self._unread.partition(b"\r\n\r\n")
        if not found:
            return None
        first, _, fields = head.decode("latin-1").partition("\r\n")
        parts = first.split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            raise ValueError(f"{first[:80]!r} is not an HTTP request")
        headers = {key.lower(): value for key, value in Parser().parsestr(fields).items()}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return None
        self._unread = rest[length:]
        return Request(parts[0], parts[1], headers, rest[:length])


@dataclass(eq=False)
class HttpSession:
    """One client's connection; `answer` returns the answer to a request, of media type `media`.

    Faults of the connection select a request by its method and target.
    """

    _answer: Callable[[Request], Answer]
    _connection: ClientConnection
    _media: str = "application/json"
    _reader: RequestReader = field(default_factory=RequestReader)

    def receive(self, data: bytes) -> None:
        """Receive bytes in any pieces; answer each complete request."""
        try:
            requests = self._reader.feed(data)
        except ValueError as error:
            self._connection.send_unsolicited(
                encoded(Answer(400, {"error": {"message": str(error)}}), self._media)
            )
            return
        for request in requests:
            chunked = "transfer-encoding" in request.headers
            answer = Answer(411) if chunked else self._answer(request)
            self._connection.reply(encoded(answer, self._media), str(request))


def encoded(answer: Answer, media: str) -> bytes:
    """Return an answer as bytes."""
    status, content, headers = answer
    is_page = isinstance(content, bytes)
    body = content if is_page else b"" if content is None else json.dumps(content).encode()
    head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    if status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        head.append(f"Content-Length: {len(body)}")
    if body:
        head.append(f"Content-Type: {'text/html' if is_page else media}")
    if status == HTTPStatus.UNAUTHORIZED:
        head.append('WWW-Authenticate: Basic realm="instrument"')
    head += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(head) + "\r\n\r\n").encode() + body
