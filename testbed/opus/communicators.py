"""Communicators that ranks have made, what their members ask for together, and what follows."""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.opus.words import ConfigReq
from testbed.rails.rail import Move

Place = tuple[int, int]
"""The rail of a rank, which is its number on its host, and its host; -1 for an unknown host."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a line to a client."""

    client: int
    line: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """End the line of a client, and record why."""

    client: int
    why: str


@dataclass(frozen=True, slots=True)
class SetWord:
    """Have the worker of a rail apply a word; `worker_done` or `worker_failed` follows."""

    rail: int
    word: int

    @property
    def number(self) -> int:
        """Return what `worker_done` says of it."""
        return self.word


@dataclass(frozen=True, slots=True)
class Repoint:
    """Change circuits of a rail; `worker_done` or `worker_failed` follows."""

    rail: int
    move: Move

    @property
    def number(self) -> int:
        """Return what `worker_done` and `worker_failed` say of it."""
        return self.move.number


Effect = Send | Close | SetWord | Repoint


@dataclass(slots=True, eq=False)
class Communicator:
    """A communicator; `rail` is that of the last rank that joined, as with the authors."""

    id: str
    serial: int
    """Tells communicators apart that were made one after the other with one identifier."""
    ranks: int
    since: float
    members: dict[int, Place] = field(default_factory=dict)
    """The clients that have joined, in their order, also those that have left since."""
    rail: int = 0

    @property
    def is_complete(self) -> bool:
        """Tell whether all ranks have joined."""
        return len(self.members) == self.ranks

    @property
    def hosts(self) -> set[int]:
        """Return the hosts of its ranks."""
        return {host for _, host in self.members.values()}

    @property
    def name(self) -> str:
        """Return a short name that no other communicator has or had."""
        return f"{self.id[:8]}.{self.serial}"


@dataclass(slots=True, eq=False)
class Request:
    """What clients have asked for, all with the same number and counter."""

    said: ConfigReq
    group: Communicator
    since: float
    asked: list[int] = field(default_factory=list)
    last: float = 0.0
    """When the last of them asked."""
    is_sent: bool = False
    """It is being made, or made."""

    @property
    def needed(self) -> int:
        """Return how many must ask: two for a pair of pipeline stages, else all."""
        return self.group.ranks if self.said.pair is None else min(2, self.group.ranks)

    @property
    def is_complete(self) -> bool:
        """Tell whether all have asked who must."""
        return len(self.asked) >= self.needed

    @property
    def waits_since(self) -> float:
        """Return since when it waits: for those who must ask, then for circuits that are in use."""
        return self.last if self.is_complete else self.since


@dataclass(frozen=True, slots=True)
class Done:
    """A request is carried out: whoever asked may be told."""

    request: Request
    changed: bool
    move: Move | None = None
    """The change of circuits that was made for it; None where only a word stands for them."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What was answered, for the record."""

    rail: int
    said: ConfigReq
    asked: int
    """How many have asked…"""
    ranks: int
    """… of so many members."""
    hosts: tuple[int, ...]
    """Those of the ranks that have asked, by number."""
    seconds: float
    """From the last request to the answer."""
    changed: bool
    move: Move | None
    """The change of circuits that was made; None where only a word stands for them."""
