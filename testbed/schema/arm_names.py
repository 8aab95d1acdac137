"""Short names of arms for users: `settle=10 ms` for `lab.twin.settle=10 ms`; pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_KEY = re.compile(r"(?:^|(?<=[/,]))[A-Za-z_][\w-]*(?:\.[\w-]+)+(?==)")
"""A dotted key, as a matrix puts it into the name of an arm."""


def short_keys(arms: Iterable[str]) -> dict[str, str]:
    """Return for each dotted key in the names of arms its shortest unambiguous ending."""
    keys = list(dict.fromkeys(key for arm in arms for key in _KEY.findall(arm)))
    return {key: _end(key, [other for other in keys if other != key]) for key in keys}


def short_names(arms: Iterable[str]) -> dict[str, str]:
    """Return the short name of each arm; the full name where two short names would be equal."""
    names = list(dict.fromkeys(arms))
    keys = short_keys(names)
    short = {name: _KEY.sub(lambda found: keys[found[0]], name) for name in names}
    taken = list(short.values())
    return {name: s if taken.count(s) == 1 else name for name, s in short.items()}


def arms_by_name(arms: Iterable[str]) -> dict[str, str]:
    """Return the full name of each arm by its full and by its short name."""
    short = short_names(arms)
    return {shown: name for name, shown in short.items()} | {name: name for name in short}


def _end(key: str, others: Sequence[str]) -> str:
    parts = key.split(".")
    for count in range(1, len(parts)):
        end = ".".join(parts[-count:])
        if not any(other == end or other.endswith(f".{end}") for other in others):
            return end
    return key
