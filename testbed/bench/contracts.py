"""What the testbed asks of instruments, and what their far ends ask of the twin.

Drivers implement the first half over any transport; the far end beside each driver implements the
second half. Neither knows the other: they meet as bytes on a TCP connection or a pseudo-terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from testbed.clock import Deadline
from testbed.fabric.change import Change
from testbed.fabric.device import Capabilities, State

# --- the host side of the wire -------------------------------------------------------------


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
        """Tell whether the idle line is up and holds no unread bytes.

        False before an exchange means that somebody hung up or that an old answer came late:
        nothing may be sent on this line any more.
        """

    def close(self) -> None:
        """Close the line; safe to call twice."""


Tracer = Callable[[str, bytes], None]
"""Hears every `("send" | "receive" | "note", data)` of a session; writes the transcript."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answered: the parts of `*IDN?` or of an inventory query."""

    maker: str
    model: str
    serial: str
    firmware: str

    def __str__(self) -> str:
        told = {"serial": self.serial, "firmware": self.firmware}
        rest = [f"{what} {word}" for what, word in told.items() if word]
        return ", ".join([f"{self.maker} {self.model}", *rest])


@dataclass(frozen=True, slots=True)
class Applied:
    """What a switch did: when it was told, when it answered, what it then showed.

    All stamps are monotonic seconds on this machine.
    """

    commanded: float
    answered: float
    read_back: float
    state: State
    refused: Mapping[int, str] = field(default_factory=dict)
    """What the switch itself says it did not do, by ingress, in its own words."""


class OpticalSwitch(Protocol):
    """An optical circuit switch. Every call takes the instrument's lock and has a deadline."""

    @property
    def capabilities(self) -> Capabilities:
        """Return what the switch can do; known once it was opened."""

    def open(self, deadline: Deadline) -> Identity:
        """Open the line, check who answers and learn the ports."""

    def identify(self, deadline: Deadline) -> Identity:
        """Ask who it is."""

    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect, ours or not."""

    def apply(self, change: Change, deadline: Deadline) -> Applied:
        """Do the removes, then the adds, check for errors and read back.

        Raise Rejected with the device's words when it refused all of it; what it refused in part
        is in `refused`. The caller compares the state.
        """

    def unsteady(self, deadline: Deadline) -> Mapping[int, str]:
        """Return the cross-connects that are not in order, by ingress, in the switch's words.

        A mirror that still moves is not in order. Always empty without `steadiness`.
        """

    def power(self, ports: Iterable[int], deadline: Deadline) -> Mapping[int, float | None]:
        """Return the light level at monitored ports in dBm; None where the monitor sees none."""

    def close(self) -> None:
        """Close the line; safe to call twice. Leaves all light as it is."""


class PowerUnit(Protocol):
    """A switched power unit; each outlet feeds one host."""

    def open(self, deadline: Deadline) -> Identity:
        """Open the line and check who answers."""

    def identify(self, deadline: Deadline) -> Identity:
        """Ask who it is."""

    def is_on(self, outlet: str, deadline: Deadline) -> bool:
        """Read back one outlet."""

    def turn(self, outlet: str, on: bool, deadline: Deadline) -> None:
        """Switch one outlet and return when the unit says it is done."""

    def close(self) -> None:
        """Close the line; safe to call twice. Leaves all outlets as they are."""


class Attenuator(Protocol):
    """A variable optical attenuator; each channel has a fibre through it and a shutter."""

    def open(self, deadline: Deadline) -> Identity:
        """Open the line, check who answers and learn what each channel can do."""

    def identify(self, deadline: Deadline) -> Identity:
        """Ask who it is."""

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

    def close(self) -> None:
        """Close the line; safe to call twice. Leaves attenuation and shutters as they are."""


class PowerMeter(Protocol):
    """An optical power meter; each channel sees the light of one tapped fibre."""

    def open(self, deadline: Deadline) -> Identity:
        """Open the line and check who answers."""

    def identify(self, deadline: Deadline) -> Identity:
        """Ask who it is."""

    def power(self, channel: int, deadline: Deadline) -> float | None:
        """Measure now and return dBm; None where the meter sees no light."""

    def wavelength(self, channel: int, deadline: Deadline) -> float:
        """Return the wavelength in nm for which a channel's readings are right."""

    def close(self) -> None:
        """Close the line; safe to call twice."""


class SwitchDriver(Protocol):
    """How a switch driver is made, before any line is opened.

    `ports` are the ports it may move light on, `identity` the serial number that must answer
    (None accepts any), `options` the dataclass that the driver's `Kind` names.
    """

    def __call__(
        self,
        name: str,
        resource: str,
        ports: frozenset[int],
        identity: str | None,
        options: Any,
        tracer: Tracer,
    ) -> OpticalSwitch: ...


class PowerDriver(Protocol):
    """How a power driver is made: as a switch driver, but its outlets are not numbered ports."""

    def __call__(
        self, name: str, resource: str, identity: str | None, options: Any, tracer: Tracer
    ) -> PowerUnit: ...


class ChannelDriver(Protocol):
    """How a driver of an attenuator or a power meter is made: `channels` are those it may use."""

    def __call__(
        self,
        name: str,
        resource: str,
        channels: frozenset[int],
        identity: str | None,
        options: Any,
        tracer: Tracer,
    ) -> Attenuator | PowerMeter: ...


EXIT_MARK = b"\0"
"""Ends a command's output where the line is SSH.

There the end of an answer is no byte: it is the end of the command, with an exit status. As bytes,
on either side of the wire, that is NUL, the status in digits, LF. No text holds a NUL.
"""


# --- the device side of the wire -----------------------------------------------------------


class Scheduler(Protocol):
    """Time for a far end: the wall clock in the twin, an injected one in tests."""

    def now(self) -> float:
        """Return seconds on this clock."""

    def call_at(self, when: float, action: Callable[[], None]) -> None:
        """Run `action` at `when`, once, in the scheduler's own thread."""


class FarEndSession(Protocol):
    """One client's conversation with a far end."""

    def receive(self, data: bytes) -> None:
        """Take bytes from the client, in any pieces; answer through the session's `send`."""


def never() -> None:
    """Do nothing: for lines that cannot be hung up, for sites that nobody looks at."""


class FarEnd(Protocol):
    """The device side of one instrument: a state machine that several clients may talk to."""

    @property
    def known_faults(self) -> Mapping[str, str]:
        """Return what this far end can be told to do wrong, with what each fault does."""

    def session(
        self,
        send: Callable[[bytes], None],
        *,
        serial: bool = False,
        hang_up: Callable[[], None] = never,
    ) -> FarEndSession:
        """Open a conversation whose replies go to `send`.

        `serial` says that the client came over a serial line, where some instruments end their
        lines otherwise than on a network; `hang_up` closes the client's line at once.
        """

    def fault(self, name: str, **scope: Any) -> None:
        """Misbehave from now on as `name` says, within `scope`; ValueError for an unknown name."""

    def clear(self, name: str = "") -> None:
        """End one fault, or all of them; harmless when there is none."""

    def struck(self, name: str) -> int:
        """Return how often a fault has struck so far: the proof that it was no idle threat."""


@runtime_checkable
class SshFarEnd(FarEnd, Protocol):
    """A far end that clients reach by SSH; a session is one connection.

    It hears each command as a line, and ends each answer with `EXIT_MARK` and an exit status.
    """

    def admits(self, user: str, password: str | None) -> bool:
        """Tell whether a user may log in; `password` is None for a key that the server knows."""


@dataclass(slots=True)
class SwitchSite:
    """The place a switch far end is put into: its fibres, its time, its light.

    `lit` hears the cross-connects that carry light each time they change, ingress to egress;
    while a mirror settles its circuit is dark. `settle` and `spread` may be changed while the far
    end runs; each move takes `settle` seconds times a log-normal factor of that spread.
    """

    ingress: frozenset[int]
    egress: frozenset[int]
    serial: str
    settle: float
    seed: int
    scheduler: Scheduler
    lit: Callable[[Mapping[int, int]], None]
    spread: float = 0.0
    launched: Callable[[int], float | None] = lambda port: 0.0
    """Returns the light that enters at an ingress port, in dBm; None when it is dark."""
    sensitivity: float = -20.0
    """The least light, in dBm, that a receiver behind an egress port still understands."""
    conflict: Literal["refuse", "move", "ignore"] = "refuse"
    """What the box does when a port of a new circuit is in use."""
    beyond: Callable[[int], float] = lambda port: 0.0
    """Returns what the fibre behind an egress port takes from the light, in dB."""
    look_again: Callable[[], None] = never
    """Set by the switch: to be called when what enters, or what a fibre takes, has changed."""
    leaving: Callable[[int], float | None] = lambda port: None
    """Set by the switch: returns the light that leaves at an egress port, in dBm."""


@dataclass(frozen=True, slots=True)
class PowerSite:
    """The place a power far end is put into: its outlets and what each of them feeds.

    `turn` cuts or gives power and returns when that is done.
    """

    outlets: Mapping[str, bool]
    serial: str
    scheduler: Scheduler
    turn: Callable[[str, bool], None]


@dataclass(frozen=True, slots=True)
class AttenuatorSite:
    """The place an attenuator far end is put into.

    `takes` hears, channel by channel, how many dB are lost on the way through each time that
    changes. While it moves a channel passes every loss between, at `speed` dB a second.
    """

    channels: frozenset[int]
    serial: str
    seed: int
    scheduler: Scheduler
    takes: Callable[[int, float], None]
    speed: float = 500.0


@dataclass(frozen=True, slots=True)
class MeterSite:
    """The place a power meter far end is put into: `sees` returns a channel's light in dBm."""

    channels: frozenset[int]
    serial: str
    seed: int
    scheduler: Scheduler
    sees: Callable[[int], float | None]
