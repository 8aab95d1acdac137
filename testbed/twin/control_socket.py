"""The twin's control socket: read the twin's true state, and simulate faults.

A Unix socket inside the twin; each connection carries one request and one answer, a line of JSON
each. Only processes inside the twin can reach it, and nothing that exists on hardware uses it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from testbed.errors import LabError, UsageError
from testbed.twin.machine import SOCKET

_LIMIT = 10.0
_SILENCE = 1.0  # a request is sent at once
_LONGEST = 1 << 20

Answer = Callable[[Mapping[str, Any]], Any]


class ControlSocket:
    """Answers requests on a Unix socket until closed; `answer` raises ValueError to refuse one."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.fspath(path))
        self._listener.listen()
        Thread(target=self._serve, name="twin control", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            # A client that hangs up, or sends nothing, ends its own request only.
            with suppress(OSError), connection, connection.makefile("rw") as stream:
                connection.settimeout(_SILENCE)
                request = stream.readline(_LONGEST)
                try:
                    result = {"ok": self._answer(json.loads(request))}
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    result = {"error": str(error)}
                stream.write(json.dumps(result) + "\n")

    def __enter__(self) -> ControlSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


def ask(request: Mapping[str, Any], path: Path | None = None) -> Any:
    """Send one request to the twin and return its answer; works only inside a twin.

    From outside, `path` leads through the file system of the twin's first process.

    Raise UsageError with the twin's message when it refuses, LabError outside of a twin.
    """
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_LIMIT)
            line.connect(os.fspath(path or SOCKET))
            with line.makefile("rw") as stream:
                stream.write(json.dumps(dict(request)) + "\n")
                stream.flush()
                answer = json.loads(stream.readline())
    except OSError as error:
        raise LabError(f"asked the twin to {request['do']}, got: {error}") from error
    if "error" in answer:
        raise UsageError(str(answer["error"]))
    return answer["ok"]


def is_up() -> bool:
    """Return whether the twin in which this process runs has not been taken down meanwhile."""
    with socket.socket(socket.AF_UNIX) as line, suppress(OSError):
        line.settimeout(_SILENCE)
        line.connect(os.fspath(SOCKET))
        return True
    return False
