"""How rows of a transcript are said again to a far end: as the bytes they are, or as HTTP.

A transcript has secrets masked, and of HTTP what matters: method, path and body one way, status
and body the other.
"""

from __future__ import annotations

from typing import Any

from testbed.bench.sites import FarEnd
from testbed.resource import Tty, place, way
from testbed.schema import Switch
from testbed.secret import masked

_MASK = b"***"
_NOT_MODIFIED = b"304"


def open_line(far_end: FarEnd, switch: Switch) -> PlainLine | HttpLine:
    """Open a fresh session with a far end, as the driver of a switch would.

    `say` says what was sent, and is told what the box answered then; `heard` returns what has come
    since it was called last.
    """
    if way(switch.resource) == "http":
        return HttpLine(far_end, switch.options)
    return PlainLine(far_end, switch)


class PlainLine:
    """A session of bytes; the password that the transcript hides is that of the lab file."""

    def __init__(self, far_end: FarEnd, switch: Switch) -> None:
        self._heard = bytearray()
        is_serial = isinstance(place(switch.resource), Tty)
        self._session = far_end.session(self._heard.extend, serial=is_serial)
        password = getattr(switch.options, "password", None)
        self._password = password.reveal().encode() if password else b""

    def say(self, data: bytes, answer: bytes) -> None:
        """Send the bytes with the password in its place."""
        self._session.receive(data.replace(_MASK, self._password))

    def heard(self) -> bytes:
        """Return the bytes that came, masked as a transcript has them."""
        text = self._heard.decode("latin-1")
        self._heard.clear()
        return masked(text).encode("latin-1")


class HttpLine:
    """A session of requests, with the login, cookies and tags that a client sends along."""

    def __init__(self, far_end: FarEnd, options: Any) -> None:
        self._heard = bytearray()
        self._session = far_end.session(self._heard.extend)
        self._headers = {"Host": "twin"}
        if word := options.authorization():
            self._headers["Authorization"] = word
        self._tags: dict[bytes, str] = {}
        self._asked = b""

    def say(self, data: bytes, answer: bytes) -> None:
        """Send a request; on condition that something changed where the box said it had not."""
        self._asked, _, body = data.partition(b"\r\n\r\n")
        headers = self._headers | {"Content-Length": str(len(body))}
        if answer.startswith(_NOT_MODIFIED) and self._asked in self._tags:
            headers["If-None-Match"] = self._tags[self._asked]
        rows = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._session.receive(self._asked + b" HTTP/1.1\r\n" + rows.encode() + b"\r\n" + body)

    def heard(self) -> bytes:
        """Return status and body of the answer that came."""
        head, _, body = bytes(self._heard).partition(b"\r\n\r\n")
        self._heard.clear()
        if not head:
            return b""
        first, *rows = head.decode("latin-1").split("\r\n")
        fields = {
            name.lower(): value.strip() for name, _, value in (r.partition(":") for r in rows)
        }
        if cookie := fields.get("set-cookie"):
            self._headers["Cookie"] = cookie.partition(";")[0]
        if tag := fields.get("etag"):
            self._tags[self._asked] = tag
        status = first.split()[1]
        return f"{status}\r\n\r\n".encode() + masked(body.decode("latin-1")).encode("latin-1")
