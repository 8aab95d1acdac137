"""Whether stages of a rail are asked for early, as was quicker in the last iterations.

Both ways are measured: an iteration takes, on the average over all stages, what passes from when a
stage is reached until it is reached again. The way that is not in use is tried once more when
windows or changes are no longer as they were at the last try, when an iteration has become slower
than it was the other way, and now and then without a sign. It is taken when it was quicker by more
than what iterations differ by anyhow.

A try lasts about `TRIED` iterations, of which each may be longer by the changes that one way hides
and the other does not. Between two tries are `SPACING` iterations at least. Without a sign that
anything has changed tries cost about `SHARE` of the time at most, if the other way is as slow as it
was.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

TRIED = 3
"""How often stages are reached until a way is known: in the iterations between them it is used from
beginning to end."""

MEASURED = 5
"""Iterations of which the way in use is known before the other is tried since windows changed."""

SPACING = 10
"""Iterations between two tries, at least, though windows have changed."""

SELDOM = 30
"""Iterations between two tries, at least, where no window has changed."""

SHARE = 0.01
"""Of the time, what tries without a sign may cost."""

HYSTERESIS = 0.02
"""Share of an iteration by which the other way must be quicker to be taken."""

CHANGED = 0.25
"""Share of a change of circuits by which windows must be longer or shorter to count as changed."""

Key = tuple[str, tuple[int, ...], int]
"""A stage of every iteration: its group, its ranks, and its place."""

Windows = Mapping[Key, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Conditions:
    """Seconds on which it depends which way is quicker, as they were before a try."""

    change: float = 0.0
    """What a change of circuits took."""
    windows: Mapping[Key, float] = field(default_factory=dict)

    def differ(self, windows: Windows, change: float) -> bool:
        """Tell whether changes or windows have become longer or shorter.

        All of the last windows of a stage must have. No window counts for more than all changes of
        an iteration take: what is longer hides nothing more.
        """
        least = CHANGED * self.change
        if abs(change - self.change) > least:
            return True
        most = self.change * len(windows)
        for key, each in windows.items():
            was = min(self.windows.get(key, 0.0), most)
            now = [min(window, most) for window in each[-TRIED:]]
            if len(now) == TRIED and (min(now) > was + least or max(now) < was - least):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Choice:
    """Which way stages are asked for, and what is known of both; immutable."""

    early: bool = False
    """Stages are asked for before they are reached."""
    since: float = float("-inf")
    """When that began."""
    is_try: bool = True
    """It is not known yet how long an iteration takes this way."""
    is_due: bool = False
    """The other way is to be tried as soon as this one was measured once more."""
    took: Mapping[bool, float] = field(default_factory=dict)
    """Seconds of an iteration each way, when it was measured last."""
    reached: Mapping[Key, float] = field(default_factory=dict)
    """When all ranks had reached each stage last."""
    periods: Mapping[Key, tuple[float, ...]] = field(default_factory=dict)
    """Seconds between that and the time before, of the last iterations that were all this way."""
    before: Conditions = Conditions()
    """As they were before the last try."""
    if_changed: float = 0.0
    """When the next try may begin, if something has changed…"""
    anyway: float = float("inf")
    """… and when it does, if nothing has."""

    def after(self, now: float, key: Key, windows: Windows, change: float) -> Choice:
        """Return the choice after all ranks have reached a stage.

        `windows` are the last ones of all stages, and `change` is what a change of circuits takes.
        """
        last = self.reached.get(key)
        known = replace(self, reached={**self.reached, key: now})
        if last is None:
            return known
        if last >= self.since:
            own = (*self.periods.get(key, ()), now - last)[-MEASURED:]
            known = replace(known, periods={**self.periods, key: own})
        took = known._iteration(last)
        if took is None:
            return known
        known = replace(known, took={**self.took, self.early: took})
        if self.is_due or (not self.early) not in self.took or now >= self.anyway:
            return known._tried(now, windows, change)
        if self.is_try:
            return known._chosen(now)
        is_slower = took > self.took[not self.early] * (1 + HYSTERESIS)
        if now >= self.if_changed and (is_slower or self.before.differ(windows, change)):
            return replace(known, is_due=True, since=now, periods={})
        return known

    def _iteration(self, since: float) -> float | None:
        """Return an iteration's seconds, by the stages reached since an instant.

        It is None until each of them was reached often enough this way. Others have ended.
        """
        needed = MEASURED if self.is_due else TRIED - 1
        each = [self.periods.get(key, ()) for key, at in self.reached.items() if at >= since]
        if any(len(periods) < needed for periods in each):
            return None
        last = 1 if self.is_try else MEASURED  # at first stages are still asked for the other way
        return statistics.fmean(statistics.fmean(periods[-last:]) for periods in each)

    def _tried(self, now: float, windows: Windows, change: float) -> Choice:
        """Return the choice as the other way begins to be tried."""
        each = {key: statistics.median(own[-TRIED:]) for key, own in windows.items()}
        before = Conditions(change, each)
        begun = replace(self, early=not self.early, since=now, periods={}, before=before)
        return replace(begun, is_try=True, is_due=False, anyway=float("inf"))

    def _chosen(self, now: float) -> Choice:
        """Return the choice at the end of a try, of the quicker way."""
        new, old = self.took[self.early], self.took[not self.early]
        is_first = not self.if_changed
        is_taken = new <= (old if is_first else old * (1 - HYSTERESIS))
        loss = max(0.0, (old / new if is_taken else new / old) - 1)
        each = new if is_taken else old
        waits = replace(
            self,
            is_try=False,
            if_changed=now + SPACING * each,
            anyway=now + max(SELDOM, TRIED * loss / SHARE) * each,
        )
        return waits if is_taken else replace(waits, early=not self.early, since=now, periods={})
