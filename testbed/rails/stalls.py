"""What a delay of the switch costs an iteration: by the replay, and by the closed formula."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from testbed.rails.optimum import optimum
from testbed.rails.rail_replay import Change, Rails
from testbed.rails.replay import Forwarding, forwarding, replay
from testbed.rails.requests import Mode
from testbed.rails.workload import Workload

_STEPS = 24
"""Halvings of an interval between a delay and its double."""

_LONGEST = 3600.0


@dataclass(frozen=True, slots=True)
class Stall:
    """What one delay costs in one mode: seconds of an iteration."""

    delay: float
    mode: Mode
    iteration: float
    """By the replay."""
    stall: float
    """What of it is there because of the delay."""
    formula: float
    """The stall by the closed formula."""
    optimum: float
    """An iteration with the best schedule of changes that there is, or with none."""
    forwarding: Forwarding | None = None
    """How groups could be forwarded over other rails, where they may be."""

    @property
    def overhead(self) -> float:
        """Return the stall as a share of an iteration without a delay."""
        return self.stall / (self.iteration - self.stall)


def stalls(
    workload: Workload, delays: Iterable[float], modes: Iterable[Mode], rails: Rails | None = None
) -> list[Stall]:
    """Return the stall of each delay in each mode; `rails` says what else they are.

    Raise ValueError where there are too many schedules to find the best of.
    """
    rails = rails or Rails()
    still = replay(workload, replace(rails, delay=0.0, mode="on-demand"))
    found = []
    each = len(workload.iterations)
    for delay in delays:
        best = optimum(workload, replace(rails, delay=delay))
        for mode in modes:
            own = replace(rails, delay=delay, mode=mode)
            took = replay(workload, own).iteration
            closed = formula(still.changes, delay, mode) / each
            stall, over = took - still.iteration, forwarding(workload, own)
            found.append(Stall(delay, mode, took, stall, closed, best, over))
    return found


def formula(changes: Iterable[Change], delay: float, mode: Mode) -> float:
    """Return Σ max(0, δ - W) over the changes of the rank with the largest sum, in seconds.

    The changes are those of a replay without a delay. On demand no window is used (arXiv
    2602.12521); stalls of different ranks are taken to hide behind each other.
    """
    by_rank: defaultdict[int, float] = defaultdict(float)
    for change in changes:
        window = 0.0 if mode == "on-demand" else change.window
        for rank in change.stage.ranks:
            by_rank[rank] += max(0.0, delay - window)
    return max(by_rank.values(), default=0.0)


def break_even(workload: Workload, rails: Rails, share: float) -> float:
    """Return the longest delay, in seconds, that makes an iteration at most `share` longer.

    It is found by the replay, to a share of 10⁻⁷ of it; an hour where no delay does more.
    """
    most = replay(workload, replace(rails, delay=0.0)).iteration * (1 + share)

    def is_within(delay: float) -> bool:
        return replay(workload, replace(rails, delay=delay)).iteration <= most * (1 + 1e-12)

    low, high = 0.0, 1e-3
    while is_within(high):
        if high >= _LONGEST:
            return _LONGEST
        low, high = high, min(2 * high, _LONGEST)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_within(middle) else (low, middle)
    return low
