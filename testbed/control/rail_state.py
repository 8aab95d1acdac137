"""The state of the controller of rails, and what becomes of it when ranks are gone or it fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from testbed.control.controller import Command, Fail
from testbed.control.dark_ports import DarkPorts
from testbed.rails.rail import Move
from testbed.rails.requests import RailRequests, Requests
from testbed.rails.routing import Routing
from testbed.rails.stage import Stage


@dataclass(frozen=True, slots=True)
class State:
    """The rails of a job: requests, changes, and since when ranks wait; immutable."""

    rules: Mapping[str, RailRequests]
    """By rail; made anew when the ranks have other ports."""
    rails: Mapping[str, Requests]
    routing: Routing
    """The rail of each group, or of each stage where groups may be forwarded."""
    generation: int
    """That of the ranks, which are told of no other's circuits."""
    waiting: Mapping[Stage, float] = field(default_factory=dict)
    """Since when a rank waits for a stage that is not answered."""
    joining: Mapping[str, float] = field(default_factory=dict)
    """Since when a rank has joined a group that others have not."""
    dark: DarkPorts = DarkPorts({})  # noqa: RUF009 - frozen
    moves: Mapping[tuple[str, int], Move] = field(default_factory=dict)
    attempts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    silent: frozenset[int] = frozenset()
    """The ranks whose heartbeat was missed, and of which nothing was heard since."""
    ended: Mapping[int, int] = field(default_factory=dict)
    """By rank that has ended, and may be replaced, its code."""
    is_recovered: bool = False
    """Another controller replaces ranks."""
    has_failed: bool = False


Step = tuple[State, tuple[Command, ...]]


def waiting_anew(state: State, now: float) -> State:
    """Have ranks wait from now on, once more, where another that is gone may be replaced."""
    if not state.is_recovered:
        return state
    waiting, joining = dict.fromkeys(state.waiting, now), dict.fromkeys(state.joining, now)
    dark = DarkPorts(dict.fromkeys(state.dark.since, now))
    return replace(state, waiting=waiting, joining=joining, dark=dark)


def gone(state: State) -> Iterator[str]:
    """Yield of which ranks nothing is heard, and which have ended and were not replaced."""
    if state.silent:
        yield f"nothing is heard of rank {' and '.join(map(str, sorted(state.silent)))}"
    for rank, code in sorted(state.ended.items()):
        yield f"rank {rank} ended with code {code} and was not replaced"


def failed(state: State, reason: str) -> Step:
    """Return the state in which nobody waits any more, and the command that ends the trial."""
    return replace(state, has_failed=True, waiting={}, joining={}), (Fail(reason),)
