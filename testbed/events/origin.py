"""Where an event comes from: its job, the owner of its circuits, its controller and its cause."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Origin:
    """State where an event comes from, as far as that is known."""

    job: str = ""
    """The job that it is about."""
    owner: str = ""
    """Whose circuits it is about: a job or a controller."""
    controller: str = ""
    """The controller that decided on it."""
    cause: int | None = None
    """The number (`seq`) of the event that led to it."""

    def over(self, other: Origin) -> Origin:
        """Return this origin, with what it leaves open taken from another."""
        if other is NOWHERE:
            return self
        return Origin(
            self.job or other.job,
            self.owner or other.owner,
            self.controller or other.controller,
            other.cause if self.cause is None else self.cause,
        )

    def to_row(self) -> dict[str, Any]:
        """Return what is known, by name."""
        known: dict[str, Any] = {}
        if self.job:
            known["job"] = self.job
        if self.owner:
            known["owner"] = self.owner
        if self.controller:
            known["controller"] = self.controller
        if self.cause is not None:
            known["cause"] = self.cause
        return known


NOWHERE = Origin()

_current: ContextVar[Origin] = ContextVar("origin", default=NOWHERE)


def current_origin() -> Origin:
    """Return the origin that what happens in this context has."""
    return _current.get()


class _Attributed:
    """Sets the origin of a context for a block; a class, as every report passes two of them."""

    __slots__ = ("_origin", "_token")

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    def __enter__(self) -> None:
        self._token = _current.set(self._origin.over(_current.get()))

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def attributed(origin: Origin) -> AbstractContextManager[None]:
    """Give an origin to every event written meanwhile in this context, as far as it states none.

    Workers of the inbox go on in the context that they were submitted in; other threads do not.
    Who waits for the inbox in it attributes all that is handled meanwhile, too.
    """
    return _Attributed(origin)
