"""Run one task as a process of its own, with a time limit, and keep the end of its output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from testbed.clock import Deadline, now

_LOOK = 0.1
"""Seconds between two looks at a run that goes on."""

_CLEAN_UP = 60.0
"""Seconds that a run which is told to end has for taking everything back."""

_LAST_WORDS = 2000

Why = Literal["", "too long", "signal"]


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended: its exit code, its summary if any, and why it was stopped."""

    code: int
    summary: Mapping[str, Any] | None
    seconds: float
    said: str
    """The last line of what it said on standard error."""
    why: Why = ""


def conduct(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    limit: float,
    signals: Sequence[int],
) -> Ended:
    """Run `testbed` with these arguments for at most `limit` seconds; return how it ended.

    `signals` grows during the wait: each new signal is forwarded, which ends the run early. The run
    then has a minute to undo its changes before it is killed together with its twin.
    """
    begin = now()
    command = [sys.executable, "-m", "testbed.cli", *arguments]
    with tempfile.TemporaryFile() as out, log.open("w", encoding="utf-8") as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=dict(environment),
            start_new_session=True,  # Ctrl-C reaches it through us, once
        )  # fmt: skip
        try:
            why = _await(process, limit, signals)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        out.seek(0)
        summary = _summary(out.read())
    return Ended(process.returncode, summary, now() - begin, _last_line(log), why)


def _await(process: subprocess.Popen[bytes], limit: float, signals: Sequence[int]) -> Why:
    deadline, handed_on = Deadline.after(limit), 0
    why: Why = ""
    while not _has_ended(process):
        if len(signals) > handed_on:
            process.send_signal(signals[handed_on])
            handed_on += 1
            if not why:
                why, deadline = "signal", Deadline.after(_CLEAN_UP)
        elif not deadline.left:
            if why:
                break
            process.send_signal(signal.SIGTERM)
            why, deadline = "too long", Deadline.after(_CLEAN_UP)
    return why


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_LOOK)
    except subprocess.TimeoutExpired:
        return False
    return True


def _summary(said: bytes) -> Mapping[str, Any] | None:
    try:
        summary = json.loads(said)
    except ValueError:
        return None
    return summary if isinstance(summary, dict) else None


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace")[-_LAST_WORDS:].strip().splitlines()
    return lines[-1].removeprefix("testbed: ") if lines else ""
