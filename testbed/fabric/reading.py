"""Readings of the light at one port: one of four values, never a bare number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Light(StrEnum):
    """The four values that light at a port can have."""

    MEASURED = "measured"
    DARK = "dark"
    """A monitor looked and saw none: the source may come on at any time."""
    NOT_MEASURED = "not measured"
    """No monitor is there: any light may be."""
    NOT_CONNECTED = "not connected"
    """The monitor tells of circuits only, and this port is in none: any light may enter."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The light at one port as an instrument reports it; `dbm` is set if it was measured."""

    light: Light
    dbm: float | None = None

    def __post_init__(self) -> None:
        if (self.light is Light.MEASURED) is not (self.dbm is not None):
            raise ValueError(
                f"a light reading that is {self.light} cannot have a level of {self.dbm}"
            )
        if self.dbm is not None and not math.isfinite(self.dbm):
            raise ValueError(f"{self.dbm} is not a finite level in dBm")

    def __str__(self) -> str:
        return str(self.light) if self.dbm is None else f"{self.dbm:.1f} dBm"


DARK = Reading(Light.DARK)
NOT_MEASURED = Reading(Light.NOT_MEASURED)
NOT_CONNECTED = Reading(Light.NOT_CONNECTED)

Readings = Mapping[int, Reading]
"""The light at the ports of one switch; a port without an entry was not measured."""


def measured(dbm: float) -> Reading:
    """Return the reading of a measured level; ValueError if it is not a finite number."""
    return Reading(Light.MEASURED, dbm)


def above(floor: float, dbm: float) -> Reading:
    """Return the reading of a monitor that reports `floor` or less where there is no light."""
    return measured(dbm) if dbm > floor or math.isnan(dbm) else DARK
