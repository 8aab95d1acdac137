"""Quantities with units as users write them: `25 ms`, `500 Mbit/s`, `16 MiB`, `-3 dBm`, `95 %`.

A value inside the program is a plain number in the base unit of its dimension: seconds, bit/s,
bytes, dBm, dB or a share of one. `Seconds`, `BitRate`, ... are the annotated types that say so;
the schema reads them from files with their unit, and refuses a number without one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """A kind of quantity: the units it may be written in, each as a factor of the base unit."""

    name: str
    units: dict[str, float]
    example: str
    whole: bool = False
    """The value is a whole number of base units: bytes."""
    signed: bool = False

    def parse(self, text: object) -> float | int:
        """Parse a quantity and return it in the base unit.

        Raise ValueError with what was expected when it is not a number with one of the units.
        """
        if isinstance(text, bool) or not isinstance(text, str):
            raise ValueError(self._complaint(text))
        match = _QUANTITY.fullmatch(text.strip(_SPACES))
        if match is None or match["unit"] not in self.units:
            raise ValueError(self._complaint(text))
        value = float(match["number"]) * self.units[match["unit"]]
        if not math.isfinite(value):
            raise ValueError(f"{text!r} is too large for a {self.name}")
        if value < 0 and not self.signed:
            raise ValueError(f"{text!r} is negative, and a {self.name} must be at least 0")
        return self._exact(match["number"], match["unit"], text) if self.whole else value

    def _exact(self, number: str, unit: str, text: str) -> int:
        """Return a whole number of base units without binary fractions: 1.001 kB are 1001 bytes."""
        try:
            value = Decimal(number) * Decimal(self.units[unit])
        except InvalidOperation as error:
            raise ValueError(f"{text!r} has an exponent that is out of range") from error
        if value >= 2**63:
            raise ValueError(f"{text!r} is too large for a {self.name}")
        if value != value.to_integral_value():
            raise ValueError(f"{text!r} is not a whole number of bytes")
        return int(value)

    def format(self, value: float) -> str:
        """Format a value in the base unit with the largest unit that gives a number of at least 1.

        Four digits are kept; a size is exact, in the largest unit that it is a multiple of.
        """
        units = self._printed()
        fitting = [u for u in units if abs(value) >= self.units[u] and self._fits(value, u)]
        unit = fitting[-1] if fitting else units[0]
        count = value / self.units[unit]
        return f"{count:.0f} {unit}" if self.whole else f"{count:.4g} {unit}"

    def _fits(self, value: float, unit: str) -> bool:
        return not self.whole or value % self.units[unit] == 0

    def _printed(self) -> list[str]:
        return sorted((u for u in self.units if u not in _INPUT_ONLY), key=self.units.__getitem__)

    def _complaint(self, got: object) -> str:
        units = ", ".join(self.units)
        return f"{got!r} is not a {self.name}: write it as {self.example!r}, with one of {units}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Let pydantic read the quantity from text, or take a number already in the base unit."""
        from pydantic_core import core_schema

        return core_schema.with_info_plain_validator_function(self._validate)

    def _validate(self, value: object, info: Any) -> float | int:
        in_base_unit = isinstance(value, (int, float)) and not isinstance(value, bool)
        if in_base_unit and (info.context or {}).get("base_units"):
            return value  # type: ignore[return-value]
        return self.parse(value)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        units = "|".join(re.escape(unit) for unit in self.units)
        return {
            "type": "string",
            "pattern": rf"^[+-]?[0-9.]+(e[+-]?[0-9]+)? ?({units})$",
            "examples": [self.example],
        }


_SPACES = " \u00a0\u2009\u202f"
"""What may be between a number and its unit: spaces, as type is set too; no tab and no line end."""
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"[{_SPACES}]*(?P<unit>1/s|[A-Za-zµμ%/]+)"
)
_INPUT_ONLY = {"ppm", "μs", "us", "min", "h", "kB", "MB", "GB", "B/s", "kB/s", "MB/s", "GB/s"}

TIME = Dimension(
    "time",
    {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
    | {"μs": 1e-6},  # with the Greek letter, which looks the same as the micro sign
    "25 ms",
)
RATE = Dimension(
    "rate",
    {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12}
    | {"B/s": 8.0, "kB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9},
    "500 Mbit/s",
)
SIZE = Dimension(
    "size",
    {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9},
    "16 MiB",
    whole=True,
)
FREQUENCY = Dimension("frequency", {"1/s": 1.0}, "5 1/s")
POWER = Dimension("power level", {"dBm": 1.0}, "-3 dBm", signed=True)
LOSS = Dimension("loss", {"dB": 1.0}, "1.5 dB", signed=True)
SHARE = Dimension("share", {"%": 0.01, "ppm": 1e-6}, "95 %")

Seconds = Annotated[float, TIME]
BitRate = Annotated[float, RATE]
Bytes = Annotated[int, SIZE]
PowerLevel = Annotated[float, POWER]
Loss = Annotated[float, LOSS]
Share = Annotated[float, SHARE]

DIMENSIONS = (TIME, RATE, SIZE, FREQUENCY, POWER, LOSS, SHARE)


def written_alike(value: object, text: object) -> object:
    """Format a value in base units with the unit that `text` has; unchanged without a unit."""
    match = _QUANTITY.fullmatch(text.strip(_SPACES)) if isinstance(text, str) else None
    if match is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    factors = (one.units[match["unit"]] for one in DIMENSIONS if match["unit"] in one.units)
    factor = next(factors, None)
    return value if factor is None else f"{round(value / factor, 9):g} {match['unit']}"


def lasting(seconds: float) -> str:
    """Format how long people wait: `45 s`, `12 min`, `3.2 h`, each up to 90 of its unit."""
    if round(seconds) <= 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds <= 90 * 60 else f"{seconds / 3600:.1f} h"


def counted(number: int, noun: str) -> str:
    """Format a count with its noun: `1 switch`, `2 switches`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"
