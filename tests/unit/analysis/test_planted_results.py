"""A thousand results planted on a known side of their limit: is each verdict right?"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from testbed.analysis.checks import evaluate
from testbed.analysis.limit_dimensions import dimension_mismatch
from testbed.analysis.metric_definitions import METRICS, MetricDefinition
from testbed.analysis.metrics import metrics
from testbed.analysis.trial import TrialResult
from testbed.schema import Check, Condition
from testbed.units import DIMENSIONS

COUNT = 1000

UNITS = {
    "s": ("ns", "µs", "ms", "s", "min"),
    "bit/s": ("kbit/s", "Mbit/s", "Gbit/s", "GB/s"),
    "B": ("B", "KiB", "MB", "GiB"),
    "dBm": ("dBm",),
    "dB": ("dB",),
    "%": ("%",),
    "1": ("",),
}
"""What a limit may be written in, by the unit of the metric."""

FACTORS = {
    unit: float(factor) for dimension in DIMENSIONS for unit, factor in dimension.units.items()
}
FACTORS |= {"%": 1.0, "": 1.0}
"""Values are stored in the unit of the metric: percentages in percent."""

MEANINGS = [
    *METRICS.items(),
    ("sent_ring_7mib", MetricDefinition("B", "lower", "")),
    ("level", MetricDefinition("dBm", "higher", "")),
    ("attenuation", MetricDefinition("dB", "neither", "")),
    ("hits", MetricDefinition("%", "higher", "")),
]


@dataclass(frozen=True)
class Planted:
    """A check, the trials that it is held against, and whether it holds by construction."""

    check: Check
    trials: list[TrialResult]
    holds: bool


def planted(chance: random.Random) -> Planted:
    """Plant values at known distances from a limit, on the side that is to be found."""
    of = chance.choice(list(UNITS))
    metric, meaning = chance.choice([one for one in MEANINGS if one[1].unit == of])
    unit = chance.choice(UNITS[of])
    written = chance.choice([1, 7, 25, 500, 0.5, 99.9, 1 / 3]) if unit != "B" else 7
    text = f"{written:.4g}" if unit not in ("KiB", "MB", "GiB") else "3"
    limit = float(text) * FACTORS[unit]
    comparator = chance.choice(["<", "<=", ">", ">="])
    statistic = chance.choice(["every", "median", "min", "max"])
    condition = Condition.parse(f"{comparator} {text} {unit}".rstrip())
    better = -1 if comparator.startswith("<") else 1
    count, holds = chance.choice([1, 3, 6, 7]), chance.random() < 0.5

    def side(good: bool) -> float:
        distance = limit * 10 ** chance.uniform(-6, 0)
        return limit + distance * (better if good else -better)

    # How many of the trials may be on the other side without a change of the statistic's side.
    strict = {"every": True, "max": better < 0, "min": better > 0, "median": None}[statistic]
    if strict is None:
        others = chance.randint(0, (count - 1) // 2)
        values = [side(not holds)] * others + [side(holds) for _ in range(count - others)]
    elif strict == holds:  # all must be good, or it fails only where all are bad
        values = [side(holds) for _ in range(count)]
    else:
        values = [side(holds), *(side(chance.random() < 0.5) for _ in range(count - 1))]
    chance.shuffle(values)
    trials = [
        TrialResult(n, "only", True, None, "", {metric: value}, {}, None, None, None, {},
                    metric_definitions={metric: meaning})
        for n, value in enumerate(values)
    ]  # fmt: skip
    return Planted(Check("only", metric, statistic, condition), trials, holds)


def test_a_thousand_planted_results_have_the_right_verdict():
    chance, sides, seen = random.Random(4), [0, 0], set()
    for number in range(COUNT):
        one = planted(chance)
        found = evaluate(one.check, one.trials, metrics(one.trials))
        assert found.verdict == ("passed" if one.holds else "failed"), (number, one, found)
        assert found.unit == one.trials[0].metric_definitions[one.check.metric].unit
        assert ("not " + found.limit in found.reason) != one.holds
        sides[one.holds] += 1
        seen.add((found.unit, one.check.statistic))
    assert min(sides) > COUNT / 3  # both sides were planted
    assert len(seen) == 4 * len(UNITS)  # and every statistic of every unit


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("other", UNITS)
def test_a_limit_of_another_dimension_is_refused(unit, other):
    """Also in a file of before, which `report` reads without a plan being made of it."""
    meaning = MetricDefinition(unit, "lower", "")
    trial = TrialResult(0, "only", True, None, "", {"it": 1e-12}, {}, None, None, None, {},
                        metric_definitions={"it": meaning})  # fmt: skip
    condition = Condition.parse(f"< 25 {UNITS[other][-1]}".rstrip())
    found = evaluate(Check("only", "it", "every", condition), [trial], metrics([trial]))
    assert found.verdict == ("passed" if unit == other else "unknown")
    assert found.reason == (
        dimension_mismatch("it", meaning, "every", condition) or "1 of 1 trials"
    )
    assert bool(dimension_mismatch("it", meaning, "every", condition)) == (unit != other)


@pytest.mark.parametrize("text", ["7 %", "29 %", "0.1 %", "99.99 %"])
def test_a_percentage_equal_to_its_limit_satisfies_the_limit(text):
    """7 % are a share of 0.07, and 100 times that is a little more than 7."""
    value = float(text.removesuffix(" %"))
    trial = TrialResult(
        0, "only", True, None, "", {"wire_overhead": value}, {}, None, None, None, {}
    )
    for comparator, verdict in (
        ("<", "failed"),
        ("<=", "passed"),
        (">", "failed"),
        ("==", "passed"),
    ):
        condition = Condition.parse(f"{comparator} {text}")
        check = Check("only", "wire_overhead", "every", condition)
        assert evaluate(check, [trial], metrics([trial])).verdict == verdict
