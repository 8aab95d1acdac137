"""The settings of each arm of a run, and the predictions for each reported switch profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from testbed.analysis.metric_definitions import quantity
from testbed.collectives.algorithms import ALL_REDUCES
from testbed.events import Event
from testbed.units import SIZE

if TYPE_CHECKING:
    from testbed.analysis.metrics import Metric

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Profile:
    """The reported values of a switch and its links, and the metrics predicted with them."""

    name: str
    settle: float
    link_up: float
    link_up_reported: bool
    """Else it is that of the run, as none is reported."""
    source: str
    predicted: Mapping[str, float] = field(default_factory=dict)
    """By arm, the median of the recovery times that the model expects, in seconds."""


def settings_of(events: Sequence[Event]) -> dict[str, Settings]:
    """Return the settings of each arm, taken from its last trial."""
    return {event.subject: dict(event.data) for event in events if event.kind == "settings"}


def profiles_of(events: Sequence[Event]) -> list[Profile]:
    """Return the predictions for each switch profile before the faults."""
    from statistics import median

    found: dict[tuple[str, float, float, bool, str], dict[str, list[float]]] = {}
    for event in events:
        for row in event.data.get("profiles", ()) if event.kind == "prediction" else ():
            name, settle, link_up = row["name"], row["settle"], row["link_up"]
            key = (name, settle, link_up, row["link_up_reported"], row["source"])
            found.setdefault(key, {}).setdefault(event.subject, []).append(row["total"])
    return [
        Profile(*key, {arm: median(totals) for arm, totals in by_arm.items()})
        for key, by_arm in found.items()
    ]


PAYLOAD = 0.956
"""Share of a port's rate that TCP payload can have, in Ethernet frames of 1500 bytes."""


def flags(metrics: Mapping[str, Metric], settings: Mapping[str, Settings]) -> dict[str, str]:
    """Return why some bandwidths exceed what a port carries, by `arm.metric`.

    A bandwidth above the payload that a port carries, in any trial, is that of messages which the
    shaper of a twin's port lets pass at once, or of a schedule that has done part of its work
    before the last rank came. Groups inside hosts use no port; two rings use two.
    """
    found = {}
    for name, metric in metrics.items():
        arm, _, what = name.rpartition(".")
        of = settings.get(arm, {})
        is_of_a_line = what.startswith(("busbw", "algbw")) and metric.meaning.unit == "bit/s"
        if what.rpartition("_along_")[2] in str(of.get("inside_hosts", "")).split(", "):
            continue
        if is_of_a_line and "rate" in of and max(metric.values) > PAYLOAD * _rate(of):
            found[name] = _above(what, metric.values, of)
    return found


def _above(what: str, values: Sequence[float], settings: Settings) -> str:
    highest, rate = quantity(max(values), "bit/s"), _rate(settings)
    limit, of_port = rate, quantity(rate, "bit/s")
    one = settings.get("rings", 1) == 1
    what_is = f"{of_port} of {'a port' if one else 'two ports'}"
    if max(values) <= rate:
        limit = PAYLOAD * rate
        carried = quantity(limit, "bit/s")
        ports = f"a port of {of_port} carries" if one else f"two ports of {of_port} in all carry"
        what_is = f"{carried} of payload that {ports}"
    which = f"{highest} is"
    if len(values) > 1:
        count = sum(value > limit for value in values)
        which = f"{count} of {len(values)} trials, with up to {highest}, are"
    above = f"{which} above the {what_is}"
    early = (name for name, known in ALL_REDUCES.items() if known.expects_straggler)
    if what.startswith(tuple(f"busbw_{name}_" for name in early)):
        return (
            f"{above}: the others had reduced among themselves before the last rank came, and what "
            "they sent then is not in the exposed time"
        )
    credit = int(settings.get("credit", 0))
    measured = f", {SIZE.format(credit)} by the probe of the links," if credit else ""
    return (
        f"{above}: after a pause the shaper of a twin's port lets a credit{measured} pass at once, "
        "so messages this short do not show what the line carries"
    )


def _rate(settings: Settings) -> float:
    """Return the rate of the ports that a rank sends over at once."""
    rate: float = settings["rate"] * settings.get("rings", 1)
    return rate
