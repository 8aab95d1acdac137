"""HTTP/1.1, device side: requests out of bytes, replies as bytes; no sockets (RFC 9112).

Understands what drivers and `curl` send: a body of known length, kept-alive connections and
several requests in one piece. Refuses chunked bodies (411). A connection is never closed from
here; the client closes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.parser import Parser
from http import HTTPStatus
from typing import Any

from testbed_drivers.far_end_wire import Wire


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class RequestReader:
    """Cut the bytes of one connection into requests."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, data: bytes) -> list[Request]:
        """Return the requests that are complete now; ValueError for what is no HTTP."""
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
            raise ValueError(f"{first[:80]!r} is no HTTP request")
        headers = {key.lower(): value for key, value in Parser().parsestr(fields).items()}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return None
        self._unread = rest[length:]
        return Request(parts[0], parts[1], headers, rest[:length])


class HttpSession:
    """One client's connection; `answer` turns a request into status and JSON.

    Faults of the wire find a request by its method and path.
    """

    def __init__(self, answer: Callable[[Request], tuple[int, Any]], wire: Wire) -> None:
        self._answer = answer
        self._wire = wire
        self._reader = RequestReader()

    def receive(self, data: bytes) -> None:
        """Take bytes in any pieces; answer each request that is complete."""
        try:
            requests = self._reader.feed(data)
        except ValueError as error:
            self._wire.say(reply(400, {"error": {"message": str(error)}}))
            return
        for request in requests:
            chunked = "transfer-encoding" in request.headers
            answer = (411, None) if chunked else self._answer(request)
            self._wire.reply(reply(*answer), f"{request.method} {request.path}")


def reply(status: int, content: Any) -> bytes:
    """Return a reply with a JSON body; without any when `content` is None."""
    body = b"" if content is None else json.dumps(content).encode()
    head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Length: {len(body)}"]
    if body:
        head.append("Content-Type: application/json")
    if status == HTTPStatus.UNAUTHORIZED:
        head.append('WWW-Authenticate: Basic realm="power"')
    return ("\r\n".join(head) + "\r\n\r\n").encode() + body
