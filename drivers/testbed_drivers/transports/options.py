"""Options that many drivers have in common: timeouts, and the transport of a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.units import Seconds


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The time limits of the phases of an exchange; the caller's deadline may be shorter."""

    connect_timeout: Seconds = 2.0
    """Seconds for opening the line, with TLS or a login over SSH where it has one."""
    answer_timeout: Seconds = 2.0
    """Seconds for the answer to one question; a change has that besides its settling."""

    def __post_init__(self) -> None:
        """Raise ValueError for a timeout in which nothing can happen."""
        for name in ("connect_timeout", "answer_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0")


DEFAULT = Timeouts()


@dataclass(frozen=True, slots=True)
class LineOptions(Timeouts):
    """The transport of a line, and the settings of a serial line."""

    parity: Literal["none", "even", "odd"] = "none"
    rtscts: bool = False
    """Whether either side is held up by the wires RTS and CTS."""
    transport: str = ""
    """`visa`, `serial` or `tcp`; empty: by how the resource is written."""
    baud: int = 115200
    """Bits per second of a serial line."""
