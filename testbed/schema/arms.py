"""The arms of an experiment: its variants times the points of its matrix."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any

from testbed.schema.override import Override
from testbed.schema.source import Source
from testbed.schema.text_types import spelling
from testbed.schema.validation import MAX_PROBLEMS, Problem, schema_error

ONLY = "only"
"""The arm of an experiment that compares nothing."""

MAX_ARMS = 1000
MAX_ARM_NAME = 200
"""Characters that a matrix may add to the name of an arm."""
MAX_ARM_VALUES = 5_000_000
"""Values of all arms together, counted once for the file and once for each field that is set."""
ArmKey = Annotated[
    str,
    spelling(
        r"(faults|jobs|limits|needs|policy|controllers|lab\.switches|lab\.twin)(\..+)?",
        "a key that an arm may set: faults, jobs, limits, needs, policy, controllers, lab.switches "
        "or lab.twin",
    ),
]
"""The rest of the experiment is one for all arms; the rest of the lab is what stands there, and
what may be broken in it is not for an experiment to say."""


@dataclass(frozen=True, slots=True)
class ArmDraft:
    """An arm before its own experiment is checked."""

    name: str
    source: Source
    lab: tuple[Override, ...]


def drafts(
    source: Source, variants: Mapping[str, Mapping[str, Any]], matrix: Mapping[str, tuple[Any, ...]]
) -> list[ArmDraft]:
    """Return the arms in the order of the file; empty if the file compares nothing."""
    if not variants and not matrix:
        return []
    common = _without_comparison(source)
    if problems := list(islice(_problems(variants, matrix, len(common.marks)), MAX_PROBLEMS)):
        raise schema_error(source, problems)
    return [
        _draft(common, "/".join(filter(None, (variant, point))), (*ours, *theirs))
        for variant, ours in _variants(source, variants)
        for point, theirs in _points(source, matrix)
    ]


_COMPARISON = {"variants", "matrix", "checks"}
"""Keys that say something about the arms together; no arm has them."""


def _without_comparison(source: Source) -> Source:
    data = {key: value for key, value in source.data.items() if key not in _COMPARISON}
    marks = {at: mark for at, mark in source.marks.items() if not _COMPARISON.intersection(at[:1])}
    return replace(source, data=data, marks=marks)


def _problems(
    variants: Mapping[str, Mapping[str, Any]], matrix: Mapping[str, tuple[Any, ...]], size: int
) -> Iterator[Problem]:
    points = math.prod(len(values) for values in matrix.values())
    arms = max(1, len(variants)) * points
    set_by_variants = max(1, len(variants)) + sum(len(fields) for fields in variants.values())
    values = size * points * (set_by_variants + max(1, len(variants)) * len(matrix))
    where = ("matrix",) if matrix else ("variants",)
    if arms > MAX_ARMS:
        message = f"this makes {arms} arms, and there may be at most {MAX_ARMS}"
        yield Problem(where, message, at_key=True)
    elif values > MAX_ARM_VALUES:
        message = f"{arms} arms of {size} values take {values} values to check"
        message += f", and there may be at most {MAX_ARM_VALUES}"
        yield Problem(where, message, "write several experiments", at_key=True)
    else:
        yield from _naming_problems(matrix)


def _naming_problems(matrix: Mapping[str, tuple[Any, ...]]) -> Iterator[Problem]:
    longest = sum(
        len(key) + max(len(_text(value)) for value in values) for key, values in matrix.items()
    )
    if longest > MAX_ARM_NAME:
        message = f"keys and values take {longest} characters of the longest arm's name"
        message += f", and may take at most {MAX_ARM_NAME}"
        hint = "name each arm under 'variants' instead"
        yield Problem(("matrix",), message, hint, at_key=True)
    for key, values in matrix.items():
        texts: set[str] = set()
        for index, text in enumerate(map(_text, values)):
            if text in texts:
                yield Problem(("matrix", key, index), f"{text} is listed twice")
            texts.add(text)


def _variants(
    source: Source, variants: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, list[Override]]]:
    named = []
    for name, overrides in variants.items():
        places = [("variants", name, key) for key in overrides]
        named.append((name, [Override.cut(source, at[-1], at, at) for at in places]))
    return named or [("", [])]


def _points(
    source: Source, matrix: Mapping[str, tuple[Any, ...]]
) -> Iterator[tuple[str, tuple[Override, ...]]]:
    axes = [
        [
            Override.cut(source, key, ("matrix", key, index), ("matrix", key))
            for index in range(len(values))
        ]
        for key, values in matrix.items()
    ]
    for point in itertools.product(*axes):
        yield ",".join(f"{one.key}={_text(one.value)}" for one in point), point


def _draft(common: Source, name: str, overrides: tuple[Override, ...]) -> ArmDraft:
    lab = tuple(one for one in overrides if one.key.startswith("lab."))
    for override in overrides:
        if not override.key.startswith("lab."):
            common = override.applied(common)
    return ArmDraft(name, common, lab)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
