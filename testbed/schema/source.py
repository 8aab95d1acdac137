"""A file as a person wrote it: its text, the plain data in it, and where everything is."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import FileError, UsageError
from testbed.files import read_file

Steps = tuple[str | int, ...]
"""The path to a value from the root of a file: keys of mappings, indexes of lists."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A character of a file, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    @classmethod
    def after(cls, file: str, text: str) -> Place:
        """Return the place of the character that follows `text`, the beginning of a file."""
        lines = _LINE_END.split(text)
        return cls(file, len(lines), len(lines[-1]) + 1)


_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""Where PyYAML, too, ends a line."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a value is and where its key is; for an item of a list both are the value's."""

    key: Place
    value: Place


@dataclass(frozen=True, slots=True)
class Source:
    """A file as a person wrote it: its text, the plain data in it, and where everything is."""

    text: str
    data: dict[str, Any]
    marks: Mapping[Steps, Mark]

    def where(self, *steps: str | int) -> str:
        """Return `file:line:column` of a value, or of the nearest value around it that is there."""
        return str(self.mark(steps).value)

    def mark(self, steps: Steps) -> Mark:
        """Return where a value and its key are; falls back as `where` does."""
        while steps not in self.marks:
            steps = steps[:-1]
        return self.marks[steps]


def read_bytes(path: str | Path, limit: int) -> bytes:
    """Return what is in a file that a person named.

    Raise UsageError when it cannot be read, FileError when it holds more bytes than `limit`.
    """
    try:
        return read_file(Path(path), limit, follow=True)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise FileError(f"{path}:1:1", str(error.strerror)) from None
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", hint="check its path"
        ) from error
