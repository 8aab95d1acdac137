"""Transcripts: every byte to and from one instrument, one JSON line each, secrets masked."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

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
    """One row of a transcript, with the bytes as they were on the line."""

    mono: float
    instrument: str
    direction: str
    data: bytes


def read_transcript(path: Path) -> Iterator[TranscriptRow]:
    """Yield the rows of a transcript; raise FileError at a line that is none."""
    try:
        for number, line in enumerate(read_lines(path, MAX_LOG, follow=True), 1):
            yield _row(line, f"{path}:{number}:1")
    except OSError as error:
        raise FileError(f"{path}:1:1", f"it cannot be read: {error.strerror}") from None


def _row(line: bytes, where: str) -> TranscriptRow:
    try:
        row = parse_json(line)
        if not all(isinstance(row[name], str) for name in ("instrument", "direction", "data")):
            raise ValueError("who said what is no text")
        data = row["data"].encode("latin-1")
        return TranscriptRow(float(row["mono"]), row["instrument"], row["direction"], data)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise FileError(where, f"no row of a transcript: {error}") from None


class Transcript:
    """Write what a session sends and receives; made to be a driver's tracer."""

    def __init__(
        self, path: Path, instrument: str, retried: Callable[[str], object] | None = None
    ) -> None:
        """Open the file; `retried` hears why a read is asked once more."""
        self._file = path.open("x", encoding="utf-8")
        self._instrument = instrument
        self._retried = retried
        self._lock = Lock()

    def __call__(self, direction: str, data: bytes) -> None:
        """Write one piece, of a direction as `Tracer` has it; each byte is one character.

        Revealed secrets are masked, unless one comes in several pieces.
        What a full disk does not take is dropped: the instrument must be driven back all the same,
        and the event log, on the same disk, says why the record ends.
        """
        row = {"mono": round(now(), 6), "instrument": self._instrument, "direction": direction}
        text = masked(data.decode("latin-1"))
        with self._lock, suppress(OSError):
            if not self._file.closed:
                self._file.write(json.dumps(row | {"data": text}) + "\n")
                self._file.flush()
        if direction == "retry" and self._retried:
            self._retried(text)

    def close(self) -> None:
        """Close the file; later pieces are dropped."""
        with self._lock, suppress(OSError):
            self._file.close()


class DeferredTranscript:
    """Keep what a session sends and receives until its file is known; made to be a driver's tracer.

    Of a long session without a file the last pieces are kept, each cut at 64 KiB.
    """

    def __init__(self) -> None:
        self._pieces: deque[tuple[str, bytes]] = deque(maxlen=_KEPT)
        self._transcript: Transcript | None = None

    def __call__(self, direction: str, data: bytes) -> None:
        """Write one piece, or keep it."""
        if self._transcript:
            self._transcript(direction, data)
        else:
            self._pieces.append((direction, data[:_LONGEST]))

    def write_to(self, path: Path, instrument: str) -> None:
        """Write what is kept to a new file, and every later piece."""
        self._transcript = transcript = Transcript(path, instrument)
        while self._pieces:
            transcript(*self._pieces.popleft())

    def close(self) -> None:
        """Close the transcript, if there is one."""
        if self._transcript:
            self._transcript.close()
