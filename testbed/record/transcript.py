"""Transcripts: every byte to and from one instrument, one JSON line each, secrets masked."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock

from testbed.clock import now


class Transcript:
    """Write what a session sends and receives; made to be a driver's tracer."""

    def __init__(self, path: Path, instrument: str) -> None:
        self._file = path.open("x", encoding="utf-8")
        self._instrument = instrument
        self._lock = Lock()

    def __call__(self, direction: str, data: bytes) -> None:
        """Write one piece, `send` or `receive`; bytes that are no ASCII are escaped."""
        row = {"mono": round(now(), 6), "instrument": self._instrument, "direction": direction}
        text = data.decode("ascii", errors="backslashreplace")
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps(row | {"data": text}) + "\n")
                self._file.flush()

    def close(self) -> None:
        """Close the file; later pieces are dropped."""
        with self._lock:
            self._file.close()
