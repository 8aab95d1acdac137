"""Where in a text of JSON an entry is that a path of keys leads to."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def place_of(text: str, path: Sequence[str]) -> tuple[int, int]:
    """Return line and column, from 1, of the value at a path of keys of valid JSON.

    Where the path leads on from what is no mapping, or to a key that is not there, it is the place
    of what it leads to until then.
    """
    at = _past_space(text, 0)
    for key in path:
        found = _value_of(text, at, key)
        if found is None:
            break
        at = found
    line = text.count("\n", 0, at) + 1
    return line, at - (text.rfind("\n", 0, at) + 1) + 1


def _value_of(text: str, at: int, wanted: str) -> int | None:
    """Return where the value of a key begins; of a key that is there twice, the last counts."""
    if text[at : at + 1] != "{":
        return None
    found, at = None, _past_space(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _past_space(text, _past_space(text, at) + 1)  # a colon
        if key == wanted:
            found = at
        _, at = _DECODER.raw_decode(text, at)
        at = _past_space(text, at)
        if text[at] == ",":
            at = _past_space(text, at + 1)
    return found


def _past_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
