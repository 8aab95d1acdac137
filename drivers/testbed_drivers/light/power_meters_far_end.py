"""Simulated optical power meters: detectors with noise and a noise floor, and their SCPI.

Assumptions beyond public documents are listed in drivers/README.md: a detector without light reads
a level just below the floor, and a new twin is set to dBm and 1310 nm.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial

from testbed.bench.sites import MeterSite
from testbed_drivers.dialects.scpi_far_end import Handler, Refused, ScpiFarEnd
from testbed_drivers.light.descriptors import MeterOptions

FAULTS = {"blind": "reads no light at `port`, whatever there is"}
"""What a power meter can do wrong; a channel is its `port`."""

_NOISE = 0.01
"""dB by which readings scatter."""
_BELOW_FLOOR = 5.0
_UNITS = {"DBM": "DBM", "0": "DBM", "W": "W", "WATT": "W", "1": "W"}


class MeterFarEnd(ScpiFarEnd):
    """The detectors of a simulated power meter; each has its own unit and wavelength."""

    def __init__(
        self, identity: str, table: Mapping[str, Handler], site: MeterSite, options: MeterOptions
    ) -> None:
        self._site = site
        self._floor = options.floor
        self._noise = random.Random(site.seed)
        self._units = dict.fromkeys(site.channels, "DBM")
        self._nanometres = dict.fromkeys(site.channels, 1310.0)
        super().__init__(identity, table, FAULTS, site, end=options.ends()[1])

    def _read(self, channel: int, _: str) -> str:
        level = self._site.sees(channel)
        if level is None or level <= self._floor or self.faults.strikes("blind", "", channel):
            level = self._floor - _BELOW_FLOOR
        level += self._noise.gauss(0.0, _NOISE)
        watts = self._units[channel] == "W"
        return f"{10 ** (level / 10) * 1e-3 if watts else level:+.8E}"

    def _set_unit(self, channel: int, text: str) -> None:
        if text.upper() not in _UNITS:
            raise Refused(-224, "Illegal parameter value")
        self._units[channel] = _UNITS[text.upper()]

    def _set_wavelength(self, channel: int, text: str) -> None:
        nanometres = _nanometres(text)
        if not 400.0 <= nanometres <= 1800.0:
            raise Refused(-222, "Data out of range")
        self._nanometres[channel] = nanometres


class KeysightMeterFarEnd(MeterFarEnd):
    """A simulated Keysight power meter."""

    def __init__(self, site: MeterSite, options: MeterOptions | None = None) -> None:
        table = self._by_channel(site.channels, self._commands)
        identity = f"Keysight Technologies,N7745A,{site.serial},1.0"
        super().__init__(identity, table, site, options or MeterOptions())

    def _commands(self, channel: int, suffix: str) -> dict[str, Handler]:
        read = partial(self._read, channel)
        return {
            f"READ{suffix}:POWer?": read,
            f"FETCh{suffix}:POWer?": read,
            f"SENSe{suffix}:POWer:UNIT": partial(self._set_unit, channel),
            f"SENSe{suffix}:POWer:UNIT?": lambda _: "+0" if self._units[channel] == "DBM" else "+1",
            f"SENSe{suffix}:POWer:WAVelength": partial(self._set_wavelength, channel),
            f"SENSe{suffix}:POWer:WAVelength?": lambda _: (
                f"{self._nanometres[channel] * 1e-9:+.8E}"
            ),
        }


class ThorlabsMeterFarEnd(MeterFarEnd):
    """A simulated Thorlabs PM100; its only channel is 1."""

    def __init__(self, site: MeterSite, options: MeterOptions | None = None) -> None:
        if site.channels != {1}:
            raise ValueError("a Thorlabs PM100 has only channel 1")
        table: dict[str, Handler] = {
            "MEASure:POWer?": partial(self._read, 1),
            "READ?": partial(self._read, 1),
            "SENSe:POWer:UNIT": partial(self._set_unit, 1),
            "SENSe:POWer:UNIT?": lambda _: self._units[1],
            "SENSe:CORRection:WAVelength": partial(self._set_wavelength, 1),
            "SENSe:CORRection:WAVelength?": lambda _: f"{self._nanometres[1]:.6E}",
        }
        identity = f"Thorlabs,PM100D,{site.serial},2.4.0"
        super().__init__(identity, table, site, options or MeterOptions())


def _nanometres(text: str) -> float:
    """Return the value of `1550NM`, of metres as `1.55E-6`, or of a bare number of nm."""
    number = text.upper().replace(" ", "")
    try:
        value = float(number.removesuffix("NM"))
    except ValueError:
        raise Refused(-104, "Data type error") from None
    in_metres = not number.endswith("NM") and value < 1e-3
    return value * 1e9 if in_metres else value
