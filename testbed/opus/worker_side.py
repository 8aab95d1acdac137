"""The rail worker's side: a word in, one reply out. Pure but for what applies the word."""

from __future__ import annotations

from collections.abc import Callable

from testbed.opus.words import Malformed, parse_word

CHANGED = b"SUCCESS, CONFIG-ACK\n"
UNCHANGED = b"SUCCESS, CONFIG-NACK\n"
"""The word is the present one; to the controller that is a success, too."""

NO_NUMBER = b"Error processing configuration\n"
NEGATIVE = b"Invalid configuration ID\n"

Apply = Callable[[int, int], None]
"""Brings a rail from a word to another, blocks, and raises where it cannot."""


class WorkerSide:
    """One rail; no word has been applied before the first."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self.word: int | None = None

    def received(self, data: bytes) -> bytes:
        """Return the reply to what the controller wrote; empty ends the line without one.

        Blocks while the word is applied. An error of that is raised, and the word stays.
        """
        if not data.strip():
            return b""
        try:
            word = parse_word(data)
        except Malformed:
            return NO_NUMBER
        if word < 0:
            return NEGATIVE
        if word == self.word:
            return UNCHANGED
        self._apply(self.word or 0, word)
        self.word = word
        return CHANGED
