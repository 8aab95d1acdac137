"""Read JSON that may be truncated: its complete objects, with numbers as printed."""

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
    """Parse JSON and keep every number with the digits that were printed."""
    return _DECODER.decode(text)


def whole_objects(text: str, begin: int) -> Iterator[dict[str, Any]]:
    """Yield the complete objects of a JSON list that begins at `begin` and may be truncated.

    Raise ValueError where neither the end of the list nor another object follows an object.
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
    """Return a JSON number with its rounding error; raise ValueError unless it has six decimals.

    nccl-tests prints them with `%lf`, rccl-tests with `std::to_string`, which is the same.
    """
    if not isinstance(number, Decimal) or number.as_tuple().exponent != -6 or number < 0:
        raise ValueError(f"{number!s:.40} is not a number with six decimals")
    return Printed.of(number)


def whole_number(number: object) -> int:
    """Return a non-negative integer; raise ValueError for anything else."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"{number!r:.40} is not a whole number of at least 0")
    return number


NOT_THEIRS = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)
"""What comes of reading a document that has another shape than the program gives it."""


def describe_error(error: Exception) -> str:
    """Describe the error that reading a document raised."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)[:200]


def load_whole(text: str) -> tuple[Any, bool]:
    """Parse JSON; the flag is false when the document is truncated."""
    try:
        return load_json(text), True
    except (ValueError, RecursionError):
        return {}, False
