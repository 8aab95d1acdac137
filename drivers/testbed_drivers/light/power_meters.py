"""Drivers for optical power meters that speak SCPI.

Nothing on the meter is changed: it measures at the wavelength and in the unit that it is set to,
and the unit is asked for on the line of each reading. Evidence: drivers/README.md.
"""

from __future__ import annotations

import math
from functools import partial

from testbed.clock import Deadline
from testbed.fabric.reading import Reading, above
from testbed_drivers.light.descriptors import MeterOptions
from testbed_drivers.light.scpi_channels import ScpiChannels

_IN_DBM = {"0": True, "+0": True, "DBM": True, "1": False, "+1": False, "W": False}
_BEYOND_MEASURE = 1e30
"""SCPI answers 9.9E37 and 9.91E37 for infinity and for what is not a number."""


class ScpiMeter(ScpiChannels[MeterOptions]):
    """A power meter; a `PowerMeter` without the words of its family."""

    def _measured(self, unit_and_power: str, deadline: Deadline) -> Reading:
        return self._scpi.query(unit_and_power, partial(_level, self._options.floor), deadline)


class KeysightMeter(ScpiMeter):
    """A Keysight (Agilent) power meter with one channel or more."""

    def power(self, channel: int, deadline: Deadline) -> Reading:
        """Measure now: a level, or that the meter sees no light."""
        self._check(channel)
        return self._measured(f":SENS{channel}:POW:UNIT?;:READ{channel}:POW?", deadline)

    def wavelength(self, channel: int, deadline: Deadline) -> float:
        """Return the wavelength in nm for which a channel's readings are right."""
        self._check(channel)
        metres = self._scpi.query(f":SENS{channel}:POW:WAV?", float, deadline)
        return metres * 1e9


class ThorlabsMeter(ScpiMeter):
    """A Thorlabs PM100 power meter; its one channel is 1."""

    def power(self, channel: int, deadline: Deadline) -> Reading:
        """Measure now: a level, or that the meter sees no light."""
        self._check(channel)
        return self._measured("SENS:POW:UNIT?;:MEAS:POW?", deadline)

    def wavelength(self, channel: int, deadline: Deadline) -> float:
        """Return the wavelength in nm for which the readings are right."""
        self._check(channel)
        return self._scpi.query("SENS:CORR:WAV?", float, deadline)


def _level(floor: float, reply: str) -> Reading:
    """Return the level of `<unit>;<reading>`, no light at the floor; ValueError for neither."""
    unit, separator, text = reply.partition(";")
    if not separator or unit.upper() not in _IN_DBM:
        raise ValueError(f"{reply!r} is not a unit and a power")
    level = float(text)
    if not abs(level) < _BEYOND_MEASURE:
        raise ValueError(f"{text} is beyond what the meter can measure")
    if not _IN_DBM[unit.upper()]:
        level = 10 * math.log10(level / 1e-3) if level > 0 else -math.inf
    return above(floor, level)
