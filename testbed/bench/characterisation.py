"""Characterisation cards of the switches of a lab, and the driver limits derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import testbed
from testbed.commands import typed
from testbed.errors import FileError
from testbed.fabric.card import Card
from testbed.files import parse_json, read_file
from testbed.plugins import nearest
from testbed.schema import Lab
from testbed.schema.load import MAX_BYTES

_PRESETS = Path(testbed.__file__).parent / "twin" / "characterisation"
_SLOWEST = 4.0
"""The slowest settle time over the median, for a switch whose settle times differ."""


def presets() -> dict[str, Card]:
    """Return the cards that come with the testbed, by name."""
    return {path.stem: _read(path) for path in sorted(_PRESETS.glob("*.json"))}


def card_of(lab: Lab, switch: str) -> Card:
    """Return the card that the lab file names for a switch; raise FileError if it is missing."""
    name = lab.twin.cards[switch]
    path = Path(name) if name.endswith(".json") else _PRESETS / f"{name}.json"
    try:
        return _read(path)
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        raise FileError(
            lab.source.where("twin", "cards", switch),
            f"{name} is not a characterisation card: {'none has that name' if missing else error}",
            hint=nearest(name, list(presets()))
            if missing
            else f"`{typed('twin', 'probe', switch)}` makes one",
        ) from None


def options_of(lab: Lab, name: str) -> Any:
    """Return the driver options of an instrument, with the settle time of its card if any."""
    options = lab.instruments()[name].options
    if name not in lab.twin.cards or not hasattr(options, "settle_max"):
        return options
    if (timing := card_of(lab, name).settle()) is None:
        return options
    slowest = max(timing.max, timing.median * (_SLOWEST if timing.spread else 1.0))
    return replace(options, settle_max=max(options.settle_max, slowest))


def with_time_to_settle(lab: Lab, settle: Mapping[str, float]) -> Lab:
    """Return a lab whose drivers wait for as long as the switches of its twin settle.

    `settle` are seconds by switch. A driver that waited for less would take a circuit whose mirrors
    still move for dark.
    """
    switches = dict(lab.switches)
    for name, switch in lab.switches.items():
        limit = getattr(switch.options, "settle_max", None)
        if limit is not None and settle.get(name, 0.0) > limit:
            options = replace(switch.options, settle_max=settle[name])
            switches[name] = switch.model_copy(update={"options": options})
    return lab.model_copy(update={"switches": switches})


def _read(path: Path) -> Card:
    return Card.from_json(parse_json(read_file(path, MAX_BYTES, follow=True)))
