"""Messages in pieces: the first has all fields, and each a part of the one field of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from testbed.clock import now
from testbed.errors import LabError

PIECE = 2**20
"""The bytes of each piece but the last, which may have fewer."""
LARGEST = 2**31 - 1
"""The most bytes of a message; protobuf has no larger field."""


def bytes_field(message: Descriptor) -> str:
    """Return the name of the field of bytes of a message that is sent in pieces."""
    (name,) = [one.name for one in message.fields if one.type == FieldDescriptor.TYPE_BYTES]
    return str(name)


def in_pieces(message: Any) -> Iterator[Any]:
    """Yield a message in pieces of `PIECE` bytes, and set its `size` to all its bytes."""
    field, kind = bytes_field(message.DESCRIPTOR), type(message)
    data = memoryview(getattr(message, field))
    message.size = len(data)
    if len(data) <= PIECE:  # copies are what takes long
        yield message
        return
    others = {one.name: value for one, value in message.ListFields() if one.name != field}
    yield kind(**others, **{field: bytes(data[:PIECE])})
    for at in range(PIECE, len(data), PIECE):
        yield kind(**{field: bytes(data[at : at + PIECE])})


def is_whole(first: Any) -> bool:
    """Return whether a first piece has all bytes of its message."""
    return len(getattr(first, bytes_field(first.DESCRIPTOR))) == int(first.size)


def joined(pieces: Iterable[Any]) -> Any:
    """Return the message of which these are the pieces, as soon as it has all its bytes.

    Raise LabError where it is too large, or has not the bytes that its first piece says.
    """
    whole, came, parts = None, 0, []
    for piece in pieces:
        if whole is None:
            whole, field = piece, bytes_field(piece.DESCRIPTOR)
            if whole.size > LARGEST:
                raise LabError(f"a message has {whole.size} bytes, and {LARGEST} at most can be")
        parts.append(getattr(piece, field))
        came += len(parts[-1])
        if came >= whole.size or len(parts[-1]) < PIECE:
            break  # no piece but the last is smaller: else pieces without bytes could come for ever
    if whole is None:
        raise LabError("a message has no piece")
    if came != whole.size:
        raise LabError(f"{came} bytes of a message came, whose first piece says {whole.size}")
    if len(parts) > 1:
        setattr(whole, field, b"".join(parts))
    return whole


class StallWatch:
    """Ends a call of which nothing has moved for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._moved = now()
        self._over = Event()

    def passed(self, piece: Any) -> Any:
        """Return a piece that has come or is about to go."""
        self._moved = now()
        return piece

    @contextmanager
    def calling(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Watch a call; raise LabError, whatever it raised, where it was cancelled for a stall."""
        stalled = False

        def watch() -> None:
            nonlocal stalled
            while (left := self._moved + self._seconds - now()) > 0:
                if self._over.wait(left):
                    return
            stalled = True
            cancel()

        Thread(target=watch, name="stall watch", daemon=True).start()
        try:
            yield
        except Exception as error:
            if stalled:
                raise LabError(f"nothing more came or went for {self._seconds:g} s") from error
            raise
        finally:
            self._over.set()
