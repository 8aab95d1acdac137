"""Check that the limit of a check has the dimension of its metric."""

from __future__ import annotations

from testbed.analysis.metric_definitions import DIMENSIONS, MetricDefinition
from testbed.schema import Condition, Statistic
from testbed.units import FREQUENCY, LOSS, POWER, SHARE, Dimension

NEAR = "near_prediction"
_KINDS = {SHARE: "a percentage"}


def dimension_mismatch(
    metric: str, meaning: MetricDefinition, statistic: Statistic, limit: Condition
) -> str:
    """Return why a limit does not fit a metric's dimension; empty if it does."""
    if not meaning.unit:
        return f"{metric} is text, which only `same_as` compares"
    dimension = DIMENSIONS.get(meaning.unit)
    if limit.dimension in _permitted(dimension, statistic):
        return ""
    written = f"{limit.text!r} is {_kind(limit.dimension)}"
    return (
        f"{written}, and {metric} is {_kind(dimension)}: write it {_example(dimension, statistic)}"
    )


def in_unit(limit: Condition) -> float:
    """Return the number of a limit as values of its metric are stored: 8 % are 8."""
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


def _example(dimension: Dimension | None, statistic: Statistic) -> str:
    if statistic == NEAR and dimension in (POWER, LOSS):
        return "in dB, as '1 dB'"
    if dimension is None:
        return "without a unit, as '1.5'"
    return f"with a unit, as {dimension.example!r}"
