"""Transcripts of the bytes to and from one instrument, as JSON lines with secrets masked."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TextIO

from testbed.clock import now
from testbed.errors import FileError
from testbed.files import parse_json, read_lines
from testbed.record.lines import MAX_LOG
from testbed.secret import masked

_KEPT = 200
"""The most pieces kept for a transcript whose file is not known yet."""
_LONGEST = 64 << 10
"""The most bytes kept of each: an instrument that talks without end must not fill memory."""


@dataclass(frozen=True, slots=True)
class TranscriptRow:
    """One row of a transcript, with the bytes as they were sent or received."""

    mono: float
    instrument: str
    direction: str
    data: bytes


def read_transcript(path: Path) -> Iterator[TranscriptRow]:
    """Yield the rows of a transcript; raise FileError at an invalid line."""
    try:
        for number, line in enumerate(read_lines(path, MAX_LOG, follow=True), 1):
            yield _row(line, f"{path}:{number}:1")
    except OSError as error:
        raise FileError(f"{path}:1:1", f"it cannot be read: {error.strerror}") from None


def _row(line: bytes, where: str) -> TranscriptRow:
    try:
        row = parse_json(line)
        if not all(isinstance(row[name], str) for name in ("instrument", "direction", "data")):
            raise ValueError("its direction or its data is not text")
        data = row["data"].encode("latin-1")
        return TranscriptRow(float(row["mono"]), row["instrument"], row["direction"], data)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise FileError(where, f"it is not a row of a transcript: {error}") from None


class Transcript:
    """Records what a session sends and receives; it is the tracer of a driver.

    Without a file, the latest pieces are kept in memory for `write_to`, each truncated at 64 KiB.
    """

    def __init__(
        self,
        path: Path | None = None,
        instrument: str = "",
        retried: Callable[[str], object] | None = None,
    ) -> None:
        """Open the file, if it is known; `retried` hears why a read is asked once more."""
        self._kept: deque[tuple[float, str, bytes]] = deque(maxlen=_KEPT)
        self._retried = retried
        self._lock = Lock()
        self._file: TextIO | None = None
        if path:
            self.write_to(path, instrument)

    def write_to(self, path: Path, instrument: str) -> None:
        """Write the kept pieces to a new file, and every later piece."""
        self._file, self._instrument = path.open("x", encoding="utf-8"), instrument
        while self._kept:
            self._write(self._file, *self._kept.popleft())

    def __call__(self, direction: str, data: bytes) -> None:
        """Write one piece, of a direction as `Tracer` has it, or keep it."""
        if self._file:
            self._write(self._file, now(), direction, data)
        else:
            self._kept.append((now(), direction, data[:_LONGEST]))
        if direction == "retry" and self._retried:
            self._retried(masked(data.decode("latin-1")))

    def _write(self, file: TextIO, at: float, direction: str, data: bytes) -> None:
        """Write one piece that was said at an instant; each byte is one character.

        Revealed secrets are masked, unless one comes in several pieces.
        What a full disk does not take is dropped: the instrument must be driven back all the same,
        and the event log, on the same disk, says why the record ends.
        """
        row = {"mono": round(at, 6), "instrument": self._instrument, "direction": direction}
        text = masked(data.decode("latin-1"))
        with self._lock, suppress(OSError):
            if not file.closed:
                file.write(json.dumps(row | {"data": text}) + "\n")
                file.flush()

    def close(self) -> None:
        """Close the file, if any; later pieces are discarded."""
        if self._file:
            with self._lock, suppress(OSError):
                self._file.close()
