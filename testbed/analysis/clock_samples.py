"""What was measured of one host's clock, and what that says of its stamps (see `clocks`)."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Places = npt.NDArray[np.intp]

_AROUND = 16
"""Samples on either side of an instant that the drift is measured over."""
_USUAL_RATE = 1e-4
"""How far off the rate of a clock usually is: what holds where samples cannot tell."""
_FINEST = 1e-7
"""No sample is trusted to less than that."""


class ClockSamples:
    """What was measured of a clock from one start of its host to the next, in the order of time."""

    def __init__(self, ready: float, slew: float) -> None:
        self.ready = ready
        self._slew = slew
        self._times = array("d")
        self._readings = array("d")
        """What the clock showed at each sample."""
        self._aheads = array("d")
        """How far ahead the clock was at each."""
        self._weights = array("d")
        self._low = array("d")
        self._high = array("d")
        """Between what the clock was ahead at each, by all samples together."""
        self._lines: dict[int, tuple[float, float, float]] = {}
        self._arrays: tuple[Floats, Floats, Floats] | None = None

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
        self._aheads.insert(place, ahead)
        self._weights.insert(place, max(bound, _FINEST) ** -2)
        self._low.insert(place, ahead - bound)
        self._high.insert(place, ahead + bound)
        self._lines.clear()
        self._arrays = None
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

    def corrected(self, mono: float) -> tuple[float, float, float]:
        """Convert a time stamp of this clock to seconds of the log: bounds, and the best guess."""
        after = bisect_right(self._readings, mono)
        if after == len(self._times):  # as most stamps are while a job runs
            low, high = self._cone_at(after - 1, mono)
        else:
            low, high = self._between(after, mono)
        middle, ahead, rate = self._lines.get(after) or self._line(after)
        around = mono - (low + high) / 2
        guess = ahead + rate * (around - middle)
        guess = low if guess < low else high if guess > high else guess
        return mono - high, mono - low, mono - guess

    def bounds(self, stamps: Iterable[float], reported: float) -> list[tuple[float, float, float]]:
        """Convert stamps as `corrected` does; none is later than the instant of its report.

        Most stamps of a running job are later than the last sample: what is the same for all of
        those is computed once.
        """
        last = len(self._times)
        middle, ahead, rate = self._lines.get(last) or self._line(last)
        low, high = self._low[-1], self._high[-1]
        shown, half = self._times[-1] + (low + high) / 2, (high - low) / 2
        slew, rest = self._slew, 1 - self._slew
        found = []
        for mono in stamps:
            if bisect_right(self._readings, mono) == last:
                width = (abs(mono - shown) + half) * slew / rest
                least, most = low - width, high + width
                guess = ahead + rate * (mono - (least + most) / 2 - middle)
                guess = least if guess < least else most if guess > most else guess
                early, late, best = mono - most, mono - least, mono - guess
            else:
                early, late, best = self.corrected(mono)
            if early <= reported < late:
                late, best = reported, min(best, reported)
            found.append((early, late, best))
        return found

    def all_corrected(self, stamps: Floats) -> tuple[Floats, Floats, Floats]:
        """Return many stamps in the log's seconds, each as `corrected` does, to the last bit."""
        import numpy as np

        after = self._places_after(stamps)
        low, high = self._all_between(after, stamps)
        _, _, lines = self._columns()
        middle, ahead, rate = lines[after].T
        around = stamps - (low + high) / 2
        guess = np.minimum(np.maximum(ahead + rate * (around - middle), low), high)
        return stamps - high, stamps - low, stamps - guess

    def _places_after(self, stamps: Floats) -> Places:
        """Return the first sample after each of some stamps; bad samples need not be in order."""
        import numpy as np

        readings, _, _ = self._columns()
        if (readings[1:] >= readings[:-1]).all():
            return np.searchsorted(readings, stamps, side="right")
        return np.array([bisect_right(self._readings, mono) for mono in stamps.tolist()])

    def _all_between(self, after: Places, stamps: Floats) -> tuple[Floats, Floats]:
        """Return between what the clock was ahead when it showed each of some stamps."""
        import numpy as np

        (low, high), (other_low, other_high) = (
            self._cones_at(place, stamps) for place in (after - 1, after)
        )
        is_slewed = np.maximum(low, other_low) <= np.minimum(high, other_high)
        return (
            np.where(is_slewed, np.maximum(low, other_low), np.minimum(low, other_low)),
            np.where(is_slewed, np.minimum(high, other_high), np.maximum(high, other_high)),
        )

    def _cones_at(self, places: Places, stamps: Floats) -> tuple[Floats, Floats]:
        """Return what a sample says of the clock at each of some stamps; nothing where none is."""
        import numpy as np

        is_one = (places >= 0) & (places < len(self._times))
        _, samples, _ = self._columns()
        time, low, high = samples[:, np.clip(places, 0, len(self._times) - 1)]
        shown = time + (low + high) / 2
        width = (np.abs(stamps - shown) + (high - low) / 2) * self._slew / (1 - self._slew)
        return np.where(is_one, low - width, -np.inf), np.where(is_one, high + width, np.inf)

    def _columns(self) -> tuple[Floats, Floats, Floats]:
        """Return all readings; times and bounds in three rows; the line before each sample."""
        import numpy as np

        if self._arrays is None:
            rows = np.array((self._times, self._low, self._high))
            self._arrays = np.array(self._readings), rows, self._all_fitted()
        return self._arrays

    def _between(self, after: int, mono: float) -> tuple[float, float]:
        """Return between what the clock was ahead when it showed `mono`, before sample `after`."""
        other_low, other_high = self._cone_at(after, mono)
        if after == 0:
            return other_low, other_high
        low, high = self._cone_at(after - 1, mono)
        if max(low, other_low) <= min(high, other_high):
            return max(low, other_low), min(high, other_high)
        return min(low, other_low), max(high, other_high)

    def _cone_at(self, place: int, mono: float) -> tuple[float, float]:
        """Return what one sample says of the clock when that showed `mono`.

        How long before or after the sample that was is known in the clock's own seconds.
        """
        low, high = self._low[place], self._high[place]
        shown = self._times[place] + (low + high) / 2
        width = (abs(mono - shown) + (high - low) / 2) * self._slew / (1 - self._slew)
        return low - width, high + width

    def _line(self, after: int) -> tuple[float, float, float]:
        """Return the line through the samples around the place before sample `after`."""
        found = self._lines.get(after)
        if found is None:
            found = self._lines[after] = self._fitted(after)
        return found

    def _fitted(self, after: int) -> tuple[float, float, float]:
        """Return an instant, how far ahead the clock was then, and its rate, by least squares."""
        span = slice(max(0, after - _AROUND), after + _AROUND)
        first, zero = self._times[span][0], self._aheads[span][0]
        rows = list(zip(self._weights[span], self._times[span], self._aheads[span], strict=True))
        total = of_times = of_aheads = spread = slope = 0.0
        for weight, t, ahead in rows:  # one after the other, as `_all_fitted` adds
            total += weight
            of_times += weight * (t - first)
            of_aheads += weight * (ahead - zero)
        middle, height = of_times / total, of_aheads / total
        for weight, t, ahead in rows:
            apart = t - first - middle
            spread += weight * (apart * apart)
            slope += weight * apart * (ahead - zero - height)
        return first + middle, zero + height, slope / (spread + _USUAL_RATE**-2)

    def _all_fitted(self) -> Floats:
        """Return what `_fitted` does before every sample and after the last, a row for each."""
        import numpy as np

        columns = np.array((self._weights, self._times, self._aheads))
        count = len(self._times)
        after = np.arange(count + 1)
        begin, end = np.maximum(0, after - _AROUND), np.minimum(count, after + _AROUND)
        _, first, zero = columns[:, begin]
        total, of_times, of_aheads, spread, slope = np.zeros((5, count + 1))
        places = [begin + offset for offset in range(2 * _AROUND)]
        for place in places:
            weight, t, ahead = columns[:, np.minimum(place, count - 1)]
            weight = np.where(place < end, weight, 0.0)
            total += weight
            of_times += weight * (t - first)
            of_aheads += weight * (ahead - zero)
        middle, height = of_times / total, of_aheads / total
        for place in places:
            weight, t, ahead = columns[:, np.minimum(place, count - 1)]
            weight = np.where(place < end, weight, 0.0)
            apart = t - first - middle
            spread += weight * (apart * apart)
            slope += weight * apart * (ahead - zero - height)
        rate = slope / (spread + _USUAL_RATE**-2)
        return np.stack((first + middle, zero + height, rate), axis=1)
