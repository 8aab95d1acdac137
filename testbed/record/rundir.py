"""The directory of one run: created once, never shared, readable after a crash at any time."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from pwd import getpwuid
from stat import S_ISLNK, S_IWOTH
from typing import Any

from testbed.commands import typed
from testbed.errors import LabError, UsageError
from testbed.files import is_directory, parse_json, read_file, replace_file
from testbed.printable import printable
from testbed.record.lines import sync_directory

LATEST = "latest"
_LARGEST = 64 << 20
"""Bytes of a JSON file of a run; a summary of ten thousand trials has a third of it."""
_NAME = re.compile(r"\d{8}T\d{6}Z-.+-[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The files of one run, by name."""

    path: Path

    @classmethod
    def create(cls, results: Path, experiment: str, *, is_latest: bool = True) -> RunDirectory:
        """Create a new directory in `results`, and point `latest` to it if `is_latest`.

        The name is unique even for runs that start in the same second, on one machine or many.
        """
        try:
            results.mkdir(parents=True, exist_ok=True)
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
            path = results / f"{stamp}-{experiment}-{secrets.token_hex(3)}"
            path.mkdir()
            for part in ("wire", "logs"):
                (path / part).mkdir()
            if is_latest:
                _point(results / LATEST, path.name)
            for changed in (results, results.parent):
                sync_directory(changed)
        except OSError as error:
            raise LabError(
                f"making a run directory in {results} failed: {error.strerror}",
                hint="choose another place with --results",
            ) from error
        return cls(path)

    @property
    def id(self) -> str:
        """Return the name of the run, which is that of its directory."""
        return self.path.name

    @property
    def events(self) -> Path:
        """Return the path of the event log."""
        return self.path / "events.jsonl"

    @property
    def journal(self) -> Path:
        """Return the path of the undo journal."""
        return self.path / "journal.jsonl"

    @property
    def summary(self) -> Path:
        """Return the path of the summary."""
        return self.path / "summary.json"

    def wire(self, instrument: str) -> Path:
        """Return the path of an instrument's next transcript: the run's, or that of a `recover`."""
        path, number = self.inside("wire") / f"{instrument}.jsonl", 1
        while path.exists():
            number += 1
            path = path.with_name(f"{instrument}.{number}.jsonl")
        return path

    def log(self, host: str, name: str) -> Path:
        """Return the path of a log of one host, after creating its directory."""
        self.inside("logs")
        directory = self.inside(f"logs/{host}")
        directory.mkdir(exist_ok=True)
        return directory / name

    def write_text(self, name: str, text: str) -> Path:
        """Write a file atomically: a reader sees the old contents or the new ones.

        It is synced to disk when this returns: `recover` needs it after a power loss.
        """
        target = self.path / name
        try:
            replace_file(target, text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise LabError(
                f"writing {target} failed: {error.strerror}", hint="free space on the disk"
            ) from error
        return target

    def write_json(self, name: str, value: Mapping[str, Any]) -> Path:
        """Write a mapping as JSON, atomically."""
        text = json.dumps(value, indent=1, ensure_ascii=False)
        return self.write_text(name, printable(text, kept="\n") + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Return a JSON file of the run; raise UsageError when it is missing or broken."""
        try:
            value = parse_json(read_file(self.path / name, _LARGEST))
            if not isinstance(value, dict):
                raise ValueError("it is not a JSON object")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(
                f"{self.path} holds no readable {name}: {why}",
                hint="check that it is a run directory",
            ) from error
        return value

    def inside(self, name: str) -> Path:
        """Return the path of a file of the run; raise UsageError if it is a link.

        A link made by another user could lead outside of the run directory.
        """
        path = self.path / name
        if path.is_symlink():
            raise UsageError(
                f"{path} is a link, and links are not followed in the record of a run",
                hint="put the file itself in its place",
            )
        return path

    def foreign(self) -> str:
        """Return why other users may write to the directory; empty if none may."""
        return foreign(self.path)


def find_run(results: Path, name: str) -> RunDirectory:
    """Return a run by its path, its name, a unique beginning or end of it, or `latest`."""
    if is_directory(name):
        return RunDirectory(Path(name).resolve())
    if is_directory(results / name):
        return RunDirectory((results / name).resolve())
    if name == LATEST and (left := newest(results)):
        return left  # what it pointed to was deleted
    matches = [run for run in runs(results) if run.id.startswith(name) or run.id.endswith(name)]
    if len(matches) == 1:
        return matches[0]
    found = f"{len(matches)} runs" if matches else "no run"
    raise UsageError(
        f"{name[:80]!r} names {found} in {results.absolute()}",
        hint=f"see `{typed('list', 'runs')}`",
    )


def runs(results: Path) -> Iterator[RunDirectory]:
    """Yield every run in `results`, oldest first."""
    try:
        found = sorted(results.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(
            f"reading {results} failed: {why}", hint="name another directory with --results"
        ) from None
    for path in found:
        if is_directory(path) and not path.is_symlink() and _NAME.fullmatch(path.name):
            yield RunDirectory(path)


def foreign(path: Path) -> str:
    """Return why another user could have written a file or directory; empty if none could.

    A link counts as foreign. For a missing or unreadable file the result is empty, as reading it
    will fail anyway.
    """
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return ""
    if found.st_uid != os.geteuid():
        return f"{path} belongs to {owner_of(path)}, not to you"
    if S_ISLNK(found.st_mode):
        return f"{path} is a link"
    return f"everybody may write to {path}" if found.st_mode & S_IWOTH else ""


def owner_of(path: Path) -> str:
    """Return the name of the user who owns a file or directory."""
    number = path.lstat().st_uid
    try:
        return getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def newest(results: Path) -> RunDirectory | None:
    """Return the newest run in `results`, without records of manual changes."""
    made = [run for run in runs(results) if not _is_by_hand(run)]
    return made[-1] if made else None


def point_latest(results: Path) -> None:
    """Point the link `latest` to the newest existing run, if its target is gone."""
    link = results / LATEST
    if not link.is_symlink() or link.exists():
        return
    if left := newest(results):
        _point(link, left.path.name)
    else:
        link.unlink()


def _is_by_hand(run: RunDirectory) -> bool:
    return run.id[len("20260101T000000Z-") :].rpartition("-")[0] == "switch"


def _point(link: Path, target: str) -> None:
    draft = link.with_name(f".{link.name}-{secrets.token_hex(3)}")
    draft.symlink_to(target)
    draft.replace(link)
