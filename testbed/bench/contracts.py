"""What the testbed asks of instruments, and what their far ends ask of the twin.

Drivers implement the first half over any transport; the far end beside each driver implements the
second half. Neither knows the other: they meet as bytes on a TCP connection or a pseudo-terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from testbed.clock import Deadline
from testbed.fabric.change import Change, State

# --- the host side of the wire -------------------------------------------------------------


class Transport(Protocol):
    """Move bytes to and from one instrument.

    Errors: NoReply when a deadline passes, LinkLost when the line is gone. After either the
    session above closes the transport: a late reply must never be taken for the next one.
    """

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of `data`."""

    def receive(self, terminator: bytes, deadline: Deadline) -> bytes:
        """Return bytes up to and including `terminator`."""

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
        return f"{self.maker} {self.model}, serial {self.serial}, firmware {self.firmware}"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a switch can do, as far as the planner of changes must know it."""

    ingress: frozenset[int]
    egress: frozenset[int]
    settle: float
    """Seconds until light is steady after a change, as declared by the maker."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a switch did: when it was told, when it answered, what it then showed.

    All stamps are monotonic seconds on this machine.
    """

    commanded: float
    answered: float
    read_back: float
    state: State


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

        Raise Rejected with the device's words when it refused. The caller compares the state.
        """

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


class FarEnd(Protocol):
    """The device side of one instrument: a state machine that several clients may talk to."""

    def session(self, send: Callable[[bytes], None], *, serial: bool = False) -> FarEndSession:
        """Open a conversation whose replies go to `send`; nothing is sent before it returns.

        `serial` says that the client came over a serial line, where some instruments end their
        lines otherwise than on a network.
        """

    def fault(self, name: str, **scope: Any) -> None:
        """Misbehave from now on as `name` says, within `scope`; ValueError for an unknown name."""

    def clear(self, name: str = "") -> None:
        """End one fault, or all of them; harmless when there is none."""


@dataclass(slots=True)
class SwitchSite:
    """The place a switch far end is put into: its fibres, its time, its light.

    `lit` hears the cross-connects that carry light each time they change, ingress to egress;
    while a mirror settles its circuit is dark. `settle` may be changed while the far end runs.
    """

    ingress: frozenset[int]
    egress: frozenset[int]
    serial: str
    settle: float
    seed: int
    scheduler: Scheduler
    lit: Callable[[Mapping[int, int]], None]


@dataclass(frozen=True, slots=True)
class PowerSite:
    """The place a power far end is put into: its outlets and what each of them feeds.

    `turn` cuts or gives power and returns when that is done.
    """

    outlets: Mapping[str, bool]
    serial: str
    turn: Callable[[str, bool], None]
