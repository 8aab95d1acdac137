"""A user's file: its text, its plain data, and the place of every value."""

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
    """A position in a file: line and column, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    @classmethod
    def after(cls, file: str, text: str) -> Place:
        """Return the position after `text`, which is the beginning of a file."""
        lines = _LINE_END.split(text)
        return cls(file, len(lines), len(lines[-1]) + 1)


_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""Where PyYAML, too, ends a line."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The places of a value and of its key; for an item of a list both are the value's."""

    key: Place
    value: Place


@dataclass(frozen=True, slots=True)
class Source:
    """A user's file: its text, its plain data, and the place of every value."""

    text: str
    data: dict[str, Any]
    marks: Mapping[Steps, Mark]

    def where(self, *steps: str | int) -> str:
        """Return `file:line:column` of a value, or of the nearest enclosing value that exists."""
        return str(self.mark(steps).value)

    def mark(self, steps: Steps) -> Mark:
        """Return the places of a value and its key; falls back as `where` does."""
        while steps not in self.marks:
            steps = steps[:-1]
        return self.marks[steps]


def read_bytes(path: str | Path, limit: int) -> bytes:
    """Return the contents of a file that the user named.

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
