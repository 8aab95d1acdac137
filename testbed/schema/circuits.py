"""A list of circuits that a person wants one switch to hold, as a file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from testbed.schema.text_types import Text
from testbed.schema.validation import Document


def _ends(text: str) -> tuple[str, str]:
    words = text.split()
    if len(words) != 2:
        raise ValueError(
            f"{text!r} names no circuit; write two host ports, 'h0.p1 h1.p0', or an ingress and "
            "an egress, '2 19'"
        )
    return words[0], words[1]


class CircuitList(Document):
    """The circuits of one switch; the ports that they name are the ones that it is about."""

    circuits: Annotated[
        tuple[Annotated[tuple[str, str], Text(_ends, r"^\S+ +\S+$")], ...], Field(min_length=1)
    ]
    """Each as two host ports (light both ways), or as an ingress and an egress port."""
