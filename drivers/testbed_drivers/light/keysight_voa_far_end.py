"""A simulated Keysight attenuator: moving filters, shutters, and its SCPI.

Assumptions beyond public documents are listed in drivers/README.md: attenuation from 0 to 45 dB, 0
dB and open shutters at the start, and a read-back that follows the moving filter.
"""

from __future__ import annotations

from functools import partial

from testbed.bench.sites import AttenuatorSite
from testbed_drivers.dialects.far_end import DEVICE_FAULTS
from testbed_drivers.dialects.scpi_far_end import Handler, Refused, ScpiFarEnd
from testbed_drivers.dialects.scpi_syntax import pattern
from testbed_drivers.light.descriptors import AttenuatorOptions

BLOCKED = 100.0
"""dB that a closed shutter takes."""
_MOST = 45.0
_STEP = 1.0
_WORDS = {"MINimum": 0.0, "MAXimum": _MOST, "DEFault": 0.0}


class Filter:
    """One channel: the present and the target position of its filter, and its shutter."""

    def __init__(self) -> None:
        self.at = 0.0
        self.shown: float | None = None
        """What it reads back when that is not where its filter is."""
        self.shown_open = True
        self.is_open = True
        self.move: object = None

    @property
    def loss(self) -> float:
        """Return the present loss of the channel in dB."""
        return self.at + (0.0 if self.is_open else BLOCKED)


class KeysightVoaFarEnd(ScpiFarEnd):
    """A simulated Keysight attenuator."""

    def __init__(self, site: AttenuatorSite, options: AttenuatorOptions | None = None) -> None:
        options = options or AttenuatorOptions()
        self._site = site
        self._filters = {channel: Filter() for channel in site.channels}
        super().__init__(
            f"Keysight Technologies,N7764A,{site.serial},1.0",
            self._by_channel(site.channels, self._commands),
            DEVICE_FAULTS,  # a channel is its `port`
            site,
            end=options.ends()[1],
        )

    def _commands(self, channel: int, suffix: str) -> dict[str, Handler]:
        return {
            f"INPut{suffix}:ATTenuation": partial(self._attenuate, channel),
            f"INPut{suffix}:ATTenuation?": partial(self._attenuation, channel),
            f"OUTPut{suffix}": partial(self._shutter, channel),
            f"OUTPut{suffix}?": partial(self._is_open, channel),
            f"OUTPut{suffix}:STATe": partial(self._shutter, channel),
            f"OUTPut{suffix}:STATe?": partial(self._is_open, channel),
        }

    def _attenuation(self, channel: int, text: str) -> str:
        one = self._filters[channel]
        decibels = _word(text) if text else one.at if one.shown is None else one.shown
        if decibels is None:
            raise Refused(-224, "Illegal parameter value")
        return f"{decibels:+.8E}"

    def _attenuate(self, channel: int, text: str) -> None:
        decibels = _decibels(text)
        if self.faults.strikes("stuck", "", channel):
            return
        if self.faults.strikes("lie", "", channel):
            self._filters[channel].shown = decibels
            return
        self._filters[channel].shown = None
        self._move(channel, decibels)

    def _move(self, channel: int, goal: float) -> None:
        """Go a step towards the goal, and on from there unless told otherwise meanwhile."""
        one = self._filters[channel]
        mark = one.move = object()
        way = max(-_STEP, min(_STEP, goal - one.at))

        def arrive() -> None:
            with self.lock:
                if one.move is not mark:
                    return
                one.at = goal if abs(goal - one.at) <= _STEP else one.at + way
                self._site.takes(channel, one.loss)
                if one.at != goal:
                    self._move(channel, goal)

        self.scheduler.call_at(self.scheduler.now() + abs(way) / self._site.speed, arrive)

    def _is_open(self, channel: int, _: str) -> str:
        return "1" if self._filters[channel].shown_open else "0"

    def _shutter(self, channel: int, text: str) -> None:
        states = {"ON": True, "1": True, "OFF": False, "0": False}
        if text.upper() not in states:
            raise Refused(-224, "Illegal parameter value")
        if self.faults.strikes("stuck", "", channel):
            return
        one = self._filters[channel]
        one.shown_open = states[text.upper()]
        if not self.faults.strikes("lie", "", channel):
            one.is_open = one.shown_open
            self._site.takes(channel, one.loss)


def _word(text: str) -> float | None:
    found = (value for word, value in _WORDS.items() if pattern(word).fullmatch(text.upper()))
    return next(found, None)


def _decibels(text: str) -> float:
    """Return the value of `20`, `20 dB` or `MAX`."""
    decibels = _word(text)
    if decibels is None:
        try:
            decibels = float(text.upper().removesuffix("DB"))
        except ValueError:
            raise Refused(-104, "Data type error") from None
    if not 0.0 <= decibels <= _MOST:
        raise Refused(-222, "Data out of range")
    return decibels
