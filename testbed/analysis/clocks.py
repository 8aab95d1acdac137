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

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from testbed.events import Event

SLEW = 1.2e-3
"""Seconds by which a host's clock and ours come apart in a second at most, each 600 ppm off."""

_AROUND = 16
"""Samples on either side of an instant that the drift is measured over."""
_USUAL_RATE = 1e-4
"""How far off the rate of a clock usually is: what holds where samples cannot tell."""
_FINEST = 1e-7
"""No sample is trusted to less than that."""


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


class Clocks:
    """How far each host's clock is ahead of the clock of the event log, over time.

    A monotonic clock starts anew with its host, so what was measured before a host was made ready
    again says nothing about later stamps.
    """

    def __init__(self, events: Iterable[Event] = (), slew: float = SLEW) -> None:
        """Take what a log says of clocks that come apart by at most `slew` in a second."""
        self._slew = slew
        self._starts: dict[str, list[_Start]] = {}
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Add one clock measurement; those of one host must come in the order of the log."""
        if event.kind == "host.ready":
            self._of(event).append(_Start(event.t, self._slew))
        elif event.kind == "clock.offset":
            self._of(event)[-1].add(event.t, event.data["ahead"], event.data["bound"])

    def _of(self, event: Event) -> list[_Start]:
        return self._starts.setdefault(event.subject, [_Start(event.t, self._slew)])

    def instant(self, event: Event, mono: float) -> Instant | None:
        """Convert a host's time stamp to seconds of the log; None if the clock was not measured.

        A host that started several times has several clocks; the last start before the event that
        was measured counts. The instant is bounded by the arrival of the event.
        """
        starts = [one for one in self._starts.get(event.data["host"], []) if one.is_measured]
        if not starts:
            return None
        later = bisect_right(starts, event.t, key=lambda start: start.ready)
        return starts[max(0, later - 1)].corrected(mono).before(event.t)


class _Start:
    """What was measured of a clock from one start of its host to the next, in the order of time."""

    def __init__(self, ready: float, slew: float) -> None:
        self.ready = ready
        self._slew = slew
        self._times: list[float] = []
        self._readings: list[float] = []
        """What the clock showed at each sample."""
        self._measured: list[tuple[float, float]] = []
        """Of each sample, how far ahead the clock was, and the bound of that."""
        self._low: list[float] = []
        self._high: list[float] = []
        """Between what the clock was ahead at each, by all samples together."""
        self._lines: dict[int, tuple[float, float, float]] = {}

    @property
    def is_measured(self) -> bool:
        """Return whether this clock was measured at all."""
        return bool(self._times)

    def add(self, t: float, ahead: float, bound: float) -> None:
        """Add one clock measurement, taken at the middle of its round trip."""
        bound *= 1 + 2 * self._slew
        place = bisect_right(self._times, t)
        self._times.insert(place, t)
        self._readings.insert(place, t + ahead)
        self._measured.insert(place, (ahead, max(bound, _FINEST)))
        self._low.insert(place, ahead - bound)
        self._high.insert(place, ahead + bound)
        self._lines.clear()
        for neighbour in (place - 1, place + 1):
            self._narrow(place, neighbour)
        for step in (-1, 1):
            other = place + step
            while self._narrow(other, other - step):
                other += step

    def _narrow(self, place: int, by: int) -> bool:
        """Cut off one sample's interval what the cone of another excludes; tell if that is any.

        Where that would leave nothing, the clock was not slewed but set, and nothing is cut off.
        """
        if not (0 <= place < len(self._times) and 0 <= by < len(self._times)):
            return False
        low, high = self._cone(by, self._times[place])
        low, high = max(low, self._low[place]), min(high, self._high[place])
        if low > high or (low, high) == (self._low[place], self._high[place]):
            return False
        self._low[place], self._high[place] = low, high
        return True

    def _cone(self, place: int, t: float) -> tuple[float, float]:
        width = self._slew * abs(t - self._times[place])
        return self._low[place] - width, self._high[place] + width

    def corrected(self, mono: float) -> Instant:
        """Convert a time stamp of this host's clock to seconds of the log."""
        after = bisect_right(self._readings, mono)
        low, high = self._between(after, mono)
        around = mono - (low + high) / 2
        guess = min(max(self._guess(after, around), low), high)
        return Instant(mono - high, mono - low, mono - guess)

    def _between(self, after: int, mono: float) -> tuple[float, float]:
        """Return between what the clock was ahead when it showed `mono`, before sample `after`."""
        cones = [self._cone_at(n, mono) for n in (after - 1, after) if 0 <= n < len(self._times)]
        low, high = max(low for low, _ in cones), min(high for _, high in cones)
        if low <= high:
            return low, high
        return min(low for low, _ in cones), max(high for _, high in cones)

    def _cone_at(self, place: int, mono: float) -> tuple[float, float]:
        """Return what one sample says of the clock when that showed `mono`.

        How long before or after the sample that was is known in the clock's own seconds.
        """
        low, high = self._low[place], self._high[place]
        shown = self._times[place] + (low + high) / 2
        width = (abs(mono - shown) + (high - low) / 2) * self._slew / (1 - self._slew)
        return low - width, high + width

    def _guess(self, after: int, t: float) -> float:
        """Return how far the clock probably was ahead at an instant before sample `after`."""
        if after not in self._lines:
            self._lines[after] = self._line(after)
        middle, ahead, rate = self._lines[after]
        return ahead + rate * (t - middle)

    def _line(self, after: int) -> tuple[float, float, float]:
        """Return an instant, how far ahead the clock was then, and its rate, by least squares."""
        span = slice(max(0, after - _AROUND), after + _AROUND)
        first, zero = self._times[span][0], self._measured[span][0][0]
        times = [t - first for t in self._times[span]]
        values = [ahead - zero for ahead, _ in self._measured[span]]
        weights = [bound**-2 for _, bound in self._measured[span]]
        total = sum(weights)
        middle = sum(w * t for w, t in zip(weights, times, strict=True)) / total
        ahead = sum(w * value for w, value in zip(weights, values, strict=True)) / total
        rows = list(zip(weights, times, values, strict=True))
        spread = sum(w * (t - middle) ** 2 for w, t, _ in rows) + _USUAL_RATE**-2
        rate = sum(w * (t - middle) * (value - ahead) for w, t, value in rows) / spread
        return first + middle, zero + ahead, rate
