"""No two files import each other, directly or through others: told from their syntax trees.

Every import counts. One inside a function runs as late as the function does, but it runs; one for
types alone (`if TYPE_CHECKING`) never runs, but whoever reads either file needs the other, and all
cycles that this project ever had were hidden in that way.
"""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = {"testbed": ROOT / "testbed", "testbed_drivers": ROOT / "drivers/testbed_drivers"}


def import_graph(packages):
    """Return which modules of some packages each of their modules imports."""
    modules = {
        _module_name(package, path.relative_to(directory)): path
        for package, directory in packages.items()
        for path in directory.rglob("*.py")
    }
    return {
        name: {found for found in _imported(name, path, modules) if found != name}
        for name, path in modules.items()
    }


def _module_name(package, path):
    parts = (package, *path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name, path, modules):
    """Yield every module that a module imports, anywhere in its text, and those of others too."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else ()), *filter(None, [node.module])])
            names = (f"{base}.{alias.name}" for alias in node.names)
            found = {full if full in modules else base for full in names}
            yield from found & set(modules)


def test_the_packages_have_no_import_cycle():
    graph = import_graph(PACKAGES)
    TopologicalSorter(graph).prepare()  # which raises CycleError, with the names


@pytest.mark.parametrize(
    "line",
    [
        "import pack.other",
        "from pack import other",
        "from pack.other import thing",
        "from . import other",
        "from .other import thing",
        "def late():\n    from pack.other import thing",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.other import thing",
    ],
)
def test_an_import_cycle_is_found_in_every_form_of_import(tmp_path, line):
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "one.py").write_text(line)
    (tmp_path / "other.py").write_text("from .third import anything")
    (tmp_path / "third.py").write_text("import sys\nfrom pack.one import something")
    with pytest.raises(CycleError, match=r"pack\.one"):
        TopologicalSorter(import_graph({"pack": tmp_path})).prepare()
