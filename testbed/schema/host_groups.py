"""Expand groups of similar hosts in a lab file: blocks for a range of hosts, and defaults."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import Field

from testbed.schema.source import Mark, Source, Steps
from testbed.schema.text_types import EnvName, EnvValue
from testbed.schema.validation import Problem, Problems, StrictModel, schema_error, validated
from testbed.schema.yaml12 import MAX_VALUES

GROUP = r"[A-Za-z0-9_-]*\[[0-9]{1,5}-[0-9]{1,5}\][A-Za-z0-9_-]*"
"""How the hosts of a group are named: `gpu-[1-6]`, `h[00-15]`."""

_GROUP = re.compile(
    r"(?P<head>[^\[]*)\[(?P<first>[0-9]{1,5})-(?P<last>[0-9]{1,5})\](?P<tail>[^\[]*)"
)
_PLACE = re.compile(r"<(?:(?P<times>[0-9]{1,4})\*?)?n(?P<plus>[+-][0-9]{1,6})?>")
"""`<n>`, `<n+1>`, `<2n+17>`: the host's number, times something, plus something."""


class HostDefaults(StrictModel):
    """Values for hosts that do not state their own."""

    python: str | None = None
    """The interpreter on the host, with NumPy."""
    privilege: Literal["none", "sudo"] | None = None
    env: Mapping[EnvName, EnvValue] = {}
    """Environment of every rank; a host may add variables, or give one another value."""
    network: Literal["managed", "existing"] | None = None
    """Whether the testbed sets addresses and routes, or finds them set."""


class Defaults(StrictModel):
    """Values for entries of a lab that do not state their own."""

    hosts: HostDefaults = Field(default_factory=HostDefaults)


def expanded(source: Source) -> Source:
    """Return a lab's data with its groups of hosts and its defaults expanded.

    Every value keeps its place in the file. Data without groups is unchanged. Raise SchemaError for
    an invalid group, and for invalid defaults.
    """
    hosts, defaults = source.data.get("hosts"), source.data.get("defaults")
    if defaults is not None:
        _check(source, defaults)
    if not isinstance(hosts, dict) or not (defaults or any(map(_GROUP.fullmatch, hosts))):
        return source
    try:
        entries = _entries(source, hosts)
    except Problems as problems:
        raise schema_error(source, problems.all) from None
    shared = (defaults or {}).get("hosts") or {}
    marks = {at: mark for at, mark in source.marks.items() if at[:1] != ("hosts",) or at[1:] == ()}
    below: defaultdict[Steps, list[tuple[Steps, Mark]]] = defaultdict(list)
    for at, mark in source.marks.items():
        below[at[:2]].append((at[2:], mark))
    data: dict[str, Any] = {}
    for name, layers in entries.items():
        layers = [*layers, _Layer(shared, ("defaults", "hosts"))]
        data[name] = _merged(layers) if isinstance(layers[0].value, dict) else layers[0].value
        for layer in reversed(layers):
            marks |= {("hosts", name, *rest): mark for rest, mark in below[layer.steps]}
    return replace(source, data=source.data | {"hosts": data}, marks=marks)


@dataclass(frozen=True, slots=True)
class _Layer:
    """What is said of a host in one place; earlier layers win."""

    value: Any
    steps: Steps


def _check(source: Source, defaults: Any) -> None:
    try:
        validated(Defaults, defaults)
    except Problems as problems:
        raise schema_error(source, (one.under("defaults") for one in problems.all)) from None


def _entries(source: Source, hosts: Mapping[str, Any]) -> dict[str, list[_Layer]]:
    """Return, for each host in the order of the file, what itself and its group say."""
    groups: dict[str, _Layer] = {}
    order: dict[str, None] = {}
    sizes = Counter(at[1] for at in source.marks if len(at) > 1 and at[0] == "hosts")
    for key, block in hosts.items():
        match = _GROUP.fullmatch(key)
        if match is None:
            order[key] = None
            continue
        for name, number in _members(key, match, sizes[key]):
            if name in groups:
                earlier = groups[name].steps[1]
                message = f"host {name} is also in the group {earlier}"
                raise Problems([Problem(("hosts", key), message, at_key=True)])
            groups[name] = _Layer(_filled(block, number), ("hosts", key))
            order[name] = None
    own = {name: [_Layer(hosts[name], ("hosts", name))] for name in order if name in hosts}
    return {name: own.get(name, []) + ([groups[name]] if name in groups else []) for name in order}


def _members(key: str, match: re.Match[str], size: int) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of each host of a group; raise Problems."""
    first, last = int(match["first"]), int(match["last"])
    problem = ""
    if last < first:
        problem = f"the range {first}-{last} ends before it begins"
    elif (last - first + 1) * size > MAX_VALUES:
        problem = f"this group makes more than {MAX_VALUES} keys and values"
    if problem:
        raise Problems([Problem(("hosts", key), problem, at_key=True)])
    width = len(match["first"]) if match["first"].startswith("0") else 1
    for number in range(first, last + 1):
        yield f"{match['head']}{number:0{width}}{match['tail']}", number


def _filled(value: Any, number: int) -> Any:
    """Return a group's data with the numbers of one host in its texts."""
    if isinstance(value, dict):
        return {key: _filled(held, number) for key, held in value.items()}
    if isinstance(value, list):
        return [_filled(held, number) for held in value]
    if not isinstance(value, str):
        return value
    return _PLACE.sub(
        lambda place: str(int(place["times"] or 1) * number + int(place["plus"] or 0)), value
    )


def _merged(layers: list[_Layer]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in layers:
        if isinstance(layer.value, dict):
            _add(merged, layer.value)
    return merged


def _add(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add what is not there yet, also within mappings."""
    for key, value in more.items():
        if key not in into:
            into[key] = _copied(value)
        elif isinstance(into[key], dict) and isinstance(value, dict):
            _add(into[key], value)


def _copied(value: Any) -> Any:
    """Return plain data again; `copy.deepcopy` also looks for what is there twice."""
    if isinstance(value, dict):
        return {key: _copied(held) for key, held in value.items()}
    return [_copied(held) for held in value] if isinstance(value, list) else value
