"""Drivers for optical power meters with a SCPI interface.

No setting of the meter is changed: it measures at its present wavelength and in its present unit,
and each reading is queried together with its unit. Evidence: drivers/README.md.
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
    """The base of power meters; subclasses add the commands of their family."""

    def _measured(self, unit_and_power: str, deadline: Deadline) -> Reading:
        return self._scpi.query(unit_and_power, partial(_level, self._options.floor), deadline)


class KeysightMeter(ScpiMeter):
    """Driver of a Keysight (Agilent) power meter with one or more channels."""

    def power(self, channel: int, deadline: Deadline) -> Reading:
        """Measure the optical power of a channel now: a level, or no light."""
        self._check(channel)
        return self._measured(f":SENS{channel}:POW:UNIT?;:READ{channel}:POW?", deadline)

    def wavelength(self, channel: int, deadline: Deadline) -> float:
        """Return the wavelength in nm for which a channel is calibrated."""
        self._check(channel)
        metres = self._scpi.query(f":SENS{channel}:POW:WAV?", float, deadline)
        return metres * 1e9


class ThorlabsMeter(ScpiMeter):
    """Driver of a Thorlabs PM100 power meter; its only channel is 1."""

    def power(self, channel: int, deadline: Deadline) -> Reading:
        """Measure the optical power now: a level, or no light."""
        self._check(channel)
        return self._measured("SENS:POW:UNIT?;:MEAS:POW?", deadline)

    def wavelength(self, channel: int, deadline: Deadline) -> float:
        """Return the wavelength in nm for which the meter is calibrated."""
        self._check(channel)
        return self._scpi.query("SENS:CORR:WAV?", float, deadline)


def _level(floor: float, reply: str) -> Reading:
    """Return the level of `<unit>;<reading>`, no light at the floor; ValueError for neither."""
    unit, separator, text = reply.partition(";")
    if not separator or unit.upper() not in _IN_DBM:
        raise ValueError(f"{reply!r} is not a reading with its unit, such as 'DBM;-3.2'")
    level = float(text)
    if not abs(level) < _BEYOND_MEASURE:
        raise ValueError(f"{text} is beyond what the meter can measure")
    if not _IN_DBM[unit.upper()]:
        level = 10 * math.log10(level / 1e-3) if level > 0 else -math.inf
    return above(floor, level)
