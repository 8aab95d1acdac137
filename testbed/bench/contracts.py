"""What the testbed asks of instruments; drivers implement it over any transport.

The far end beside each driver knows nothing of this: they meet as bytes on a wire.
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
    """Move bytes to and from one instrument.

    Errors: NoReply when a deadline passes, LinkLost when the line is gone. After either the
    session above closes the transport: a late reply must never be taken for the next one.
    """

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of `data`."""

    def receive(self, end: bytes | Cut, deadline: Deadline) -> bytes:
        """Return bytes up to and including the terminator `end`, or as many as it cuts off."""

    def quiet(self) -> bool:
        """Return whether the idle line is up and holds no unread bytes.

        False before an exchange means that the other side hung up or that an old answer came
        late: nothing may be sent on this line any more.
        """

    def close(self) -> None:
        """Close the line; safe to call twice."""


Tracer = Callable[[str, bytes], None]
"""Called with every `("send" | "receive" | "note", data)` of a session; writes the transcript.

`("retry", how it failed)` means that a read is repeated.
"""


def no_transcript(direction: str, data: bytes) -> None:
    """Keep no transcript: the tracer of a session that belongs to no run."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which instrument answered: the parts of `*IDN?` or of an inventory query."""

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
    """A carried-out change: when it was commanded, when answered, and the read-back.

    All stamps are monotonic seconds on this machine.
    """

    commanded: float
    answered: float
    read_back: float
    state: State
    refused: Mapping[int, str] = field(default_factory=dict)
    """Orders that the switch reports as refused, by ingress, in its own words."""


class Instrument(Protocol):
    """An instrument of the bench. Every call takes its lock and has a deadline."""

    def open(self, deadline: Deadline) -> Identity:
        """Open the line, check the identity that answers and read its ports or channels."""

    def identify(self, deadline: Deadline) -> Identity:
        """Ask for its identity."""

    def close(self) -> None:
        """Close the line; safe to call twice. Leaves light, losses and outlets as they are."""


class OpticalSwitch(Instrument, Protocol):
    """An optical circuit switch."""

    @property
    def capabilities(self) -> Capabilities:
        """Return what the switch can do; known once it was opened."""

    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect, ours or not.

        Raise NotKnown where it cannot be read back, and nothing was commanded or presumed here.
        """

    def presume(self, state: State) -> None:
        """Assume a state until the first command; without effect where it can be read back."""

    def apply(self, change: Change, deadline: Deadline) -> Applied:
        """Carry out the removes, then the adds, check for errors and read back.

        Raise Rejected with the device's words when it refused all of it; what it refused in part
        is in `refused`. The caller compares the state.
        """

    def unsteady(self, deadline: Deadline) -> Mapping[int, str]:
        """Return the cross-connects that are not in order, by ingress, in the switch's words.

        A mirror that still moves is not in order. Always empty without `steadiness`.
        """

    def power(self, ports: Iterable[int], deadline: Deadline) -> Readings:
        """Read the light at ports, each of which has an entry; one without a monitor says so."""


class PowerUnit(Instrument, Protocol):
    """A switched power unit; each outlet feeds one host."""

    def is_on(self, outlet: str, deadline: Deadline) -> bool:
        """Read back one outlet."""

    def turn(self, outlet: str, on: bool, deadline: Deadline) -> None:
        """Switch one outlet and return when the unit says it is done."""


class Attenuator(Instrument, Protocol):
    """A variable optical attenuator; each channel has a fibre through it and a shutter."""

    def attenuation(self, channel: int, deadline: Deadline) -> float:
        """Read back what a channel takes from the light, in dB; its shutter does not count."""

    def attenuate(self, channel: int, decibels: float, deadline: Deadline) -> float:
        """Let a channel take that much from the light and return what then reads back, in dB.

        On its way there it passes every loss between. Raise InstrumentError when it reads back
        something else.
        """

    def is_open(self, channel: int, deadline: Deadline) -> bool:
        """Read back whether light passes the shutter of a channel."""

    def shutter(self, channel: int, is_open: bool, deadline: Deadline) -> None:
        """Open or close the shutter of a channel and return when it reads back so."""


class PowerMeter(Instrument, Protocol):
    """An optical power meter; each channel sees the light of one tapped fibre."""

    def power(self, channel: int, deadline: Deadline) -> Reading:
        """Measure now: a level, or that the meter sees no light."""

    def wavelength(self, channel: int, deadline: Deadline) -> float:
        """Return the wavelength in nm for which a channel's readings are right."""


EXIT_MARK = b"\0"
"""Ends a command's output where the line is SSH.

There the end of an answer is no byte: it is the end of the command, with an exit status. As bytes,
on either side of the wire, that is NUL, the status in digits, LF. No text holds a NUL.
"""
