"""Check that the limit of a check has the dimension of its metric."""

from __future__ import annotations

import re

from testbed.analysis.metric_definitions import DIMENSIONS, MetricDefinition
from testbed.schema import Condition, Statistic
from testbed.units import FREQUENCY, LOSS, POWER, SHARE, Dimension

NEAR = "near_prediction"
_KINDS = {SHARE: "a percentage"}
_BEGINNING = re.compile(r"([<>=]*\s*)([-+0-9._eE]*)")
"""The beginning of a limit: a comparison operator, which may be missing, and the number."""


def dimension_mismatch(
    metric: str, meaning: MetricDefinition, statistic: Statistic, limit: Condition
) -> str:
    """Return a sentence saying why a limit does not fit a metric's dimension; empty if it does."""
    if not meaning.unit:
        return f"{metric} is text, which only `same_as` compares"
    dimension = DIMENSIONS.get(meaning.unit)
    if limit.dimension in _permitted(dimension, statistic):
        return ""
    wanted = LOSS if statistic == NEAR and dimension in (POWER, LOSS) else dimension
    how = "without a unit" if wanted is None else "in dB" if wanted is LOSS else "with a unit"
    return (
        f"{limit.text!r} is {_kind(limit.dimension)}, and {metric} is {_kind(dimension)}: "
        f"write it {how}, as {_rewritten(limit, wanted)!r}"
    )


def in_unit(limit: Condition) -> float:
    """Convert a limit to the unit in which values of its metric are stored: 8 % becomes 8."""
    # The nearest number to what was written: 7 % are a share of 0.07, times 100 a little more.
    return round(limit.value * 100, 9) if limit.dimension is SHARE else limit.value


def _permitted(dimension: Dimension | None, statistic: Statistic) -> tuple[Dimension | None, ...]:
    if statistic != NEAR:
        # A number of events in a second has no other unit that a bare number could be in.
        return (dimension, None) if dimension is FREQUENCY else (dimension,)
    if dimension in (POWER, LOSS):  # on a logarithmic scale a share of a value means nothing
        return (LOSS,)
    return (SHARE,) if dimension is SHARE else (dimension, SHARE)


def _kind(dimension: Dimension | None) -> str:
    return "a plain number" if dimension is None else _KINDS.get(dimension, f"a {dimension.name}")


def _rewritten(limit: Condition, dimension: Dimension | None) -> str:
    """Return a limit as an experiment file states it in a dimension; its number if possible."""
    comparator, number = _BEGINNING.findall(limit.text.strip())[0]
    if limit.dimension is SHARE and dimension is None:
        number = f"{limit.value:.12g}"  # 95 % of 1
    elif limit.dimension is None and dimension is SHARE and abs(limit.value) <= 1:
        number = f"{limit.value * 100:.12g}"  # 0.9 of all
    if dimension is None:
        return f"{comparator}{number}"
    amount = f"{number} {dimension.example.partition(' ')[2]}"
    try:
        dimension.parse(amount)
    except ValueError:  # a fraction of a byte, less than nothing
        amount = dimension.example
    return f"{comparator}{amount}"
