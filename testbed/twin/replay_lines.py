"""Send rows of a transcript to a far end: as bytes, or as HTTP.

A transcript has masked secrets, and of HTTP only method, path and body of requests, status and body
of answers.
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
    """Open a new session with a far end, as the driver of a switch would.

    `say` sends recorded bytes, given the recorded answer; `heard` returns the bytes received since
    its last call.
    """
    if way(switch.resource) == "http":
        return HttpLine(far_end, switch.options)
    return PlainLine(far_end, switch)


class PlainLine:
    """A session of bytes; masked passwords are replaced by that of the lab file."""

    def __init__(self, far_end: FarEnd, switch: Switch) -> None:
        self._heard = bytearray()
        is_serial = isinstance(place(switch.resource), Tty)
        self._session = far_end.session(self._heard.extend, serial=is_serial)
        password = getattr(switch.options, "password", None)
        self._password = password.reveal().encode() if password else b""

    def say(self, data: bytes, answer: bytes) -> None:
        """Send recorded bytes with the password in place of its mask."""
        self._session.receive(data.replace(_MASK, self._password))

    def heard(self) -> bytes:
        """Return the received bytes, masked as in a transcript."""
        text = self._heard.decode("latin-1")
        self._heard.clear()
        return masked(text).encode("latin-1")


class HttpLine:
    """A session of HTTP requests, with login, cookies and tags as a client sends them."""

    def __init__(self, far_end: FarEnd, options: Any) -> None:
        self._heard = bytearray()
        self._session = far_end.session(self._heard.extend)
        self._headers = {"Host": "twin"}
        if word := options.authorization():
            self._headers["Authorization"] = word
        self._tags: dict[bytes, str] = {}
        self._asked = b""

    def say(self, data: bytes, answer: bytes) -> None:
        """Send a recorded request; conditional if the device answered that nothing had changed."""
        self._asked, _, body = data.partition(b"\r\n\r\n")
        headers = self._headers | {"Content-Length": str(len(body))}
        if answer.startswith(_NOT_MODIFIED) and self._asked in self._tags:
            headers["If-None-Match"] = self._tags[self._asked]
        rows = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._session.receive(self._asked + b" HTTP/1.1\r\n" + rows.encode() + b"\r\n" + body)

    def heard(self) -> bytes:
        """Return status and body of the received answer."""
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
