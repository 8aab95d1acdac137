"""No regular expression uses what CPython 3.11.0 to 3.11.3 miscompiles."""

from __future__ import annotations

import ast
import re
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
MODULES = sorted([*(ROOT / "testbed").rglob("*.py"), *(ROOT / "drivers").rglob("*.py")])
MISCOMPILED = {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}


def miscompiled(pattern: Any) -> Iterator[str]:
    """Yield the operations of a pattern that early patch releases compile wrongly."""
    for operation, argument in pattern:
        if str(operation) in MISCOMPILED:
            yield str(operation)
        for part in argument if isinstance(argument, tuple | list) else (argument,):
            for inner in part if isinstance(part, list) else (part,):
                if isinstance(inner, parser.SubPattern):
                    yield from miscompiled(inner)


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every literal text of a module with its line; what a format inserts is left out."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                yield node.lineno, text
            case ast.Constant(value=bytes(data)):
                yield node.lineno, data.decode("latin-1")


def found(source: str) -> list[tuple[int, str]]:
    """Return the lines of a module whose literals, read as patterns, hold such operations."""
    hits = []
    for line, text in texts(ast.parse(source)):
        if any(sign in text for sign in ("*+", "++", "?+", "}+", "(?>")):
            try:
                hits += [
                    (line, what) for what in miscompiled(parser.parse(text.replace("%s", "x")))
                ]
            except re.error:
                continue
    return hits


def test_no_pattern_has_possessive_quantifiers_or_atomic_groups() -> None:
    hits = {str(path.relative_to(ROOT)): found(path.read_text()) for path in MODULES}
    assert {name: lines for name, lines in hits.items() if lines} == {}


@pytest.mark.parametrize(
    "pattern", [r'(?:"[^"]*+"|[^;"]++)++', r"\(@((?:[0-9]++)?+)\)", "(?>a)", "(a|b(?:c{2}+))"]
)
def test_possessive_quantifiers_and_atomic_groups_are_found(pattern: str) -> None:
    assert found(f"import re\nX = re.compile({pattern!r})")
