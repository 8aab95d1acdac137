"""The environment of simulated far ends: what the twin connects to the device side.

Drivers use none of this: driver and far end exchange bytes on a wire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable


class Scheduler(Protocol):
    """The time source of a far end: the wall clock in the twin, an injected one in tests."""

    def now(self) -> float:
        """Return seconds on this clock."""

    def call_at(self, when: float, action: Callable[[], None]) -> None:
        """Run `action` at `when`, once, in the scheduler's own thread."""


class FarEndSession(Protocol):
    """One client's session with a far end."""

    def receive(self, data: bytes) -> None:
        """Receive bytes from the client, in any pieces; answer through the session's `send`."""


def never() -> None:
    """Do nothing: the default for callbacks."""


class FarEnd(Protocol):
    """The simulated device side of one instrument: a state machine that several clients may use."""

    @property
    def known_faults(self) -> Mapping[str, str]:
        """Return the faults that this far end can simulate, each with its effect."""

    def session(
        self,
        send: Callable[[bytes], None],
        *,
        serial: bool = False,
        hang_up: Callable[[], None] = never,
    ) -> FarEndSession:
        """Open a session whose replies go to `send`.

        `serial` says that the client came over a serial line, where some instruments end their
        lines otherwise than on a network; `hang_up` closes the client's line at once.
        """

    def fault(self, name: str, **scope: Any) -> None:
        """Simulate the fault `name` from now on, within `scope`; ValueError for an unknown name."""

    def clear(self, name: str = "") -> None:
        """Clear one fault, or all of them; do nothing when none is active."""

    def struck(self, name: str) -> int:
        """Return how often a fault has taken effect so far."""


@runtime_checkable
class Controller(FarEnd, Protocol):
    """A far end that answers for several instruments behind one address."""

    def join(self, other: Any) -> None:
        """Serve another element behind the same address, as if it were alone."""


@runtime_checkable
class SshFarEnd(FarEnd, Protocol):
    """A far end that clients reach by SSH; a session is one connection.

    It receives each command as a line, and ends each answer with `EXIT_MARK` and an exit status.
    """

    def admits(self, user: str, password: str | None) -> bool:
        """Return whether a user may log in; `password` is None for a key that the server knows."""


@dataclass(slots=True)
class SwitchSite:
    """The environment of a simulated switch: its fibres, its time, its light.

    `lit` is called with the cross-connects that carry light each time they change, ingress to
    egress; while a mirror settles its circuit is dark. `settle` and `spread` may change while the
    far end runs; each move takes `settle` seconds times a log-normal factor of that spread.
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
    """The least light, in dBm, that a receiver behind an egress port still decodes."""
    conflict: Literal["refuse", "move", "ignore"] = "refuse"
    """What the box does when a port of a new circuit is in use."""
    max_dbm: Mapping[int, float] = field(default_factory=dict)
    """By egress port, the most light that the receiver behind it survives, in dBm."""
    destroyed: Callable[[int, float], None] = lambda port, level: None
    """Called with a receiver that got more than it survives, and the level; it is dead since."""
    both_ways: bool = False
    """Whether some fibre carries both directions, or any port may be either end: `lit` then gets
    each cross-connect both ways, and light is computed both ways."""
    beyond: Callable[[int], float] = lambda port: 0.0
    """Returns the loss of the fibre behind an egress port, in dB."""
    look_again: Callable[[], None] = never
    """Set by the switch: to be called when light that enters, or a fibre's loss, changes."""
    leaving: Callable[[int], float | None] = lambda port: None
    """Set by the switch: returns the light that leaves at an egress port, in dBm."""


@dataclass(frozen=True, slots=True)
class PowerSite:
    """The environment of a simulated power unit: its outlets and the host that each feeds.

    `turn` cuts or restores power and returns when that is done.
    """

    outlets: Mapping[str, bool]
    serial: str
    scheduler: Scheduler
    turn: Callable[[str, bool], None]
    seed: int = 0


@dataclass(frozen=True, slots=True)
class AttenuatorSite:
    """The environment of a simulated attenuator.

    `takes` is called with a channel and its loss in dB each time that changes. While it moves, a
    channel passes through every loss between, at `speed` dB a second.
    """

    channels: frozenset[int]
    serial: str
    seed: int
    scheduler: Scheduler
    takes: Callable[[int, float], None]
    speed: float = 500.0


@dataclass(frozen=True, slots=True)
class MeterSite:
    """The environment of a simulated power meter: `sees` returns a channel's light in dBm."""

    channels: frozenset[int]
    serial: str
    seed: int
    scheduler: Scheduler
    sees: Callable[[int], float | None]


Site = SwitchSite | PowerSite | AttenuatorSite | MeterSite
"""The environment of any far end."""
