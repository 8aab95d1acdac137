"""A file with the circuits that a user wants on one switch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from testbed.schema.text_types import Text
from testbed.schema.validation import Document


def _ends(text: str) -> tuple[str, str]:
    words = text.split()
    if len(words) != 2:
        raise ValueError(
            f"{text!r} does not name a circuit; write two host ports, 'h0.p1 h1.p0', or an "
            "ingress and an egress, '2 19'"
        )
    return words[0], words[1]


class CircuitList(Document):
    """The wanted circuits of one switch; only ports that they name are concerned."""

    circuits: Annotated[
        tuple[Annotated[tuple[str, str], Text(_ends, r"^\S+ +\S+$")], ...], Field(min_length=1)
    ]
    """Each as two host ports (light both ways), or as an ingress and an egress port."""
