"""Framed JSON: a length of four bytes, big-endian, then that many bytes of UTF-8 text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .errors import ProtocolError

LENGTH_BYTES = 4
LARGEST = 16 << 20

Message = dict[str, Any]


def encode(message: Message) -> bytes:
    """Return the message as one frame; raise ProtocolError when it is too long for one."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    if len(body) > LARGEST:
        raise ProtocolError(f"a frame of {len(body)} bytes is longer than {LARGEST}")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def parse_body(body: bytes) -> Any:
    """Return what the JSON of a frame holds; raise ValueError for anything else."""
    return json.loads(body.decode("utf-8", "surrogatepass"))


class Decoder:
    """Splits a stream of bytes, arriving in any pieces, into messages."""

    def __init__(self, largest: int = LARGEST, parse: Callable[[bytes], Any] = parse_body) -> None:
        """Read frames of at most `largest` bytes; `parse` may be a faster parser of their JSON."""
        self._largest = largest
        self._parse = parse
        self._held = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that `data` completes; raise ProtocolError for an invalid frame."""
        held = self._held
        if held:
            held += data
        found = held or data  # a frame in one piece, as nearly all come, is not copied
        messages, begin = [], 0
        while len(found) - begin >= LENGTH_BYTES:
            body = begin + LENGTH_BYTES
            length = int.from_bytes(found[begin:body], "big")
            if length > self._largest:
                raise ProtocolError(f"a frame announces {length} bytes, more than {self._largest}")
            if len(found) < body + length:
                break
            begin = body + length
            messages.append(_message(bytes(found[body:begin]), self._parse))
        if held:
            del held[:begin]
        else:
            held += data[begin:]
        return messages

    @property
    def missing(self) -> int:
        """Return how many bytes the incomplete message lacks, or its length field if incomplete."""
        held = len(self._held)
        if held < LENGTH_BYTES:
            return LENGTH_BYTES - held
        return LENGTH_BYTES + int.from_bytes(self._held[:LENGTH_BYTES], "big") - held


def _message(body: bytes, parse: Callable[[bytes], Any]) -> Message:
    try:
        message = parse(body)
    except ValueError as error:
        raise ProtocolError(f"a frame holds no JSON: {body[:80]!r}") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"a frame holds no JSON object: {body[:80]!r}")
    return message
