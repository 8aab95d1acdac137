"""Weigh forwarding against re-pointing, by what was measured in the last iterations.

What is decided takes effect in steps, since ranks are at different places of their iterations, and
rails do not wait for each other: see `testbed.rails.routing`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace

from testbed.rails.choice import TRIED
from testbed.rails.forwarding import Costs, costs
from testbed.rails.requests import RailRequests, Requests
from testbed.rails.routing import Routing

Rails = Mapping[str, Requests]


@dataclass(frozen=True, slots=True)
class Decision:
    """That stages are forwarded from now on, or no longer, and what an iteration costs each way."""

    forward: bool
    costs: Costs


Decided = tuple[Rails, Routing, Decision | None]


def decided(rules: Mapping[str, RailRequests], rails: Rails, routing: Routing) -> Decided:
    """Return rails and routing after what has been measured so far, and what was decided, if any.

    Nothing is while a stage has been measured in fewer than `TRIED` iterations since the last time.
    """
    found = weighed(rails, routing)
    wants = routing.is_wanted if found is None else found.favour_forwarding(routing.is_wanted)
    decision = None
    if found is not None and wants != routing.is_wanted:
        decision = Decision(wants, found)
        routing = replace(routing, is_wanted=wants)
        rails = _waiting(rules, rails, waits=True)
    if routing.is_wanted != routing.forwards and _is_drained(rails):
        if routing.is_wanted:
            changed = frozenset(key for own in rails.values() for key in own.changed)
            routing = replace(routing, changed=changed)
        return _measured_anew(rails), replace(routing, forwards=wants), decision
    if routing.is_wanted == routing.forwards and not _is_any_elsewhere(rails, routing):
        rails = _waiting(rules, rails, waits=False)
    return rails, routing, decision


def weighed(rails: Rails, routing: Routing) -> Costs | None:
    """Return what an iteration costs each way; None where too little was measured for that."""
    changes = [min(own.durations) for own in rails.values() if own.durations]
    windows, traffic = [], []
    for name, own in rails.items():
        for key in own.traffic:
            group, ranks, _ = key
            if routing.present(group) != name:
                continue
            took, open_for = own.traffic[key], own.windows.get(key, (0.0,) * TRIED)
            if len(took) < TRIED or len(open_for) < TRIED:
                return None
            sharing = routing.sharing.get(group, 1)
            alone = statistics.median(took) / (sharing if routing.forwards else 1)
            traffic.append((ranks, alone, sharing))
            if key in (routing.changed if routing.forwards else own.changed):
                windows.append((ranks, statistics.median(open_for)))
    if not changes or not traffic:
        return None
    return costs(windows, max(changes), traffic)


def _waiting(rules: Mapping[str, RailRequests], rails: Rails, *, waits: bool) -> Rails:
    if all(own.waits == waits for own in rails.values()):
        return rails
    return {name: rules[name].wait(own, waits=waits) for name, own in rails.items()}


def _measured_anew(rails: Rails) -> Rails:
    return {name: replace(own, traffic={}, windows={}) for name, own in rails.items()}


def _is_drained(rails: Rails) -> bool:
    """Tell whether no rank has circuits, or gets some, for a stage that not all have reached."""
    return all(
        {*own.rail.using.values()} | own.rail.ready.keys() - own.rail.held <= own.complete.keys()
        for own in rails.values()
    )


def _is_any_elsewhere(rails: Rails, routing: Routing) -> bool:
    """Tell whether a stage is asked for, or in use, on another rail than its group uses now."""
    return any(
        routing.present(stage.group) != name
        for name, own in rails.items()
        for stage in (*own.rail.ready, *own.rail.using.values())
    )
