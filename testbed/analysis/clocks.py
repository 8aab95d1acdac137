"""Convert time stamps of hosts to the orchestrator's clock, with the error that remains.

What is known of a host's clock are samples: at an instant of the log it was `ahead` by so much,
right to within half a round trip (`bound`). In between and outside, two things hold.

*A bound.* No clock that is slewed by NTP departs from true time at more than 500 ppm (the limit of
Linux's kernel discipline, adjtimex(2)), nor does its crystal at more than 100 ppm; so two clocks
come apart by at most SLEW a second. The offset at any instant is therefore within a cone around
every sample, and within all of them at once: close to a good sample the bound is that of the
sample, half a second away it is 0.6 ms more, outside the samples it grows for ever. A bad sample,
whose answer took long, is narrowed by its neighbours' cones.

*A best guess.* A line through the samples around, each with the weight that its bound gives it:
offset and rate of drift are measured together. The guess is within the bound, which need not be
the same on both sides of it.

A clock that moved faster than SLEW allows (a virtual machine that was paused, chrony with a
`maxslewrate` above the kernel's limit) shows, for the cones of two samples then have nothing in
common. Between these two samples all that is said is that the offset was between theirs.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from testbed.analysis.clock_samples import ClockSamples
from testbed.events import Event

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Places = npt.NDArray[np.intp]

SLEW = 1.2e-3
"""Seconds by which a host's clock and ours come apart in a second at most, each 600 ppm off."""

Bounds = tuple[float, float, float]
"""An instant as plain numbers: when at the earliest, when at the latest, and where most likely."""

_MANY = 16
"""Stamps of one host from which on all are moved at once."""


@dataclass(frozen=True, slots=True)
class Instant:
    """An instant in seconds of the event log, known to lie between two bounds."""

    early: float
    late: float
    guess: float | None = None
    """Where it is most likely, if not in the middle."""

    @classmethod
    def exactly(cls, t: float) -> Instant:
        """Return an instant that is known exactly, on the orchestrator's own clock."""
        return cls(t, t)

    @property
    def middle(self) -> float:
        """Return the middle of the interval, the best guess of the instant."""
        return (self.early + self.late) / 2 if self.guess is None else self.guess

    def before(self, t: float) -> Instant:
        """Return the instant with upper bound `t`; unchanged if `t` is below its lower bound."""
        if not self.early <= t < self.late:
            return self
        return Instant(self.early, t, min(self.middle, t))


class Instants(NamedTuple):
    """Many moments in columns, each with its bounds and where it is most likely."""

    early: Floats
    late: Floats
    guess: Floats

    def part(self, places: Places) -> Instants:
        """Return of a table of them one of each row, by its place in it."""
        import numpy as np

        rows = np.arange(len(places))
        return Instants(*(column[rows, places] for column in self))

    def each(self) -> Iterator[Instant]:
        """Yield them one by one."""
        columns = (column.tolist() for column in self)
        return itertools.starmap(Instant, zip(*columns, strict=True))

    def before(self, t: Floats) -> Instants:
        """Return the same moments, each known to lie before an instant, where that can be."""
        import numpy as np

        is_later = (self.early <= t) & (t < self.late)
        late = np.where(is_later, t, self.late)
        return Instants(self.early, late, np.where(is_later, np.minimum(self.guess, t), self.guess))


class Clocks:
    """How far each host's clock is ahead of the clock of the event log, over time.

    A monotonic clock starts anew with its host, so what was measured before a host was made ready
    again says nothing about later stamps.
    """

    def __init__(self, events: Iterable[Event] = (), slew: float = SLEW) -> None:
        """Take what a log says of clocks that come apart by at most `slew` in a second."""
        self._slew = slew
        self._starts: dict[str, list[ClockSamples]] = {}
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Add one clock measurement; those of one host must come in the order of the log."""
        if event.kind == "host.ready":
            self._of(event).append(ClockSamples(event.t, self._slew))
        elif event.kind == "clock.offset":
            self._of(event)[-1].add(event.t, event.data["ahead"], event.data["bound"])

    def _of(self, event: Event) -> list[ClockSamples]:
        found = self._starts.get(event.subject)
        if found is None:
            found = self._starts[event.subject] = [ClockSamples(event.t, self._slew)]
        return found

    def instant(self, event: Event, mono: float) -> Instant | None:
        """Convert a host's time stamp to seconds of the log; None if the clock was not measured.

        A host that started several times has several clocks; the last start before the event that
        was measured counts. The instant is bounded by the arrival of the event.
        """
        found = self.bounds(event, (mono,))
        return None if found is None else Instant(*found[0])

    def bounds(self, event: Event, stamps: Iterable[float]) -> list[Bounds] | None:
        """Convert several time stamps in one event as `instant` does, without making instants."""
        starts = self._starts.get(event.data["host"], [])
        if len(starts) > 1 or not (starts and starts[0].is_measured):
            starts = [one for one in starts if one.is_measured]
        if not starts:
            return None
        return _start_before(starts, event.t).bounds(stamps, event.t)

    def instants(self, host: str, reported: Floats, stamps: Floats) -> Instants | None:
        """Return many stamps of one host as `instant` does, each reported at an instant of the log.

        To the last bit the same; None for an unmeasured clock.
        """
        import numpy as np

        starts = [one for one in self._starts.get(host, []) if one.is_measured]
        if not starts:
            return None
        if len(stamps) < _MANY:
            pairs = zip(reported.tolist(), stamps.tolist(), strict=True)
            rows = [_start_before(starts, t).bounds((mono,), t)[0] for t, mono in pairs]
            return Instants(*np.array(rows).reshape(-1, 3).T)
        ready = [start.ready for start in starts]
        which = np.maximum(np.searchsorted(ready, reported, side="right") - 1, 0)
        found = Instants(*(np.empty_like(stamps) for _ in range(3)))
        for number in np.unique(which).tolist():
            mine = np.flatnonzero(which == number)
            of_start = starts[number].all_corrected(stamps[mine])
            for whole, part in zip(found, of_start, strict=True):
                whole[mine] = part
        return found.before(reported)


def _start_before(starts: Sequence[ClockSamples], reported: float) -> ClockSamples:
    """Return the last start of a host before a report, or the first one."""
    if len(starts) == 1:
        return starts[0]
    later = bisect_right(starts, reported, key=lambda one: one.ready)
    return starts[max(0, later - 1)]
