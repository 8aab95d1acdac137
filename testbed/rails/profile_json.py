"""Profiles as files: kept, and compared with others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_args

from testbed.rails.profile import ControlCost, Group, Operation, Profile, RankIteration, Waits

FORMAT = 1


def to_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as plain data; times are in seconds from its first event."""
    first = min(rank.begin for rank in profile.iterations[0])
    iterations = [
        [
            {
                "begin": rank.begin - first,
                "end": rank.end - first,
                "operations": [_operation(each, first) for each in rank.operations],
            }
            for rank in ranks
        ]
        for ranks in profile.iterations
    ]
    groups = {name: {"ranks": list(g.ranks), "rail": g.rail} for name, g in profile.groups.items()}
    control = asdict(profile.control)
    return {
        "format": FORMAT,
        "source": profile.source,
        "control": control,
        "groups": groups,
        "hosts": list(profile.hosts),
        "iterations": iterations,
    }


def _operation(each: Operation, first: float) -> dict[str, Any]:
    times = {name: getattr(each, name) - first for name in ("begin", "lit", "end")}
    return asdict(each) | {"ranks": list(each.ranks)} | times


def from_json(value: Any) -> Profile:
    """Return the profile that a file holds; raise ValueError for what is none."""
    if not isinstance(value, Mapping) or value.get("format") != FORMAT:
        raise ValueError(f"it is no profile of format {FORMAT}")
    try:
        groups = {
            str(name): Group(tuple(group["ranks"]), group["rail"])
            for name, group in value["groups"].items()
        }
        iterations = tuple(tuple(map(_rank, ranks)) for ranks in value["iterations"])
        control = ControlCost(**value["control"])
        hosts = tuple(map(str, value.get("hosts", ())))  # older files do not have them
        return Profile(groups, iterations, control, str(value["source"]), hosts)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it does not have the fields of a profile: {error!r}") from None


def _rank(value: Mapping[str, Any]) -> RankIteration:
    operations = tuple(
        Operation(**{**each, "ranks": tuple(each["ranks"])}) for each in value["operations"]
    )
    for each in operations:
        if each.waits not in get_args(Waits):
            raise ValueError(f"{each.group} {each.number} waits for {each.waits!r}: no such thing")
    return RankIteration(float(value["begin"]), float(value["end"]), operations)
