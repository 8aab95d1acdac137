"""JSON that may break off: numbers as they were printed, and the objects that are whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from testbed.analysis.nccl import Printed


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, unless a key comes twice: then two of them ran into each other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Decimal)


def load_json(text: str) -> Any:
    """Return JSON with every number as it was printed."""
    return _DECODER.decode(text)


def whole_objects(text: str, begin: int) -> Iterator[dict[str, Any]]:
    """Yield the whole objects of a list from its first one on; it may break off.

    Raise ValueError where something else than its end, or the next object, follows one.
    """
    at = _gap(text, begin)
    while text.startswith("{", at):
        try:
            found, end = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError as error:
            if error.pos < len(text.rstrip()) - _LONGEST_TOKEN:
                raise
            return
        yield found
        at = _gap(text, end)


def _gap(text: str, at: int) -> int:
    """Return where the blanks and the comma end that begin at `at`."""
    match = _GAP.match(text, at)
    return match.end() if match else at


_GAP = re.compile(r"\s*,?\s*")
_LONGEST_TOKEN = 40
"""How far before the end of a text that breaks off its decoder may notice."""


def printed(number: object) -> Printed:
    """Return a number of JSON as it was printed, with six decimals; raise ValueError otherwise.

    nccl-tests prints them with `%lf`, rccl-tests with `std::to_string`, which is the same.
    """
    if not isinstance(number, Decimal) or number.as_tuple().exponent != -6 or number < 0:
        raise ValueError(f"{number!s:.40} is not a number with six decimals")
    return Printed.of(number)


def whole_number(number: object) -> int:
    """Return a whole number that is not negative; raise ValueError otherwise."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"{number!r:.40} is not a whole number of at least 0")
    return number


NOT_THEIRS = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)
"""What comes of reading a document that has another shape than the program gives it."""


def why_not(error: Exception) -> str:
    """Return in words what is wrong with a document."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)[:200]


def load_whole(text: str) -> tuple[Any, bool]:
    """Return JSON and true, or false when it is not whole."""
    try:
        return load_json(text), True
    except (ValueError, RecursionError):
        return {}, False
