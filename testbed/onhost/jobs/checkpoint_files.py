"""Checkpoints of one rank on disk, each a file that is there as a whole or not at all.

A file is written under another name, synced and renamed, and then its directory is synced, so that
a crash at any moment leaves no name of half a file. What a disk damages all the same is found when
it is read: the first line of a file says what follows, with its SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

from ..errors import Refused

_FORMAT = 1
_NAME = re.compile(r"step-([0-9]{10})\.checkpoint")
_LONGEST_HEADING = 4096


class CheckpointFiles:
    """The checkpoints in one directory that belong to one `history`, the newest `keep` of them.

    A history is the course of one job from its first step on. Two processes may write at once: the
    last one wins, and no file is a mixture.
    """

    def __init__(self, directory: Path, history: str, keep: int) -> None:
        self.directory, self._history, self._keep = directory, history, keep
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._draft = f".{os.getpid()}.draft"
        for draft in directory.glob("*.draft"):
            if not draft.name.endswith(self._draft):  # of a process that was killed
                draft.unlink(missing_ok=True)

    def write(self, step: int, data: memoryview | bytes) -> None:
        """Write the state before a step, and remove those that are not to be kept any more.

        Return when it is durable; raise OSError, and nothing is left of it.
        """
        path = self._path(step)
        draft = path.with_suffix(self._draft)
        try:
            with draft.open("wb") as file:
                file.write(self._heading(step, data))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        self._sync()
        for old in self.steps()[self._keep :]:
            self._path(old).unlink(missing_ok=True)

    def read(self, step: int) -> memoryview:
        """Return the state before a step; raise Refused when there is none, or not as written."""
        path = self._path(step)
        try:
            content = memoryview(path.read_bytes())
        except OSError as error:
            raise Refused(f"{path} cannot be read: {error.strerror}") from error
        end = bytes(content[:_LONGEST_HEADING]).find(b"\n") + 1
        data = content[end:]
        if content[:end] != self._heading(step, data):
            raise Refused(
                f"{path} is damaged, or of another job: its {len(data)} bytes are not what its"
                " first line says"
            )
        return data

    def steps(self) -> list[int]:
        """Return the steps before which there are files, the last first, whatever is in them."""
        found = (_NAME.fullmatch(path.name) for path in self.directory.iterdir())
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def forget_after(self, step: int) -> None:
        """Remove those of later steps: the job goes on from here and may take another course."""
        later = [one for one in self.steps() if one > step]
        for one in later:
            self._path(one).unlink(missing_ok=True)
        if later:
            self._sync()

    def _path(self, step: int) -> Path:
        return self.directory / f"step-{step:010}.checkpoint"

    def _heading(self, step: int, data: memoryview | bytes) -> bytes:
        """Return the first line of the file, without which nothing in it can be another thing."""
        about = {"checkpoint": _FORMAT, "history": self._history, "step": step, "bytes": len(data)}
        about["sha256"] = hashlib.sha256(data).hexdigest()
        return json.dumps(about).encode() + b"\n"

    def _sync(self) -> None:
        """Make the names in the directory durable."""
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
