"""Where the ranks on this host keep their checkpoints: a directory for each run, on its disk.

It outlives an agent that dies, for a job goes on from what a host has written that lost its power:
the next agent of the same run finds it. It goes when an agent of that run ends in good order, or
when one of any other run finds the journal of a dead one.

A job may name a directory that all hosts share instead. That of a run outlives also an agent which
ends because nobody speaks to it any more, since other hosts go on with it: it goes when the
orchestrator ends an agent, or when one of any other run finds the journal.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Optional

from ..frames import Message
from .journal import HostJournal, is_ours, remove_if_empty

_ROOTS = (Path("/var/tmp/testbed"), Path("/var/tmp"))  # noqa: S108 - private directories in them
"""Where directories may be, best first. A twin has a file system of its own at the first, which
goes with it."""
_OF_USER = f"testbed-checkpoints-{os.geteuid()}"


class Checkpoints:
    """The directories of one run on this host, one for each course of a job."""

    def __init__(self, journal: HostJournal) -> None:
        self._journal = journal
        self._places: dict[int, Path] = {}
        """By slot, the directory of the course of the job that its rank takes part in."""
        self._shared: set[Path] = set()
        """The directories of the run, on a file system that hosts share, that are journalled."""

    def placed(self, slot: int, configure: Message) -> Message:
        """Return a rank's configuration, told where its checkpoints are if its job has any.

        What no slot takes part in any more is removed: a job that was started anew.
        """
        told = configure.get("job", {}).get("checkpoint")
        history: Optional[str] = configure.get("history") if told else None
        before, place = self._places.pop(slot, None), dict[str, str]()
        if told and history is not None:
            try:
                self._places[slot] = self._make(history, told.get("directory", ""))
                place = {"directory": str(self._places[slot])}
            except OSError as error:
                place = {"problem": str(error)}
        if before is not None and before not in self._places.values():
            _remove(before, before.parents[2])
        return {**configure, "checkpoints": place} if place else configure

    def _make(self, history: str, shared: str) -> Path:
        """Return the directory of one course of a job; raise OSError when no place takes it."""
        run, host = self._journal.run, self._journal.host
        if not shared:
            return make(run, host, history)
        of_run = Path(shared) / _OF_USER / _name(run)
        if of_run not in self._shared:
            self._journal.record("checkpoints", directory=str(of_run))
            self._shared.add(of_run)
        return _made(of_run.parent, of_run / _name("shared", history))


def make(run: str, host: str, history: str) -> Path:
    """Return the directory of one course of a job; raise OSError when no place takes it."""
    problems = []
    for place in _places():
        try:
            return _made(place, place / _name(run, host, history))
        except OSError as error:
            problems.append(f"{error.filename}: {error.strerror}")
    raise OSError("; ".join(problems))


def _made(place: Path, path: Path) -> Path:
    """Return a directory below a place that no other user may write to; raise OSError."""
    if not is_ours(place):
        with suppress(FileExistsError):  # another host may just have made it
            place.mkdir(mode=0o700)
        if not is_ours(place):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(place))
    path.mkdir(parents=True, exist_ok=True)
    return path


def remove(run: str, host: str) -> str:
    """Remove what a run has on the disk of this host; return what is left."""
    left = (_remove(place / _name(run, host), place) for place in _places() if is_ours(place))
    return ", ".join(filter(None, left))


def remove_shared(directory: str) -> str:
    """Remove what a run has on a file system that hosts share; return what is left."""
    path = Path(directory)
    return _remove(path, path.parent) if is_ours(path.parent) else ""


def _remove(path: Path, place: Path) -> str:
    import shutil  # which would delay the start of every agent

    shutil.rmtree(path, ignore_errors=True)
    remove_if_empty(path.parent, place)
    return f"the checkpoints in {path} cannot be removed" if path.exists() else ""


def exist(run: str, host: str) -> bool:
    """Tell whether a run has checkpoints on this host."""
    return any(is_ours(p) and (p / _name(run, host)).exists() for p in _places())


def _places() -> list[Path]:
    return [root / _OF_USER for root in _ROOTS]


def _name(*parts: str) -> Path:
    """Return the directory below a place, whatever the names hold."""
    return Path(*("_" + part.replace("%", "%25").replace("/", "%2F") for part in parts))
