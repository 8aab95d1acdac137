"""Names of what is registered are data: code asks for their properties and compares with none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.collectives.algorithms import ALL_REDUCES
from testbed.plugins import kinds

ROOT = Path(__file__).parents[3]
GROUPS = ("faults", "policies")


def compared(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each text that code compares something with, or matches it against, and its line."""
    for node in ast.walk(tree):
        operands: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            operands = [node.value]
        for operand in operands:
            several = isinstance(operand, ast.Tuple | ast.List | ast.Set)
            for one in operand.elts if several else [operand]:
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield one.value, one.lineno


def comparisons(names: frozenset[str]) -> list[str]:
    found = []
    for path in sorted((ROOT / "testbed").rglob("*.py")):
        text = path.read_text()
        if any(f'"{name}"' in text for name in names):
            for name, line in compared(ast.parse(text)):
                if name in names:
                    found.append(f"{path.relative_to(ROOT)}:{line} compares with {name!r}")
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_no_code_compares_with_the_name_of_a_plug_in(group):
    assert comparisons(frozenset(kinds(group))) == []


def test_no_code_compares_with_the_name_of_an_algorithm():
    assert comparisons(frozenset(ALL_REDUCES) - {"ring"}) == []  # which is a topology, too


def test_comparisons_are_found_in_every_form():
    code = 'a == "x"\nb in ("y", "z")\nmatch c:\n    case "w":\n        pass\nd["v"] == 1\nf("u")'
    assert list(compared(ast.parse(code))) == [("x", 1), ("y", 2), ("z", 2), ("w", 4)]
