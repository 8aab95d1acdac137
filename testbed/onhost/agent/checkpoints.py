"""Where the ranks on this host keep their checkpoints: a directory for each run, on its disk.

It outlives an agent that dies, for a job goes on from what a host has written that lost its power:
the next agent of the same run finds it. It goes when an agent of that run ends in good order, or
when one of any other run finds the journal of a dead one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

from ..frames import Message
from .journal import is_ours, remove_if_empty

_ROOTS = (Path("/var/tmp/testbed"), Path("/var/tmp"))  # noqa: S108 - private directories in them
"""Where directories may be, best first. A twin has a file system of its own at the first, which
goes with it."""


class Checkpoints:
    """The directories of one run on this host, one for each course of a job."""

    def __init__(self, run: str, host: str) -> None:
        self._run, self._host = run, host
        self._histories: dict[int, str] = {}
        """By slot, the course of the job that its rank takes part in."""

    def placed(self, slot: int, configure: Message) -> Message:
        """Return a rank's configuration, told where its checkpoints are if its job has any.

        What no slot takes part in any more is removed: a job that was started anew.
        """
        has_checkpoints = "checkpoint" in configure.get("job", {})
        history: Optional[str] = configure.get("history") if has_checkpoints else None
        before = self._histories.pop(slot, None)
        if history is not None:
            self._histories[slot] = history
        if before is not None and before not in self._histories.values():
            remove(self._run, self._host, before)
        if history is None:
            return configure
        try:
            place = {"directory": str(make(self._run, self._host, history))}
        except OSError as error:
            place = {"problem": str(error)}
        return {**configure, "checkpoints": place}


def make(run: str, host: str, history: str) -> Path:
    """Return the directory of one course of a job; raise OSError when no place takes it."""
    problems = []
    for place in _places():
        try:
            if not is_ours(place):
                place.mkdir(mode=0o700)
            path = place / _name(run, host, history)
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problems.append(f"{error.filename}: {error.strerror}")
        else:
            return path
    raise OSError("; ".join(problems))


def remove(run: str, host: str, history: Optional[str] = None) -> str:
    """Remove what a run has on this host, or one course of a job; return what is left."""
    import shutil  # which would delay the start of every agent

    left = []
    for place in _places():
        path = place / _name(run, host, history)
        if not is_ours(place) or not path.exists():
            continue
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            left.append(f"the checkpoints in {path} cannot be removed")
        remove_if_empty(path.parent, place)
    return ", ".join(left)


def exist(run: str, host: str) -> bool:
    """Tell whether a run has checkpoints on this host."""
    return any(is_ours(p) and (p / _name(run, host, None)).exists() for p in _places())


def _places() -> list[Path]:
    return [root / f"testbed-checkpoints-{os.geteuid()}" for root in _ROOTS]


def _name(run: str, host: str, history: Optional[str]) -> Path:
    """Return the directory below a place, whatever the names hold."""
    parts = (part for part in (run, host, history) if part is not None)
    return Path(*("_" + part.replace("%", "%25").replace("/", "%2F") for part in parts))
