"""Overrides of one field: `-S key=value`, or a dotted key of a variant or a matrix."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from testbed.errors import FileError
from testbed.schema.source import Mark, Source, Steps
from testbed.schema.validation import shown
from testbed.schema.yaml12 import MAX_DEPTH, parse


@dataclass(frozen=True, slots=True)
class Override:
    """A dotted key, the new value of its field, and the places where both were written.

    Items of lists are numbered from 0: `faults.0.at.step`.
    """

    key: str
    value: Any
    marks: Mapping[Steps, Mark]
    """Of the value, at `()`, and of everything in it."""

    @classmethod
    def parse(cls, text: str) -> Override:
        """Parse the argument of `-S key=value`; raise FileError with the option as its file.

        Columns count from the beginning of the key.
        """
        key, equals, value = text.partition("=")
        option = f"-S {key}"  # without its value, which may be meant as a secret
        if not equals:
            raise FileError(f"{option}:1:1", "there is no '='", hint="write -S key=value")
        # The value keeps its column.
        data, marks = parse(option, " " * (len(key) + 1) + value)
        start = replace(marks[()].key, line=1, column=1)
        return cls(key, data, marks | {(): replace(marks[()], key=start)})

    @classmethod
    def cut(cls, source: Source, key: str, steps: Steps, key_steps: Steps) -> Override:
        """Return the override in a file at `steps`, with its key at `key_steps`."""
        data: Any = source.data
        for step in steps:
            data = data[step]
        depth = len(steps)
        marks = {at[depth:]: mark for at, mark in source.marks.items() if at[:depth] == steps}
        marks[()] = replace(marks[()], key=source.mark(key_steps).key)
        return cls(key, data, marks)

    def within(self, root: str) -> Override:
        """Return the override with `root` removed from the front of its key."""
        if not self.key.startswith(f"{root}."):
            raise self._error(f"{self.key!r} is not a key of a {root}", f"write {root}.{self.key}")
        return replace(self, key=self.key.removeprefix(f"{root}."))

    def applied(self, source: Source) -> Source:
        """Return a file's data with the field set; raise FileError if the field cannot exist."""
        data = copy.deepcopy(source.data)
        steps = self._set(data)
        around = {steps[:depth]: self.marks[()] for depth in range(1, len(steps))}
        others = {at: mark for at, mark in source.marks.items() if at[: len(steps)] != steps}
        own = {(*steps, *at): mark for at, mark in self.marks.items()}
        return replace(source, data=data, marks=around | others | own)

    def _set(self, data: Any) -> Steps:
        """Set the field in `data`, with the mappings around it that are not there yet."""
        steps: Steps = ()
        rest = self.key.split(".")
        if not all(rest):
            raise self._error(
                f"{self.key!r} has an empty part", "write a dotted key, as 'jobs.main.ranks'"
            )
        if len(rest) > MAX_DEPTH:
            raise self._error(
                f"{self.key!r} has {len(rest)} parts, and there may be at most {MAX_DEPTH}"
            )
        while True:
            step, rest = self._step(data, steps, rest)
            steps = (*steps, step)
            if not rest:
                data[step] = copy.deepcopy(self.value)
                return steps
            if isinstance(step, str) and data.get(step) is None:
                data[step] = {}
            data = data[step]

    def _step(self, data: Any, steps: Steps, rest: list[str]) -> tuple[str | int, list[str]]:
        """Return the next step into `data`, and the parts of the key that are left after it."""
        if isinstance(data, dict):
            # A name may itself hold dots, as those of checks do: the longest one that is there.
            depths = range(len(rest), 0, -1)
            depth = next((n for n in depths if ".".join(rest[:n]) in data), 1)
            return ".".join(rest[:depth]), rest[depth:]
        around = ".".join(map(str, steps))
        if not isinstance(data, list):
            raise self._error(f"{self.key}: {around} is {shown(data)} and has no keys")
        if not re.fullmatch(r"[0-9]{1,6}", rest[0]) or int(rest[0]) >= len(data):
            raise self._error(
                f"{self.key}: {around} is a list of {len(data)} and has no {rest[0]!r}",
                f"number its items from 0, as '{around}.0'",
            )
        return int(rest[0]), rest[1:]

    def _error(self, message: str, hint: str = "") -> FileError:
        return FileError(str(self.marks[()].key), message, hint=hint)
