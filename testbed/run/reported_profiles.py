"""The switches whose delays were reported, from the preset cards that twins can follow."""

from __future__ import annotations

from functools import cache

from testbed.bench.characterisation import presets
from testbed.run.planning.profiles import Profile


@cache
def reported_profiles() -> tuple[Profile, ...]:
    """Return those of the preset cards that say how long a switch settles, the quickest first."""
    found = []
    for name, card in presets().items():
        settle, link_up = card.settle(), card.link_up()
        if settle is not None:
            up = None if link_up is None else link_up.median
            found.append(Profile(name, settle.median, up, card.source))
    return tuple(sorted(found, key=lambda one: (one.settle, one.link_up or 0.0, one.name)))
