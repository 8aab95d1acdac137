"""A file as a person wrote it: its text, the plain data in it, and where everything is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Steps = tuple[str | int, ...]
"""The way to a value from the root of a file: keys of mappings, indexes of lists."""


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
