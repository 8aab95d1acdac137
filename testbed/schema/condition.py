"""The conditions that a check states about a metric; `analysis` evaluates them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from testbed.schema.text_types import ReadBy, Text
from testbed.schema.validation import StrictModel, shown
from testbed.units import DIMENSIONS, Dimension

Comparator = Literal["<", "<=", ">", ">=", "=="]
Statistic = Literal[
    "every",
    "median",
    "min",
    "max",
    "equals",
    "near_prediction",
    "same_as",
    "ratio_lower",
    "ratio_upper",
]


_STATISTICS: tuple[Statistic, ...] = get_args(Statistic)


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a value: its base unit is that of `dimension`, None for a bare number."""

    comparator: Comparator
    value: float
    dimension: Dimension | None
    text: str
    """As it was written."""

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Return the condition that `text` states; raise ValueError otherwise."""
        match = _CONDITION.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} does not begin with <, <=, >, >= or ==; write '< 1 s'")
        value, dimension = _amount(match["amount"].lstrip())
        comparator: Any = match["comparator"]
        return cls(comparator, value, dimension, text)

    def __str__(self) -> str:
        return self.text


_CONDITION = re.compile(r"(?P<comparator><=|>=|==|<|>)(?P<amount>.+)")


def _amount(text: str) -> tuple[float, Dimension | None]:
    for dimension in DIMENSIONS:
        if any(text.endswith(unit) for unit in dimension.units):
            try:
                return dimension.parse(text), dimension
            except ValueError:
                continue
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"{text!r} is neither a number nor a quantity; write '1 s', '95 %' or '20'"
        )
    return value, None


def _amount_of(comparator: Comparator, *, signed: bool = True) -> ReadBy:
    """Return the marker of a condition of which a file gives only the number or quantity."""

    def read(given: object) -> Condition:
        if isinstance(given, bool) or not isinstance(given, (int, float, str)):
            raise ValueError(f"expected a number, or a quantity with a unit, got {shown(given)}")
        text = str(given)
        value, dimension = _amount(text)
        if value < 0 and not signed:
            raise ValueError(f"{text!r} is negative, and a distance must be at least 0")
        return Condition(comparator, value, dimension, text)

    return ReadBy(read, {"type": ["number", "string"], "examples": ["10 %", "60 ms", 20]})


Compared = Annotated[Condition, Text(Condition.parse, r"^(<=|>=|==|<|>)")]


_METRIC_OF_ARM = r"^.+\.[a-z][a-z0-9_]*$"


def _metric_of_arm(text: str) -> str:
    if not re.match(_METRIC_OF_ARM, text):
        raise ValueError(f"{text!r} is not an arm and its metric; write it as 'cold.steps'")
    return text


def _metrics_of_arms(given: object) -> tuple[str, ...]:
    found = given if isinstance(given, list) else [given]
    if not found or not all(isinstance(one, str) for one in found):
        raise ValueError(f"expected an arm and its metric, or a list of them, got {shown(given)}")
    return tuple(map(_metric_of_arm, found))


_ONE = {"type": "string", "pattern": _METRIC_OF_ARM}
_OVER = {"anyOf": [_ONE, {"type": "array", "items": _ONE, "minItems": 1}]}


class RatioBounds(StrictModel):
    """Where the 95 % interval of the ratio of two medians must lie."""

    over: Annotated[tuple[str, ...], ReadBy(_metrics_of_arms, _OVER)]
    """The `arm.metric` whose median it is divided by; of several, the best one."""
    upper: Compared | None = None
    """Holds for the upper end of the interval."""
    lower: Compared | None = None
    """Holds for the lower end of the interval."""


class Statistics(StrictModel):
    """The conditions on statistics of one metric of one arm."""

    every: Compared | None = None
    """Holds for every trial."""
    median: Compared | None = None
    min: Compared | None = None
    max: Compared | None = None
    equals: Annotated[Condition, _amount_of("==")] | None = None
    """Every trial has exactly this value."""
    near_prediction: Annotated[Condition, _amount_of("<=", signed=False)] | None = None
    """The median is no further from its prediction than this: a share of it, or a quantity."""

    same_as: Annotated[str, Text(_metric_of_arm, _METRIC_OF_ARM)] | None = None
    """Every trial has the value that every trial of this `arm.metric` has, to the last bit."""

    ratio: RatioBounds | None = None
    """The median over that of another metric, by its bootstrap interval."""

    @property
    def ratio_lower(self) -> Condition | None:
        """Return the condition on the lower end of the ratio's interval."""
        return self.ratio.lower if self.ratio else None

    @property
    def ratio_upper(self) -> Condition | None:
        """Return the condition on the upper end of the ratio's interval."""
        return self.ratio.upper if self.ratio else None

    def conditions(self) -> Mapping[Statistic, Condition | str]:
        """Return the conditions that the file states; `same_as` is the other metric's name."""
        return {name: stated for name in _STATISTICS if (stated := getattr(self, name)) is not None}
