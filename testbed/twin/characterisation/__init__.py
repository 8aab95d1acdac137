"""Set up twins from characterisation cards: the presets in this package, and cards of labs.

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
    """Raise FileError for an unreadable card of a lab's twin."""
    for switch in lab.twin.cards:
        card_of(lab, switch)


def settings_of(lab: Lab) -> dict[str, Any]:
    """Return the settings of a lab's twin that may change while it runs.

    A switch with a card has the settle time of the card, and links behind it its link-up time, as
    far as the card says them.
    """
    twin = lab.twin
    settle, link_up = (dict.fromkeys(lab.switches, each) for each in (twin.settle, twin.link_up))
    for name in twin.cards:
        card = card_of(lab, name)
        for of, timing in ((settle, card.settle()), (link_up, card.link_up())):
            if timing is not None:
                of[name] = timing.median
    return {
        "settle": settle,
        "loss_of_signal": twin.loss_of_signal,
        "link_up": link_up,
        "sensitivity": twin.sensitivity,
    }


def follow(card: Card, site: SwitchSite) -> None:
    """Set the settle time and the handling of ports in use of a twin's switch from a card."""
    if settle := card.settle():
        site.settle, site.spread = settle.median, settle.spread
    manner = card.manners.get("connect a used ingress port", "")
    if manner == "done" or "moved" in manner:
        site.conflict = "move"
    elif manner.startswith("accepted"):
        site.conflict = "ignore"
