"""Make foreign text harmless for a terminal or a page: escape its control characters.

Text from files, hosts and instruments may contain control characters, which make a terminal rename
its window, hide lines or even enter input. All output passes through `printable`: the standard
streams of the command, the pages made with rich, and every value on an HTML page.
"""

from __future__ import annotations

import re
from typing import Any

_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, those that change the direction or the end of a line, and those unseen."""


def printable(text: str, kept: str = "") -> str:
    r"""Return text with each control character escaped, as `\u001b`; `kept` ones stay.

    JSON text keeps its meaning.
    """
    return _OBEYED.sub(lambda match: match[0] if match[0] in kept else _spelled(match[0]), text)


def _spelled(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def unfiltered(stream: Any) -> Any:
    """Return a stream that passes control characters, for text that was cleaned before.

    The standard streams of a command escape all control characters.
    """
    return getattr(stream, "unfiltered", stream)
