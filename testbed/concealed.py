"""Secrets that this process has read, masked in all output and records."""

from __future__ import annotations

import json
from threading import Lock

_SHORTEST = 6
"""Shorter words are not masked: they are part of too many others."""
_ENOUGH = 4096
"""Bytes of either end of which an excerpt shows no more than a part."""
_concealed: tuple[str, ...] = ()
"""The longest first: a shorter one may be a part of it."""
_concealing = Lock()


def conceal(word: str) -> None:
    """Mask `word` from now on in all that this process prints or records, in any quoting."""
    global _concealed
    if len(word) >= _SHORTEST:
        as_bytes = word.encode().decode("latin-1")  # as transcripts spell them
        spellings = {word, as_bytes, repr(word)[1:-1], json.dumps(word)[1:-1]}
        with _concealing:
            _concealed = tuple(sorted(spellings.union(_concealed), key=len, reverse=True))


def conceals() -> bool:
    """Return whether there is anything to mask."""
    return bool(_concealed)


def masked(text: str) -> str:
    """Return the text with `***` in place of every concealed word."""
    for word in _concealed:
        text = text.replace(word, "***")
    return text


def excerpt_of(data: bytes, encoding: str = "ascii") -> str:
    """Return an excerpt of bytes; bytes that are no text are shown as escapes."""
    if len(data) > 2 * _ENOUGH:  # spelling all of it out could take seconds
        data = data[:_ENOUGH] + data[-_ENOUGH:]
    return excerpt(data.decode(encoding, "backslashreplace"))


def excerpt(text: str, longest: int = 80) -> str:
    """Return an excerpt of foreign text for a message: masked, and shortened in the middle.

    Secrets are masked before the text is cut, as half of a secret would not be recognised.
    """
    text = masked(text)
    if len(text) <= longest:
        return text
    tail = longest // 4
    return f"{text[: longest - tail]} … {text[-tail:]}"
