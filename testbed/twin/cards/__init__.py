"""Characterisation cards for twins: the presets beside this module, and those that labs made.

The presets are synthetic: figures from publications and manuals, each with its source inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.commands import typed
from testbed.errors import FileError
from testbed.fabric.card import Card
from testbed.files import parse_json, read_file
from testbed.plugins import nearest
from testbed.schema import Lab
from testbed.schema.load import MAX_BYTES

if TYPE_CHECKING:
    from testbed.bench.sites import SwitchSite

_PRESETS = Path(__file__).parent


def presets() -> dict[str, Card]:
    """Return the cards that come with the testbed, by name."""
    return {path.stem: _read(path) for path in sorted(_PRESETS.glob("*.json"))}


def card_of(lab: Lab, switch: str) -> Card:
    """Return the card that a switch's twin is to follow; raise FileError when there is none."""
    name = lab.twin.cards[switch]
    path = Path(name) if name.endswith(".json") else _PRESETS / f"{name}.json"
    try:
        return _read(path)
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        raise FileError(
            lab.source.where("twin", "cards", switch),
            f"{name} is no card: {'there is none of that name' if missing else error}",
            hint=nearest(name, list(presets()))
            if missing
            else f"`{typed('twin', 'probe', switch)}` makes one",
        ) from None


def check_cards(lab: Lab) -> None:
    """Raise FileError for a card that a lab's twin is to follow and that is none."""
    for switch in lab.twin.cards:
        card_of(lab, switch)


def settings_of(lab: Lab) -> dict[str, Any]:
    """Return what the twin of a lab is tuned to: all that may change while it runs.

    A switch that follows a card settles as the card says, where that tells it.
    """
    twin = lab.twin
    cards = {name: card_of(lab, name).settle() for name in twin.cards}
    settle = {name: found.median for name, found in cards.items() if found}
    return {
        "settle": {name: settle.get(name, twin.settle) for name in lab.switches},
        "loss_of_signal": twin.loss_of_signal,
        "link_up": twin.link_up,
        "sensitivity": twin.sensitivity,
    }


def follow(card: Card, site: SwitchSite) -> None:
    """Let a switch's twin settle, and treat ports in use, as a card says."""
    if settle := card.settle():
        site.settle, site.spread = settle.median, settle.spread
    manner = card.manners.get("connect a used ingress port", "")
    if manner == "done" or "moved" in manner:
        site.conflict = "move"
    elif manner.startswith("accepted"):
        site.conflict = "ignore"


def _read(path: Path) -> Card:
    return Card.from_json(parse_json(read_file(path, MAX_BYTES, follow=True)))
