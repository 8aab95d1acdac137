"""Lines between rank 0 of a program and its other ranks: JSON, a line of text each, over TCP."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testbed.clock import Deadline
from testbed.errors import LabError

_ASK_AGAIN_S = 0.1


class RankLine:
    """One end of a line."""

    def __init__(self, line: socket.socket, peer: str) -> None:
        self._line = line
        self._peer = peer
        self._text = line.makefile("r", encoding="utf-8", newline="\n")

    def say(self, value: Any) -> None:
        """Send a value."""
        self._line.sendall(json.dumps(value).encode() + b"\n")

    def hear(self, seconds: float) -> Any:
        """Return the next value; raise LabError if none comes within `seconds`."""
        self._line.settimeout(seconds)
        try:
            text = self._text.readline()
        except OSError as error:
            text, why = "", str(error)
        else:
            why = "the line was closed"
        if not text.endswith("\n"):
            raise LabError(f"nothing was heard of {self._peer}: {why}", hint="look at its log")
        return json.loads(text)

    def is_there(self, seconds: float) -> bool:
        """Wait for the next value, or the end of the line, so long; return whether it came.

        It is for lines on which one value at a time is under way.
        """
        return bool(select.select([self._line], (), (), max(0.0, seconds))[0])

    def close(self) -> None:
        """Close the line."""
        self._text.close()
        self._line.close()


@contextmanager
def lines_to_ranks(address: str, ranks: int, seconds: float) -> Iterator[dict[int, RankLine]]:
    """Yield by number the lines to ranks 1 to `ranks` - 1, which call within `seconds`."""
    host, _, port = address.rpartition(":")
    deadline = Deadline.after(seconds)
    lines: dict[int, RankLine] = {}
    with socket.create_server((host, int(port))) as listener:
        try:
            while len(lines) < ranks - 1:
                listener.settimeout(max(deadline.left, 0.001))
                try:
                    near, (peer, *_) = listener.accept()
                except TimeoutError:
                    missing = sorted({*range(1, ranks)} - {*lines})
                    raise LabError(
                        f"ranks {missing} did not call within {seconds:g} s",
                        hint="look at their logs",
                    ) from None
                line = RankLine(near, peer)
                lines[line.hear(max(deadline.left, 0.001))] = line
            yield lines
        finally:
            for line in lines.values():
                line.close()


@contextmanager
def line_to_first(address: str, rank: int, seconds: float) -> Iterator[RankLine]:
    """Yield the line to rank 0, which listens within `seconds`."""
    host, _, port = address.rpartition(":")
    deadline = Deadline.after(seconds)
    while True:
        try:
            near = socket.create_connection((host, int(port)), timeout=seconds)
            break
        except OSError as error:
            if deadline.passed:
                raise LabError(
                    f"rank 0 was not reached at {address} within {seconds:g} s: {error}",
                    hint="look at its log",
                ) from error
        time.sleep(_ASK_AGAIN_S)
    line = RankLine(near, address)
    try:
        line.say(rank)
        yield line
    finally:
        line.close()
