"""Twins that follow characterisation cards: the presets beside this module, and those of labs.

The presets are synthetic: figures from publications and manuals, each with its source inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testbed.bench.characterisation import card_of
from testbed.fabric.card import Card
from testbed.schema import Lab

if TYPE_CHECKING:
    from testbed.bench.sites import SwitchSite


def check_cards(lab: Lab) -> None:
    """Raise FileError for a card of a lab's twin that cannot be read as a card."""
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
    """Have a switch's twin settle, and treat ports in use, as a card says."""
    if settle := card.settle():
        site.settle, site.spread = settle.median, settle.spread
    manner = card.manners.get("connect a used ingress port", "")
    if manner == "done" or "moved" in manner:
        site.conflict = "move"
    elif manner.startswith("accepted"):
        site.conflict = "ignore"
