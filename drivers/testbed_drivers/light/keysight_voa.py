"""Driver for Keysight (Agilent, HP) variable optical attenuators, over their SCPI.

Commands used and their evidence: drivers/README.md. Filters move slowly, so the attenuation is read
back until it has the commanded value.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.errors import InstrumentError, LinkLost, UsageError
from testbed_drivers.light.descriptors import AttenuatorOptions
from testbed_drivers.light.scpi_channels import ScpiChannels

SET_SECONDS = 10.0
"""The longest that setting and reading back may take, whatever the caller's deadline."""
_FIRST_POLL, _LONGEST_POLL = 0.002, 0.05
TOLERANCE = 0.05
"""dB by which a read-back may be rounded."""


class Range(NamedTuple):
    """The range of attenuation of a channel, in dB."""

    least: float
    most: float


class KeysightVoa(ScpiChannels[AttenuatorOptions]):
    """Driver of a Keysight attenuator; an `Attenuator`."""

    _ranges: dict[int, Range] | None = None

    def open(self, deadline: Deadline) -> Identity:
        """Open the line, check the identity and read the range of each channel."""
        identity = super().open(deadline)
        self._ranges = {
            channel: self._scpi.query(
                f":INP{channel}:ATT? MIN;:INP{channel}:ATT? MAX", _range, deadline
            )
            for channel in sorted(self._channels)
        }
        return identity

    def attenuation(self, channel: int, deadline: Deadline) -> float:
        """Read back the attenuation of a channel in dB; its shutter does not count."""
        self._check(channel)
        return self._scpi.query(f":INP{channel}:ATT?", float, deadline)

    def attenuate(self, channel: int, decibels: float, deadline: Deadline) -> float:
        """Set the attenuation of a channel and return the read-back, in dB."""
        self._check_range(channel, decibels)
        budget = deadline.within(SET_SECONDS)
        with self._scpi.held(budget):
            self._scpi.execute([f":INP{channel}:ATT {decibels:.3f}"], budget)
            return self._wait_until_reached(channel, decibels, budget)

    def is_open(self, channel: int, deadline: Deadline) -> bool:
        """Read back whether light passes the shutter of a channel."""
        self._check(channel)
        return self._scpi.query(f":OUTP{channel}?", _switched_on, deadline)

    def _wait_until_reached(self, channel: int, decibels: float, deadline: Deadline) -> float:
        """Read back, ever more slowly, until the filter is where it was told to go.

        One that reads the same for as long as `settle_max` has stopped elsewhere.
        """
        still, pause, before = deadline.within(self._options.settle_max), _FIRST_POLL, math.nan
        while not abs((shown := self.attenuation(channel, deadline)) - decibels) <= TOLERANCE:
            if shown != before:
                still, before = deadline.within(self._options.settle_max), shown
            elif still.left < pause:
                raise InstrumentError(
                    self._name,
                    f"was told {decibels:g} dB on channel {channel}, reported no error, "
                    f"but shows {shown:g} dB",
                    reply=f"{shown}",
                    hint="look at its front panel; it may be in use by hand",
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_POLL)
        return shown

    def _check_range(self, channel: int, decibels: float) -> None:
        """Refuse, before the first byte, what the channel cannot be set to."""
        self._check(channel)
        if self._ranges is None:
            raise LinkLost(self._name, "has not been opened yet")
        least, most = self._ranges[channel]
        if not least <= decibels <= most:
            raise UsageError(
                f"{self._name}: channel {channel} cannot be set to {decibels:g} dB",
                hint=f"its range is {least:g} to {most:g} dB",
            )


def _range(reply: str) -> Range:
    least, most = (float(part) for part in reply.split(";"))
    if not least < most:
        raise ValueError(f"{reply!r} is not a range of attenuation")
    return Range(least, most)


def _switched_on(reply: str) -> bool:
    states = {"1": True, "+1": True, "ON": True, "0": False, "+0": False, "OFF": False}
    if reply.upper() not in states:
        raise ValueError(f"{reply!r} is neither on nor off")
    return states[reply.upper()]
