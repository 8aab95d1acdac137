"""A module can be read in one sitting, and a function at one glance."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
MODULES = [
    path
    for package in ("testbed", "drivers/testbed_drivers")
    for path in sorted((ROOT / package).rglob("*.py"))
]
LINES_OF_A_MODULE = 350
LINES_OF_A_FUNCTION = 45


def test_no_module_is_longer_than_350_lines():
    longer = {
        str(path.relative_to(ROOT)): lines
        for path in MODULES
        if (lines := len(path.read_text().splitlines())) > LINES_OF_A_MODULE
    }
    assert len(MODULES) > 400
    assert longer == {}


def test_no_function_is_longer_than_45_lines():
    longer = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": lines
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > LINES_OF_A_FUNCTION
    }
    assert longer == {}
