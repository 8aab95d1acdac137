"""The interfaces of instruments, which drivers implement over any transport.

The simulated far end beside each driver does not use them: driver and far end exchange bytes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from testbed.clock import Deadline
from testbed.fabric.change import Change
from testbed.fabric.device import Capabilities, State
from testbed.fabric.reading import Reading, Readings

Cut = Callable[[bytes], int]
"""Returns how many of the bytes so far are the first whole message; 0 while there is none."""


class Transport(Protocol):
    """Moves bytes to and from one instrument.

    Errors: NoReply when a deadline passes, LinkLost when the line is gone. After either the
    session above closes the transport: a late reply must never be taken for the next one.
    """

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of `data`."""

    def receive(self, end: bytes | Cut, deadline: Deadline) -> bytes:
        """Return bytes up to and including the terminator `end`, or as many as `end` computes."""

    def quiet(self) -> bool:
        """Return whether the line is connected and holds no unread bytes.

        False before an exchange means that the other side closed the connection, or that an old
        answer came late: then the line must not be used any more.
        """

    def close(self) -> None:
        """Close the line; safe to call twice."""


Tracer = Callable[[str, bytes], None]
"""Called with every `("send" | "receive" | "note", data)` of a session; writes the transcript.

`("retry", how it failed)` means that a read is repeated.
"""


def no_transcript(direction: str, data: bytes) -> None:
    """Discard a transcript line: the tracer of a session that belongs to no run."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of the instrument that answered: fields of `*IDN?` or of an inventory query."""

    maker: str
    model: str
    serial: str
    firmware: str

    def __str__(self) -> str:
        known = {"serial": self.serial, "firmware": self.firmware}
        rest = [f"{what} {word}" for what, word in known.items() if word]
        return ", ".join([f"{self.maker} {self.model}", *rest])


@dataclass(frozen=True, slots=True)
class Applied:
    """A change that a switch carried out: its command and answer times, and the read-back.

    All stamps are monotonic seconds on this machine.
    """

    commanded: float
    answered: float
    read_back: float
    state: State
    refused: Mapping[int, str] = field(default_factory=dict)
    """Orders that the switch reports as refused, by ingress, in its own words."""
    unsteady: Mapping[int, str] | None = None
    """Of the new circuits, those that were not steady in the read-back; None where unknown."""


class Instrument(Protocol):
    """An instrument of the bench. Every call takes the instrument's lock and has a deadline."""

    def open(self, deadline: Deadline) -> Identity:
        """Open the line, check the identity of the device and read its ports or channels."""

    def identify(self, deadline: Deadline) -> Identity:
        """Query the identity of the device."""

    def close(self) -> None:
        """Close the line, and change nothing on the device; safe to call twice."""


class OpticalSwitch(Instrument, Protocol):
    """An optical circuit switch."""

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities of the switch, which are known once it was opened."""

    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect, whether this run or another made it.

        Raise NotKnown where the switch has no read-back and this process has neither commanded nor
        presumed a state.
        """

    def presume(self, state: State) -> None:
        """Assume a state until the first command; no effect on a switch that can be read back."""

    def apply(self, change: Change, deadline: Deadline) -> Applied:
        """Carry out the removes, then the adds, then check for errors and read back.

        Raise Rejected with the device's message when it refused the whole change; parts that it
        refused are in `refused`. The caller compares the state.
        """

    def unsteady(self, deadline: Deadline) -> Mapping[int, str]:
        """Return the cross-connects that are not steady, by ingress, with the switch's status text.

        A mirror that still moves is not steady. Always empty without `steadiness`.
        """

    def power(self, ports: Iterable[int], deadline: Deadline) -> Readings:
        """Measure the optical power at ports; a port without a monitor is reported as such."""


class PowerUnit(Instrument, Protocol):
    """A switched power unit; each outlet feeds one host."""

    def is_on(self, outlet: str, deadline: Deadline) -> bool:
        """Read back whether one outlet is on."""

    def turn(self, outlet: str, on: bool, deadline: Deadline) -> None:
        """Switch one outlet on or off and return when the power unit confirms it."""


class Attenuator(Instrument, Protocol):
    """A variable optical attenuator; each channel has a fibre through it and a shutter."""

    def attenuation(self, channel: int, deadline: Deadline) -> float:
        """Read back the attenuation of a channel in dB; its shutter does not count."""

    def attenuate(self, channel: int, decibels: float, deadline: Deadline) -> float:
        """Set the attenuation of a channel and return the read-back, in dB.

        The attenuation passes through every value between the old and the new one. Raise
        InstrumentError when the read-back differs.
        """

    def is_open(self, channel: int, deadline: Deadline) -> bool:
        """Read back whether the shutter of a channel is open."""


class PowerMeter(Instrument, Protocol):
    """An optical power meter; each channel sees the light of one tapped fibre."""

    def power(self, channel: int, deadline: Deadline) -> Reading:
        """Measure the optical power of a channel now: a level, or no light."""

    def wavelength(self, channel: int, deadline: Deadline) -> float:
        """Return the wavelength in nm for which a channel is calibrated."""


EXIT_MARK = b"\0"
"""Ends a command's output where the line is SSH.

There the end of an answer is no byte: it is the end of the command, with an exit status. As bytes,
on either side of the wire, that is NUL, the status in digits, LF. No text holds a NUL.
"""
