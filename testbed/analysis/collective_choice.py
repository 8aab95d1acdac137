"""Metrics of steps while one rank is late, and of the gain from choosing another AllReduce."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from testbed.analysis.clocks import Instant
from testbed.analysis.steps import Step, step_time


def choice_values(steps: Sequence[Step], fault: Instant) -> dict[str, float]:
    """Return the metrics of the steps that began after a fault which slows a rank down.

    Where another AllReduce was chosen after the fault, they are of the steps since the last choice,
    and compare these with the steps before it.
    """
    late = [step for step in steps if step.begin.early > fault.late]
    if not late:
        return {}
    last = late[-1].choice
    after = [step for step in late if step.choice == last]
    before = [step for step in late if step.choice == last - 1]
    values = {}
    if (now := step_time(after)) is not None:
        values["straggling_step_time"] = now
        if (then := step_time(before)) is not None:
            values |= _gains(_total(before), _total(after), then, now)
    return values


def _gains(collective: float, another: float, then: float, now: float) -> dict[str, float]:
    """Return what was saved when `another` took the place of a collective, and steps `now`."""
    share, gain = collective / then, 1 - another / collective
    values = {"communication_share": share, "collective_gain": gain, "step_gain": 1 - now / then}
    return values | ({"gain_agreement": values["step_gain"] / (share * gain)} if gain else {})


def _total(steps: Sequence[Step]) -> float:
    """Return what their collectives take from when all ranks but the last are ready: the median."""
    return statistics.median(step.collective + step.skew for step in steps)
